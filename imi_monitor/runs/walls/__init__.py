"""Walls: what keeps a started agent inside of its workspace, by the kernel and not by its own good will.

    write    reads everything, writes its worktree, what git needs of the repository, its run folder and its own state
    strict   sees the system's programs, its workspace and its own state, and nothing else of the home folder
    off      none

bubblewrap makes the wall (`bubblewrap`), and Landlock inside of it closes abstract sockets and keeps a contained workspace flat
(`landlock`). Where nothing may make namespaces, Landlock alone makes one with gaps, which the start names (`landlock_alone`).
macOS has Seatbelt (`seatbelt`). A mechanism counts only after it has worked in a trial. The network stays open.
"""

from __future__ import annotations

import sys

from imi_monitor import programs
from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OFF, WRITE, STRICT = "off", "write", "strict"
LEVELS = (OFF, WRITE, STRICT)
_BUBBLEWRAP, _SEATBELT = "bubblewrap", "Seatbelt (untested)"
LANDLOCK_ALONE = "Landlock alone"


@dataclass(frozen=True, slots=True)
class GitFolders:
    """The repository's git folder and the folder of one linked worktree in it."""

    common_dir: str
    admin_dir: str


@dataclass(frozen=True, slots=True)
class Enclosure:
    """What an agent may do inside of its wall. Paths are real paths."""

    level: str
    agent: str  # the program's name
    program: str  # its path
    workspace: str
    writable: tuple[str, ...] = ()  # more folders
    readable: tuple[str, ...] = ()  # more folders, which matter for `strict`
    git: GitFolders | None = None
    flat: bool = False  # a contained workspace: no folders, links or pipes in it, and the agent ends with its keeper


@dataclass(frozen=True, slots=True)
class Wall:
    """A mechanism that works here. `gaps`: what it does not close, beside the network; `instead`: why not a better one."""

    how: str
    gaps: tuple[str, ...] = ()
    instead: str = ""


def find() -> Wall:
    """The wall of this machine, after a trial; Refused with what to install."""
    if sys.platform == "darwin":
        from imi_monitor.runs.walls import seatbelt

        if seatbelt.works():
            return Wall(_SEATBELT)
        raise Refused("sandbox-exec does not work here: start it with --sandbox off", code="no-wall")
    from imi_monitor.runs.walls import bubblewrap, landlock

    problem = bubblewrap.problem()
    if problem is not None:
        return _without_namespaces(problem)
    if landlock.version() < landlock.SCOPES:
        return Wall(_BUBBLEWRAP, ("abstract sockets",))
    return Wall(f"{_BUBBLEWRAP} and Landlock")


def _without_namespaces(problem: str) -> Wall:
    from imi_monitor.runs.walls import landlock_alone

    also = landlock_alone.problem()
    if also is not None:
        raise Refused(f"no wall works here: {problem}, or start it with --sandbox off ({also})", code="no-wall")
    return Wall(LANDLOCK_ALONE, landlock_alone.GAPS, problem)


def command(
    wall: Wall, enclosure: Enclosure, run_folder: str, argv: Sequence[str], env: Mapping[str, str]
) -> list[str]:
    """The command line that runs `argv` inside of the wall. Makes the agent's own state folders if they are missing."""
    if wall.how == LANDLOCK_ALONE:
        from imi_monitor.runs.walls import landlock_alone

        return landlock_alone.command(enclosure, run_folder, argv, env)
    if wall.how == _SEATBELT:
        from imi_monitor.runs.walls import seatbelt

        return seatbelt.command(enclosure, argv, env)
    from imi_monitor.runs.walls import bubblewrap

    return bubblewrap.command(enclosure, argv, env)


def program() -> str | None:
    """The path of bubblewrap's program."""
    return programs.find("bwrap")
