"""Finds programs: no other module looks one up.

PATH can name folders that a repository controls: relative entries (`.`, an empty one, `node_modules/.bin`) and folders
inside a worktree (an activated virtual environment). An agent or a pull request can put a program of any name there, and
imi would run it outside of the agent's limits. Such entries are ignored, and so is a program elsewhere that is a link into
a worktree or through one.

The worktrees are those of every repository that this process has opened (`layout.repository_at` reports it). A worktree
that contains the user's home, as a repository of settings does, does not count: it contains every program of the user.
"""

from __future__ import annotations

import os
import sys

from imi_monitor import paths
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Folders of the system, which are in no worktree: programs there are accepted without reading the lists of worktrees.
_SYSTEM = frozenset(("/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/local/sbin"))
OWN = "imi"
_MOST_LINKS = 40  # the kernel's limit


class _KnownWorktrees:
    """The folders of one repository: its git directory, its main worktree and its linked worktrees."""

    __slots__ = ("_folders", "_listed_at", "_main_path", "_recorded", "common_dir")

    def __init__(self, common_dir: str, main_path: str | None) -> None:
        self.common_dir = common_dir
        self._main_path = main_path
        self._listed_at = -1  # when the list had changed last that `_recorded` was read from
        self._recorded: list[str] = []
        self._folders: frozenset[str] | None = None

    def set_linked(self, recorded: list[str]) -> None:
        if self._recorded != sorted(recorded):  # it is read in two places, in two orders
            self._recorded, self._folders = sorted(recorded), None

    def folders(self) -> frozenset[str]:
        """The real folders; the list is read again if git has changed it."""
        changed_at = self._changed_at()
        if self._listed_at != changed_at:
            self._listed_at = changed_at
            self.set_linked(list(_recorded_worktrees(self.common_dir)))
        if self._folders is None:
            real = _real_folders([self.common_dir, self._main_path or self.common_dir, *self._recorded])
            home = f"{os.path.realpath(paths.home())}/"
            self._folders = frozenset(path for path in real if not home.startswith(f"{path.rstrip('/')}/"))
        return self._folders

    def _changed_at(self) -> int:
        try:
            return os.stat(os.path.join(self.common_dir, "worktrees")).st_mtime_ns
        except OSError:  # there are none
            return 0


_repositories: dict[str, _KnownWorktrees] = {}  # by common directory
_search_paths: dict[str, tuple[frozenset[str], str]] = {}  # PATH -> (worktrees, result)


def avoid_repository(common_dir: str, main_path: str | None) -> None:
    """Ignore programs inside the worktrees of this repository from now on."""
    if common_dir not in _repositories:
        _repositories[common_dir] = _KnownWorktrees(common_dir, main_path)


def avoid_worktrees(common_dir: str, linked: list[str]) -> None:
    """Take the list of linked worktrees that was just read: a move does not show in the time of git's folder."""
    if common_dir in _repositories:
        _repositories[common_dir].set_linked(linked)


def find(name: str, path: str | None = None) -> str | None:
    """Return the absolute path of an installed program; None if there is none outside of all worktrees.

    `path` replaces the variable PATH. A `name` with a slash is not looked up, but it has to be absolute.
    """
    return next((program for program in _candidates(name, path) if is_outside(program)), None)


def own_program() -> str | None:
    """Return the path of the `imi` that belongs to this code; None if it was started without one."""
    program = os.path.join(os.path.dirname(sys.executable), OWN)
    return program if os.path.exists(program) else None


def why_missing(name: str, path: str | None = None) -> str:
    """Return the reason why `find` returns None, as the rest of a sentence about the program."""
    ignored = next((program for program in _candidates(name, path) if not is_outside(program)), None)
    if ignored is not None:
        return f"is inside a worktree ({safe(ignored, 200)}), from which imi runs no program"
    if "/" in name and not os.path.isabs(name):
        return "is given by a relative path, which could lead into a worktree: give an absolute one"
    return "is not installed, or not in PATH"


