"""Collisions: which worktrees change the same files, and whether a merge of them conflicts.

Overlapping files follow from git status and the branches. Whether they conflict is found by trial merges in the
background, one pair at a time; results are kept by content, so that the same two contents are merged once.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from imi_monitor.git import git_merge
from imi_monitor.git.runner import Git
from imi_monitor.model import times
from imi_monitor.model.collision import Pair, add_trunk_overlaps, find_overlaps
from imi_monitor.model.errors import ImiError
from imi_monitor.model.snapshot import Collision, GitState, Key
from imi_monitor.sources.hints import ChangedFilesRead, FilesChanged, GitStateRead, Hint, RosterRead
from imi_monitor.sources.source import ReadingReceiver, RosterEntry, Source, SourceContext

_SHORTEST_PAUSE = 0.5  # seconds between a change and the computation
_LONGEST_PAUSE = 10.0
_TIME_SHARE = 0.05  # the share of time that the search may take while files change all the time
_MOST_REMEMBERED = 4000


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a collision: the commits and the uncommitted files of a worktree."""

    head: str | None
    trunk: str | None
    edits: tuple[str, ...]
    edit_states: tuple[tuple[str, str, str], ...]  # (path, state in the index, state in the worktree)
    generation: int  # grows with each write in the worktree: the same files may have other contents


@dataclass(frozen=True, slots=True)
class _Inputs:
    """What one computation reads; the source collects changes meanwhile."""

    sides: dict[Key, _Side]
    entries: dict[Key, RosterEntry]

    def sides_of(self, pair: Pair) -> tuple[_Side | None, ...]:
        return tuple(self.sides.get(key) for key in pair if key is not None)


