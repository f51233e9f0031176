"""Takes files out of a worktree and puts files into it, without following a link and without replacing what is newer.

A file is taken by one rename into a private folder and compared there: if it is another one than was expected, it goes back. So
a write at the same moment is never lost. Every folder on the way is opened from the worktree, component by component.
"""

from __future__ import annotations

import os
import stat
from hashlib import sha256

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.fast.lean_suppress import suppress
from imi_monitor.git.file_content import LINK
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class FileContent:
    """A file's mode as git writes it, and its bytes; of a link its target."""

    mode: str
    data: bytes

    @property
    def digest(self) -> str:
        return f"{self.mode} {sha256(self.data).hexdigest()}"


class WorktreeFiles:
    """The files of one worktree, and a private folder on the same file system for those that are taken out."""

    def __init__(self, path: str, aside: str | None = None) -> None:
        self._path = path
        self._aside = aside

    def read(self, path: str) -> FileContent | None:
        """The file; None without one. Refused for a folder or a special file."""
        folder = self._folder(path, make=False)
        if folder is None:
            return None
        try:
            return _read(os.path.basename(path), folder, path)
        finally:
            os.close(folder)

    def take(self, path: str, expected: FileContent, name: str) -> None:
        """Move the file to `name` in the private folder; Refused, and nothing is moved, when it is not as expected."""
        assert self._aside is not None
        folder, leaf, kept = self._folder(path, make=False), os.path.basename(path), os.path.join(self._aside, name)
        if folder is None:
            raise _changed(path)
        try:
            os.rename(leaf, kept, src_dir_fd=folder)
            try:
                same = _read(kept, None, path) == expected
            except Refused:
                same = False
            if not same:
                _put_back(kept, leaf, folder, path)
                raise _changed(path)
        except FileNotFoundError:
            raise _changed(path) from None
        finally:
            os.close(folder)

    def put(self, path: str, state: FileContent, like: str | None = None) -> None:
        """Make the file, with the permissions of the kept file `like` if both can be executed or neither.

        Refused when there is one."""
        assert self._aside is not None
        made = os.path.join(self._aside, "new")
        if state.mode == LINK:
            os.symlink(state.data, os.fsencode(made))
        else:
            executable = state.mode == "100755"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            with os.fdopen(os.open(made, flags, 0o777 if executable else 0o666), "wb") as file:
                file.write(state.data)
                old = os.lstat(os.path.join(self._aside, like)) if like is not None else None
                if old is not None and stat.S_ISREG(old.st_mode) and bool(old.st_mode & 0o100) == executable:
                    os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))
        self.put_back(path, "new")

    def put_back(self, path: str, name: str) -> None:
        """Move `name` of the private folder to its place; Refused when there is another file."""
        assert self._aside is not None
        folder = self._folder(path, make=True)
        assert folder is not None
        try:
            _put_back(os.path.join(self._aside, name), os.path.basename(path), folder, path)
        finally:
            os.close(folder)

    def _folder(self, path: str, *, make: bool) -> int | None:
        handle = os.open(self._path, _FOLDER)
        for part in path.split("/")[:-1]:
            try:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=handle)
                inner = os.open(part, _FOLDER, dir_fd=handle)
            except FileNotFoundError:
                return None
            except OSError as error:
                raise Refused(
                    f"{safe(path)} cannot be reached: {safe(part)} is a link or a file ({error.strerror})", code="link"
                ) from error
            finally:
                os.close(handle)
            handle = inner
        return handle


def _put_back(kept: str, leaf: str, folder: int, path: str) -> None:
    """Link the file to its name, which fails where a newer one has it, then drop the other name."""
    try:
        os.link(kept, leaf, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        raise Refused(
            f"{safe(path)} was written again in between: that file stays, the earlier one is {safe(kept)}",
            code="changed",
        ) from None
    os.unlink(kept)


def _read(name: str, folder: int | None, path: str) -> FileContent | None:
    try:
        info = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISLNK(info.st_mode):
            return FileContent(LINK, os.fsencode(os.readlink(name, dir_fd=folder)))
        if not stat.S_ISREG(info.st_mode):
            kind = "a folder" if stat.S_ISDIR(info.st_mode) else "no regular file"
            raise Refused(f"{safe(path)} is {kind} now: nothing was changed", code="changed")
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refused(f"{safe(path)} cannot be read: {error.strerror}", code="unreadable") from error
    with os.fdopen(handle, "rb") as file:
        return FileContent("100755" if info.st_mode & 0o100 else "100644", file.read())


def _changed(path: str) -> Refused:
    return Refused(f"{safe(path)} changed since it was shown: look at it again", code="changed")
