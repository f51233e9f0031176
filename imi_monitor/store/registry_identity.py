"""The registry's identity: a random id made with the file, and a generation that each restore of a copy raises.

The traces of a registry (ballast, notes in the trash, presence locks, the hooks' folder) name it by id and path.
"""

from __future__ import annotations

from imi_monitor.fast.lean_sqlite import sqlite3
from imi_monitor.store import db

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class RegistryIdentity:
    """Which registry was read. Rows that were read from another one say nothing about this one."""

    __slots__ = ("file", "generation", "registry_id")

    def __init__(self, connection: sqlite3.Connection) -> None:
        found = _read(connection)
        self.registry_id = None if found is None else found[0]
        self.generation = 0 if found is None else found[1]
        self.file = db.file_of(connection)  # a copy in its place has the same id, and maybe the same generation

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RegistryIdentity) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def _values(self) -> tuple[object, ...]:
        return self.registry_id, self.generation, self.file


def registry_id(connection: sqlite3.Connection) -> str | None:
    """The id of the open registry; None for one without an identity, such as the file of an older schema."""
    found = _read(connection)
    return None if found is None else found[0]


def generation(connection: sqlite3.Connection) -> int:
    """Return how often a copy was restored into the registry, counted from 1; 0 for one without an identity."""
    found = _read(connection)
    return 0 if found is None else found[1]


def raise_generation(connection: sqlite3.Connection) -> None:
    """Mark the content as restored, so that running readers begin anew. Call it in the transaction of the restore."""
    connection.execute("UPDATE registry SET generation = generation + 1")


def predecessors(connection: sqlite3.Connection) -> tuple[str, ...]:
    """The ids of the vanished registries that this one replaces."""
    row = connection.execute("SELECT predecessors FROM registry").fetchone()
    return tuple(str(row[0]).split()) if row and row[0] else ()


def add_predecessors(connection: sqlite3.Connection, ids: Iterable[str]) -> None:
    """Record that this registry replaces those with these ids; inside a transaction."""
    known = dict.fromkeys((*predecessors(connection), *ids))
    connection.execute("UPDATE registry SET predecessors = ?", (" ".join(known) or None,))


def _read(connection: sqlite3.Connection) -> tuple[str, int] | None:
    try:
        row = connection.execute("SELECT id, generation FROM registry").fetchone()
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return None
        raise
    return None if row is None else (str(row[0]), int(row[1]))
