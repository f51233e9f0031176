"""Saves the finished files of `work_products/` to `SAVED_REPORTS/` beside the run folders, where they outlive their run.

The newest copy has the plain name; an older one with other content gets the time of its last change: `report_20260415_014501.md`.
A file is finished once it has not changed between two looks. What cannot be saved is an event, never the end of a run.
"""

from __future__ import annotations

import os
import shutil
import stat
import time

from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe
from imi_monitor.runs.run_folder import UNFINISHED
from imi_monitor.store import db, events

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.store.runs import RunRow

    Signature = tuple[int, int, int]  # inode, size, time of the last change

_SAVED = "SAVED_REPORTS"
_MOST_BYTES = 256 << 20
_PIECE = 1 << 20


class ReportObserver:
    """Looks at the reports of one run."""

    def __init__(self, row: RunRow) -> None:
        self._row = row
        self._folder = os.path.join(row.folder, "work_products")
        self._saved_folder = os.path.join(os.path.dirname(os.path.dirname(row.folder)), _SAVED)
        self._seen: dict[str, Signature] = {}
        self._done: dict[str, Signature] = {}

    def look(self, connection: sqlite3.Connection, *, last: bool = False) -> None:
        """Save what is finished; with `last` also what has just changed, because the agent is gone."""
        seen = self._signatures()
        for name, signature in seen.items():
            if self._done.get(name) != signature and (last or self._seen.get(name) == signature):
                self._done[name] = signature
                self._save(connection, name)
        self._seen = seen

    def _signatures(self) -> dict[str, Signature]:
        found: dict[str, Signature] = {}
        try:
            with os.scandir(self._folder) as entries:
                for one in entries:
                    if not one.name.startswith(".") and not one.name.endswith(UNFINISHED):
                        about = one.stat(follow_symlinks=False)
                        if stat.S_ISREG(about.st_mode):
                            found[one.name] = (about.st_ino, about.st_size, about.st_mtime_ns)
        except OSError:
            return found  # the user has removed the folder
        return found

    def _save(self, connection: sqlite3.Connection, name: str) -> None:
        kind = "artifact.saved"
        data: dict[str, object] = {"file": safe(name, 200), "run": self._row.id}
        try:
            saved = save(os.path.join(self._folder, name), self._saved_folder)
        except OSError as error:
            kind, data["why"] = "artifact.failed", error.strerror or "the system refused it"
        except Refused as error:
            kind, data["why"] = "artifact.failed", error.sentence
        else:
            if saved is None:
                return
            data["path"] = safe(saved, 1000)
        row = self._row
        db.transact(connection, events.record, kind, row.repo_name, row.worktree_name, agent_id=row.agent_id, data=data)


def save(path: str, folder: str) -> str | None:
    """Copy the file into the folder under its own name; None if a copy with this content is there. Whole or not at all."""
    name = os.path.basename(path)
    target, new = os.path.join(folder, name), os.path.join(folder, f".{name}.new")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as source:
        about = os.fstat(source.fileno())
        if about.st_size > _MOST_BYTES:
            raise Refused(f"it has more than {_MOST_BYTES >> 20} MB", code="too-big")
        if _has_copy(path, folder, name):
            return None
        with open(new, "wb") as copy:
            shutil.copyfileobj(source, copy)
            copy.flush()
            os.fsync(copy.fileno())
    os.utime(new, ns=(about.st_atime_ns, about.st_mtime_ns))
    if os.path.lexists(target):
        os.rename(target, _version_of(target))
    os.rename(new, target)
    return target


def _has_copy(path: str, folder: str, name: str) -> bool:
    """Whether a copy with this content is there, as the newest or an older one."""
    stem, ending = os.path.splitext(name)
    with os.scandir(folder) as entries:
        copies = [
            one.path
            for one in entries
            if one.is_file(follow_symlinks=False)
            and (one.name == name or (one.name.startswith(f"{stem}_") and one.name.endswith(ending)))
        ]
    return any(_equals(path, one) for one in copies)


def _equals(path: str, other: str) -> bool:
    if os.path.getsize(path) != os.path.getsize(other):
        return False
    with open(path, "rb") as left, open(other, "rb") as right:
        while (piece := left.read(_PIECE)) == right.read(_PIECE):
            if not piece:
                return True
    return False


def _version_of(target: str) -> str:
    """A name for the older copy that no file has."""
    stem, ending = os.path.splitext(target)
    at = time.strftime("%Y%m%d_%H%M%S", time.gmtime(os.lstat(target).st_mtime))
    wanted, number = f"{stem}_{at}{ending}", 1
    while os.path.lexists(wanted):
        number += 1
        wanted = f"{stem}_{at}_{number}{ending}"
    return wanted
