"""Types of worktrees: what `imi add TYPE NAME` creates, and with which prefixes. The table is iMi's."""

from __future__ import annotations

from imi_monitor.model import times
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe
from imi_monitor.store import events
from imi_monitor.store.row import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3


class WorktreeType(Row):
    name: str
    branch_prefix: str
    directory_prefix: str
    description: str
    builtin: bool


_COLUMNS = "name, branch_prefix, worktree_prefix, coalesce(description, ''), is_builtin"


def list_types(connection: sqlite3.Connection) -> list[WorktreeType]:
    """All types in the order they were added, the built-in ones first."""
    rows = connection.execute(f"SELECT {_COLUMNS} FROM worktree_types ORDER BY is_builtin DESC, id")
    return [WorktreeType(row) for row in rows]


def own_prefixes(connection: sqlite3.Connection) -> list[str]:
    """The directory prefixes of the types added with `imi types add`."""
    rows = connection.execute("SELECT worktree_prefix FROM worktree_types WHERE is_builtin = 0 ORDER BY id")
    return [str(prefix) for (prefix,) in rows if prefix]


def get(connection: sqlite3.Connection, name: str) -> WorktreeType | None:
    row = connection.execute(f"SELECT {_COLUMNS} FROM worktree_types WHERE name = ?", (name,)).fetchone()
    return None if row is None else WorktreeType(row)


def add(
    connection: sqlite3.Connection, name: str, *, branch_prefix: str, directory_prefix: str, description: str = ""
) -> WorktreeType:
    """Add a type; refused when its name or directory prefix is the same as another type's."""
    for known in list_types(connection):
        if known.name.casefold() == name.casefold():
            raise Refused(f"a type {safe(known.name)} already exists: choose another name", code="exists")
        if known.directory_prefix.casefold() == directory_prefix.casefold():
            raise Refused(
                f"folders {safe(directory_prefix)}… already belong to the type {safe(known.name)}: "
                "give another --directory-prefix",
                code="exists",
            )
    connection.execute(
        "INSERT INTO worktree_types (name, branch_prefix, worktree_prefix, description, is_builtin, created_at)"
        " VALUES (?, ?, ?, ?, 0, ?)",
        (name, branch_prefix, directory_prefix, description or None, times.stamp()),
    )
    made = WorktreeType((name, branch_prefix, directory_prefix, description, 0))
    events.record(connection, "type.added", data={"type": name, **prefixes(made)})
    return made


def remove(connection: sqlite3.Connection, name: str) -> WorktreeType:
    """Delete a type; refused for a built-in one, and while worktrees of it are active."""
    known = get(connection, name)
    if known is None:
        raise Refused(f"there is no type {safe(name)!r}: `imi types list` shows all", code="no-type")
    if known.builtin:
        raise Refused(
            f"the type {safe(name)} is built in: only types added with `imi types add` can be removed", code="builtin"
        )
    users = _worktrees_of_type(connection, name)
    if users:
        shown = ", ".join(safe(user) for user in users[:5]) + (", …" if len(users) > 5 else "")
        raise Refused(
            f"the type {safe(name)} is still used by {shown}: remove or close {'it' if len(users) == 1 else 'them'} first",
            code="in-use",
            data={"worktrees": users},
        )
    connection.execute("DELETE FROM worktree_types WHERE name = ? AND is_builtin = 0", (name,))
    events.record(connection, "type.removed", data={"type": name, **prefixes(known)})
    return known


def prefixes(kind: WorktreeType) -> dict[str, object]:
    return {"branch_prefix": kind.branch_prefix, "directory_prefix": kind.directory_prefix}


def _worktrees_of_type(connection: sqlite3.Connection, name: str) -> list[str]:
    rows = connection.execute(
        "SELECT repo_name, worktree_name FROM worktrees WHERE active = 1 AND worktree_type = ? ORDER BY 1, 2", (name,)
    )
    return [f"{repo}/{worktree}" for repo, worktree in rows]
