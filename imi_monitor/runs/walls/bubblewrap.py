"""bubblewrap: a wall of namespaces and mounts. Later mounts lie on top of earlier ones."""

from __future__ import annotations

import os
import subprocess
import sys

from imi_monitor import paths, programs
from imi_monitor.fast import json_writer
from imi_monitor.model.text import safe
from imi_monitor.runs import walls
from imi_monitor.runs.agent_variables import WALL_VARIABLE
from imi_monitor.runs.walls import agent_state, config_placeholder, landlock
from imi_monitor.runs.walls.agent_state import StatePlaces
from imi_monitor.runs.walls.path_sockets import find_sockets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from imi_monitor.runs.walls import Enclosure

_NAMESPACES = ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-cgroup-try", "--cap-drop", "ALL")
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix/store")
_KEPT = "/usr/local/bin"  # in the PATH of every login shell
_RUNTIME = ("/run/current-system", "/run/systemd/resolve")  # of /run: programs of NixOS, and names of hosts
# what leads out: agents and servers outside listen there
VARIABLES = (
    "SSH_AUTH_SOCK",
    "GPG_AGENT_INFO",
    "DBUS_SESSION_BUS_ADDRESS",
    "DOCKER_HOST",
    "XDG_RUNTIME_DIR",
    "WAYLAND_DISPLAY",
    "DISPLAY",
)
GIT_WRITABLE = ("objects", "refs", "logs", "reftable")
_GIT_FIXED = ("commondir", "gitdir", config_placeholder.NAME)  # a changed one leads git outside to other settings
MOST_ENTRIES = 1000  # of the home folder
_LANDLOCK, _TEMPORARY = "/run/imi/landlock.py", "/run/imi/tmp"  # inside
_TRIAL_SECONDS = 10
_FIRST = 3  # the number of the first opened file that bubblewrap copies
_HIDDEN = ("/tmp", "/run", "/dev", "/proc")


def problem() -> str | None:
    """Why bubblewrap makes no wall here, with what to do; None if it does. Known by a trial, not by its presence."""
    found = walls.program()
    if found is None:
        return "install bubblewrap (`apt install bubblewrap`, `dnf install bubblewrap`)"
    argv = [
        found,
        *_NAMESPACES,
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--tmpfs",
        "/run",
        "/bin/true",
    ]
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, errors="replace", timeout=_TRIAL_SECONDS, check=False, cwd="/"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap cannot be started ({error})"
    if done.returncode == 0:
        return None
    said = safe(done.stderr.strip().split("\n")[-1], 200)
    return (
        f"bubblewrap is there and may not make namespaces ({said}); on Ubuntu an AppArmor profile allows it"
        " (`apt install apparmor-profiles`), in a container its security options"
    )


