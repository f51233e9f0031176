"""Checks of the registry for `imi doctor`: its file, its disk, a written row, and rows that need repair."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterable

from imi_monitor import host
from imi_monitor.model import amounts
from imi_monitor.model.checkup import CheckResult, fail, ok, warn
from imi_monitor.model.errors import RegistryError
from imi_monitor.model.text import count, safe
from imi_monitor.store import db, operations, registry_access, registry_file, schema, worktrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.store.lost_registry import FindTraces

_SCARCE = 64 << 20
_MOST_NAMES = 5


def check_registry(
    path: str, changes: tuple[str, ...] = (), find_traces: FindTraces | None = None
) -> list[CheckResult]:
    """The checks of the registry at `path`; one that cannot be opened is a finding, not an error.

    `changes`: what this process has changed already to keep other users out.
    """
    try:
        connection = db.connect(path, create=False, find_traces=find_traces)
    except RegistryError as error:
        if error.code == "registry-missing":
            return [_none_yet(path), *_library()]
        return [fail("registry", error.sentence, "until then every worktree counts as claimed"), *_library()]
    try:
        return [
            *_file(connection, path),
            *_access(path, (*changes, *db.notes(connection))),
            *_library(),
            *_space(connection, path),
            *_contents(connection),
        ]
    except db.Error as error:
        return [fail("registry", db.registry_error(error, path).sentence, "restore a copy of it"), *_library()]
    finally:
        connection.close()


def _none_yet(path: str) -> CheckResult:
    try:
        registry_file.refuse_uncreatable(path)
        _try_to_create_beside(path)
    except RegistryError as error:
        return fail("registry", error.sentence, "until then every worktree counts as claimed")
    except OSError as error:
        says = f"it cannot be created at {safe(path)}: {error.strerror}"
        return fail("registry", says, "make its folder writable, or use --db for another place")
    return ok("registry", f"none yet at {safe(path)}", "the first command that needs it creates it")


def _try_to_create_beside(path: str) -> None:
    """Create and remove a folder where the registry's folder will be."""
    folder = os.path.dirname(os.path.realpath(path))
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    os.rmdir(tempfile.mkdtemp(prefix=".imi-doctor-", dir=folder))


def _file(connection: sqlite3.Connection, path: str) -> list[CheckResult]:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    mode = str(connection.execute("PRAGMA journal_mode").fetchone()[0])
    kind = registry_file.filesystem_type(os.path.dirname(os.path.realpath(path))) or "unknown"
    found = [ok("registry", f"{safe(path)}, schema {version} of {schema.VERSION}, on {safe(kind)}")]
    if mode != "wal":
        found.append(
            warn(
                "journal",
                f"mode is {safe(mode)}",
                "close other programs that use the registry: readers wait for writers",
            )
        )
    else:
        found.append(ok("journal", "write-ahead log"))
    damage = [str(row[0]) for row in connection.execute("PRAGMA quick_check(3)")]
    if damage == ["ok"]:
        found.append(ok("integrity", "quick check passed"))
        found.append(_writing(connection))
    else:
        found.append(fail("integrity", f"damaged ({safe(damage[0], 120)})", "move it aside, or restore a copy"))
    return found


def _writing(connection: sqlite3.Connection) -> CheckResult:
    try:
        db.transact(connection, _write_a_row)
    except RegistryError as error:
        state = warn if error.code == "registry-busy" else fail
        return state("writing", error.sentence, "nothing can be claimed meanwhile")
    return ok("writing", "a row was written")


def _write_a_row(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE registry SET generation = generation")


def _access(path: str, changes: tuple[str, ...]) -> list[CheckResult]:
    """Whether other users can read or exchange the registry; opening it has closed to them what is ours."""
    found = [warn("access", note, "see `imi events` for what you did not do") for note in changes]
    folder = os.path.dirname(os.path.realpath(path))
    problem = registry_access.describe_open_place(folder)
    if problem is not None:
        found.append(warn("access", f"{problem}, who can exchange the registry", f"`chmod go-w {safe(folder)}`"))
    return found or [ok("access", "only you can read and write the registry")]


def _library() -> list[CheckResult]:
    version = sqlite3.sqlite_version
    if not db.needs_single_checkpointer():
        return [ok("sqlite", version)]
    wanted = ".".join(map(str, db.SAFE_CHECKPOINT))
    return [
        warn(
            "sqlite",
            f"{version} can damage the log when two processes checkpoint at once (fixed in {wanted}), so imi allows only "
            "one at a time",
            f"no action needed; a Python with SQLite {wanted} removes the limit",
        )
    ]


def _space(connection: sqlite3.Connection, path: str) -> list[CheckResult]:
    db.leave_trace(connection)
    found = []
    reserved, wanted = registry_file.ballast_size(path), registry_file.BALLAST_BYTES
    if reserved >= wanted:
        found.append(
            ok("ballast", f"{amounts.size(reserved)} reserved for releases, removals and claims on a full disk")
        )
    else:
        says = f"only {amounts.size(reserved)} of {amounts.size(wanted)} reserved for releases, removals and claims"
        found.append(warn("ballast", says, "free some space on the registry's disk"))
    room = os.statvfs(os.path.dirname(os.path.realpath(path)))
    free = room.f_bavail * room.f_frsize
    if free < _SCARCE:
        found.append(warn("disk", f"{amounts.size(free)} left for the registry", "free some space"))
    return found


def _contents(connection: sqlite3.Connection) -> list[CheckResult]:
    return [_missing_worktrees(connection), _abandoned_operations(connection)]


def _missing_worktrees(connection: sqlite3.Connection) -> CheckResult:
    rows = worktrees.list_worktrees(connection)
    elsewhere = _foreign_repositories(connection)
    gone = [row for row in rows if row.repo_name not in elsewhere and not os.path.isdir(row.path)]
    if not gone:
        return ok("worktrees", f"{count(len(rows), 'registered worktree')}, each with its directory")
    return warn(
        "worktrees",
        f"{count(len(gone), 'registered worktree')} without a directory: {_names(row.name for row in gone)}",
        "`imi repair` finds moved ones, `imi prune` forgets them",
    )


def _foreign_repositories(connection: sqlite3.Connection) -> set[str]:
    """The repositories of other machines, whose directories are not expected here."""
    rows = connection.execute("SELECT repo_name FROM places WHERE host <> ?", (host.hostname(),))
    return {str(row[0]) for row in rows}


def _abandoned_operations(connection: sqlite3.Connection) -> CheckResult:
    left = [one for one in operations.list_unfinished(connection) if one.abandoned]
    if not left:
        return ok("operations", "none unfinished")
    named = _names(f"{one.kind} {one.worktree_name}" for one in left)
    return warn(
        "operations",
        f"{count(len(left), 'operation')} left unfinished: {named}",
        "the next command such as `imi list` completes or reverts it",
    )


def _names(found: Iterable[str]) -> str:
    names = [safe(name, 60) for name in found]
    return ", ".join(names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")
