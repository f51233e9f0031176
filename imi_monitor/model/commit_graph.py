"""Entries of a commit log, and the graph of branches drawn beside them, one row for each commit.

The graph takes commits with their parents in the order of the log, newest first. A parent listed before its child (clocks can
be wrong) ends its lane: the graph never draws a line that is not in the history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class CommitLogEntry:
    """One commit. `own` means that the trunk does not have it; `by` is the agent that owned the worktree then."""

    sha: str
    parents: tuple[str, ...]
    subject: str
    author: str
    at: str | None
    refs: tuple[str, ...] = ()
    own: bool = True
    by: str | None = None

    @property
    def writer(self) -> str:
        return self.by or self.author

    def data(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class CommitLogPage:
    """A part of the log. `more`: commits follow; `seen`: how many (own, older) commits were returned so far."""

    entries: tuple[CommitLogEntry, ...]
    trunk: str | None
    more: bool
    seen: tuple[int, int]


MOST_LANES = 8  # lanes drawn side by side; the ones further right are tracked but not drawn
COMMIT, MERGE, PAST, OVER = "●", "◉", "│", "─"
_LEFT, _RIGHT, _UP, _DOWN = 1, 2, 4, 8
_SHAPES = {
    _LEFT | _RIGHT: "─",
    _UP | _DOWN: "│",
    _LEFT | _UP: "╯",
    _LEFT | _DOWN: "╮",
    _LEFT | _RIGHT | _UP: "┴",
    _LEFT | _RIGHT | _DOWN: "┬",
    _LEFT | _UP | _DOWN: "┤",
    _LEFT | _RIGHT | _UP | _DOWN: "┼",
    _RIGHT | _UP: "╰",
    _RIGHT | _DOWN: "╭",
    _RIGHT | _UP | _DOWN: "├",
}


class CommitGraph:
    """Draws rows one by one and keeps the lanes that are open below the last row."""

    def __init__(self) -> None:
        self._lanes: list[str | None] = []  # the commit each lane waits for

    def row(self, sha: str, parents: Sequence[str]) -> str:
        """Return the drawing beside this commit; two cells for each lane."""
        waiting = [index for index, wanted in enumerate(self._lanes) if wanted == sha]
        place = waiting[0] if waiting else self._free()
        above = {index for index, wanted in enumerate(self._lanes) if wanted is not None}
        for index in waiting[1:]:
            self._lanes[index] = None
        self._lanes[place] = None
        ends = [*waiting[1:], *self._open(place, parents)]
        below = {index for index, wanted in enumerate(self._lanes) if wanted is not None}
        while self._lanes and self._lanes[-1] is None:
            self._lanes.pop()
        return _drawn(place, MERGE if len(parents) > 1 else COMMIT, above, below, ends)

    def _open(self, place: int, parents: Sequence[str]) -> list[int]:
        """Open lanes for the parents; returns the lanes that a merge line leads to."""
        if not parents:
            return []
        ends = []
        for parent in dict.fromkeys(parents[1:]):
            lane = self._lanes.index(parent) if parent in self._lanes else self._free(place + 1)
            self._lanes[lane] = parent
            ends.append(lane)
        self._lanes[place] = parents[0]
        return ends

    def _free(self, start: int = 0) -> int:
        for index in range(start, len(self._lanes)):
            if self._lanes[index] is None:
                return index
        while len(self._lanes) < start:
            self._lanes.append(None)
        self._lanes.append(None)
        return len(self._lanes) - 1


def _drawn(place: int, sign: str, above: set[int], below: set[int], ends: list[int]) -> str:
    """Return one row: the commit, the lanes that pass it, and horizontal lines to the lanes that join or part here."""
    left, right = min([place, *ends]), max([place, *ends])
    width = max([place, *above, *below, *ends], default=0) + 1
    cells = []
    for lane in range(min(width, MOST_LANES)):
        if lane == place:
            cells.append(sign)
        else:
            cells.append(_shape(lane, left, right, lane in above, lane in below, lane in ends))
        cells.append(OVER if left <= lane < right else " ")
    if width > MOST_LANES:
        cells[-1] = "…"
    return "".join(cells).rstrip()


def _shape(lane: int, left: int, right: int, above: bool, below: bool, end: bool) -> str:
    if not left <= lane <= right:
        return PAST if above or below else " "
    if not end:  # a passing lane is crossed
        return "┼" if above and below else OVER
    sides = (_LEFT if lane > left else 0) | (_RIGHT if lane < right else 0)
    return _SHAPES.get(sides | (_UP if above else 0) | (_DOWN if below else 0), OVER)
