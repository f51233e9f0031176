"""Pull requests: what the forge of each repository listed last, joined with the worktrees by number or branch.

The list comes from the registry, so it is there at once, and all processes share one question to a forge within a minute.
While nothing changes the pauses grow; a failure, such as being offline, keeps the last list.

There is no ETag: GraphQL has none, and the ones of REST cover the list of pull requests without the checks of their commits, so
that "not modified" would hide exactly the result that is waited for.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Event

from imi_monitor.forges import forge_project
from imi_monitor.forges.forge_program import LIMITED, ForgeUnavailable
from imi_monitor.forges.forge_project import ForgeProject
from imi_monitor.git import layout
from imi_monitor.model import times
from imi_monitor.model.errors import ImiError
from imi_monitor.model.pull_request import PullRequest
from imi_monitor.model.pull_request_list import PullRequestList
from imi_monitor.model.snapshot import ForgeState, Key
from imi_monitor.sources.hints import Hint, RefreshRequested, RegistryChanged, RosterRead
from imi_monitor.sources.source import ReadingReceiver, RosterEntry, Source, SourceContext
from imi_monitor.store import pull_requests

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.store.async_registry import AsyncRegistry

LIMIT_SECONDS = 900.0  # how long a rate limit is waited for
_MOST_PAUSES = 5  # the longest pause while nothing changes, in shortest pauses
_GRACE = 2.0  # seconds after the start, which has more urgent work
_RETRY_SECONDS = 10.0


@dataclass(slots=True)
class _Followed:
    """One repository with a forge: what was listed, and when it is asked next."""

    repo: str
    common_dir: str
    project: ForgeProject
    ask_at: float
    pause: float
    listed: PullRequestList
    stamp: object = None


class ForgeSource(Source):
    """Reports the field `forges` of the snapshot, and the pull request of each worktree."""

    name = "forge"

    def __init__(self, registry: AsyncRegistry, remote: str, interval: float, *, grace: float = _GRACE) -> None:
        self._registry = registry
        self._remote = remote
        self._interval = interval  # seconds; 0: the forge is not asked, only the registry is read
        self._grace = grace
        self._entries: tuple[RosterEntry, ...] = ()
        self._followed: dict[str, _Followed] = {}  # by common directory
        self._known_dirs: frozenset[str] = frozenset()
        self._changed = asyncio.Event()
        self._due = asyncio.Event()

    def handle_hint(self, hint: Hint) -> None:
        match hint:
            case RosterRead(entries):
                self._entries = entries
                self._changed.set()
            case RegistryChanged():
                self._changed.set()
            case RefreshRequested():
                self._known_dirs = frozenset()  # a remote may have been added
                for one in self._followed.values():
                    one.ask_at = 0.0
                self._changed.set()
                self._due.set()

    async def run(self, receiver: ReadingReceiver) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(receiver))
            if self._interval:
                group.create_task(self._ask_when_due())

    # -- what is known ----------------------------------------------------------------------------------------------

    async def _follow(self, receiver: ReadingReceiver) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._find_projects()
                if self._followed:
                    await self._registry.read(self._read_lists)
            except ImiError:  # the registry source reports it
                continue
            _report(receiver, self._entries, self._followed)

    async def _find_projects(self) -> None:
        dirs = frozenset(entry.common_dir for entry in self._entries)
        if dirs == self._known_dirs:
            return
        found = await asyncio.to_thread(_projects, sorted(dirs), self._remote)
        names = {entry.common_dir: entry.key.repo for entry in self._entries}
        start = asyncio.get_running_loop().time() + self._grace
        followed = {}
        for common_dir, project in found.items():
            known = self._followed.get(common_dir)
            if known is None or known.project != project:
                known = _Followed("", common_dir, project, start, self._interval, PullRequestList(project.key))
            known.repo = names.get(common_dir, "")
            followed[common_dir] = known
        self._followed, self._known_dirs = followed, dirs
        self._due.set()

    def _read_lists(self, connection: object) -> None:
        for one in self._followed.values():
            stamp = pull_requests.read_stamp(connection, one.project.key)  # type: ignore[arg-type]
            if stamp != one.stamp:
                one.stamp = stamp
                one.listed = pull_requests.read_list(connection, one.project.key)  # type: ignore[arg-type]

    # -- asking -----------------------------------------------------------------------------------------------------

    async def _ask_when_due(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._due.clear()
            for one in [one for one in self._followed.values() if one.ask_at <= loop.time()]:
                try:
                    await self._ask(one)
                except ImiError:  # the registry source reports it
                    one.pause = max(_RETRY_SECONDS, one.pause)
                one.ask_at = loop.time() + one.pause
            next_at = min((one.ask_at for one in self._followed.values()), default=None)
            try:
                async with asyncio.timeout_at(next_at):
                    await self._due.wait()
            except TimeoutError:
                continue

    async def _ask(self, one: _Followed) -> None:
        """Ask the forge, unless another process has asked it within the pause."""
        key = one.project.key
        if not await asyncio.to_thread(forge_project.can_ask, one.project):
            one.pause = self._interval * _MOST_PAUSES
            return
        if not await self._registry.write_unsynced(pull_requests.reserve, key, times.now(), self._interval):
            one.pause = self._interval
            return
        numbers = [entry.pr for entry in self._entries if entry.common_dir == one.common_dir and entry.pr is not None]
        before = one.listed.pulls
        stopped = Event()
        try:
            answer = await asyncio.to_thread(forge_project.ask, one.project, numbers, stopped.is_set)
        except ForgeUnavailable as problem:
            limited = LIMIT_SECONDS if problem.code == LIMITED else 0.0
            await self._registry.write_unsynced(
                pull_requests.record_problem, key, str(problem), times.now(), limited=limited
            )
            changed = False
        else:
            listed = await self._registry.write_unsynced(
                pull_requests.record, key, answer.via, answer.pulls, answer.total, times.now()
            )
            changed = listed.pulls != before or _has_running_checks(listed, numbers)
        finally:
            stopped.set()  # the program must not outlive the dashboard
        one.pause = self._interval if changed else min(one.pause * 2, self._interval * _MOST_PAUSES)
        self._changed.set()


def _has_running_checks(listed: PullRequestList, numbers: Sequence[int]) -> bool:
    return any(pull.ci == "pending" and pull.is_open and pull.number in numbers for pull in listed.pulls)


def _projects(common_dirs: Sequence[str], remote: str) -> dict[str, ForgeProject]:
    """The forge project of each repository that has one."""
    existing = (folder for folder in common_dirs if os.path.isdir(folder))
    found = ((folder, forge_project.forge_project(layout.repository_at(folder), remote)) for folder in existing)
    return {folder: project for folder, project in found if project is not None}


def _report(receiver: ReadingReceiver, entries: Sequence[RosterEntry], followed: Mapping[str, _Followed]) -> None:
    pulls: dict[Key, PullRequest] = {}
    for entry in entries:
        one = followed.get(entry.common_dir)
        if one is not None and not entry.is_main:
            pull = one.listed.of_worktree(entry.pr, entry.branch, entry.head, one.project.own)
            if pull is not None:
                pulls[entry.key] = pull
    receiver.set_pull_requests(pulls)
    states = (
        ForgeState(one.repo, one.listed.via, one.listed.read_at, one.listed.problem, one.listed.problem_since)
        for one in followed.values()
        if one.listed.read_at or one.listed.problem
    )
    receiver.update(forges=tuple(sorted(states, key=lambda state: state.repo)))


def make_source(context: SourceContext) -> ForgeSource:
    settings = context.settings
    interval = settings.number("reviews.refresh_seconds")
    return ForgeSource(context.registry, settings.text("git.remote_name"), interval)
