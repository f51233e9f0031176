"""Creating and removing links in a possibly hostile worktree, without leaving it or replacing a file.

A pull request can ship `config -> ~/.ssh`; a plain `symlink("config/.env")` would then write into `~/.ssh`. So every path is
opened from the worktree component by component, and no link on the way is followed. A link is created by `symlinkat`, which
never replaces anything. It is removed by moving it aside and checking what was moved, so that a file that an editor creates
under the name at the same moment survives.
"""

from __future__ import annotations

import errno
import os
import stat

from imi_monitor.fast.lean_suppress import suppress
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.sync.shared_files import SharedFile, SharedFiles

KEPT = "kept"
MISSING = "missing"
MOVED = "moved"  # imi's link, but to another source, or absolute
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class LinkConflict(Exception):
    """Why a name cannot be linked; the text continues a sentence that starts with the name."""


class LinkTree:
    """One opened worktree. `aside` is a folder in git's directory that holds a link while it is being removed."""

    def __init__(self, path: str, aside: str) -> None:
        self.real = os.path.realpath(path)
        self._open = {"": os.open(path, _FOLDER)}
        try:
            self._aside = os.open(aside, _FOLDER)
        except OSError:
            os.close(self._open[""])
            raise

    def __enter__(self) -> LinkTree:
        return self

    def __exit__(self, *exception: object) -> None:
        for handle in (self._aside, *self._open.values()):
            os.close(handle)
        self._open.clear()

    def target(self, source: SharedFile) -> str:
        """The link's text: relative, so that it survives a move of the cluster."""
        return os.path.relpath(source.path, os.path.join(self.real, os.path.dirname(source.name)))

    def check(self, source: SharedFile, shared: SharedFiles) -> str:
        """KEPT, MISSING or MOVED; LinkConflict if the name is taken by anything else."""
        found = self.read_link(source.name)
        if found is None:
            return MISSING
        if found == self.target(source):
            if not self._reaches(source):
                raise LinkConflict("is the right link but does not reach its source")
            return KEPT
        if self.is_own_link(source.name, found, shared):
            return MOVED
        raise LinkConflict(f"a link to {safe(found)} is in the way")

    def read_link(self, name: str) -> str | None:
        """The text of the link; None if the name is free; LinkConflict for a real file or folder."""
        folder = self._folder(name, make=False)
        if folder is None:
            return None
        leaf = os.path.basename(name)
        try:
            info = os.stat(leaf, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISLNK(info.st_mode):
                return os.readlink(leaf, dir_fd=folder)
        except FileNotFoundError:
            return None
        kind = "folder" if stat.S_ISDIR(info.st_mode) else "real file"
        raise LinkConflict(f"a {kind} of that name is in the way: move it to sync/ or delete it")

    def is_own_link(self, name: str, link: str, shared: SharedFiles) -> bool:
        """True if the link leads into `sync/`: relative, absolute (as iMi writes it) or dangling."""
        target = os.path.join(self.real, os.path.dirname(name), link)
        return shared.owns_target(os.path.join(os.path.realpath(os.path.dirname(target)), os.path.basename(target)))

    def create(self, source: SharedFile) -> None:
        """Link a free name to its source and verify the result."""
        folder = self._folder(source.name, make=True)
        leaf, target = os.path.basename(source.name), self.target(source)
        try:
            os.symlink(target, leaf, dir_fd=folder)
        except FileExistsError:
            raise LinkConflict("a file was created there at the same moment") from None
        if os.readlink(leaf, dir_fd=folder) != target or not self._reaches(source):
            self.remove(source.name, target)
            raise LinkConflict("the link did not reach its source and was removed again")

    def remove(self, name: str, link: str) -> bool:
        """Remove the link with this text; False if it does not exist any more."""
        folder = self._folder(name, make=False)
        leaf = os.path.basename(name)
        moved = None if folder is None else self._move_aside(folder, leaf)
        if folder is None or moved is None:
            return False
        place, aside = moved
        info = os.stat(aside, dir_fd=place, follow_symlinks=False)
        if stat.S_ISLNK(info.st_mode) and os.readlink(aside, dir_fd=place) == link:
            os.unlink(aside, dir_fd=place)
            return True
        _put_back(place, aside, folder, leaf, is_folder=stat.S_ISDIR(info.st_mode))
        raise LinkConflict("another file was created there at the same moment")

    def remove_empty_folders(self, names: tuple[str, ...]) -> None:
        """Remove folders that were created for links, innermost first, if they are empty."""
        for name in reversed(names):
            folder = self._folder(name, make=False)
            if folder is not None:
                try:
                    os.rmdir(os.path.basename(name), dir_fd=folder)
                except OSError:
                    return  # not empty: it and the folders around it stay
                if name in self._open:
                    os.close(self._open.pop(name))

    def _move_aside(self, folder: int, leaf: str) -> tuple[int, str] | None:
        """Rename it into git's directory, where `git add` cannot see it, else within its folder: (folder, new name)."""
        name = f".imi-aside-{os.getpid()}-{os.urandom(4).hex()}"
        for place in (self._aside, folder):
            try:
                os.rename(leaf, name, src_dir_fd=folder, dst_dir_fd=place)
            except FileNotFoundError:
                return None
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
            else:
                return place, name
        return None

    def _reaches(self, source: SharedFile) -> bool:
        """True if the name leads to the source. Tries twice: an editor may be replacing the source by a rename."""
        folder = self._folder(source.name, make=False)
        if folder is None:
            return False
        for _ in range(2):
            try:
                here = os.stat(os.path.basename(source.name), dir_fd=folder)
                there = os.stat(source.path)
            except OSError:
                continue
            if os.path.samestat(here, there):
                return True
        return False

    def _folder(self, name: str, *, make: bool) -> int | None:
        """The opened folder of `name`; None if it does not exist and `make` is False."""
        handle, so_far = self._open[""], ""
        for part in name.split("/")[:-1]:
            so_far = f"{so_far}/{part}" if so_far else part
            if so_far not in self._open:
                entered = self._enter(handle, part, so_far, make)
                if entered is None:
                    return None
                self._open[so_far] = entered
            handle = self._open[so_far]
        return handle

    def _enter(self, parent: int, part: str, so_far: str, make: bool) -> int | None:
        try:
            if make:
                _make_folder(parent, part)
            handle = os.open(part, _FOLDER, dir_fd=parent)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LinkConflict(f"its folder {safe(so_far)} {_why_no_folder(parent, part, error)}") from error
        try:
            os.stat(".git", dir_fd=handle, follow_symlinks=False)
        except FileNotFoundError:
            return handle
        os.close(handle)
        raise LinkConflict(f"{safe(so_far)} is a repository of its own")


def _put_back(place: int, aside: str, folder: int, leaf: str, *, is_folder: bool) -> None:
    """Put back what was moved aside but is not imi's link, unless the name is taken again."""
    if is_folder:
        os.rename(aside, leaf, src_dir_fd=place, dst_dir_fd=folder)
        return
    try:
        os.link(aside, leaf, src_dir_fd=place, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        raise LinkConflict(f"it was replaced twice in between; the first file is kept as {aside}") from None
    os.unlink(aside, dir_fd=place)


def _make_folder(parent: int, part: str) -> None:
    with suppress(FileExistsError):
        os.mkdir(part, dir_fd=parent)


def _why_no_folder(parent: int, part: str, error: OSError) -> str:
    try:
        mode = os.stat(part, dir_fd=parent, follow_symlinks=False).st_mode
    except OSError:
        return f"cannot be made: {error.strerror}"
    if stat.S_ISLNK(mode):
        return "is a link, which is never followed"
    return f"cannot be opened: {error.strerror}" if stat.S_ISDIR(mode) else "is a file"
