"""What was changed before the dashboard began to watch: uncommitted files, by the time of their last write."""

from __future__ import annotations

import asyncio
import heapq
import os
from collections.abc import Iterator
from datetime import UTC, datetime

from imi_monitor.model import times
from imi_monitor.model.change import Change, Kind
from imi_monitor.model.snapshot import FileState, GitState, Key
from imi_monitor.sources.hints import AllStatusesRead, GitStateRead, Hint, RosterRead
from imi_monitor.sources.source import ReadingReceiver, RosterEntry, Source, SourceContext

_MOST = 100  # changes that are kept
_MOST_OF_WORKTREE = 200  # files that are examined


class EarlierChangesSource(Source):
    """Reads once, when the git states of all worktrees are known."""

    name = "earlier"

    def __init__(self) -> None:
        self._entries: dict[Key, RosterEntry] = {}
        self._states: dict[Key, GitState] = {}
        self._complete = asyncio.Event()

    def handle_hint(self, hint: Hint) -> None:
        if self._complete.is_set():
            return
        match hint:
            case RosterRead(entries):
                self._entries = {entry.key: entry for entry in entries}
            case GitStateRead(key, state):
                self._states[key] = state
            case AllStatusesRead() if self._states:
                self._complete.set()

    async def run(self, receiver: ReadingReceiver) -> None:
        await self._complete.wait()
        states = [(entry, self._states[key]) for key, entry in self._entries.items() if key in self._states]
        self._entries, self._states = {}, {}
        receiver.update(earlier=await asyncio.to_thread(_newest, states))


def _newest(states: list[tuple[RosterEntry, GitState]]) -> tuple[Change, ...]:
    """The changes written last, oldest first."""
    found = (change for entry, state in states for change in _changes(entry, state))
    return tuple(reversed(heapq.nlargest(_MOST, found, key=lambda change: change.at)))


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
