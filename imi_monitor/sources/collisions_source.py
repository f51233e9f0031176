"""Collisions: which worktrees touch the same files, and whether merging them would really conflict.

That files overlap is known at once from what git status and the branches say. Whether it conflicts is tried in the
background, one pair at a time, and remembered by content: the same two contents are never tried twice.
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
from imi_monitor.sources.hints import FilesChanged, GitStateRead, Hint, RosterRead
from imi_monitor.sources.source import ReadingReceiver, RosterEntry, Source

_CALM = 0.5  # seconds without news before anything is computed
_LONGEST_CALM = 10.0
_SHARE = 0.05  # of the time may go into it while there is always something new
_MOST_REMEMBERED = 4000


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of one worktree's part: its commits and its uncommitted files."""

    head: str | None
    trunk: str | None
    edits: tuple[str, ...]
    marks: tuple[tuple[str, str, str], ...]
    generation: int  # how often something was written there: the same files may hold something else


class CollisionsSource(Source):
    """Recomputes the collisions after every new git state."""

    name = "collisions"

    def __init__(self) -> None:
        self._entries: dict[Key, RosterEntry] = {}
        self._known: dict[Key, _Known] = {}
        self._branch: dict[tuple[str, str, str], tuple[frozenset[str], frozenset[str]]] = {}
        self._results: OrderedDict[tuple[str, str], tuple[str, ...]] = OrderedDict()
        self._verdicts: dict[Pair, tuple[object, tuple[str, ...] | None, str]] = {}
        self._written: dict[Key, int] = {}
        self._trunks: dict[tuple[str, str], str | None] = {}
        self._news = asyncio.Event()
        self._stopping = False
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="trial")

    def handle_hint(self, hint: Hint) -> None:
        match hint:
            case RosterRead(entries):
                self._set_roster(entries)
            case GitStateRead(key, state):
                self._set_state(key, state)
            case FilesChanged(key, _):  # the next git state may look the same although the contents differ
                self._written[key] = self._written.get(key, 0) + 1

    def _set_roster(self, entries: tuple[RosterEntry, ...]) -> None:
        self._entries = {entry.key: entry for entry in entries if not entry.missing and entry.admin_dir}
        for key in [key for key in self._known if key not in self._entries]:
            del self._known[key]
            self._news.set()

    def _set_state(self, key: Key, state: GitState) -> None:
        edits = tuple(file.path for file in state.files)
        marks = tuple((file.path, file.index, file.tree) for file in state.files)
        known = _Known(state.head, state.trunk, edits, marks, self._written.get(key, 0))
        if self._known.get(key) != known:
            self._known[key] = known
            self._news.set()

    async def run(self, receiver: ReadingReceiver) -> None:
        try:
            pause = _CALM
            while True:
                await self._news.wait()
                await asyncio.sleep(pause)
                self._news.clear()
                started = time.monotonic()
                try:
                    await self._turn(receiver)
                except (ImiError, OSError) as error:
                    receiver.set_failure(self.name, "collisions", str(error))
                pause = min(_LONGEST_CALM, max(_CALM, (time.monotonic() - started) / _SHARE))
        finally:
            self._stopping = True
            self._pool.shutdown(wait=False, cancel_futures=True)

    async def _turn(self, receiver: ReadingReceiver) -> None:
        loop = asyncio.get_running_loop()
        known, entries = dict(self._known), dict(self._entries)
        touched, trunk_side = await loop.run_in_executor(self._pool, self._touched, known, entries)
        pairs = add_trunk_overlaps(find_overlaps(touched), touched, trunk_side)
        receiver.update(collisions=self._collisions(pairs, known))
        for pair, _ in pairs.items():
            if self._news.is_set():
                return  # something changed meanwhile: start over rather than finish what is old
            if self._is_new(pair, known):
                await self._try(receiver, pair, known, entries)
                receiver.update(collisions=self._collisions(pairs, known))
        receiver.set_healthy(self.name)

    def _collisions(self, pairs: Mapping[Pair, tuple[str, ...]], known: Mapping[Key, _Known]) -> tuple[Collision, ...]:
        found = []
        for (left, right), files in pairs.items():
            mark, conflicts, at = self._verdicts.get((left, right), (None, None, ""))
            current = mark == _mark((left, right), known)
            found.append(Collision(left, right, files, conflicts if current else None, at if current else None))
        return tuple(found)

    def _is_new(self, pair: Pair, known: Mapping[Key, _Known]) -> bool:
        return self._verdicts.get(pair, (None,))[0] != _mark(pair, known)

    async def _try(
        self, receiver: ReadingReceiver, pair: Pair, known: Mapping[Key, _Known], entries: Mapping[Key, RosterEntry]
    ) -> None:
        loop = asyncio.get_running_loop()
        mark = _mark(pair, known)
        try:
            conflicts: tuple[str, ...] | None = await loop.run_in_executor(
                self._pool, self._conflicts, pair, known, entries
            )
        except (ImiError, OSError) as error:
            conflicts = None  # shown as unknown, and tried again when something changes
            receiver.set_failure(self.name, f"a trial merge of {pair[0].worktree}", str(error))
        self._verdicts[pair] = (mark, conflicts, times.stamp())
        if len(self._verdicts) > _MOST_REMEMBERED:
            self._verdicts = {pair: verdict for pair, verdict in self._verdicts.items() if pair[0] in self._known}

    # -- in the thread of the pool ----------------------------------------------------------------------------------

    def _touched(
        self, known: Mapping[Key, _Known], entries: Mapping[Key, RosterEntry]
    ) -> tuple[dict[Key, frozenset[str]], dict[Key, frozenset[str]]]:
        self._trunks.clear()
        touched: dict[Key, frozenset[str]] = {}
        trunk_side: dict[Key, frozenset[str]] = {}
        for key, part in known.items():
            entry = entries.get(key)
            if entry is None:
                continue
            own, theirs = self._branch_files(entry, part)
            edits = frozenset(git_merge.expand_folders(entry.path, part.edits))
            touched[key] = own | edits
            trunk_side[key] = theirs
        return touched, trunk_side

    def _branch_files(self, entry: RosterEntry, part: _Known) -> tuple[frozenset[str], frozenset[str]]:
        """What the branch and the trunk changed since they parted; remembered by the two commits."""
        git = self._git(entry)
        trunk = self._trunk_sha(git, part.trunk)
        if part.head is None or trunk is None or trunk == part.head:
            return frozenset(), frozenset()
        key = (entry.common_dir, part.head, trunk)
        if key not in self._branch:
            if len(self._branch) > _MOST_REMEMBERED:
                self._branch.clear()
            try:
                self._branch[key] = git_merge.branch_files(git, part.head, trunk)
            except ImiError:
                return frozenset(), frozenset()
        return self._branch[key]

    def _conflicts(
        self, pair: Pair, known: Mapping[Key, _Known], entries: Mapping[Key, RosterEntry]
    ) -> tuple[str, ...] | None:
        left, right = pair
        entry = entries[left]
        git = self._git(entry)
        with git_merge.TrialMerge(entry.common_dir) as made:
            one = self._side(made, left, known, entries)
            other = (
                self._trunk_sha(git, known[left].trunk) if right is None else self._side(made, right, known, entries)
            )
            if one is None or other is None:
                return None
            key = (one, other)
            if key not in self._results:
                self._results[key] = made.conflicts(git, one, other)
                if len(self._results) > _MOST_REMEMBERED:
                    self._results.popitem(last=False)
            return self._results[key]

    def _side(
        self, made: git_merge.TrialMerge, key: Key, known: Mapping[Key, _Known], entries: Mapping[Key, RosterEntry]
    ) -> str | None:
        part, entry = known[key], entries[key]
        if part.head is None:
            return None
        edits = tuple(git_merge.expand_folders(entry.path, part.edits))
        return made.commit(git_merge.TrialSide(self._git(entry), part.head, edits))

    def _git(self, entry: RosterEntry) -> Git:
        return Git(
            entry.common_dir, entry.admin_dir, entry.path, trusted=entry.trusted, cancelled=lambda: self._stopping
        )

    def _trunk_sha(self, git: Git, name: str | None) -> str | None:
        """Where the trunk stands: asked once a turn for all worktrees of a repository."""
        if name is None:
            return None
        key = (git.common_dir, name)
        if key not in self._trunks:
            self._trunks[key] = git_merge.trunk_sha(git, name)
        return self._trunks[key]


def _mark(pair: Pair, known: Mapping[Key, _Known]) -> object:
    """What the verdict on a pair depends on."""
    return tuple(known.get(key) for key in pair if key is not None)
