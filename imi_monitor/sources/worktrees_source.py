"""The roster: which worktrees there are, from git's own files joined with our rows.

Looked at again when git's files or the registry say that something changed, and every few seconds by a handful of
`stat` calls, because a folder can vanish without anybody being told.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable

from imi_monitor import host, presence, roster
from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.git import layout, safety
from imi_monitor.model.errors import ImiError
from imi_monitor.model.snapshot import Key
from imi_monitor.sources.hints import Hint, RefreshRequested, RegistryChanged, WorktreeListChanged
from imi_monitor.sources.source import ReadingReceiver, RosterEntry, Source
from imi_monitor.store import db, repositories

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.store.async_registry import AsyncRegistry

_UNFINISHED = 0.05  # seconds until a worktree that is just being made is looked at again
_GLANCE = 1.0  # seconds between two looks at git's lists
_FOLDERS = 5  # of those looks until some of the worktrees' folders are looked at, too
_LAP = 2  # of these, until that was every one: whoever follows its files tells sooner that it is gone


@dataclass(frozen=True, slots=True)
class RepositoryScope:
    """Which repositories: the git directories given, or every one the registry knows (None)."""

    common_dirs: tuple[str, ...] | None = None


class WorktreesSource(Source):
    """Reads the roster in the registry's thread, where the rows are; the files are small and few."""

    name = "worktrees"

    def __init__(self, registry: AsyncRegistry, scope: RepositoryScope, database: str) -> None:
        from imi_monitor.sources.timers import PollTimer  # imports asyncio, which `read_roster` does not need

        self._registry = registry
        self._database = database
        self._scope = scope
        self._timer = PollTimer(_GLANCE)
        self._seen: tuple[RosterEntry, ...] = ()
        self._whole = True
        self._sure = True  # whether something of git's changed, or is not known yet
        self._written = -1  # how often others had written to the registry when it was read
        self._lists: tuple[object, ...] = ()
        self._stands: dict[str, bool] = {}
        self._turn = 0
        self._homes: set[str] = set(scope.common_dirs or ())  # every repository ever seen: it may come back

    def handle_hint(self, hint: Hint) -> None:
        match hint:
            case WorktreeListChanged() | RefreshRequested():
                self._read_again()
            case RegistryChanged():  # read only if another process wrote: own writes are records of sessions
                self._timer.wake()

    def _read_again(self) -> None:
        self._sure = True
        self._timer.wake()

    async def run(self, receiver: ReadingReceiver) -> None:
        asked = False
        while True:
            if not asked or self._may_differ() or await self._others_wrote():
                await self._read(receiver)
            asked = await self._timer.wait(self._may_differ)

    def _may_differ(self) -> bool:
        return self._sure or not self._whole or self._differs()

    async def _others_wrote(self) -> bool:
        try:
            return await self._registry.read(db.data_version) != self._written
        except ImiError:
            return True  # the reading of the roster says why

    async def _read(self, receiver: ReadingReceiver) -> None:
        before, self._sure = _lists(self._homes), False
        try:
            seen = await self._registry.read(_read_everything, self._scope, self._database)
            entries, self._whole, self._stands, self._written = seen
        except (ImiError, OSError) as error:
            self._sure = True
            self._timer.failed()
            receiver.set_failure(self.name, "the list of worktrees", str(error))
            return
        self._homes.update(entry.common_dir for entry in entries)
        self._seen = entries
        self._lists = _lists(self._homes)
        if self._whole:
            self._timer.succeeded()
        else:
            self._timer.retry_soon(_UNFINISHED)
        if _lists(self._homes) != before:
            self._read_again()  # something came while we read, or a repository is new: what we have may be half of it
        receiver.set_roster(entries)
        receiver.set_healthy(self.name)

    def _differs(self) -> bool:
        """Whether git's lists have changed, or a folder came or went; of the folders only some are looked at each time."""
        self._turn += 1
        lap, rest = divmod(self._turn, _FOLDERS)
        some = () if rest else self._seen[lap % _LAP :: _LAP]
        return _lists(self._homes) != self._lists or any(_stands(entry) != self._stands[entry.path] for entry in some)


