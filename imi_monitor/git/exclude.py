"""The block of `info/exclude` that keeps shared links out of commits. Common to all worktrees, never committed itself.

A rule such as `node_modules/` does not match a link of that name, so each link is listed exactly: anchored, escaped, no
slash at the end. Whatever else is in the file stays as it is, byte for byte.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time

from imi_monitor.model.errors import GitError
from imi_monitor.model.text import safe

_BEGIN = b"# imi: links to shared files; `imi sync` keeps this block\n"
_BEGIN_GLUED = b"# imi: links to shared files; `imi sync` keeps this block (the line before had no end)\n"
_PATIENCE = 15.0  # seconds; a sync of 100 worktrees takes less than one
_END = b"# imi: end of the links to shared files\n"


def names(common_dir: str) -> set[str]:
    """The names in our block."""
    return {_unescape(line) for line in _split(_read(_path(common_dir)))[1]}


class Block:
    """Our block, locked while it is open: whoever makes or removes links does that inside, one at a time."""

    def __init__(self, common_dir: str) -> None:
        self._path = _path(common_dir)
        self._folder = -1

    def __enter__(self) -> Block:
        folder = os.path.dirname(self._path)
        try:
            os.makedirs(folder, exist_ok=True)
            self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._lock(time.monotonic() + _PATIENCE)
        except OSError as error:
            raise _trouble(self._path, error) from error
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._folder)

    def _lock(self, deadline: float) -> None:
        """Not for ever: whoever holds it may be stopped (SIGSTOP)."""
        while True:
            try:
                fcntl.flock(self._folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    os.close(self._folder)
                    raise GitError(
                        f"another imi has been linking shared files here for {_PATIENCE:.0f} s: wait for it, then run `imi sync`",
                        code="exclude-busy",
                    ) from None
                time.sleep(0.01)

    def names(self) -> set[str]:
        return {_unescape(line) for line in _split(_read(self._path))[1]}

    def put(self, names: set[str]) -> bool:
        """Let the block hold exactly these names; False when nothing had to be written."""
        content = _read(self._path)
        before, _, after = _split(content)
        fresh = _join(before, sorted(map(_escape, names)), after)
        if fresh == content:
            return False
        if os.path.islink(self._path):
            raise GitError(
                f"{safe(self._path)} is a link: make it a real file, as imi must list its links there", code="exclude"
            )
        try:
            self._replace(fresh)
        except OSError as error:
            raise _trouble(self._path, error) from error
        return True

    def _replace(self, content: bytes) -> None:
        mode = stat.S_IMODE(os.stat(self._path).st_mode) if os.path.exists(self._path) else 0o644
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        temporary = "exclude.imi-new"  # one name is enough under the lock, and a crash leaves one file at most
        try:
            with os.fdopen(os.open(temporary, flags, mode, dir_fd=self._folder), "wb") as file:
                file.write(content)
                file.flush()
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            os.rename(temporary, "exclude", src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except BaseException:
            os.unlink(temporary, dir_fd=self._folder)
            raise
        os.fsync(self._folder)


def _trouble(path: str, error: OSError) -> GitError:
    return GitError(f"cannot write {safe(path)}: {error.strerror}", code="exclude")


def _split(content: bytes) -> tuple[bytes, list[bytes], bytes]:
    """(what is before our block, its lines, what is behind). Without its end a block stops at the first foreign line."""
    lines = content.splitlines(keepends=True)
    start = next((i for i, line in enumerate(lines) if line in (_BEGIN, _BEGIN_GLUED)), None)
    if start is None:
        return content, [], b""
    end = start + 1
    while end < len(lines) and lines[end].startswith(b"/"):
        end += 1
    ours = [line.rstrip(b"\n") for line in lines[start + 1 : end]]
    before = b"".join(lines[:start])
    if lines[start] == _BEGIN_GLUED:
        before = before.removesuffix(b"\n")
    return before, ours, b"".join(lines[end + (lines[end : end + 1] == [_END]) :])


def _join(before: bytes, lines: list[bytes], after: bytes) -> bytes:
    if not lines:
        return before + after
    glued = bool(before) and not before.endswith(b"\n")
    begin = b"\n" + _BEGIN_GLUED if glued else _BEGIN
    return before + begin + b"".join(line + b"\n" for line in lines) + _END + after


def _escape(name: str) -> bytes:
    """The pattern that matches exactly this name at the top of a worktree."""
    escaped = b"".join(b"\\" + bytes([c]) if c in b"\\*?[ " else bytes([c]) for c in os.fsencode(name))
    return b"/" + escaped


def _unescape(line: bytes) -> str:
    found, escaped = bytearray(), False
    for byte in line[1:]:
        if byte == 0x5C and not escaped:
            escaped = True
        else:
            found.append(byte)
            escaped = False
    return os.fsdecode(bytes(found))


def _path(common_dir: str) -> str:
    return os.path.join(common_dir, "info", "exclude")


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise GitError(f"cannot read {safe(path)}: {error.strerror}", code="exclude") from error
