"""The roster: all worktrees, from git's own files joined with the registry's rows.

It is read again after a change of git's files or of the registry. Every second a handful of `stat` calls looks for
changes without an event, such as a removed folder. While the registry cannot be used, git's files alone give the roster.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence

from imi_monitor import host, presence, roster
from imi_monitor.fast.frozen_dataclass import dataclass, replace
from imi_monitor.git import layout, safety
from imi_monitor.model import home
from imi_monitor.model.errors import ImiError, RegistryError
from imi_monitor.model.snapshot import Key
from imi_monitor.sources.hints import Hint, RefreshRequested, RegistryChanged, WorktreeListChanged
from imi_monitor.sources.source import ReadingReceiver, RosterEntry, Source, SourceContext
from imi_monitor.store import db, repositories
from imi_monitor.store.followed_registry import is_about_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.store.async_registry import AsyncRegistry

_INCOMPLETE_RETRY = 0.05  # seconds until a worktree that is being created is read again
_CHECK_INTERVAL = 1.0  # seconds between two comparisons of the stamps of git's lists
_FOLDER_CHECK_EVERY = 5  # comparisons until folders of worktrees are checked as well
_FOLDER_CHECK_PARTS = 2  # such checks until every folder was checked: file events find a missing folder sooner


@dataclass(frozen=True, slots=True)
class _RosterReading:
    entries: tuple[RosterEntry, ...]
    complete: bool
    has_folder: dict[str, bool]  # by the path of a worktree
    registry_version: tuple[int, int] | None  # the value of `db.data_version`; None: read without the registry
    rows: int = 0  # the value of `repositories.hash_rows`


class WorktreesSource(Source):
    """Reads the roster in the registry's thread, because the rows are there and the files are small and few."""

    name = "worktrees"

    def __init__(self, registry: AsyncRegistry, common_dirs: Sequence[str] | None, database: str) -> None:
        from imi_monitor.sources.timers import PollTimer  # imports asyncio, which `read_roster` does not need

        self._registry = registry
        self._database = database
        self._scope = common_dirs
        self._timer = PollTimer(_CHECK_INTERVAL)
        self._reading = _RosterReading((), True, {}, None)
        self._must_read = True
        self._list_stamps: tuple[object, ...] = ()
        self._checks = 0
        self._common_dirs: set[str] = set(common_dirs or ())  # all seen so far: a deleted one may come back

    def handle_hint(self, hint: Hint) -> None:
        match hint:
            case WorktreeListChanged() | RefreshRequested():
                self._read_again()
            case RegistryChanged():  # read only if another process wrote: own writes are records of sessions
                self._timer.wake()

    def _read_again(self) -> None:
        self._must_read = True
        self._timer.wake()

    async def run(self, receiver: ReadingReceiver) -> None:
        woken = False
        while True:
            if not woken or self._may_have_changed() or await self._registry_changed():
                await self._read(receiver)
            woken = await self._timer.wait(self._may_have_changed)

    def _may_have_changed(self) -> bool:
        return self._must_read or not self._reading.complete or self._stamps_differ()

    async def _registry_changed(self) -> bool:
        try:
            version, changed = await self._registry.read(_compare_registry, self._reading)
        except ImiError:
            return True  # the reading that follows reports the failure
        if not changed:
            self._reading = replace(self._reading, registry_version=version)
        return changed

    async def _read(self, receiver: ReadingReceiver) -> None:
        before, self._must_read = _list_stamps(self._common_dirs), False
        try:
            self._reading = await self._read_roster()
        except (ImiError, OSError) as error:
            self._must_read = True
            self._timer.failed()
            receiver.set_failure(self.name, "the list of worktrees", str(error))
            return
        self._common_dirs.update(entry.common_dir for entry in self._reading.entries)
        self._list_stamps = _list_stamps(self._common_dirs)
        if self._reading.complete:
            self._timer.succeeded()
        else:
            self._timer.retry_soon(_INCOMPLETE_RETRY)
        if self._list_stamps != before:
            self._read_again()  # a list changed during the reading, or a repository is new: it may be incomplete
        receiver.set_roster(self._reading.entries)
        receiver.set_healthy(self.name)

    async def _read_roster(self) -> _RosterReading:
        try:
            return await self._registry.read(_read, self._scope, self._database)
        except RegistryError as error:
            if not is_about_file(error) and self._reading.registry_version is not None:
                raise
            scope = self._scope if self._scope is not None else sorted(self._common_dirs)
            import asyncio

            return await asyncio.to_thread(_read_without_registry, error, scope, self._database, self._reading.entries)

    def _stamps_differ(self) -> bool:
        """True if a list of git changed, or one of the folders that are checked this time came or went."""
        self._checks += 1
        round_, rest = divmod(self._checks, _FOLDER_CHECK_EVERY)
        entries = () if rest else self._reading.entries[round_ % _FOLDER_CHECK_PARTS :: _FOLDER_CHECK_PARTS]
        if _list_stamps(self._common_dirs) != self._list_stamps:
            return True
        return any(_has_folder(entry) != self._reading.has_folder[entry.path] for entry in entries)


def make_source(context: SourceContext) -> WorktreesSource:
    return WorktreesSource(context.registry, context.common_dirs, context.database)