def command(enclosure: Enclosure, argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """The command line of the agent inside of the wall."""
    home = os.path.realpath(env.get("HOME") or paths.home())
    state = agent_state.places(enclosure.agent, env, home)
    found = walls.program()
    assert found is not None  # `walls.find` has tried it
    words = [
        found,
        *_NAMESPACES,
        *(["--die-with-parent"] if enclosure.flat else []),
        "--setenv",
        WALL_VARIABLE,
        enclosure.level,
    ]
    for name in VARIABLES:
        words += ["--unsetenv", name]
    words += [*_system(enclosure), "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/run"]
    for path in _RUNTIME:
        words += ["--ro-bind-try", path, path]
    words += [*_home(enclosure, home, state), *_programs(enclosure, home, env), *_door()]
    words += [*_state(state), *_workspace(enclosure), *_sockets(enclosure, home, state)]
    words += ["--ro-bind", os.path.realpath(landlock.__file__), _LANDLOCK]
    words += ["--dir", _TEMPORARY, "--setenv", "TMPDIR", _TEMPORARY]
    words += ["--remount-ro", "/"] if enclosure.level == walls.STRICT else []
    copies = [word for number, path in enumerate(state.copies) for word in ("--file", str(_FIRST + number), path)]
    restricted = [python(), "-I", "-S", _LANDLOCK, json_writer.dumps(_rules(enclosure, home, state)), "--", *argv]
    return [*_opening(state.copies), *words, *copies, "--chdir", enclosure.workspace, "--", *restricted]


def _opening(copies: Sequence[str]) -> list[str]:
    """A shell that opens these files and becomes bubblewrap, which copies them; nothing where there are none."""
    if not copies:
        return []
    opened = " ".join(f'{_FIRST + number}<"${number + 1}"' for number in range(len(copies)))
    return ["/bin/sh", "-c", f'exec {opened}; shift {len(copies)}; exec "$@"', "imi", *copies]


def _system(enclosure: Enclosure) -> list[str]:
    if enclosure.level == walls.WRITE:
        return ["--ro-bind", "/", "/"]
    return [word for path in SYSTEM for word in _shown(path)]


def _shown(path: str) -> list[str]:
    """A folder of the system as it is: many are links into /usr."""
    if os.path.islink(path):
        return ["--symlink", os.readlink(path), path]
    return ["--ro-bind-try", path, path]


def _home(enclosure: Enclosure, home: str, state: StatePlaces) -> list[str]:
    """An empty home folder in memory; for `write` with all that is in the real one, read-only."""
    words = ["--tmpfs", home]
    if enclosure.level == walls.STRICT:
        for name in (".gitconfig", ".config/git"):
            words += ["--ro-bind-try", os.path.join(home, name), os.path.join(home, name)]
        return words
    hidden = {*state.copies, *(folder for folder, _ in state.folders)}
    with os.scandir(home) as entries:
        for entry in list(entries)[:MOST_ENTRIES]:
            path = os.path.join(home, entry.name)
            if path in hidden or entry.name == ".cache":
                continue
            if entry.is_symlink():
                words += ["--symlink", os.readlink(path), path]
            elif entry.is_dir() or entry.is_file():
                words += ["--ro-bind-try", path, path]
    return words


def _programs(enclosure: Enclosure, home: str, env: Mapping[str, str]) -> list[str]:
    """What is needed to run programs, where the wall hides what it lies in."""
    wanted = wanted_programs(enclosure, home, env)
    hidden = [home, "/tmp", "/run"] if enclosure.level == walls.WRITE else [""]
    bound: list[str] = []
    words: list[str] = []
    # a folder before what lies in it, which is then shown with it
    for path in sorted({one for found in wanted for one in (os.path.realpath(found), found)}, key=len):
        inside = any(_lies_in(path, one) for one in hidden) or "" in hidden
        above = any(_lies_in(one, path) for one in (home, "/tmp", "/run"))  # it would show what the wall hides
        known = above or _is_system(path) or any(_lies_in(path, one) for one in bound)
        if inside and not known and os.path.exists(path):
            bound.append(path)
            words += ["--symlink", os.readlink(path), path] if os.path.islink(path) else ["--ro-bind", path, path]
    return words


def _door() -> list[str]:
    """`imi` in a folder that stays in PATH: the login shells in which agents run commands set PATH anew."""
    door = programs.own_program()
    if door is None or os.path.dirname(door) == _KEPT or not os.path.isdir(_KEPT):
        return []
    words = ["--tmpfs", _KEPT]
    for name in sorted(os.listdir(_KEPT))[:MOST_ENTRIES]:
        words += _shown(os.path.join(_KEPT, name)) if name != programs.OWN else []
    return [*words, "--symlink", door, os.path.join(_KEPT, programs.OWN), "--remount-ro", _KEPT]


def wanted_programs(enclosure: Enclosure, home: str, env: Mapping[str, str]) -> list[str]:
    """The agent's program, the folders of PATH and imi itself."""
    wanted = [*enclosure.readable, *_roots(enclosure.program), sys.base_prefix, sys.prefix, _package()]
    for folder in env.get("PATH", "").split(":"):
        if os.path.isabs(folder):
            wanted.append(_prefix(folder, home))
    if os.path.isabs(env.get("GIT_CONFIG_GLOBAL", "")):
        wanted.append(env["GIT_CONFIG_GLOBAL"])
    return wanted


def _is_system(path: str) -> bool:
    return any(_lies_in(path, one) for one in SYSTEM)


def _prefix(folder: str, home: str) -> str:
    """The folder that a folder of programs needs beside it: the whole of `~/.nvm/versions/node/v22`, of ~/.local/bin itself."""
    parent = os.path.dirname(folder)
    shared = (home, os.path.join(home, ".local"), "/usr/local")
    is_wide = os.path.dirname(parent) == "/" or _lies_in(home, parent)  # /home/bin would show all of /home
    return parent if os.path.basename(folder) == "bin" and parent not in shared and not is_wide else folder


def _roots(program: str) -> Iterator[str]:
    """The folders that a program lies in: where it is called, and where it really is, with its packages."""
    yield os.path.dirname(program)
    place = os.path.realpath(program)
    before, found, _ = place.rpartition("/node_modules/")
    yield f"{before}/node_modules" if found else os.path.dirname(place)


def _package() -> str:
    """The folder of imi's package, or the checkout around it."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def _state(state: StatePlaces) -> list[str]:
    """A new folder in memory in place of each state folder, with the kept and the fixed parts of the real one in it."""
    words = []
    for folder, real in state.folders:
        words += ["--perms", "0700", "--tmpfs", real]
        if os.path.islink(folder):
            words += ["--symlink", real, folder]
    for path, real in state.kept:
        words += ["--bind", real, path]
    for path, real in state.fixed:
        words += ["--ro-bind", real, path]
    return words


def _workspace(enclosure: Enclosure) -> list[str]:
    words = []
    if enclosure.git is not None:
        # below /tmp, a folder that is made for a mount alone could be written, and what is written there is lost
        seen = os.path.dirname(enclosure.git.common_dir) if enclosure.level == walls.WRITE else enclosure.git.common_dir
        words += ["--ro-bind", seen, seen]
    for folder in (*enclosure.writable, enclosure.workspace):
        words += ["--bind", folder, folder]
    if enclosure.git is None:
        return words
    words += ["--ro-bind", os.path.join(enclosure.workspace, ".git"), os.path.join(enclosure.workspace, ".git")]
    for name in GIT_WRITABLE:
        path = os.path.join(enclosure.git.common_dir, name)
        words += ["--bind-try", path, path]
    words += ["--bind", enclosure.git.admin_dir, enclosure.git.admin_dir]
    for name in _GIT_FIXED:
        path = os.path.join(enclosure.git.admin_dir, name)
        words += ["--ro-bind", path, path]
    locked = os.path.join(enclosure.git.admin_dir, "locked")
    return [*words, "--ro-bind-try", locked, locked]


def _sockets(enclosure: Enclosure, home: str, state: StatePlaces) -> list[str]:
    """A file in place of each socket that could be reached: a read-only mount does not keep a program from connecting."""
    found = [path for path in find_sockets() if _is_visible(enclosure, home, state, path)]
    return [word for path in found for word in ("--ro-bind", "/dev/null", path)]


def _is_visible(enclosure: Enclosure, home: str, state: StatePlaces, path: str) -> bool:
    git = [enclosure.git.common_dir] if enclosure.git is not None else []
    bound = (enclosure.workspace, *enclosure.writable, *enclosure.readable, *_seen_state(state), *git)
    if any(_lies_in(path, one) for one in bound):
        return True
    if enclosure.level == walls.STRICT:
        return False
    if _lies_in(path, home):
        return os.path.dirname(path) != home and not _lies_in(path, os.path.join(home, ".cache"))
    return not any(_lies_in(path, one) for one in _HIDDEN)


def _seen_state(state: StatePlaces) -> list[str]:
    return [real for _, real in (*state.kept, *state.fixed)]


def _lies_in(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder}/")


def _rules(enclosure: Enclosure, home: str, state: StatePlaces) -> dict[str, object]:
    rules: dict[str, object] = {"scope": True}
    if enclosure.flat and landlock.version():
        rules["flat"] = [enclosure.workspace]
        # what is granted for a folder holds for all below it, so a folder around the workspace is not granted
        around = [one for one in (home, "/tmp") if not _lies_in(enclosure.workspace, one)]
        rules["write"] = [
            *around,
            _TEMPORARY,
            *(real for _, real in state.folders),
            "/dev",
            "/proc",
            *enclosure.writable,
        ]
    return rules


def python() -> str:
    """The interpreter without its virtual environment."""
    return os.path.realpath(sys.executable)
