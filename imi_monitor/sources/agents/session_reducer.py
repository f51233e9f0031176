"""The base of the reducers: what the records of every program say of a session, and the events that are not reported yet."""

from __future__ import annotations

from typing import Final, TypeAlias

from imi_monitor.model.agent import AgentEvent, SessionFacts
from imi_monitor.sources.agents.foreign_files import WrittenFiles

TokenCounts: TypeAlias = tuple[int, int, int]  # fresh input, output, from the cache

_MOST_EVENTS: Final = 5000  # of one poll
_INHERITED: Final = (
    "version",
    "model",
    "branch",
    "title",
    "started_at",
    "turn_at",
    "prompt",
    "last_message",
    "cost",
    "context_used",
    "context_size",
)


class SessionReducer:
    """Subclasses set the attributes from the records of their program; None is unknown."""

    def __init__(self) -> None:
        self.version: str | None = None
        self.model: str | None = None
        self.branch: str | None = None
        self.title: str | None = None
        self.started_at: str | None = None
        self.ended_at: str | None = None
        self.turn_at: str | None = None
        self.prompt: str | None = None
        self.last_message: str | None = None
        self.cost: float | None = None
        self.context_used: int | None = None
        self.context_size: int | None = None
        self.files = WrittenFiles()
        self._events: list[AgentEvent] = []

    def take_events(self) -> tuple[AgentEvent, ...]:
        """The events since the last call."""
        events, self._events = tuple(self._events[-_MOST_EVENTS:]), []
        return events

    def known_facts(self, tokens: TokenCounts | None) -> SessionFacts:
        fresh, out, cached = tokens or (None, None, None)
        return SessionFacts(
            version=self.version,
            model=self.model,
            title=self.title,
            branch=self.branch,
            started_at=self.started_at,
            ended_at=self.ended_at,
            turn_at=self.turn_at,
            prompt=self.prompt,
            last_message=self.last_message,
            tokens_in=fresh,
            tokens_out=out,
            tokens_cached=cached,
            cost_usd=self.cost,
            context_used=self.context_used,
            context_size=self.context_size,
            files=tuple(self.files),
        )

    def _inherit_facts(self, older: SessionReducer) -> None:
        """Fill in what older records say and the newer ones do not. An end is not inherited: the session went on."""
        for name in _INHERITED:
            if getattr(self, name) is None:
                setattr(self, name, getattr(older, name))
        self.files.inherit(older.files)


class MessageTokens:
    """Counts tokens by message: one that is recorded again replaces itself."""

    def __init__(self) -> None:
        self.context: int | None = None  # tokens in the window after the last answer
        self._counts: dict[str, TokenCounts] = {}

    def add(self, message: str, whole: int | None, cached: int | None, out: int, total: int | None) -> None:
        """`whole`: the input with its cached part; without it nothing is known of the message."""
        if whole is None:
            return
        self._counts[message] = max(0, whole - (cached or 0)), out, cached or 0
        self.context = total or whole + out

    def inherit(self, older: MessageTokens) -> None:
        self._counts = {**older._counts, **self._counts}
        self.context = self.context if self.context is not None else older.context

    @property
    def counted(self) -> TokenCounts | None:
        if not self._counts:
            return None
        fresh, out, cached = (sum(column) for column in zip(*self._counts.values(), strict=True))
        return fresh, out, cached