def _read(connection: sqlite3.Connection, common_dirs: Sequence[str] | None, database: str) -> _RosterReading:
    """Read all in the registry's thread: for hundreds of files it takes tens of milliseconds."""
    entries, complete = read_roster(connection, common_dirs, database)
    has_folder = {entry.path: _has_folder(entry) for entry in entries}
    return _RosterReading(
        entries, complete, has_folder, db.data_version(connection), repositories.hash_rows(connection)
    )


def _compare_registry(connection: sqlite3.Connection, known: _RosterReading) -> tuple[tuple[int, int], bool]:
    """(version now, whether another process may have changed what was read).

    The file is opened again after each checkpoint, and a new connection does not show what was written before.
    """
    now, before = db.data_version(connection), known.registry_version
    reopened = before is not None and now[0] != before[0]
    return now, repositories.hash_rows(connection) != known.rows if reopened else now != before


def _read_without_registry(
    error: RegistryError, common_dirs: Sequence[str], database: str, known: Sequence[RosterEntry]
) -> _RosterReading:
    """Read what git's files alone say; worktrees that are known keep what the registry said about them, but no trust."""
    from imi_monitor.store import stand_in

    connection = stand_in.open_stand_in(error, database)
    try:
        entries, complete = read_roster(connection, common_dirs, database)
    finally:
        connection.close()
    before = {(entry.common_dir, entry.path): entry for entry in known}
    named = tuple(_keep_name(entry, before.get((entry.common_dir, entry.path), entry)) for entry in entries)
    return _RosterReading(named, complete, {entry.path: _has_folder(entry) for entry in named}, None)


def _keep_name(entry: RosterEntry, known: RosterEntry) -> RosterEntry:
    from dataclasses import replace

    return replace(entry, key=known.key, type=known.type, pr=known.pr)


def _has_folder(entry: RosterEntry) -> bool:
    return os.path.lexists(f"{entry.path}/.git")


def read_roster(
    connection: sqlite3.Connection, common_dirs: Sequence[str] | None, database: str
) -> tuple[tuple[RosterEntry, ...], bool]:
    """Return the worktrees of these repositories, or of all in the registry, and whether the list is complete.

    It is incomplete while git creates one of the worktrees.
    """
    if common_dirs is None:
        found = roster.known_repositories(connection)
    else:
        found = [layout.repository_at(path) for path in common_dirs if os.path.isdir(path)]
    # before the lists: a worktree may be listed half made and be complete a moment later, without another event
    complete = all(_is_complete(repository.common_dir) for repository in found)
    entries: list[RosterEntry] = []
    names: set[str] = set()  # of repositories that the registry does not have
    for repository in found:
        entries += _entries(connection, repository, database, names)
    return tuple(entries), complete


def list_identities(connection: sqlite3.Connection, common_dirs: Sequence[str] | None, own_home: str) -> dict[str, str]:
    """Repository name -> what all homes of a team call it: of the registry, and of these that it does not have yet."""
    found, names = repositories.list_identities(connection, own_home), set[str]()
    for repository in [layout.repository_at(path) for path in common_dirs or () if os.path.isdir(path)]:
        if repositories.find_name(connection, repository.common_dir, repository.main_path) is None:
            name = _unused_name(connection, repository, names)
            found[name] = home.repository_identity(layout.remote_url(repository), own_home, name)
    return found


def _is_complete(common_dir: str) -> bool:
    """True if git has written the path and the HEAD of each worktree.

    The size counts, not only the file: git makes both files empty and fills them a moment later, which does not change
    the time stamp of any folder.
    """
    worktrees = os.path.join(common_dir, "worktrees")
    try:
        files = [os.path.join(worktrees, name, file) for name in os.listdir(worktrees) for file in ("gitdir", "HEAD")]
    except OSError:
        return True  # there are none
    return all(map(_has_content, files))


def _has_content(path: str) -> bool:
    try:
        return os.lstat(path).st_size > 0
    except OSError:
        return False


def _entries(
    connection: sqlite3.Connection, repository: layout.Repository, database: str, names: set[str]
) -> list[RosterEntry]:
    repo_name = repositories.find_name(connection, repository.common_dir, repository.main_path)
    name = repo_name or _unused_name(connection, repository, names)
    fingerprint = repositories.trusted_fingerprint(connection, repository.common_dir)
    trusted = fingerprint is not None and fingerprint == safety.fingerprint(repository.common_dir)
    targets = roster.list_worktrees(connection, repository, repo_name)
    return [_entry(target, name, repository, trusted, database) for target in targets]


def _unused_name(connection: sqlite3.Connection, repository: layout.Repository, names: set[str]) -> str:
    """The name it will be registered under: another clone of the same origin may have the plain one."""
    name = repositories.unused_name(connection, layout.repository_name(repository), repository.home, names)
    names.add(name)
    return name


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
        trusted=trusted and target.kind != "review",  # a pull request may come from a stranger
        held_by=owner.agent if owner else None,
        held_since=owner.since if owner else None,
    )


def _list_stamps(common_dirs: Iterable[str]) -> tuple[object, ...]:
    """Return when each repository's list of worktrees, its HEAD and its cluster's presence locks changed."""
    # a cluster is the folder above a bare repository, or above the trunk that holds the `.git`
    names = ("worktrees", "HEAD", "../.iMi/presence", "../../.iMi/presence")
    return tuple((common, *(_modified_at(f"{common}/{name}") for name in names)) for common in sorted(common_dirs))


def _modified_at(path: str) -> int | None:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None
