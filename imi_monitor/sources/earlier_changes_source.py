"""What was changed while files were not followed: uncommitted files, by the time of their last write."""

from __future__ import annotations

import asyncio
import heapq
import os
from collections.abc import Iterator
from datetime import UTC, datetime

from imi_monitor.model import times
from imi_monitor.model.change import Change, Kind
from imi_monitor.model.snapshot import FileState, GitState, Key
from imi_monitor.sources.hints import AllStatusesRead, FilesChanged, GitStateRead, Hint, RosterRead
from imi_monitor.sources.source import ReadingReceiver, RosterEntry, Source, SourceContext

_MOST = 100  # changes that are kept
_MOST_OF_WORKTREE = 200  # files that are examined


class EarlierChangesSource(Source):
    """Reads the files of all worktrees once their git states are known, and those of one after its watch began or lost events."""

    name = "earlier"

    def __init__(self) -> None:
        self._entries: dict[Key, RosterEntry] = {}
        self._states: dict[Key, GitState] = {}  # not examined yet
        self._uncertain: dict[Key, int] = {}  # how many more states to examine: one may be older than the watch
        self._changes: dict[Key, tuple[Change, ...]] = {}  # of the worktrees that have some
        self._complete = False
        self._wanted = asyncio.Event()

    def handle_hint(self, hint: Hint) -> None:
        match hint:
            case RosterRead(entries):
                self._entries = {entry.key: entry for entry in entries}
                if any(key not in self._entries for key in self._changes):
                    self._wanted.set()
            case FilesChanged(key, None):
                self._uncertain[key] = 2
            case GitStateRead(key, state) if not self._complete or self._uncertain.get(key):
                self._states[key] = state
                if self._complete:
                    self._uncertain[key] -= 1
                    self._wanted.set()
            case AllStatusesRead() if self._states:
                self._complete = True
                self._wanted.set()

    async def run(self, receiver: ReadingReceiver) -> None:
        first = True
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            states, self._states = self._states, {}
            known = [(self._entries[key], state) for key, state in states.items() if key in self._entries]
            found = await asyncio.to_thread(_read_changes, known)
            gone = {key: () for key in self._changes if key not in self._entries}
            new = {key: now for key, now in (found | gone).items() if now != self._changes.get(key, ())}
            if new or first:  # else nothing is merged and sorted: there may be thousands of worktrees
                first = False
                self._changes = {key: now for key, now in (self._changes | new).items() if now}
                receiver.set_earlier_changes(_newest(self._changes))


def _newest(changes: dict[Key, tuple[Change, ...]]) -> tuple[Change, ...]:
    """The changes written last, oldest first."""
    found = (change for of_worktree in changes.values() for change in of_worktree)
    return tuple(reversed(heapq.nlargest(_MOST, found, key=lambda change: change.at)))


def _read_changes(states: list[tuple[RosterEntry, GitState]]) -> dict[Key, tuple[Change, ...]]:
    return {entry.key: tuple(_changes(entry, state)) for entry, state in states}


def _changes(entry: RosterEntry, state: GitState) -> Iterator[Change]:
    """The uncommitted files that still exist: of deleted ones no time is known."""
    for file in state.files[:_MOST_OF_WORKTREE]:
        try:
            info = os.lstat(os.path.join(entry.path, file.path))
        except OSError:
            continue
        at = times.stamp(datetime.fromtimestamp(info.st_mtime, UTC))
        yield Change(entry.key.repo, entry.key.worktree, _kind(file), file.path, at, guessed=True)


def _kind(file: FileState) -> Kind:
    letters = file.index + file.tree
    return "renamed" if "R" in letters else "created" if "A" in letters or "?" in letters else "modified"


def make_source(_context: SourceContext) -> EarlierChangesSource:
    return EarlierChangesSource()
