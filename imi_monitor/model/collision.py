"""Collisions: files that two worktrees both changed, and the conflicts in a file that a trial merge has marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from imi_monitor.model.snapshot import Key

Pair = tuple[Key, Key | None]  # None: the trunk

# A file changed in more worktrees than this (a lock file after an update) would only add noise: its pairs are left out.
MOST_SHARERS = 40


def find_overlaps(touched: Mapping[Key, frozenset[str]]) -> dict[Pair, tuple[str, ...]]:
    """Return the sorted files that each pair of worktrees of one repository both changed."""
    sharers: dict[tuple[str, str], list[Key]] = {}
    for key in sorted(touched):
        for path in touched[key]:
            sharers.setdefault((key.repo, path), []).append(key)
    pairs: dict[Pair, list[str]] = {}
    for (_, path), keys in sharers.items():
        if 1 < len(keys) <= MOST_SHARERS:
            for pair in combinations(keys, 2):
                pairs.setdefault(pair, []).append(path)
    return {pair: tuple(sorted(pairs[pair])) for pair in sorted(pairs, key=str)}


def add_trunk_overlaps(
    pairs: Mapping[Pair, tuple[str, ...]], touched: Mapping[Key, frozenset[str]], trunk: Mapping[Key, frozenset[str]]
) -> dict[Pair, tuple[str, ...]]:
    """Return `pairs` and, for each worktree, the files that the trunk also changed since their merge base."""
    found = dict(pairs)
    for key, files in trunk.items():
        common = files & touched.get(key, frozenset())
        if common:
            found[(key, None)] = tuple(sorted(common))
    return found


AROUND = 3  # lines shown before and after
OURS, THEIRS, BASE, SAME, CUT = "ours", "theirs", "base", "same", "cut"
_MARKS = (("<<<<<<< ", OURS), ("||||||| ", BASE), (">>>>>>> ", SAME))


@dataclass(frozen=True, slots=True)
class ConflictLine:
    """One line of a conflict. `side` is ours, theirs, base, same (in both) or cut (`text` says how much is left out)."""

    side: str
    text: str


@dataclass(frozen=True, slots=True)
class ConflictHunk:
    """One conflict; `at` is the number of its first line in the merged file, from 1."""

    at: int
    lines: tuple[ConflictLine, ...]


def conflict_hunks(text: str, *, most_lines: int = 400) -> tuple[ConflictHunk, ...]:
    """Return the conflicts in a merged file. Beyond `most_lines` in all, the rest is only counted."""
    lines = text.removesuffix("\n").split("\n")
    found: list[ConflictHunk] = []
    left, index = most_lines, 0
    while index < len(lines):
        end = _end(lines, index) if lines[index].startswith("<<<<<<< ") else None
        if end is None:
            index += 1
            continue
        hunk = _conflict_hunk(lines, index, end, max(2, left))
        found.append(hunk)
        left -= len(hunk.lines)
        index = end + 1
        if left <= 0:
            more = sum(line.startswith("<<<<<<< ") for line in lines[index:])
            if more:
                found.append(ConflictHunk(index + 1, (ConflictLine(CUT, f"{more} more conflicts"),)))
            break
    return tuple(found)


def _end(lines: Sequence[str], start: int) -> int | None:
    """Return the line that closes the conflict opened at `start`; None when the line at `start` is no marker."""
    return next((index for index in range(start + 1, len(lines)) if lines[index].startswith(">>>>>>> ")), None)


def _conflict_hunk(lines: Sequence[str], start: int, end: int, most: int) -> ConflictHunk:
    first = max(0, start - AROUND)
    side = SAME
    given: list[ConflictLine] = []
    for line in lines[first : end + 1 + AROUND]:
        mark = next((kind for text, kind in _MARKS if line.startswith(text)), None)
        if mark is not None:
            side = mark
        elif line == "=======" and side in (OURS, BASE):
            side = THEIRS
        else:
            given.append(ConflictLine(side, line.removesuffix("\r")))
    if len(given) > most:
        given = [*given[:most], ConflictLine(CUT, f"{len(given) - most} more lines")]
    return ConflictHunk(start + 1, tuple(given))
