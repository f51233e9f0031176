"""The events of an opencode in a window, as `runs/opencode_bridge.py` records them: its state, its questions, what it did."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from imi_monitor.model.agent import CANCELLED, COMPLETED, FAILED, RUNNING, WAITING, SessionFacts, ToolCall
from imi_monitor.model.run import NO, YES, Question
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.opencode import reducer
from imi_monitor.sources.agents.opencode.records import MessagePart, OpenCodeMessage
from imi_monitor.sources.agents.stream_reader import StreamReader

_ABORTED: Final = "MessageAbortedError"
_MOST_MESSAGES: Final = 50
_CLOSED: Final = frozenset({"permission.replied", "question.replied", "question.rejected"})


class OpencodeStream(StreamReader):
    """The session is the newest one without a parent that was prompted: `/new` begins another one in the same window."""

    def __init__(self) -> None:
        super().__init__()
        self._sessions: dict[str, dict[str, Any]] = {}  # the known fields of each session
        self._messages: dict[str, OpenCodeMessage] = {}  # of the session, oldest first
        self._reported: set[str] = set()  # events
        self._state: str | None = None
        self._detail: str | None = None
        self._tool: ToolCall | None = None
        self._asked_by: dict[str, str] = {}  # question -> its session
        self._error: tuple[str, str] | None = None  # since it began to work

    def add_record(self, record: dict[str, Any], position: int, at: str) -> None:
        kind, given = str(record.get("type")), fields.table(record.get("properties"))
        session = fields.text(given.get("sessionID"), 100)
        if kind in ("session.created", "session.updated"):
            self._describe(fields.table(given.get("info")))
        elif kind == "permission.asked":
            self._ask_permission(given, position, at)
        elif kind == "question.asked":
            self._ask_question(given, position, at)
        elif kind in _CLOSED:
            self.close(fields.text(given.get("requestID"), 100) or "")
        elif kind == "message.updated":
            self._add_message(fields.table(given.get("info")))
        elif kind == "message.part.updated":
            self._add_part(fields.table(given.get("part")), fields.number(given.get("time")))
        elif session is not None:
            if kind == "session.status" and fields.table(given.get("status")).get("type") == "idle":
                self._close_all(session)
            if self._is_main(session):
                self._changed(kind, given, session)

    @property
    def state(self) -> str | None:
        return WAITING if self.asks else self._state

    @property
    def detail(self) -> str | None:
        if self.asks:
            return next(iter(self.asks.values())).text
        return str(self._tool) if self._tool is not None and self._state == RUNNING else self._detail

    @property
    def turn_over(self) -> bool:
        return not self.asks and self._state in (COMPLETED, CANCELLED, FAILED)

    @property
    def facts(self) -> SessionFacts:
        info = self._sessions.get(self.session or "", {})
        tokens = fields.table(info.get("tokens"))
        row = {
            "title": info.get("title"),
            "version": info.get("version"),
            "cost": info.get("cost"),
            "tokens_input": tokens.get("input"),
            "tokens_output": tokens.get("output"),
            "tokens_cache_read": fields.table(tokens.get("cache")).get("read"),
            "time_created": fields.table(info.get("time")).get("created"),
        }
        return reducer.facts(row, list(self._messages.values()))

    # -- sessions -----------------------------------------------------------------------------------------------------

    def _describe(self, info: dict[str, Any]) -> None:
        ident = fields.text(info.get("id"), 100)
        if ident is not None:
            self._sessions[ident] = info

    def _is_main(self, session: str) -> bool:
        """Whether it is not that of a subagent."""
        return not fields.table(self._sessions.get(session)).get("parentID")

    def _changed(self, kind: str, given: dict[str, Any], session: str) -> None:
        if kind == "session.error":
            error = fields.table(given.get("error"))
            name = fields.text(error.get("name"), 100) or "an error"
            self._error = name, fields.text(fields.table(error.get("data")).get("message"), 500) or name
        if kind != "session.status":
            return
        status = fields.table(given.get("status"))
        what = status.get("type")
        if what == "idle":
            if session == self.session and self._state is not None:
                self._rest()
            return
        if session != self.session:
            self.session, self._messages = session, {}
        self._state = RUNNING
        self._error = None
        self._detail = f"retrying: {fields.text(status.get('message'), 300)}" if what == "retry" else None

    def _rest(self) -> None:
        self._tool = None
        if self._error is None:
            self._state, self._detail = COMPLETED, None
        elif self._error[0] == _ABORTED:
            self._state, self._detail = CANCELLED, None
        else:
            self._state, self._detail = FAILED, self._error[1]

    # -- messages -----------------------------------------------------------------------------------------------------

    def _add_message(self, info: dict[str, Any]) -> None:
        ident, session = fields.text(info.get("id"), 100), fields.text(info.get("sessionID"), 100)
        if ident is None or session is None or not self._is_main(session):
            return
        if session != self.session:
            self.session, self._messages = session, {}
        created = fields.number(fields.table(info.get("time")).get("created")) or 0
        known = self._messages.get(ident)
        self._messages[ident] = OpenCodeMessage(ident, info, created, created, known.parts if known else ())
        while len(self._messages) > _MOST_MESSAGES:
            del self._messages[next(iter(self._messages))]
        self._report(ident)

    def _add_part(self, part: dict[str, Any], now: int | None) -> None:
        ident, message = fields.text(part.get("id"), 100), fields.text(part.get("messageID"), 100)
        known = self._messages.get(message or "")
        if ident is None or known is None:
            return
        one = MessagePart(ident, part, now or known.created, now or known.created)
        self._messages[known.id] = replace(known, parts=(*(each for each in known.parts if each.id != ident), one))
        if one.kind == "tool":
            running = one.state.get("status") == "running"
            target = reducer.tool_of(one)
            self._tool = target if running else None if self._tool == target else self._tool
        self._report(known.id)

    def _report(self, message: str) -> None:
        for event in reducer.events([self._messages[message]]):
            if event.id in self._reported or (event.kind == "prompt" and event.text is None):
                continue
            self._reported.add(event.id)
            self.events.append(event)

    def _close_all(self, session: str) -> None:
        """A session at rest asks nothing: an interrupted one does not say so of each question."""
        for ident in [ident for ident in self.asks if self._asked_by.get(ident) == session]:
            self.close(ident)

    # -- questions ----------------------------------------------------------------------------------------------------

    def _ask_permission(self, given: dict[str, Any], position: int, at: str) -> None:
        ident = fields.text(given.get("id"), 100)
        if ident is None:
            return
        name = fields.text(given.get("permission"), 100) or "tool"
        target = fields.text(fields.table(given.get("metadata")).get("command")) or ", ".join(
            text for one in fields.rows(given.get("patterns")) if (text := fields.text(one, 300))
        )
        tool = ToolCall(name, fields.one_line(target), fields.text(fields.table(given.get("tool")).get("callID"), 200))
        self._asked_by[ident] = fields.text(given.get("sessionID"), 100) or ""
        self.open(Question(ident, name, f"permission for {tool}", at, position, (YES, NO)))

    def _ask_question(self, given: dict[str, Any], position: int, at: str) -> None:
        ident, first = (
            fields.text(given.get("id"), 100),
            fields.table(next(iter(fields.rows(given.get("questions"))), None)),
        )
        if ident is None:
            return
        labels = (fields.text(fields.table(one).get("label"), 200) for one in fields.rows(first.get("options")))
        text = f"question: {fields.one_line(fields.text(first.get('question'))) or '?'}"
        self._asked_by[ident] = fields.text(given.get("sessionID"), 100) or ""
        self.open(Question(ident, "Question", text, at, position, tuple(one for one in labels if one)))
