"""The shared files below `sync/`: which of two with the same name wins, and which are refused and why.

`sync/` is in the cluster, or beside the worktrees of a plain repository (`<repo>.worktrees/sync/`). Its folders are read in
the order repo, local, global, user; the first one that has a name wins.
"""

from __future__ import annotations

import os
import stat

from imi_monitor.actions.creation import creation_request
from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.config import Settings
    from imi_monitor.git.layout import Repository

MOST_FILES = 2000  # more is a tree such as node_modules, which links in every worktree are not meant for
# git opens these without following a link, and then reports "Too many levels of symbolic links" at every command
_NOT_FOLLOWED = (".gitattributes", ".gitignore", ".gitmodules", ".mailmap")
_LITTER = (".DS_Store", "Thumbs.db")
_LITTER_ENDS = ("~", ".swp", ".swo", ".swx", ".tmp")


@dataclass(frozen=True, slots=True)
class SharedFile:
    """One shared file: its `name` below a worktree, its `folder` of `sync/`, its path."""

    name: str
    folder: str
    path: str


class SharedFiles:
    """All shared files. `roots` are the folders imi's links lead into, whether or not they still exist."""

    __slots__ = ("folders", "home", "refused", "refused_names", "roots", "shadowed", "sources")

    def __init__(self, home: str, roots: tuple[str, ...]) -> None:
        self.home = home
        self.roots = roots
        self.sources: dict[str, SharedFile] = {}
        self.folders: dict[str, SharedFile] = {}  # a folder that links need, and a file that needs it
        self.refused: list[tuple[str, str]] = []
        self.refused_names: set[str] = set()  # worktrees may still have links to files that are refused now
        self.shadowed: list[tuple[str, str, str]] = []  # name, folder that wins, folder that loses

    def owns_target(self, target: str) -> bool:
        """True if a link to `target` (absolute, its folder resolved) is imi's."""
        return any(target.startswith(root + os.sep) for root in self.roots)


def read_shared_files(repository: Repository, settings: Settings) -> SharedFiles | None:
    """Read the shared files; None without a `sync/` folder."""
    home = sync_home(repository, settings)
    folders = shared_folders(settings)
    present = [folder for folder in folders if os.path.isdir(os.path.join(home, folder))]
    if not present and not os.path.isdir(os.path.join(home, "sync")):
        return None
    roots = dict.fromkeys([os.path.join(home, "sync"), *(os.path.normpath(os.path.join(home, f)) for f in folders)])
    shared = SharedFiles(home, tuple(root for root in roots if root.startswith(home + os.sep)))
    for folder in present:
        _read_folder(shared, folder)
    return shared


def sync_home(repository: Repository, settings: Settings) -> str:
    """The folder that holds `sync/`: the parent of the repository's worktrees, usually a cluster."""
    return creation_request.parent_folder(repository, settings, "sync")


def name_problem(part: str) -> str | None:
    """Return why a file or folder of this name is never linked; None if it can be."""
    if part.casefold() in (".git", "git~1"):
        return "git's own files are never linked"
    if part in ("", ".", ".."):
        return "is not a file name"
    if any(not char.isprintable() and not 0xDC80 <= ord(char) <= 0xDCFF for char in part):
        return "its name holds control or invisible characters"
    return None


def shared_folders(settings: Settings) -> list[str]:
    """The folders of shared files, relative to the one that holds `sync/`, in the order in which they are read."""
    local, user = settings.text("sync.local_path"), settings.text("sync.user_path")
    wanted = ["sync/repo", local, "sync/local", "sync/global", user, "sync/user"]
    return list(dict.fromkeys(os.path.normpath(folder) for folder in wanted if folder))


def _read_folder(shared: SharedFiles, folder: str) -> None:
    root = os.path.normpath(os.path.join(shared.home, folder))
    problem = _place_problem(shared.home, os.path.realpath(root)) or _parts_problem(folder)
    if problem is not None:
        shared.refused.append((folder, problem))
        return
    below = [""]
    while below:
        parent = below.pop()
        for entry in _entries(os.path.join(root, parent)):
            name = f"{parent}/{entry.name}" if parent else entry.name
            where = f"{folder}/{name}"
            problem = name_problem(entry.name)
            if problem is not None:
                shared.refused.append((where, problem))
            elif entry.is_dir(follow_symlinks=False):
                below.append(name)
            elif not _is_litter(entry.name):
                _add_file(shared, folder, name, entry.path)


def _entries(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        raise Refused(f"cannot read {safe(path)}: {error.strerror}", code="sync-unreadable") from error


def _is_litter(name: str) -> bool:
    """True for temporary files of editors and desktops."""
    autosaved = name.startswith("#") and name.endswith("#")
    return name in _LITTER or name.endswith(_LITTER_ENDS) or name.startswith(".#") or autosaved


def _add_file(shared: SharedFiles, folder: str, name: str, path: str) -> None:
    problem = _link_problem(name) or _source_problem(shared.home, path) or _clash(shared, folder, name)
    if problem is not None:
        shared.refused.append((f"{folder}/{name}", problem))
        shared.refused_names.add(name)
        return
    winner = shared.sources.get(name)
    if winner is not None:
        shared.shadowed.append((name, winner.folder, folder))
        return
    if len(shared.sources) == MOST_FILES:
        raise Refused(
            f"{safe(shared.home)}/sync holds more than {MOST_FILES} files: share configuration files, not trees",
            code="sync-too-much",
        )
    source = SharedFile(name, folder, path)
    shared.sources[name] = source
    shared.folders.update(dict.fromkeys(folders_above(name), source))


def _link_problem(name: str) -> str | None:
    if os.path.basename(name).casefold() not in _NOT_FOLLOWED:
        return None
    return "git follows no link of that name: commit the file, or write its lines into .git/info"


def _source_problem(home: str, path: str) -> str | None:
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):  # its folders are no links: those are not entered
            mode = os.stat(path).st_mode
            problem = _place_problem(home, os.path.realpath(path))
            if problem is not None:
                return f"is a link that {problem}"
    except OSError as error:
        return f"is a broken link ({error.strerror})" if os.path.islink(path) else f"{error.strerror}"
    return None if stat.S_ISREG(mode) else "is not a regular file"


def _place_problem(home: str, real: str) -> str | None:
    """Return why a link must not lead to this path: outside the cluster, or one of git's files."""
    if not real.startswith(home + os.sep):
        return "leads out of the cluster"
    return "leads into git's own files" if _parts_problem(real[len(home) + 1 :]) else None


def _parts_problem(name: str) -> str | None:
    return next(filter(None, map(name_problem, name.split("/"))), None)


def folders_above(name: str) -> tuple[str, ...]:
    """`a/b/c` -> `a`, `a/b`."""
    parts = name.split("/")
    return tuple("/".join(parts[:depth]) for depth in range(1, len(parts)))


def _clash(shared: SharedFiles, folder: str, name: str) -> str | None:
    """Why the name conflicts: it is a file in one shared folder and a folder in another; the first one read wins."""
    for parent in folders_above(name):
        above = shared.sources.get(parent)
        if above is not None:
            return f"{above.folder}/{above.name} is a file and comes first"
    below = shared.folders.get(name)
    return f"{below.folder}/{below.name} needs a folder of that name and comes first" if below else None
