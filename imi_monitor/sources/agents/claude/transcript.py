"""One transcript file: its end first, for what is so now; what lies before it later, for what was so far.

Tokens, files and the record of what happened are whole only when the beginning was read too; until then tokens are
unknown rather than too few.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from imi_monitor.model.agent import AgentEvent
from imi_monitor.sources.agents.claude.records import matters, parse
from imi_monitor.sources.agents.claude.talk import Talk
from imi_monitor.sources.agents.claude.usage import Counts, Ledger
from imi_monitor.sources.agents.tail import Tail

_WINDOW = 192 << 10
_WIDEST = 8 << 20
_MOST_NEWS = 2000  # of one reading of the end
_FEW = 2  # lines torn by a crash or two are no sign of a new format


class Transcript:
    """`read` gives what happened since the last time; `before` another piece of what lies in front of it."""

    def __init__(self, path: str, *, aside: bool = False, window: int = _WINDOW, ledger: Ledger | None = None) -> None:
        self.path = path
        self.readings = 0  # grows when something new is known
        self._aside = aside
        self._window = window
        self._tail = Tail(path, window)
        self._ledger = ledger or Ledger()
        self._make()

    def _make(self) -> None:
        name = os.path.basename(self.path)
        self.talk = Talk(name, self._ledger)
        self._earlier = Talk(name, self._ledger)
        self._unreadable = 0
        self._opened = False

    def _begin(self) -> None:
        for talk in (self.talk, self._earlier):
            self._ledger.leave(talk.usage)
        self._make()

    @property
    def behind(self) -> bool:
        return self._tail.behind

    @property
    def size(self) -> int:
        return self._tail.size

    @property
    def has_older(self) -> bool:
        return self._tail.has_older

    def read(self) -> list[AgentEvent]:
        made = self._read()
        while not self.talk.knows and self.has_older and self._window < _WIDEST:  # nothing but snapshots at the end
            self._window *= 4
            self._tail = Tail(self.path, self._window)
            self._begin()
            made = self._read()
        return made[-_MOST_NEWS:]

    def _read(self) -> list[AgentEvent]:
        lines = self._tail.new()
        if self._tail.begun_anew:
            self._begin()
        self._opened = self._opened or bool(lines)
        return self._take(self.talk, lines)

    def before(self) -> list[AgentEvent]:
        """What happened in the next piece of the part before the end."""
        made = self._take(self._earlier, self._tail.older())
        if not self.has_older:
            self.readings += 1
            self.talk.inherit(self._earlier)
        return made

    @property
    def tokens(self) -> Counts | None:
        """That are counted in this file."""
        if self.has_older or not self._opened:
            return None
        earlier, now = self._earlier.usage.counted, self.talk.usage.counted
        return earlier[0] + now[0], earlier[1] + now[1], earlier[2] + now[2]

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(path for path in self._earlier.calls.files if path not in self.talk.calls.files) + tuple(
            self.talk.calls.files
        )

    @property
    def strange(self) -> str | None:
        if self._unreadable > _FEW:
            return f"{self._unreadable} lines that cannot be read"
        return self.talk.strange

    def _take(self, talk: Talk, lines: Iterable[bytes]) -> list[AgentEvent]:
        made: list[AgentEvent] = []
        for line in lines:
            self.readings += 1
            if not matters(line):
                continue
            record = parse(line)
            if record is None:
                self._unreadable += 1
            else:
                made += talk.take(record, aside=self._aside)
        return made
