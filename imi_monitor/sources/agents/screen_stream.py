"""What imi's own readers saw of a program in a window that reports nothing, as `runs/screen_bridge.py` records it."""

from __future__ import annotations

from typing import Any

from imi_monitor.model.agent import RESTING, WAITING, AgentEvent, SessionFacts, ToolCall
from imi_monitor.model.run import Question
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.stream_reader import StreamReader

_TEXTS = ("version", "model", "title", "branch", "started_at", "turn_at", "prompt", "last_message")
_COUNTS = ("tokens_in", "tokens_out", "tokens_cached", "context_used", "context_size")


class ScreenStream(StreamReader):
    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[str, Any] = {}
        self._facts: dict[str, Any] = {}

    def add_record(self, record: dict[str, Any], position: int, at: str) -> None:
        if "refused" in record:
            self.refused, self.session = fields.text(record["refused"], 300), fields.text(record.get("session"), 200)
            self._seen = {"detail": self.note_new_session(at)}
            return
        self._seen, self._facts = fields.table(record.get("seen")), fields.table(record.get("facts"))
        self.session = fields.text(self._seen.get("session"), 200) or self.session
        self.events += [made for one in fields.rows(record.get("events")) if (made := _event(fields.table(one)))]
        asked = fields.table(self._seen.get("ask"))
        ident = fields.text(asked.get("id"), 100)
        for known in [known for known in self.asks if known != ident]:
            self.close(known)
        if ident is not None and ident not in self.asks:
            tool = fields.text(asked.get("tool"), 100) or "Question"
            choices = (fields.text(one, 200) for one in fields.rows(asked.get("choices")))
            shown = tuple(one for one in choices if one)
            self.open(Question(ident, tool, fields.text(asked.get("text")), at, position, shown))

    @property
    def state(self) -> str | None:
        return WAITING if self.asks else fields.text(self._seen.get("state"), 40)

    @property
    def detail(self) -> str | None:
        return next(iter(self.asks.values())).text if self.asks else fields.text(self._seen.get("detail"))

    @property
    def turn_over(self) -> bool:
        return self.state in RESTING

    @property
    def facts(self) -> SessionFacts:
        given = self._facts
        known: dict[str, Any] = {name: fields.text(given.get(name)) for name in _TEXTS}
        known |= {name: fields.number(given.get(name)) for name in _COUNTS}
        cost = given.get("cost_usd")
        files = tuple(path for one in fields.rows(given.get("files")) if (path := fields.path(one)) is not None)
        return SessionFacts(**known, cost_usd=cost if isinstance(cost, float) else None, files=files)


def _event(given: dict[str, Any]) -> AgentEvent | None:
    kind, ident, at = (fields.text(given.get(name), 300) for name in ("kind", "id", "at"))
    if kind is None or ident is None or at is None:
        return None
    tool, ok = fields.table(given.get("tool")), given.get("ok")
    name = fields.text(tool.get("name"), 100)
    call = ToolCall(name, fields.text(tool.get("target")), fields.text(tool.get("id"), 200)) if name else None
    files = tuple(path for one in fields.rows(given.get("files")) if (path := fields.path(one)) is not None)
    text, subagent = fields.text(given.get("text")), fields.text(given.get("subagent"), 200)
    return AgentEvent(kind, ident, at, text, call, ok if isinstance(ok, bool) else None, files, subagent)
