"""Tokens of a session, each message once: Claude writes a line for every block of a message, with the same count."""

from __future__ import annotations

from typing import TypeAlias

from imi_monitor.sources.agents import loose
from imi_monitor.sources.agents.claude.records import Record

Key: TypeAlias = tuple[str, str]  # message, request: message numbers alone are not always unique
Counts: TypeAlias = tuple[int, int, int]  # fresh input, output, read from the cache

_REMEMBERED = 512  # lines of one message lie close together


class Ledger:
    """What one session and its subagents used. A message is counted once, in whichever of their files it stands, and however
    often: one that is taken up again, or branches off, begins with copies. Of each message a number is kept, no more."""

    def __init__(self) -> None:
        self.counted: Counts = (0, 0, 0)
        self._whose: dict[int, Usage] = {}

    def whose(self, message: int) -> Usage | None:
        return self._whose.get(message)

    def is_of(self, message: int, usage: Usage) -> None:
        self._whose[message] = usage

    def add(self, more: Counts) -> None:
        self.counted = _plus(self.counted, more)

    def leave(self, usage: Usage) -> None:
        """Its part of a file is read anew."""
        self._whose = {message: one for message, one in self._whose.items() if one is not usage}
        self.add((-usage.counted[0], -usage.counted[1], -usage.counted[2]))


class Usage:
    """Of one part of one file; what another part counts already is left to that."""

    def __init__(self, ledger: Ledger | None = None) -> None:
        self.context: int | None = None  # tokens in the window after the last answer
        self.counted: Counts = (0, 0, 0)
        self._ledger = ledger or Ledger()
        self._last: dict[Key, Counts] = {}

    def take(self, key: Key, usage: Record, *, aside: bool = False) -> None:
        """`aside`: of somebody else, whose window is not this one's."""
        fresh = (loose.number(usage.get("input_tokens")) or 0) + (
            loose.number(usage.get("cache_creation_input_tokens")) or 0
        )
        out, cached = (
            loose.number(usage.get("output_tokens")) or 0,
            loose.number(usage.get("cache_read_input_tokens")) or 0,
        )
        if not (fresh or out or cached):
            return  # written by the program itself, not by a model
        if not aside:
            self.context = fresh + cached + out
        whose = self._ledger.whose(hash(key))
        if whose is None:
            self._ledger.is_of(hash(key), self)
        if whose is None or (whose is self and key in self._last):
            self._count(key, (fresh, out, cached))

    def _count(self, key: Key, counts: Counts) -> None:
        """A later line of a message replaces an earlier one: output is still growing while it streams."""
        before = self._last.get(key, (0, 0, 0))
        best = max(before[0], counts[0]), max(before[1], counts[1]), max(before[2], counts[2])
        more = best[0] - before[0], best[1] - before[1], best[2] - before[2]
        self.counted = _plus(self.counted, more)
        self._ledger.add(more)
        self._last[key] = best
        if len(self._last) > _REMEMBERED:
            del self._last[next(iter(self._last))]


def _plus(left: Counts, right: Counts) -> Counts:
    return left[0] + right[0], left[1] + right[1], left[2] + right[2]
