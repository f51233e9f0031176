"""The base of the readers of a started agent's output: one JSON record per line.

A reader folds the records into what the agent does now, and collects what has to be stored: events and questions. It is
pure: the same lines always give the same result, so it is built again from the output after a crash.
"""

from __future__ import annotations

from typing import Any

from imi_monitor.model import run
from imi_monitor.model.agent import AgentEvent, SessionFacts
from imi_monitor.model.run import Question
from imi_monitor.sources.agents import fields


class StreamReader:
    """Subclasses define `add_record` and the state; `open` and `close` note the questions."""

    counts_session = False  # whether its tokens are those of the session, of which earlier processes have a part

    def __init__(self) -> None:
        self.session: str | None = None  # the program's own id, once the output names it
        self.refused: str | None = None  # why the program did not resume a session: a new one begins
        self.transcript: str | None = None  # the program's own record of what it used, where the output does not say it
        self.asks: dict[str, Question] = {}  # open questions by id, oldest first
        self.events: list[AgentEvent] = []
        self.unreadable = 0  # lines that are no record
        self._at = ""
        self._opened: list[Question] = []
        self._closed: list[str] = []

    def add(self, line: bytes, position: int, at: str = "") -> None:
        """Take in one line that begins at `position`. `at`: the time of a record without one; empty: that of the last."""
        if not line.strip():
            return
        record = fields.record(line)
        if record is None:
            self.unreadable += 1
        else:
            self._at = fields.moment(record.get("timestamp") or record.get("emittedAtMs")) or at or self._at
            self.add_record(record, position, self._at)

    def add_record(self, record: dict[str, Any], position: int, at: str) -> None:
        raise NotImplementedError

    @property
    def state(self) -> str | None:
        """A state of `model.agent`; None before the output shows one."""
        raise NotImplementedError

    @property
    def detail(self) -> str | None:
        raise NotImplementedError

    @property
    def turn_over(self) -> bool:
        """Whether the agent has nothing to do until it is sent a message."""
        raise NotImplementedError

    @property
    def facts(self) -> SessionFacts:
        raise NotImplementedError

    def note_new_session(self, at: str) -> str:
        """Report that a new session began in place of the one that was to be resumed; returns what is reported."""
        text = run.began_anew(self.refused)
        self.events.append(AgentEvent("started", f"{self.session}:started", at, text))
        return text

    def open(self, question: Question) -> None:
        self.asks[question.id] = question
        self._opened.append(question)

    def close(self, ident: str) -> None:
        if self.asks.pop(ident, None) is not None:
            self._closed.append(ident)

    def take_events(self) -> tuple[AgentEvent, ...]:
        events, self.events = tuple(self.events), []
        return events

    def take_log(self) -> tuple[AgentEvent, ...]:
        """The events, and what else belongs in a log for people: some is stored from the program's own record."""
        return self.take_events()

    def take_questions(self) -> tuple[tuple[Question, ...], tuple[str, ...]]:
        """(asked, closed) since the last call."""
        asked, closed = tuple(self._opened), tuple(self._closed)
        self._opened, self._closed = [], []
        return asked, closed
