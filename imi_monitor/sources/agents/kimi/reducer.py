"""Folds the records of one Kimi Code session into what it does now and what is known of it.

The file has a record for each step of a turn, for each question and its answer, and for the end of the turn, so every state is
exact. A call of a tool is recorded once it may run.
"""

from __future__ import annotations

import os
from typing import Any, Final

from imi_monitor.model.agent import (
    CANCELLED,
    COMPLETED,
    FAILED,
    RUNNING,
    WAITING,
    AgentEvent,
    Evidence,
    SessionFacts,
    ToolCall,
)
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.session_reducer import MessageTokens, SessionReducer

_ENDS: Final = {"completed": COMPLETED, "cancelled": CANCELLED, "failed": FAILED}
_WRITERS: Final = frozenset({"Write", "Edit"})
_TARGETS: Final = ("command", "path", "file_path", "pattern", "query", "url", "description")


class KimiReducer(SessionReducer):
    def __init__(self, label: str) -> None:
        """`label`: the name of the session, for people."""
        super().__init__()
        self._label = label
        self._tokens = MessageTokens()
        self._calls: dict[str, ToolCall] = {}
        self._asked: dict[str, ToolCall] = {}  # questions without an answer
        self._last: Evidence | None = None
        self._unreadable = 0

    def add(self, line: bytes, at: str) -> None:
        record = fields.record(line)
        if record is None:
            self._unreadable += 1
            return
        at = fields.moment(record.get("time") or record.get("created_at")) or at
        match record.get("type"):
            case "metadata":
                self.started_at = at
            case "turn.prompt":
                self._prompted(record, at)
            case "context.append_loop_event":
                self._stepped(fields.table(record.get("event")), at)
            case "llm.request":
                self.model = fields.text(record.get("model"), 100) or self.model
            case "usage.record":
                self._count(fields.table(record.get("usage")), at)
            case "interaction.request":
                self._asks(record, at)
            case "interaction.resolved":
                self._answered(record, at)
            case "turn.ended":
                self._ended(record, at)

    def inherit(self, older: KimiReducer) -> None:
        self._inherit_facts(older)
        self._tokens.inherit(older._tokens)
        self._last = self._last or older._last

    def _prompted(self, record: dict[str, Any], at: str) -> None:
        parts = (fields.text(fields.table(one).get("text")) for one in fields.rows(record.get("input")))
        self.prompt, self.turn_at = "\n".join(one for one in parts if one) or None, at
        self._calls.clear()
        self._asked.clear()
        self._event("prompt", f"{fields.text(record.get('promptId'), 100) or at}:prompt", at, self.prompt)
        self._set(RUNNING, at, "a prompt is not answered yet")

    def _stepped(self, event: dict[str, Any], at: str) -> None:
        kind = event.get("type")
        if kind == "step.begin":
            self._set(RUNNING, at, "the model is asked")
        elif kind == "content.part":
            text = fields.text(fields.table(event.get("part")).get("text"))
            if text is not None:
                self.last_message = text.strip()
                self._event("message", f"{fields.text(event.get('uuid'), 100) or at}:message", at, self.last_message)
        elif kind == "tool.call":
            call = fields.text(event.get("toolCallId"), 100) or at
            tool = self._calls[call] = _tool(fields.text(event.get("name"), 100), event.get("args"), call)
            self._event("tool_started", f"{call}:started", at, tool=tool)
            self._set(RUNNING, at, f"{tool.name} runs", tool=tool)
        elif kind == "tool.result":
            self._finished(event, at)

    def _finished(self, event: dict[str, Any], at: str) -> None:
        call = fields.text(event.get("toolCallId"), 100) or at
        tool, result = self._calls.pop(call, None), fields.table(event.get("result"))
        ok = not result.get("isError")
        wrote = (tool.target,) if ok and tool and tool.name in _WRITERS and os.path.isabs(tool.target or "") else ()
        self.files.add(*(path for path in wrote if path is not None))
        text = fields.text(result.get("output"))
        self._events.append(
            AgentEvent("tool_finished", f"{call}:finished", at, text, tool, ok, tuple(filter(None, wrote)))
        )
        self._set(RUNNING, at, "a tool's result goes to the model", tool=next(iter(self._calls.values()), None))

    def _asks(self, record: dict[str, Any], at: str) -> None:
        """A permission, or a question of the model; both wait until their answer is recorded."""
        ident, asked = fields.text(record.get("id"), 100) or at, fields.table(record.get("request"))
        call = fields.text(record.get("toolCallId"), 100) or ident
        name = fields.text(asked.get("toolName"), 100) or fields.text(record.get("kind"), 100)
        tool = self._asked[ident] = _tool(name, _display(asked), call)
        detail = "permission" if record.get("kind") == "approval" else fields.one_line(_question(asked)) or "a question"
        self._event("waits", f"{ident}:waits", at, f"{detail} for {tool}" if detail == "permission" else detail, tool)
        self._set(WAITING, at, "it asks and has no answer yet", detail, tool)

    def _answered(self, record: dict[str, Any], at: str) -> None:
        self._asked.pop(fields.text(record.get("id"), 100) or "", None)
        if not self._asked:
            self._set(RUNNING, at, "its question was answered")

    def _ended(self, record: dict[str, Any], at: str) -> None:
        state = _ENDS.get(str(record.get("reason")), COMPLETED)
        why = fields.one_line(fields.text(fields.table(record.get("error")).get("message"), 500))
        self._event(state, f"{record.get('turnId')}:{at}:{state}", at, why or self.last_message)
        self._calls.clear()
        self._asked.clear()
        self._set(state, at, f"the turn has ended: {record.get('reason')}", why if state == FAILED else None)

    def _set(self, state: str, at: str, says: str, detail: str | None = None, tool: ToolCall | None = None) -> None:
        self._last = Evidence("transcript", state, at, f"{self._label}: {says}", detail, tool)

    def _event(self, kind: str, ident: str, at: str, text: str | None = None, tool: ToolCall | None = None) -> None:
        self._events.append(AgentEvent(kind, ident, at, text, tool))

    def _count(self, used: dict[str, Any], at: str) -> None:
        fresh, out = fields.number(used.get("inputOther")), fields.number(used.get("output")) or 0
        cached = (fields.number(used.get("inputCacheRead")) or 0) + (fields.number(used.get("inputCacheCreation")) or 0)
        if fresh is not None and fresh + cached + out:
            self._tokens.add(at, fresh + cached, cached, out, None)

    # -- the result -----------------------------------------------------------------------------------------------

    def evidence(self) -> Evidence | None:
        return self._last

    def facts(self, title: str | None) -> SessionFacts:
        self.title = title or self.title
        self.context_used = self._tokens.context
        found = self.known_facts(self._tokens.counted)
        if self._unreadable <= 2:  # a line that was torn by a crash is no sign of a new format
            return found
        from dataclasses import replace

        return replace(found, format_note="unknown (format) kimi: lines that are no records")


def _tool(name: str | None, given: object, call: str) -> ToolCall:
    table = fields.table(given)
    target = next((table[key] for key in _TARGETS if isinstance(table.get(key), str)), None)
    return ToolCall(name or "tool", fields.one_line(target), call)


def _display(asked: dict[str, Any]) -> dict[str, Any]:
    """Return what a question is about: the arguments of its tool, or the action in words."""
    shown = fields.table(asked.get("display"))
    given = fields.table(asked.get("args")) or shown
    return given if any(key in given for key in _TARGETS) else {"description": asked.get("action")}


def _question(asked: dict[str, Any]) -> str | None:
    return next((fields.text(fields.table(one).get("question")) for one in fields.rows(asked.get("questions"))), None)
