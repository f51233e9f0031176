"""Commits: each that is made in a worktree is recorded once, with the holder, also those made while nothing ran.

The reflog of a worktree says what was committed in it; where it was read to is in the registry. When a worktree is first seen,
what was committed since imi knows it counts. Any number of processes may do this: a commit is recorded once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

from imi_monitor.git import reflog
from imi_monitor.git.reflog import ReflogEntry
from imi_monitor.git.runner import Git
from imi_monitor.model import times
from imi_monitor.model.errors import ImiError
from imi_monitor.model.redact import redact
from imi_monitor.model.snapshot import GitState, Key
from imi_monitor.model.text import safe
from imi_monitor.sources.hints import GitStateRead, Hint, RosterRead
from imi_monitor.sources.source import ReadingReceiver, RosterEntry, Source, SourceContext
from imi_monitor.store import commit_records
from imi_monitor.store.commit_records import CommitPosition, MadeCommit

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.store.async_registry import AsyncRegistry

_LONGEST_SUBJECT = 200
_RETRY_SECONDS = 10.0


class CommitsSource(Source):
    """Looks into the reflog of a worktree whenever its HEAD has moved."""

    name = "commits"

    def __init__(self, registry: AsyncRegistry) -> None:
        self._registry = registry
        self._entries: dict[Key, RosterEntry] = {}
        self._heads: dict[Key, str] = {}  # as they were when the reflog was read
        self._moved: dict[Key, GitState] = {}
        self._changed = asyncio.Event()

    def handle_hint(self, hint: Hint) -> None:
        match hint:
            case RosterRead(entries):
                self._entries = {entry.key: entry for entry in entries}
                self._heads = {key: head for key, head in self._heads.items() if key in self._entries}
            case GitStateRead(key, state) if state.head is not None and state.head != self._heads.get(key):
                self._moved[key] = state
                self._changed.set()

    @property
    def pending(self) -> int:
        """How many worktrees are still to be looked at."""
        return len(self._moved)

    async def run(self, receiver: ReadingReceiver) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._moved:
                key, state = next(iter(self._moved.items()))
                try:
                    await self._read(key, state)
                except ImiError:  # the registry source reports it
                    await asyncio.sleep(_RETRY_SECONDS)
                    continue
                if self._moved.get(key) is state:
                    del self._moved[key]

    async def _read(self, key: Key, state: GitState) -> None:
        entry = self._entries.get(key)
        if entry is None or not entry.admin_dir or state.head is None:
            return
        position = await self._registry.read(commit_records.find_position, key.repo, key.worktree)
        if position is None or position.head != state.head:
            git = Git(entry.common_dir, entry.admin_dir)
            found = await asyncio.to_thread(reflog.read_reflog, git)
            since = await self._registry.read(commit_records.known_since, key.repo, key.worktree)
            if since is not None and found:
                await self._registry.write_unsynced(_record, key, state.branch, found, position, since)
        self._heads[key] = state.head


def make_source(context: SourceContext) -> CommitsSource | None:
    return None if context.read_only else CommitsSource(context.registry)


def commits_behind(
    entries: Sequence[ReflogEntry], position: CommitPosition | None, since: str
) -> tuple[list[MadeCommit], CommitPosition]:
    """The commits that were made behind the position, or without one since that moment; and the new position."""
    begin = 0
    if position is not None:
        places = [
            place for place, one in enumerate(entries) if one.new == position.head and _moment(one) <= position.read_at
        ]
        if places:
            begin = places[-1] + 1
        else:  # git has shortened the reflog
            begin = next((place for place, one in enumerate(entries) if _moment(one) > position.read_at), len(entries))
    behind = [
        one for one in entries[begin:] if one.is_new_commit and (position is not None or _moment(one) >= since[:19])
    ]
    made = [MadeCommit(one.new, _moment(one), safe(redact(one.subject), _LONGEST_SUBJECT)) for one in behind]
    return made, CommitPosition(entries[-1].new, _moment(entries[-1]))


def _moment(one: ReflogEntry) -> str:
    return times.stamp(datetime.fromtimestamp(one.at, UTC))


def _record(
    connection: sqlite3.Connection,
    key: Key,
    branch: str | None,
    entries: Sequence[ReflogEntry],
    position: CommitPosition | None,
    since: str,
) -> None:
    made, now = commits_behind(entries, position, since)
    commit_records.record_commits(connection, key.repo, key.worktree, branch, made, now)
