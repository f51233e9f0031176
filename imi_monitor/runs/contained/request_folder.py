"""What a walled agent asks of imi: it cannot write the registry, so its acts and wishes are files in its run folder.

One file by a rename for each request; the follower records it and deletes the file. Every request is hostile text.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress

from imi_monitor.fast.random_uuid import new_id
from imi_monitor.model import contained_names
from imi_monitor.model.errors import ImiError
from imi_monitor.runs.contained import file_delivery, workspace_end
from imi_monitor.runs.run_plan import REQUESTS
from imi_monitor.store import contained_work, db

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.store.runs import RunRow

_ACTS = ("created", "edited", "deliver")
_MOST, _LARGEST = 500, 8192
_LONGEST_PATH = 4096


def ask(folder: str, act: str, name: str, **about: object) -> None:
    """Leave a request; called inside of the wall."""
    place = os.path.join(folder, f"{new_id()}.json")
    with open(f"{place}~", "w", encoding="utf-8") as file:
        json.dump({"act": act, "name": name, **about}, file)
    os.rename(f"{place}~", place)


class RequestFolder:
    """The requests of one run."""

    def __init__(self, row: RunRow) -> None:
        self._row = row
        self._path = workspace_end.workspace_of(row)
        contained = json.loads(row.launch).get("contained")
        self._allowed = contained.get("deliver_to", []) if isinstance(contained, dict) else []

    def look(self, connection: sqlite3.Connection) -> None:
        """Record what was asked since the last look."""
        if self._path is None:
            return
        try:
            folder = os.open(
                os.path.join(self._row.folder, REQUESTS), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            )
        except OSError:
            return
        try:
            for name in sorted(one for one in os.listdir(folder) if one.endswith(".json"))[:_MOST]:
                found = _read(folder, name)
                if found is not None:
                    db.transact(connection, self._record, self._path, found)
                with suppress(OSError):
                    os.unlink(name, dir_fd=folder)
        finally:
            os.close(folder)

    def _record(self, connection: sqlite3.Connection, path: str, found: dict[str, object]) -> None:
        name, act, target = found.get("name"), found.get("act"), found.get("target")
        try:
            checked = contained_names.check_file(name if isinstance(name, str) else "")
        except ImiError:
            return
        about = {"run": self._row.id, "agent": self._row.agent_id}
        if act != "deliver":
            size = found.get("size")
            digest = str(found.get("sha256") or "")[:64]
            number = size if isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 1 << 53 else None
            contained_work.log(connection, path, str(act), checked, size=number, sha256=digest, **about)
        elif isinstance(target, str) and os.path.isabs(target) and len(target) < _LONGEST_PATH and "\0" not in target:
            allowed = file_delivery.is_below(target, self._allowed)
            contained_work.want_delivery(connection, path, checked, target, allowed=allowed, **about)


def _read(folder: int, name: str) -> dict[str, object] | None:
    try:
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        with open(handle, "rb") as file:
            data = file.read(_LARGEST + 1)
        found = json.loads(data) if len(data) <= _LARGEST else None
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found.get("act") in _ACTS else None
