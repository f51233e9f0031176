"""Landlock alone: a wall for machines on which nothing may make namespaces, such as containers and hardened systems.

Nothing is hidden there, so the agent gets a home folder of its own, with links to what it may see of the real one; Landlock
decides what it may read and write, which processes it may signal, and a filter of system calls keeps it from sockets with a path.
"""

from __future__ import annotations

import os
import shlex
import shutil
from contextlib import suppress

from imi_monitor import paths, programs
from imi_monitor.fast import json_writer
from imi_monitor.runs import walls
from imi_monitor.runs.agent_variables import WALL_VARIABLE
from imi_monitor.runs.walls import agent_state, bubblewrap, landlock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from imi_monitor.runs.walls import Enclosure
    from imi_monitor.runs.walls.agent_state import StatePlaces

# No mechanism of the kernel but a mount protects single files in a folder that may be written.
GAPS = ("modes and times of files", "the worktree's .git file and the files of its git folder")
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts")
_READABLE = ("/proc", "/sys", "/dev", "/run/systemd/resolve", "/run/current-system")
_TEMPORARY, _DOOR = "tmp", ".imi-bin"  # of the private home
_ALWAYS_READ = (".profile", ".zprofile")
_LOGIN_FILES = (".bash_profile", ".bash_login", *_ALWAYS_READ)


def problem() -> str | None:
    """Why it makes no wall here; None if it does."""
    known = landlock.version()
    if known < landlock.SCOPES:
        return f"this kernel's Landlock has version {known}, and {landlock.SCOPES} (Linux 6.12) is needed"
    return None if landlock.has_filter() else "its filter of sockets does not know this processor"


def home_of(run_folder: str) -> str:
    """The private home folder of a run."""
    return os.path.join(paths.state_dir(), "homes", os.path.basename(run_folder))


def command(enclosure: Enclosure, run_folder: str, argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """The command line of the agent inside of the wall. Makes its home folder."""
    home = os.path.realpath(env.get("HOME") or paths.home())
    state = agent_state.places(enclosure.agent, env, home)
    private = home_of(run_folder)
    _make_home(private, enclosure, home, state)
    rules = {
        **_files(enclosure, private, home, state, env),
        "scope": True,
        "sockets": False,
        "unset": list(bubblewrap.VARIABLES),
        "set": {
            "HOME": private,
            "TMPDIR": os.path.join(private, _TEMPORARY),
            WALL_VARIABLE: enclosure.level,
            **_named_folders(enclosure.agent, env, private, home, state),
        },
    }
    place = os.path.realpath(landlock.__file__)
    return [bubblewrap.python(), "-I", "-S", place, json_writer.dumps(rules), "--", *argv]


def _files(
    enclosure: Enclosure, private: str, home: str, state: StatePlaces, env: Mapping[str, str]
) -> dict[str, object]:
    kept = [real for _, real in state.kept]
    write = [private, *enclosure.writable, *filter(os.path.isdir, kept)]
    git = enclosure.git
    if git is not None:
        parts = (os.path.join(git.common_dir, name) for name in bubblewrap.GIT_WRITABLE)
        write += [*filter(os.path.isdir, parts), git.admin_dir]
    files = [one for one in kept if os.path.isfile(one)]
    files += [path for name in _DEVICES if os.path.exists(path := f"/dev/{name}")]
    rules: dict[str, object] = {"write": write, "files": files}
    rules["flat" if enclosure.flat else "write"] = (
        [enclosure.workspace] if enclosure.flat else [*write, enclosure.workspace]
    )
    if enclosure.level == walls.STRICT:
        seen = [*bubblewrap.SYSTEM, *_READABLE, *bubblewrap.wanted_programs(enclosure, home, env), *write]
        seen += [real for _, real in (*state.kept, *state.fixed)] + ([git.common_dir] if git is not None else [])
        seen += [os.path.join(home, name) for name in (".gitconfig", ".config/git")]
        hiding = (home, "/", "/tmp", "/run")
        rules["read"] = [one for one in seen if os.path.exists(one) and os.path.realpath(one) not in hiding]
    return rules


def _named_folders(agent: str, env: Mapping[str, str], private: str, home: str, state: StatePlaces) -> dict[str, str]:
    variable = agent_state.STATES[agent].variable if agent in agent_state.STATES else ""
    if not variable or not env.get(variable) or not state.folders:
        return {}
    return {variable: _inside(private, home, state.folders[0][0])}


def _inside(private: str, home: str, path: str) -> str:
    """The place in the private home of a path in the real one; of a path elsewhere its last part."""
    name = path[len(home) + 1 :] if path.startswith(f"{home}/") else os.path.basename(path)
    return os.path.join(private, name)


def _make_home(private: str, enclosure: Enclosure, home: str, state: StatePlaces) -> None:
    """An earlier one of the same run folder is made anew."""
    shutil.rmtree(private, ignore_errors=True)
    os.makedirs(os.path.join(private, _TEMPORARY), mode=0o700)
    for folder, real in state.folders:
        place = _inside(private, home, folder)
        os.makedirs(place, mode=0o700, exist_ok=True)
        for path, target in (*state.kept, *state.fixed):
            if os.path.dirname(path) == real:
                os.symlink(target, os.path.join(place, os.path.basename(path)))
        for path in state.copies:
            if os.path.dirname(path) == real:
                shutil.copyfile(path, os.path.join(place, os.path.basename(path)))
    for path in state.copies:
        if os.path.dirname(path) == home:
            shutil.copyfile(path, os.path.join(private, os.path.basename(path)))
    _link_rest(private, enclosure, home)


def _link_rest(private: str, enclosure: Enclosure, home: str) -> None:
    names = [".gitconfig", ".config/git"] if enclosure.level == walls.STRICT else sorted(os.listdir(home))
    for name in names[: bubblewrap.MOST_ENTRIES]:
        place = os.path.join(private, name)
        if name != ".cache" and os.path.exists(os.path.join(home, name)):
            os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
            with suppress(FileExistsError):  # a part of it is there: its state
                os.symlink(os.path.join(home, name), place)
    _add_door(private)


def _add_door(private: str) -> None:
    """`imi` in PATH behind what login shells make of it: agents run their commands in such shells."""
    door = programs.own_program()
    if door is None:
        return
    folder = os.path.join(private, _DOOR)
    os.mkdir(folder, 0o700)
    os.symlink(door, os.path.join(folder, programs.OWN))
    for name in _LOGIN_FILES:
        place = os.path.join(private, name)
        there = os.path.lexists(place)
        if not there and name not in _ALWAYS_READ:
            continue  # a shell reads the first one that it finds
        before = f". {shlex.quote(os.path.realpath(place))}\n" if there else ""
        with suppress(FileNotFoundError):
            os.unlink(place)
        with open(place, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(f'{before}PATH="$PATH":{shlex.quote(folder)}\n')


def remove_home(run_folder: str) -> None:
    """Remove the private home folder of a run that is over."""
    shutil.rmtree(home_of(run_folder), ignore_errors=True)