def search_path(path: str | None = None) -> str:
    """Return PATH for programs that look up others: without relative entries and folders inside a worktree."""
    whole = _path(path)
    folders = _worktree_folders()
    known = _search_paths.get(whole)
    if known is None or known[0] != folders:
        kept = filter(is_outside, _absolute_entries(whole))
        known = _search_paths[whole] = (folders, os.pathsep.join(kept) or os.defpath)
    return known[1]


def environment(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment for a program that imi runs for itself, with `search_path`."""
    found = dict(os.environ if env is None else env)
    found["PATH"] = search_path(found.get("PATH", os.defpath))
    return found


def users_environment() -> dict[str, str]:
    """Return the environment for a program that imi opens for the user in a worktree: PATH without relative entries.

    They would mean folders of that worktree instead of the folder that the user has set them for.
    """
    return {**os.environ, "PATH": os.pathsep.join(_absolute_entries(_path(None)))}


def is_outside(path: str) -> bool:
    """Return whether an absolute path, and every link on the way to its file, is outside of all worktrees."""
    folders = _folders_on_the_way(path) if os.path.isabs(path) else None
    if folders is None or _SYSTEM.issuperset(folders):
        return folders is not None
    worktrees = _worktree_folders()
    return all(worktrees.isdisjoint(_and_parents(folder)) for folder in folders)


def _path(path: str | None) -> str:
    return os.environ.get("PATH", os.defpath) if path is None else path


def _absolute_entries(path: str) -> list[str]:
    return [entry for entry in path.split(os.pathsep) if os.path.isabs(entry)] or os.defpath.split(os.pathsep)


def _candidates(name: str, path: str | None) -> Iterator[str]:
    """Yield the executable files of this name, whether they are inside a worktree or not."""
    if "/" in name:
        programs = [name] if os.path.isabs(name) else []
    else:
        programs = [os.path.join(entry, name) for entry in _absolute_entries(_path(path))]
    for program in programs:
        if os.access(program, os.X_OK) and os.path.isfile(program):
            yield program


def _folders_on_the_way(path: str) -> set[str] | None:
    """Return the real folders of the file and of each link that leads to it; None for a loop of links.

    For a folder, that is the folder itself.
    """
    rest = path.split("/")[::-1]
    real, links, found = "", 0, set()
    while rest:
        part = rest.pop()
        if part in ("", "."):
            continue
        if part == "..":
            real = os.path.dirname(real)
            continue
        try:
            target = os.readlink(f"{real}/{part}")
        except OSError:  # no link
            real = f"{real}/{part}"
            continue
        links += 1
        if links > _MOST_LINKS:
            return None
        found.add(real or "/")
        real = "" if target.startswith("/") else real
        rest.extend(reversed(target.split("/")))
    found.add(real if os.path.isdir(real) else os.path.dirname(real))
    return found


def _and_parents(folder: str) -> Iterator[str]:
    while True:
        yield folder
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above


def _worktree_folders() -> frozenset[str]:
    known = [repository.folders() for repository in tuple(_repositories.values())]
    return known[0] if len(known) == 1 else frozenset().union(*known)


def _real_folders(folders: list[str]) -> Iterator[str]:
    """Resolve the folders; each parent only once, because worktrees stand side by side."""
    parents: dict[str, str] = {}
    for folder in folders:
        above, name = os.path.split(folder)
        if name in ("", ".", "..") or os.path.islink(folder):
            yield os.path.realpath(folder)
        else:
            if above not in parents:
                parents[above] = os.path.realpath(above)
            yield os.path.join(parents[above], name)


def _recorded_worktrees(common_dir: str) -> Iterator[str]:
    """Yield the folders of linked worktrees from `<common>/worktrees/*/gitdir`."""
    worktrees = os.path.join(common_dir, "worktrees")
    try:
        names = os.listdir(worktrees)
    except OSError:
        return
    for name in names:
        admin = os.path.join(worktrees, name)
        try:
            handle = os.open(os.path.join(admin, "gitdir"), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            recorded = os.fsdecode(os.read(handle, 8192)).strip("\n\r ")
        except OSError:  # a folder
            continue
        finally:
            os.close(handle)
        yield os.path.dirname(
            os.path.normpath(os.path.join(admin, recorded))
        )  # an empty record gives one of git's own folders
