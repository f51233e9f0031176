"""Making and taking away links in a worktree that may be hostile, without ever leaving it or replacing a file.

A pull request can ship `config -> ~/.ssh`; a plain `symlink("config/.env")` would then write into `~/.ssh`. So every
path is walked from the opened worktree, component by component, and no link on the way is followed. A link is made by
`symlinkat`, which never replaces anything, and taken away by moving it aside first and looking at what was moved, so
that a file that an editor puts there at the same moment survives.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.sync.shared_files import SharedFile, SharedFiles

KEPT = "kept"
MISSING = "missing"
MOVED = "moved"  # a link of ours that leads to another source, or is absolute
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class LinkConflict(Exception):
    """Why a name cannot be linked here: the end of a sentence that starts with the name."""


class LinkTree:
    """One worktree, opened once. `aside` is a folder of git's own, where a link goes while it is being taken away."""

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
        """The text of the link: relative, so that a moved cluster stays whole."""
        return os.path.relpath(source.path, os.path.join(self.real, os.path.dirname(source.name)))

    def judge(self, source: SharedFile, shared: SharedFiles) -> str:
        """KEPT, MISSING or MOVED; InTheWay when something that is not ours has the name."""
        found = self.link_at(source.name)
        if found is None:
            return MISSING
        if found == self.target(source):
            if not self._reaches(source):
                raise LinkConflict("is the right link but does not reach its source")
            return KEPT
        if self.is_ours(source.name, found, shared):
            return MOVED
        raise LinkConflict(f"a link to {safe(found)} is in the way")

    def link_at(self, name: str) -> str | None:
        """The text of the link there; None when the name is free; InTheWay when it is a real file or folder."""
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

    def is_ours(self, name: str, link: str, shared: SharedFiles) -> bool:
        """Whether a link leads into `sync/`, be it relative, absolute (iMi's way) or dangling."""
        target = os.path.join(self.real, os.path.dirname(name), link)
        return shared.ours(os.path.join(os.path.realpath(os.path.dirname(target)), os.path.basename(target)))

    def make(self, source: SharedFile) -> None:
        """Link a free name to its source and look whether that came true."""
        folder = self._folder(source.name, make=True)
        leaf, target = os.path.basename(source.name), self.target(source)
        try:
            os.symlink(target, leaf, dir_fd=folder)
        except FileExistsError:
            raise LinkConflict("something was put there at the same moment") from None
        if os.readlink(leaf, dir_fd=folder) != target or not self._reaches(source):
            self.take_away(source.name, target)
            raise LinkConflict("the link did not reach its source and was taken back")

    def take_away(self, name: str, link: str) -> bool:
        """Take the link with this text away; False when it is not there any more."""
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
        raise LinkConflict("something else was put there at the same moment")

    def drop_folders(self, names: tuple[str, ...]) -> None:
        """Remove folders that were made for links, innermost first, as far as they are empty."""
        for name in reversed(names):
            folder = self._folder(name, make=False)
            if folder is not None:
                try:
                    os.rmdir(os.path.basename(name), dir_fd=folder)
                except OSError:
                    return  # somebody has put something there: it and the folders around it stay
                if name in self._open:
                    os.close(self._open.pop(name))

    def _move_aside(self, folder: int, leaf: str) -> tuple[int, str] | None:
        """(folder, name) of where it is now: among git's own files, where nobody stages it, if they are on this disk."""
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
        """Whether the name leads to the source itself. Asked twice: an editor may be replacing the source by rename."""
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
        """The opened folder that holds `name`; None when there is none and it is not to be made."""
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
    """Give back what turned out not to be our link, unless its name is taken a second time."""
    if is_folder:
        os.rename(aside, leaf, src_dir_fd=place, dst_dir_fd=folder)
        return
    try:
        os.link(aside, leaf, src_dir_fd=place, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        raise LinkConflict(f"it was replaced twice meanwhile; the first file is kept as {aside}") from None
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
