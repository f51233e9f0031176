"""Folds the events of one Copilot session into what it does now and what is known of it.

A prompt is answered in turns: one call of the model and the tools it asked for; the last turn asks for none. A dialog is
an event that another event answers, so waiting is known exactly. Subagents write into the same file, marked by `agentId`:
their dialogs concern the person, their turns do not.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any

from imi_monitor.model.agent import (
    CANCELLED,
    COMPLETED,
    FAILED,
    NOTHING_ASKED,
    PLANNING,
    RUNNING,
    WAITING,
    AgentEvent,
    Evidence,
    ToolCall,
)
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.session_reducer import SessionReducer, TokenCounts

_ASKING = {"ask_user": "question", "exit_plan_mode": "plan"}  # tools that are themselves a dialog
_DIALOGS = {
    "permission": "permission",
    "user_input": "question",
    "elicitation": "question",
    "exit_plan_mode": "plan",
    "auto_mode_switch": "a change of the mode",
}
_WRITING = ("edit", "create", "write", "str_replace_editor", "apply_patch")
_TARGETS = (
    "path",
    "command",
    "fullCommandText",
    "fileName",
    "pattern",
    "query",
    "url",
    "question",
    "description",
    "intention",
)
_VERSIONS = (1,)


class CopilotReducer(SessionReducer):
    def __init__(self) -> None:
        super().__init__()
        self.cwd: str | None = None
        self.tokens: TokenCounts | None = None
        self.subagents: set[str] = set()
        self.note: str | None = None
        self._known = False  # an event of a known kind was read
        self._mode = "interactive"
        self._busy: tuple[str, str, str | None] | None = None  # since when, by which event, detail
        self._more = False  # the model asked for tools: another turn follows
        self._rest: tuple[str, str, str, str | None] | None = None  # state, since when, by which event, detail
        self._tools: dict[str, tuple[ToolCall, str]] = {}
        self._dialogs: dict[str, tuple[str, ToolCall | None, str, str]] = {}

    def add(self, line: bytes, at: str) -> None:
        event = fields.record(line) if b'"type"' in line else None
        if event is not None:
            self._events += self._add_event(event)

    def inherit(self, older: CopilotReducer) -> None:
        """Take over facts only: the present state never comes from events before the part that was read first."""
        self._inherit_facts(older)
        self.started_at = older.started_at or self.started_at
        if older.tokens is not None:
            self._add_tokens(*older.tokens)

    def _add_event(self, event: dict[str, Any]) -> Iterator[AgentEvent]:
        kind = fields.text(event.get("type"), 100) or ""
        at = fields.moment(event.get("timestamp"))
        data = fields.table(event.get("data"))
        if at is None:
            return
        key = fields.text(event.get("id"), 100) or f"{kind}:{at}"
        sub = fields.text(event.get("agentId"), 100)
        area, _, what = kind.rpartition(".")
        if area in _DIALOGS and what in ("requested", "completed"):
            yield from self._dialog(area, what, data, at, key, sub)
            return
        handler = _HANDLERS.get(kind)
        if handler is None or (sub and kind not in _OF_SUBAGENTS):
            return
        self._known = True
        yield from handler(self, data, at, key, sub)

    # -- the result ---------------------------------------------------------------------------------------------------

    def evidence(self) -> Evidence | None:
        if self._dialogs:
            what, about, since, area = list(self._dialogs.values())[-1]
            return _evidence(WAITING, since, f"{area}.requested", what, about)
        if self._tools:
            asking = [known for known in self._tools.values() if known[0].name in _ASKING]
            tool, began = (asking or list(self._tools.values()))[-1]
            state = WAITING if asking else self._working
            return _evidence(state, began, "tool.execution_start", _ASKING.get(tool.name), tool)
        if self._busy is not None:
            at, kind, detail = self._busy
            return _evidence(self._working, at, kind, detail)
        return self._resting()

    def _resting(self) -> Evidence | None:
        if self._rest is None:
            return None
        state, at, kind, detail = self._rest
        if self.subagents and state == COMPLETED:
            return _evidence(RUNNING, at, kind, f"{len(self.subagents)} subagents in the background")
        return _evidence(state, at, kind, detail)

    @property
    def _working(self) -> str:
        return PLANNING if self._mode == "plan" else RUNNING

    def format_note(self) -> str | None:
        if self.note is None and not self._known:
            return f"unknown (format) copilot {self.version or '?'}: no event that is known"
        return self.note

    # -- one method for each kind of event ----------------------------------------------------------------------------

    def _start(self, data: dict[str, Any], at: str, key: str, sub: str | None) -> Iterator[AgentEvent]:
        self.version = fields.text(data.get("copilotVersion"), 50) or self.version
        self.model = fields.text(data.get("selectedModel"), 100) or self.model
        self.started_at = self.started_at or fields.moment(data.get("startTime")) or at
        self.ended_at = None
        self._context(fields.table(data.get("context")))
        number = data.get("version")
        if number is not None and number not in _VERSIONS:
            self.note = f"unknown (format) copilot {self.version or '?'}: events of version {str(number)[:20]}"
        self._clear()
        self._rest = (COMPLETED, at, "session.start", NOTHING_ASKED)
        yield AgentEvent("started", key, at, fields.text(data.get("producer"), 100))

    def _resume(self, data: dict[str, Any], at: str, key: str, sub: str | None) -> Iterator[AgentEvent]:
        self.ended_at = None
        self._context(fields.table(data.get("context")))
        working = self._busy is not None or bool(self._tools or self._dialogs)
        self._clear()
        if working or self._rest is None:
            self._rest = (CANCELLED, at, "session.resume", "resumed; what it did before was cut off")
        yield AgentEvent("started", key, at, "resume")

    def _moved(self, data: dict[str, Any], at: str, key: str, sub: str | None) -> Iterator[AgentEvent]:
        self._context(data)
        yield from ()

    def _context(self, given: dict[str, Any]) -> None:
        self.cwd = fields.path(given.get("cwd")) or self.cwd
        self.branch = fields.text(given.get("branch"), 300) or self.branch

    def _model_changed(self, data: dict[str, Any], at: str, key: str, sub: str | None) -> Iterator[AgentEvent]:
        self.model = fields.text(data.get("newModel"), 100) or self.model
        yield from ()

    def _mode_changed(self, data: dict[str, Any], at: str, key: str, sub: str | None) -> Iterator[AgentEvent]:
        self._mode = fields.text(data.get("newMode"), 50) or self._mode
        yield from ()

    def _prompted(self, data: dict[str, Any], at: str, key: str, sub: str | None) -> Iterator[AgentEvent]:
        self._mode = fields.text(data.get("agentMode"), 50) or self._mode
        self.prompt, self.turn_at = fields.text(data.get("content")), at
        self._busy, self._more = (at, "user.message", None), False
        yield AgentEvent("prompt", key, at, self.prompt)

    def _turn_began(self, data: dict[str, Any], at: str, key: str, sub: str | None) -> Iterator[AgentEvent]:
        self._busy, self._more, self._rest = (at, "assistant.turn_start", None), False, None
        yield from ()

    def _said(self, data: dict[str, Any], at: str, key: str, sub: str | None) -> Iterator[AgentEvent]:
        self._resume_turn(at, "assistant.message")
        self._more = bool(fields.rows(data.get("toolRequests")))
        text = fields.text(data.get("content"))
        self.model = fields.text(data.get("model"), 100) or self.model
        if text:
            self.last_message = text
            yield AgentEvent("message", key, at, text)

    def _turn_ended(self, data: dict[str, Any], at: str, key: str, sub: str | None) -> Iterator[AgentEvent]:
        if self._busy is None:  # the turn failed or was cancelled
            return
        if self._more:
            self._busy = (at, "assistant.turn_end, and tools were asked for", None)
            return
        self._end_turn(COMPLETED, at, "assistant.turn_end")
        yield AgentEvent("completed", key, at)

    def _tool_began(self, data: dict[str, Any], at: str, key: str, sub: str | None) -> Iterator[AgentEvent]:
        call = fields.text(data.get("toolCallId"), 200) or key
        tool = _tool(fields.text(data.get("toolName"), 100) or "tool", fields.table(data.get("arguments")), call)
        if sub is None:
            self._resume_turn(at, "tool.execution_start")
            self._tools[call] = (tool, at)
        yield AgentEvent(
            "tool_started", f"{call}:started", at, tool=tool, files=self._written(tool, data), subagent=sub
        )

    def _tool_ended(self, data: dict[str, Any], at: str, key: str, sub: str | None) -> Iterator[AgentEvent]:
        call = fields.text(data.get("toolCallId"), 200) or key
        tool, _ = self._tools.pop(call, (ToolCall("tool", None, call), at))
        if (self._busy is not None or self._rest is None) and not self._tools:
            self._busy = (at, "tool.execution_complete", None)
        self._dialogs = {
            each: known for each, known in self._dialogs.items() if known[1] is None or known[1].id != call
        }
        ok = data.get("success")
        outcome = fields.table(data.get("result" if ok else "error"))
        text = fields.text(outcome.get("content")) or fields.text(outcome.get("message"))
        yield AgentEvent(
            "tool_finished", f"{call}:finished", at, text, tool, ok if isinstance(ok, bool) else None, (), sub
        )

    def _failed(self, data: dict[str, Any], at: str, key: str, sub: str | None) -> Iterator[AgentEvent]:
        nested = fields.table(data.get("error"))
        why = fields.text(data.get("message"), 500) or fields.text(nested.get("message"), 500)
        kind = fields.text(data.get("errorType"), 100)
        detail = ": ".join(each for each in (kind, why) if each) or "an error without a message"
        self._end_turn(FAILED, at, "session.error", detail)
        yield AgentEvent("failed", key, at, detail)

    def _call_failed(self, data: dict[str, Any], at: str, key: str, sub: str | None) -> Iterator[AgentEvent]:
        if self._busy is not None:
            why = fields.text(data.get("errorMessage"), 200) or "the model did not answer"
            self._busy = (at, "model.call_failure", f"tries again: {why}")
        yield from ()

    def _aborted(self, data: dict[str, Any], at: str, key: str, sub: str | None) -> Iterator[AgentEvent]:
        self._end_turn(CANCELLED, at, "abort", fields.text(data.get("reason"), 200))
        self.subagents.clear()
        yield AgentEvent("cancelled", key, at, fields.text(data.get("reason"), 200))

    def _compacting(self, data: dict[str, Any], at: str, key: str, sub: str | None) -> Iterator[AgentEvent]:
        if self._busy is None:
            self._tools["compaction"] = (ToolCall("compaction"), at)
        else:
            self._busy = (at, "session.compaction_start", "compacts its context")
        yield from ()

    def _compacted(self, data: dict[str, Any], at: str, key: str, sub: str | None) -> Iterator[AgentEvent]:
        self._tools.pop("compaction", None)
        if self._busy is not None:
            self._busy = (at, "session.compaction_complete", None)
        yield AgentEvent("compacted", key, at)

    def _shut(self, data: dict[str, Any], at: str, key: str, sub: str | None) -> Iterator[AgentEvent]:
        self.ended_at = at
        why = fields.text(data.get("errorReason"), 500)
        working = self._busy is not None or bool(self._tools or self._dialogs)
        if data.get("shutdownType") == "error":
            self._end_turn(FAILED, at, "session.shutdown", why or "it crashed")
        elif working or self._rest is None:
            self._end_turn(CANCELLED, at, "session.shutdown", "closed while it worked")
        self._clear()
        for path in fields.rows(fields.table(data.get("codeChanges")).get("filesModified")):
            self._file(path)
        yield AgentEvent("ended", key, at, why or fields.text(data.get("shutdownType"), 100))

    def _used(self, data: dict[str, Any], at: str, key: str, sub: str | None) -> Iterator[AgentEvent]:
        given = fields.table(data.get("usage"))
        whole, cached = fields.number(given.get("inputTokens")) or 0, fields.number(given.get("cacheReadTokens")) or 0
        out = fields.number(given.get("outputTokens")) or 0
        self._add_tokens(max(0, whole - cached), out, cached)
        if sub is None and given.get("interactionType") in (None, "conversation-agent"):
            self.context_used = whole + out or None
            self.context_size = fields.number(given.get("maxPromptTokens")) or self.context_size
        yield from ()

    def _add_tokens(self, fresh: int, out: int, cached: int) -> None:
        before = self.tokens or (0, 0, 0)
        self.tokens = before[0] + fresh, before[1] + out, before[2] + cached

    def _sub_began(self, data: dict[str, Any], at: str, key: str, sub: str | None) -> Iterator[AgentEvent]:
        self.subagents.add(fields.text(data.get("toolCallId"), 200) or key)
        yield from ()

    def _sub_ended(self, data: dict[str, Any], at: str, key: str, sub: str | None) -> Iterator[AgentEvent]:
        self.subagents.discard(fields.text(data.get("toolCallId"), 200) or key)
        yield from ()

    def _dialog(
        self, area: str, what: str, data: dict[str, Any], at: str, key: str, sub: str | None
    ) -> Iterator[AgentEvent]:
        self._known = True
        request = f"{area}:{fields.text(data.get('requestId'), 100) or ''}"
        if what == "completed":
            known = self._dialogs.pop(request, None)
            answer = fields.text(fields.table(data.get("result")).get("kind"), 200)
            yield AgentEvent("answered", key, at, answer, known[1] if known else None, subagent=sub)
            return
        asked = fields.table(data.get("permissionRequest")) or data
        call = fields.text(asked.get("toolCallId"), 200)
        kind = fields.text(asked.get("kind"), 100)
        tool = self._tools[call][0] if call in self._tools else _tool(kind, asked, call) if kind else None
        detail = _DIALOGS[area] + (f" for {kind}" if kind else "")
        self._dialogs[request] = (detail, tool, at, area)
        yield AgentEvent("waits", key, at, fields.text(asked.get("intention")) or detail, tool, subagent=sub)

    def _resume_turn(self, at: str, kind: str) -> None:
        """A turn goes on after some errors, and reading may begin in the middle of one."""
        if self._busy is None and (self._rest is None or self._rest[0] == FAILED):
            self._busy = (at, kind, None)

    def _end_turn(self, state: str, at: str, kind: str, detail: str | None = None) -> None:
        self._clear()
        self._rest = (state, at, kind, detail)

    def _clear(self) -> None:
        self._busy, self._more = None, False
        self._tools.clear()
        self._dialogs.clear()

    def _written(self, tool: ToolCall, data: dict[str, Any]) -> tuple[str, ...]:
        if tool.name not in _WRITING:
            return ()
        return self._file(fields.table(data.get("arguments")).get("path"))

    def _file(self, path: object) -> tuple[str, ...]:
        text = fields.path(path)
        if text is None or not (text.startswith("/") or self.cwd):
            return ()
        whole = posixpath.normpath(posixpath.join(self.cwd or "/", text))
        self.files.add(whole)
        return (whole,)


_HANDLERS = {
    "session.start": CopilotReducer._start,
    "session.resume": CopilotReducer._resume,
    "session.context_changed": CopilotReducer._moved,
    "session.model_change": CopilotReducer._model_changed,
    "session.mode_changed": CopilotReducer._mode_changed,
    "session.usage_record": CopilotReducer._used,
    "session.compaction_start": CopilotReducer._compacting,
    "session.compaction_complete": CopilotReducer._compacted,
    "session.error": CopilotReducer._failed,
    "session.shutdown": CopilotReducer._shut,
    "user.message": CopilotReducer._prompted,
    "assistant.turn_start": CopilotReducer._turn_began,
    "assistant.message": CopilotReducer._said,
    "assistant.turn_end": CopilotReducer._turn_ended,
    "model.call_failure": CopilotReducer._call_failed,
    "tool.execution_start": CopilotReducer._tool_began,
    "tool.execution_complete": CopilotReducer._tool_ended,
    "subagent.started": CopilotReducer._sub_began,
    "subagent.completed": CopilotReducer._sub_ended,
    "subagent.failed": CopilotReducer._sub_ended,
    "abort": CopilotReducer._aborted,
}
_OF_SUBAGENTS = {
    "tool.execution_start",
    "tool.execution_complete",
    "session.usage_record",
    "subagent.started",
    "subagent.completed",
    "subagent.failed",
}


def _evidence(state: str, at: str, kind: str, detail: str | None = None, tool: ToolCall | None = None) -> Evidence:
    return Evidence("transcript", state, at, f"events.jsonl says {kind}", detail, tool)


def _tool(name: str, given: dict[str, Any], call: str | None) -> ToolCall:
    target = next((text for key in _TARGETS for text in [fields.text(given.get(key))] if text), None)
    return ToolCall(name, fields.one_line(target), call)
