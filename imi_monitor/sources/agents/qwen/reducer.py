"""Folds the records of one Qwen Code chat into what it does now and what is known of it.

The answer of the model is recorded when it is whole, or when it is stopped; then without the count of its tokens. Esc before
the first word records nothing, so an open turn may be over. A dialog for a permission is not recorded either.
"""

from __future__ import annotations

from dataclasses import replace
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
from imi_monitor.sources.agents.gemini.reducer import WRITERS, tool_of
from imi_monitor.sources.agents.session_reducer import MessageTokens, SessionReducer

_STOPPED: Final = frozenset({COMPLETED, CANCELLED})
_WRITERS = WRITERS | {"edit"}


class QwenReducer(SessionReducer):
    def __init__(self, label: str) -> None:
        """`label`: the name of the file, for people."""
        super().__init__()
        self.session: str | None = None
        self.cwd: str | None = None
        self.at: str | None = None
        self._label = label
        self._tokens = MessageTokens()
        self._open: dict[str, ToolCall] = {}
        self._last: Evidence | None = None
        self._unreadable = 0

    # -- records --------------------------------------------------------------------------------------------------

    def add(self, line: bytes, at: str) -> None:
        record = fields.record(line)
        if record is None:
            self._unreadable += 1
            return
        self.at = fields.moment(record.get("timestamp")) or at
        self.session = fields.text(record.get("sessionId"), 100) or self.session
        self.cwd = fields.path(record.get("cwd")) or self.cwd
        self.version = fields.text(record.get("version"), 40) or self.version
        self.branch = fields.text(record.get("gitBranch"), 300) or self.branch
        ident = fields.text(record.get("uuid"), 100) or self.at
        parts = [fields.table(one) for one in fields.rows(fields.table(record.get("message")).get("parts"))]
        kind = record.get("type")
        if kind == "user":
            self._prompted(ident, parts)
        elif kind == "assistant":
            self._answered(ident, parts, record)
        elif kind == "tool_result":
            self._finished(ident, parts, fields.table(record.get("toolCallResult")))
        elif kind == "system":
            self._noted(fields.table(fields.table(record.get("systemPayload")).get("uiEvent")))

    def inherit(self, older: QwenReducer) -> None:
        self._inherit_facts(older)
        self.session, self.cwd, self.at = self.session or older.session, self.cwd or older.cwd, self.at or older.at
        self._tokens.inherit(older._tokens)
        self._last = self._last or older._last

    def _prompted(self, ident: str, parts: list[dict[str, Any]]) -> None:
        text = _text(parts)
        if text is None:
            return
        self.prompt, self.turn_at = text, self.at
        self._open.clear()
        self._event("prompt", ident, text)
        self._set(RUNNING, "a prompt is not answered yet", or_else=_STOPPED)

    def _answered(self, ident: str, parts: list[dict[str, Any]], record: dict[str, Any]) -> None:
        self.model = fields.text(record.get("model"), 100) or self.model
        used = fields.table(record.get("usageMetadata"))
        self._count(ident, used)
        text = _text(parts)
        if text is not None:
            self.last_message = text
            self._event("message", ident, text)
        calls = [tool_of(fields.table(one["functionCall"])) for one in parts if "functionCall" in one]
        for tool in calls:
            self._open[tool.id or ident] = tool
            self._events.append(AgentEvent("tool_started", f"{tool.id or ident}:started", self.at or "", None, tool))
        if calls:
            self._called()
        elif used:
            self._event("completed", ident, text)
            self._set(COMPLETED, "the model's answer is whole")
        else:
            says = "the model's answer has no count of its tokens: it was stopped, or the model does not count them"
            self._set(COMPLETED, says, or_else=frozenset({CANCELLED, RUNNING}))

    def _finished(self, ident: str, parts: list[dict[str, Any]], result: dict[str, Any]) -> None:
        for one in (fields.table(part.get("functionResponse")) for part in parts):
            call = fields.text(one.get("id"), 100) or ident
            tool = self._open.pop(call, None)
            ok = (
                result.get("status") == "success"
                if "status" in result
                else "error" not in fields.table(one.get("response"))
            )
            wrote = (tool.target,) if ok and tool is not None and tool.target and one.get("name") in _WRITERS else ()
            self.files.add(*(path for path in wrote if path.startswith("/")))
            text = fields.text(fields.table(one.get("response")).get("output"))
            self._events.append(AgentEvent("tool_finished", f"{call}:finished", self.at or "", text, tool, ok, wrote))
        if self._open:
            self._called()
        else:
            self._set(RUNNING, "a tool's result went to the model", or_else=_STOPPED)

    def _called(self) -> None:
        """A call without a result: it runs, or waits for a permission."""
        tool = next(iter(self._open.values()))
        self._set(RUNNING, f"{tool.name} has no result yet", tool, or_else=frozenset({WAITING, *_STOPPED}))
        if self._last is not None and len(self._open) == 1:
            self._last = replace(self._last, in_child=tool.name == "Bash")

    def _noted(self, event: dict[str, Any]) -> None:
        if event.get("event.name") == "qwen-code.api_error":
            why = fields.one_line(fields.text(event.get("error_message") or event.get("error"), 500))
            self._set(FAILED, "the model could not be asked", detail=why or "the model could not be asked")
            if self._last is not None:
                self._last = replace(self._last, or_else=frozenset({RUNNING}))  # it may try again

    def _set(
        self,
        state: str,
        says: str,
        tool: ToolCall | None = None,
        *,
        detail: str | None = None,
        or_else: frozenset[str] = frozenset(),
    ) -> None:
        self._last = Evidence(
            "transcript", state, self.at or "", f"{self._label}: {says}", detail, tool, or_else=or_else
        )

    def _event(self, kind: str, ident: str, text: str | None) -> None:
        self._events.append(AgentEvent(kind, f"{ident}:{kind}", self.at or "", text))

    def _count(self, ident: str, used: dict[str, Any]) -> None:
        out, thought = fields.number(used.get("candidatesTokenCount")), fields.number(used.get("thoughtsTokenCount"))
        self._tokens.add(
            ident,
            fields.number(used.get("promptTokenCount")),
            fields.number(used.get("cachedContentTokenCount")),
            (out or 0) + (thought or 0),
            fields.number(used.get("totalTokenCount")),
        )

    # -- the result -----------------------------------------------------------------------------------------------

    def evidence(self) -> Evidence | None:
        return self._last

    def facts(self, title: str | None, started_at: str | None) -> SessionFacts:
        many = self._unreadable > 2  # a line that was torn by a crash is no sign of a new format
        return replace(
            self.known_facts(self._tokens.counted),
            title=title,
            started_at=started_at,
            context_used=self._tokens.context,
            format_note=f"unknown (format) qwen {self.version or '?'}: lines that are no records" if many else None,
        )


def _text(parts: list[dict[str, Any]]) -> str | None:
    words = (fields.text(one.get("text")) for one in parts if one.get("thought") is not True)
    return fields.text("\n".join(word for word in words if word))
