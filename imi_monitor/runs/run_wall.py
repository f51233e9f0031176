"""The wall of one run: how its command line is enclosed, and which branches of others moved while it was open."""

from __future__ import annotations

import json
import os
from contextlib import suppress

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.git import refs
from imi_monitor.git.runner import Git
from imi_monitor.model.errors import ImiError
from imi_monitor.runs import launch_folder, walls
from imi_monitor.runs.walls import Enclosure, GitFolders, Wall, config_placeholder, landlock_alone
from imi_monitor.store import db, events

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence
    from typing import Any

    from imi_monitor.git.layout import Repository
    from imi_monitor.runs.launch_folder import LaunchFolder
    from imi_monitor.store.runs import RunRow

_REFS = "refs.json"
_MOST_MOVED = 20
_LAST_STEP = 4096  # bytes of a reflog in which its last entry begins


@dataclass(frozen=True, slots=True)
class RunWall:
    """`git`: of the linked worktree that the run works in; None: it works in its run folder, or a contained workspace."""

    level: str
    wall: Wall
    agent: str
    program: str
    git: GitFolders | None = None
    branch: str | None = None  # its own, which it may move
    readable: tuple[str, ...] = ()
    flat: bool = False

    def command(self, argv: Sequence[str], cwd: str, run_folder: str, env: Mapping[str, str]) -> list[str]:
        """The command line inside of the wall."""
        real = os.path.realpath(cwd)
        writable = () if real == os.path.realpath(run_folder) else (os.path.realpath(run_folder),)
        enclosure = Enclosure(
            self.level, self.agent, self.program, real, writable, self.readable, self.git, flat=self.flat
        )
        return walls.command(self.wall, enclosure, run_folder, argv, env)

    def files(self) -> dict[str, str]:
        """What the launch folder keeps while the wall is needed: the branches as they were."""
        if self.git is None:
            return {}
        known = {"branch": self.branch, "refs": _read_refs(self.git.common_dir)}
        return {_REFS: json.dumps({"common_dir": self.git.common_dir, "admin_dir": self.git.admin_dir, **known})}

    @property
    def warning(self) -> str | None:
        """What the start says of a wall with gaps."""
        if not self.wall.gaps:
            return None
        why = f" ({self.wall.instead})" if self.wall.instead else ""
        return f"the wall is {self.wall.how}{why}: it does not close {', '.join(self.wall.gaps)}"

    def protect(self) -> None:
        """Protect names of the git folder that do not exist yet. `forget` undoes it by what `files` gave."""
        if self.git is not None:
            config_placeholder.make(self.git.admin_dir)

    def stored(self) -> dict[str, object]:
        """What `imi runs` shows of it."""
        return {"sandbox": self.level, "wall": self.wall.how, "gaps": list(self.wall.gaps)}


def linked_folders(repository: Repository, admin_dir: str) -> GitFolders:
    return GitFolders(os.path.realpath(repository.common_dir), os.path.realpath(admin_dir))


def settle(connection: sqlite3.Connection, row: RunRow) -> None:
    """Report what moved while the walled run was open, and end what its wall needed."""
    _report_moved(connection, row)
    forget(launch_folder.folder_of(row.id))


def _report_moved(connection: sqlite3.Connection, row: RunRow) -> None:
    """Record an event for each branch or tag of others that moved or vanished while a walled run was open.

    A branch that its own worktree has moved is left out. Objects, refs and logs of the repository are one for all worktrees, so
    a wall cannot keep an agent from them.
    """
    folder = launch_folder.folder_of(row.id)
    try:
        known = _known(folder)
        now = _read_refs(known["common_dir"])
    except (OSError, ValueError, ImiError):
        return  # it had no wall, or the repository cannot be read: then every screen says so
    own = {f"refs/heads/{known['branch']}", *_moved_by_their_worktrees(known["common_dir"], now)}
    moved = [(ref, sha, now.get(ref)) for ref, sha in known["refs"].items() if ref not in own and now.get(ref) != sha]
    for ref, before, after in moved[:_MOST_MOVED]:
        data = {"run": row.id, "ref": ref, "before": before, "after": after}
        db.transact(connection, _record, row, data)


def forget(folder: LaunchFolder) -> None:
    """The wall of this launch is over, or never stood: nothing of it stays in the repository."""
    landlock_alone.remove_home(folder.run_folder() or folder.path)
    try:
        admin_dir = str(_known(folder).get("admin_dir"))
    except (OSError, ValueError):
        return  # it had no wall
    with suppress(FileNotFoundError):
        os.unlink(folder.file(_REFS))
    config_placeholder.remove(admin_dir, lambda: _has_wall(folder, admin_dir))


def _has_wall(folder: LaunchFolder, admin_dir: str) -> bool:
    """Whether another launch has its wall around the worktree."""
    root = os.path.dirname(folder.path)
    for name in os.listdir(root):
        with suppress(OSError, ValueError):
            if _known(launch_folder.folder_of(name)).get("admin_dir") == admin_dir:
                return True
    return False


def _known(folder: LaunchFolder) -> dict[str, Any]:
    with open(folder.file(_REFS), encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
        return found


def _moved_by_their_worktrees(common_dir: str, now: Mapping[str, str]) -> set[str]:
    """The branches whose last step is in the log of the worktree that has them checked out: its own agent's work."""
    folders = [common_dir]
    with suppress(OSError):
        linked = os.path.join(common_dir, "worktrees")
        folders += [os.path.join(linked, name) for name in os.listdir(linked)]
    found = set()
    for folder in folders:
        with suppress(OSError, ValueError, IndexError):
            with open(os.path.join(folder, "HEAD"), encoding="utf-8") as file:
                ref = file.read().strip().removeprefix("ref: ")
            with open(os.path.join(folder, "logs", "HEAD"), "rb") as log:
                log.seek(max(0, os.fstat(log.fileno()).st_size - _LAST_STEP))
                last = log.read().splitlines()[-1].split(b" ")[1].decode()
            if now.get(ref) == last:
                found.add(ref)
    return found


def _record(connection: sqlite3.Connection, row: RunRow, data: dict[str, object]) -> None:
    events.record(connection, "ref.moved", row.repo_name, row.worktree_name, agent_id=row.agent_id, data=data)


def _read_refs(common_dir: str) -> dict[str, str]:
    return refs.list_shared(Git(common_dir, common_dir, None))