class CollisionsSource(Source):
    """Recomputes the collisions after every new git state."""

    name = "collisions"

    def __init__(self) -> None:
        self._entries: dict[Key, RosterEntry] = {}
        self._sides: dict[Key, _Side] = {}
        self._branch_files: dict[tuple[str, str, str], tuple[frozenset[str], frozenset[str]]] = {}
        self._merges: OrderedDict[tuple[str, str], tuple[str, ...]] = OrderedDict()  # (commit, commit) -> conflicts
        self._tried: dict[Pair, tuple[object, tuple[str, ...] | None, str]] = {}  # (sides, conflicts, when)
        self._generations: dict[Key, int] = {}
        self._trunks: dict[tuple[str, str], str | None] = {}
        self._changed = asyncio.Event()
        self._stopping = False
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="trial")

    def handle_hint(self, hint: Hint) -> None:
        match hint:
            case RosterRead(entries):
                self._set_roster(entries)
            case GitStateRead(key, state):
                self._set_state(key, state)
            case FilesChanged(key, _):  # the next git state may look the same although the contents differ
                self._generations[key] = self._generations.get(key, 0) + 1

    def _set_roster(self, entries: tuple[RosterEntry, ...]) -> None:
        self._entries = {entry.key: entry for entry in entries if not entry.missing and entry.admin_dir}
        for key in [key for key in self._sides if key not in self._entries]:
            del self._sides[key]
            self._changed.set()

    def _set_state(self, key: Key, state: GitState) -> None:
        edits = tuple(file.path for file in state.files)
        edit_states = tuple((file.path, file.index, file.tree) for file in state.files)
        side = _Side(state.head, state.trunk, edits, edit_states, self._generations.get(key, 0))
        if self._sides.get(key) != side:
            self._sides[key] = side
            self._changed.set()

    async def run(self, receiver: ReadingReceiver) -> None:
        try:
            pause = _SHORTEST_PAUSE
            while True:
                await self._changed.wait()
                await asyncio.sleep(pause)
                self._changed.clear()
                started = time.monotonic()
                try:
                    await self._find_collisions(receiver)
                except (ImiError, OSError) as error:
                    receiver.set_failure(self.name, "collisions", str(error))
                pause = min(_LONGEST_PAUSE, max(_SHORTEST_PAUSE, (time.monotonic() - started) / _TIME_SHARE))
        finally:
            self._stopping = True
            self._pool.shutdown(wait=False, cancel_futures=True)

    async def _find_collisions(self, receiver: ReadingReceiver) -> None:
        loop = asyncio.get_running_loop()
        inputs = _Inputs(dict(self._sides), dict(self._entries))
        changed_files, trunk_files = await loop.run_in_executor(self._pool, self._changed_files, inputs)
        pairs = add_trunk_overlaps(find_overlaps(changed_files), changed_files, trunk_files)
        receiver.update(collisions=self._collisions(pairs, inputs))
        receiver.send_hint(ChangedFilesRead(changed_files))
        for pair in pairs:
            if self._changed.is_set():
                return  # start over instead of merging what is outdated
            if self._tried.get(pair, (None,))[0] != inputs.sides_of(pair):
                await self._try(receiver, pair, inputs)
                receiver.update(collisions=self._collisions(pairs, inputs))
        receiver.set_healthy(self.name)

    def _collisions(self, pairs: Mapping[Pair, tuple[str, ...]], inputs: _Inputs) -> tuple[Collision, ...]:
        found = []
        for pair, files in pairs.items():
            sides, conflicts, at = self._tried.get(pair, (None, None, ""))
            current = sides == inputs.sides_of(pair)
            found.append(Collision(*pair, files, conflicts if current else None, at if current else None))
        return tuple(found)

    async def _try(self, receiver: ReadingReceiver, pair: Pair, inputs: _Inputs) -> None:
        loop = asyncio.get_running_loop()
        try:
            conflicts = await loop.run_in_executor(self._pool, self._conflicts, pair, inputs)
        except (ImiError, OSError) as error:
            conflicts = None  # unknown; tried again when a side changes
            receiver.set_failure(self.name, f"a trial merge of {pair[0].worktree}", str(error))
        self._tried[pair] = (inputs.sides_of(pair), conflicts, times.stamp())
        if len(self._tried) > _MOST_REMEMBERED:
            self._tried = {pair: tried for pair, tried in self._tried.items() if pair[0] in self._sides}

    # -- in the thread of the pool ----------------------------------------------------------------------------------

    def _changed_files(self, inputs: _Inputs) -> tuple[dict[Key, frozenset[str]], dict[Key, frozenset[str]]]:
        """Return the files that each worktree changed, and those that its trunk changed since they parted."""
        self._trunks.clear()
        own: dict[Key, frozenset[str]] = {}
        trunk: dict[Key, frozenset[str]] = {}
        for key, side in inputs.sides.items():
            entry = inputs.entries.get(key)
            if entry is not None:
                on_branch, trunk[key] = self._files_of_branch(entry, side)
                own[key] = on_branch | frozenset(git_merge.expand_folders(entry.path, side.edits))
        return own, trunk

    def _files_of_branch(self, entry: RosterEntry, side: _Side) -> tuple[frozenset[str], frozenset[str]]:
        """Return the files that the branch and the trunk changed since they parted; cached by the two commits."""
        git = self._git(entry)
        trunk = self._trunk_sha(git, side.trunk)
        if side.head is None or trunk is None or trunk == side.head:
            return frozenset(), frozenset()
        key = (entry.common_dir, side.head, trunk)
        if key not in self._branch_files:
            if len(self._branch_files) > _MOST_REMEMBERED:
                self._branch_files.clear()
            try:
                self._branch_files[key] = git_merge.branch_files(git, side.head, trunk)
            except ImiError:
                return frozenset(), frozenset()
        return self._branch_files[key]

    def _conflicts(self, pair: Pair, inputs: _Inputs) -> tuple[str, ...] | None:
        """Return the files that conflict in a trial merge; None if a side has no commit."""
        left, right = pair
        git = self._git(inputs.entries[left])
        with git_merge.TrialMerge(inputs.entries[left].common_dir) as trial:
            ours = self._commit(trial, left, inputs)
            trunk = inputs.sides[left].trunk
            theirs = self._trunk_sha(git, trunk) if right is None else self._commit(trial, right, inputs)
            if ours is None or theirs is None:
                return None
            key = (ours, theirs)
            if key not in self._merges:
                self._merges[key] = trial.conflicts(git, ours, theirs)
                if len(self._merges) > _MOST_REMEMBERED:
                    self._merges.popitem(last=False)
            return self._merges[key]

    def _commit(self, trial: git_merge.TrialMerge, key: Key, inputs: _Inputs) -> str | None:
        """Return a temporary commit of the worktree with its uncommitted files."""
        side, entry = inputs.sides[key], inputs.entries[key]
        if side.head is None:
            return None
        edits = tuple(git_merge.expand_folders(entry.path, side.edits))
        return trial.commit(git_merge.TrialSide(self._git(entry), side.head, edits))

    def _git(self, entry: RosterEntry) -> Git:
        return Git(
            entry.common_dir, entry.admin_dir, entry.path, trusted=entry.trusted, cancelled=lambda: self._stopping
        )

    def _trunk_sha(self, git: Git, name: str | None) -> str | None:
        """Return the trunk's commit; read once for all worktrees of a repository."""
        if name is None:
            return None
        key = (git.common_dir, name)
        if key not in self._trunks:
            self._trunks[key] = git_merge.trunk_sha(git, name)
        return self._trunks[key]


def make_source(_context: SourceContext) -> CollisionsSource:
    return CollisionsSource()
