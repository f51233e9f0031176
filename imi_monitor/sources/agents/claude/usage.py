"""Tokens of a session, each message once: Claude writes a line for every block of a message, with the same count."""

from __future__ import annotations

from typing import TypeAlias

from imi_monitor.sources.agents import loose
from imi_monitor.sources.agents.claude.records import Record

Key: TypeAlias = tuple[str, str]  # message, request: message numbers alone are not always unique
Counts: TypeAlias = tuple[int, int, int]  # fresh input, output, read from the cache

_REMEMBERED = 512  # lines of one message lie close together


class Usage:
    """`elsewhere`: messages at the seam of two parts of a file, which the other part counts."""

    def __init__(self) -> None:
        self.elsewhere: frozenset[Key] = frozenset()
        self.context: int | None = None  # tokens in the window after the last answer
        self._counted: Counts = (0, 0, 0)
        self._last: dict[Key, Counts] = {}

    def take(self, key: Key, usage: Record) -> None:
        fresh = (loose.number(usage.get("input_tokens")) or 0) + (
            loose.number(usage.get("cache_creation_input_tokens")) or 0
        )
        out, cached = (
            loose.number(usage.get("output_tokens")) or 0,
            loose.number(usage.get("cache_read_input_tokens")) or 0,
        )
        if not (fresh or out or cached):
            return  # written by the program itself, not by a model
        self.context = fresh + cached + out
        if key not in self.elsewhere:
            self._count(key, (fresh, out, cached))

    def _count(self, key: Key, counts: Counts) -> None:
        """A later line of a message replaces an earlier one: output is still growing while it streams."""
        before = self._last.get(key, (0, 0, 0))
        best = tuple(map(max, before, counts))
        self._counted = _plus(self._counted, (best[0] - before[0], best[1] - before[1], best[2] - before[2]))
        self._last[key] = (best[0], best[1], best[2])
        if len(self._last) > _REMEMBERED:
            del self._last[next(iter(self._last))]

    @property
    def recent(self) -> frozenset[Key]:
        return frozenset(self._last)

    @property
    def counted(self) -> Counts:
        return self._counted


def _plus(left: Counts, right: Counts) -> Counts:
    return left[0] + right[0], left[1] + right[1], left[2] + right[2]