def _read_everything(
    connection: sqlite3.Connection, scope: RepositoryScope, database: str
) -> tuple[tuple[RosterEntry, ...], bool, dict[str, bool], int]:
    """The roster, whether it is whole, whose folder stands, and what others had written to the registry by then; all in
    the registry's thread, as hundreds of files cost the loop tens of milliseconds while other threads are busy."""
    entries, whole = read_roster(connection, scope, database)
    return entries, whole, {entry.path: _stands(entry) for entry in entries}, db.data_version(connection)


def _stands(entry: RosterEntry) -> bool:
    return os.path.lexists(f"{entry.path}/.git")


def read_roster(
    connection: sqlite3.Connection, scope: RepositoryScope, database: str
) -> tuple[tuple[RosterEntry, ...], bool]:
    """Every worktree in scope, and whether none is just being made. Runs in the registry's thread."""
    if scope.common_dirs is None:
        repositories = roster.known_repositories(connection)
    else:
        repositories = [layout.repository_at(path) for path in scope.common_dirs if os.path.isdir(path)]
    # asked first: what was half made when it was listed may be whole a moment later, and then nobody would look again
    whole = all(_is_whole(repository.common_dir) for repository in repositories)
    found: list[RosterEntry] = []
    for repository in repositories:
        found.extend(_entries(connection, repository, database))
    return tuple(found), whole


def _is_whole(common_dir: str) -> bool:
    """Whether each of git's records of a worktree says where it is and what it is on: one that does not yet is being
    made right now. Not only whether the files are there: git makes them empty and fills them a moment later, which
    changes no folder's time any more, so nothing else would ever tell."""
    room = os.path.join(common_dir, "worktrees")
    try:
        return all(_filled(os.path.join(room, name, file)) for name in os.listdir(room) for file in ("gitdir", "HEAD"))
    except OSError:
        return True  # there are none


def _filled(path: str) -> bool:
    try:
        return os.lstat(path).st_size > 0
    except OSError:
        return False


def _entries(connection: sqlite3.Connection, repository: layout.Repository, database: str) -> list[RosterEntry]:
    repo_name = repositories.find_name(connection, repository.common_dir, repository.main_path)
    name = repo_name or layout.repository_name(repository)
    fingerprint = repositories.trusted_fingerprint(connection, repository.common_dir)
    trusted = fingerprint is not None and fingerprint == safety.fingerprint(repository.common_dir)
    targets = roster.list_worktrees(connection, repository, repo_name)
    return [_entry(target, name, repository, trusted, database) for target in targets]


def _entry(
    target: roster.Target, repo: str, repository: layout.Repository, trusted: bool, database: str
) -> RosterEntry:
    linked = target.linked
    owner = presence.foreign_owner(presence.presence_lock_path(repository, target.name), database)
    if target.is_main:
        branch, head = layout.read_head(repository.common_dir, repository.common_dir)
    else:
        branch, head = (linked.branch, linked.head) if linked else (target.branch, None)
    return RosterEntry(
        key=Key(host.hostname(), repo, target.name),
        path=target.path,
        admin_dir=target.admin_dir or "",
        common_dir=repository.common_dir,
        type=target.kind,
        branch=branch,
        head=head,
        is_main=target.is_main,
        missing=target.missing or (linked is not None and linked.missing) or (linked is None and not target.is_main),
        locked=linked.locked if linked else None,
        pr=target.row.pr_number if target.row else None,
        trusted=trusted and target.kind != "review",  # what a pull request brings is nobody's we trust
        held_by=owner.agent if owner else None,
        held_since=owner.since if owner else None,
    )


def _lists(common_dirs: Iterable[str]) -> tuple[object, ...]:
    """When each repository's list of worktrees, its HEAD, and its cluster's presence locks last changed."""
    # a cluster is the folder above a bare repository, or above the trunk that holds the `.git`
    names = ("worktrees", "HEAD", "../.iMi/presence", "../../.iMi/presence")
    return tuple((common, *(_changed_at(f"{common}/{name}") for name in names)) for common in sorted(common_dirs))


def _changed_at(path: str) -> int | None:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None
