"""Which names can be shared links: the block of `info/exclude` that keeps links out of commits, and names that git tracks.

`info/exclude` is common to all worktrees and never committed. A rule such as `node_modules/` does not match a link of that name,
so each link is listed exactly: anchored, escaped, without a slash at the end. The rest of the file stays byte-identical.

Tracked names, and names that a `.gitignore` un-ignores, are never replaced by links. git runs only where the bytes of the index
and the ignore files cannot rule that out, because every shared file is checked in every worktree.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time

from imi_monitor.model.errors import GitError
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from imi_monitor.git.runner import Git


_BEGIN = b"# imi: links to shared files; `imi sync` keeps this block\n"
_BEGIN_GLUED = b"# imi: links to shared files; `imi sync` keeps this block (the line before had no end)\n"
_END = b"# imi: end of the links to shared files\n"


def excluded_names(common_dir: str) -> set[str]:
    """Return the names in the block."""
    return {_unescape(line) for line in _split(_read(_path(common_dir)))[1]}


class ExcludeBlock:
    """The block, locked by a context manager, inside which links are made and removed, one process at a time.

    GitError "exclude-busy" after `timeout` seconds; a sync of 100 worktrees takes less than one.
    """

    def __init__(self, common_dir: str, timeout: float = 15.0) -> None:
        self._path = _path(common_dir)
        self._timeout = timeout
        self._folder = -1

    def __enter__(self) -> ExcludeBlock:
        folder = os.path.dirname(self._path)
        try:
            os.makedirs(folder, exist_ok=True)
            self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._lock(time.monotonic() + self._timeout)
        except OSError as error:
            raise _write_error(self._path, error) from error
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._folder)

    def _lock(self, deadline: float) -> None:
        """Wait for the lock, but not for ever: its holder may be stopped (SIGSTOP)."""
        while True:
            try:
                fcntl.flock(self._folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    os.close(self._folder)
                    raise GitError(
                        f"another imi has been linking shared files here for {self._timeout:.0f} s: "
                        "wait for it, then run `imi sync`",
                        code="exclude-busy",
                    ) from None
                time.sleep(0.01)

    def names(self) -> set[str]:
        return {_unescape(line) for line in _split(_read(self._path))[1]}

    def put(self, names: set[str]) -> bool:
        """Make the block hold exactly these names; returns False when nothing had to be written."""
        content = _read(self._path)
        before, _, after = _split(content)
        fresh = _join(before, sorted(map(_escape, names)), after)
        if fresh == content:
            return False
        if os.path.islink(self._path):
            raise GitError(
                f"{safe(self._path)} is a link: make it a real file, because imi lists its links there", code="exclude"
            )
        try:
            self._replace(fresh)
        except OSError as error:
            raise _write_error(self._path, error) from error
        return True

    def _replace(self, content: bytes) -> None:
        mode = stat.S_IMODE(os.stat(self._path).st_mode) if os.path.exists(self._path) else 0o644
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        temporary = "exclude.imi-new"  # one name is enough under the lock, so a crash leaves one file at most
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


def _write_error(path: str, error: OSError) -> GitError:
    return GitError(f"cannot write {safe(path)}: {error.strerror}", code="exclude")


def _split(content: bytes) -> tuple[bytes, list[bytes], bytes]:
    """Return (before the block, its lines, after it). A block without its end stops at the first line that is no link."""
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
    """Return the pattern that matches exactly this name at the top of a worktree."""
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


_PLAIN_INDEX = (b"DIRC\0\0\0\2", b"DIRC\0\0\0\3")  # version 4 compresses its paths


def tracked_names(git: Git, admin_dir: str, names: Iterable[str]) -> dict[str, str]:
    """Return name -> reason for the names in the worktree's index, also as a folder or with a tracked parent."""
    index = _index(admin_dir)
    suspects = [name for name in names if index is None or _may_hold(index, name)]
    if not suspects:
        return {}
    try:
        found = set(git.lines0("ls-files", "-z", "--full-name", "--", *suspects, env={"GIT_LITERAL_PATHSPECS": "1"}))
        above = {folder for name in suspects for folder in _above(name, index)}
        files = {folder for folder in above if _is_file(git, folder)}
    except GitError as error:
        return dict.fromkeys(suspects, f"git cannot say whether it is tracked: {error.sentence}")
    reasons = {name: _why_taken(name, found, files) for name in suspects}
    return {name: reason for name, reason in reasons.items() if reason}


def unignored_names(git: Git, work_tree: str, names: list[str]) -> set[str]:
    """Return the names that git adds to a commit although `info/exclude` lists them: a `.gitignore` has priority."""
    folders = {"", *(folder for name in names for folder in _folders_above(name))}
    if not names or not any(_negates(os.path.join(work_tree, folder, ".gitignore")) for folder in folders):
        return set()
    listed = b"".join(os.fsencode(name) + b"\0" for name in names)
    done = git.run("check-ignore", "--no-index", "--stdin", "-z", stdin=listed, ok=(0, 1))
    return set(names) - {os.fsdecode(name) for name in done.stdout.split(b"\0") if name}


def _index(admin_dir: str) -> bytes | None:
    """Return the index as bytes that contain every tracked path whole; None when its format does not."""
    try:
        with open(os.path.join(admin_dir, "index"), "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return b""
    except OSError:
        return None
    whole = content.startswith(_PLAIN_INDEX) and b"sdir\0\0\0" not in content and b"link\0\0\0" not in content
    return content if whole else None


def _may_hold(index: bytes, name: str) -> bool:
    path = os.fsencode(name)
    return _entry(index, path + b"\0") or _entry(index, path + b"/") or bool(_above(name, index))


def _above(name: str, index: bytes | None) -> list[str]:
    """Return the parent folders of `name` that may be tracked as a file, a link or a submodule."""
    return [f for f in _folders_above(name) if index is None or _entry(index, os.fsencode(f) + b"\0")]


def _is_file(git: Git, path: str) -> bool:
    """Return whether the index has an entry of exactly this name; `ls-files` would also list all below a folder."""
    return git.run("rev-parse", "--verify", "--quiet", "--end-of-options", f":0:{path}", ok=(0, 1)).returncode == 0


def _entry(index: bytes, start: bytes) -> bool:
    """Return whether an entry's path starts with `start`. The length before each path excludes chance matches."""
    at = index.find(start)
    while at >= 0:
        length = min(index.find(b"\0", at) - at, 0xFFF)
        # two bytes of flags with the length, and in version 3 two more behind them
        if any(int.from_bytes(index[at - back : at - back + 2]) & 0xFFF == length for back in (2, 4)):
            return True
        at = index.find(start, at + 1)
    return False


def _folders_above(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]


def _why_taken(name: str, found: set[str], files: set[str]) -> str | None:
    if name in found:
        return "is tracked by git: its content belongs to the branch"
    if any(path.startswith(name + "/") for path in found):
        return "is a folder with tracked files"
    above = next((folder for folder in _folders_above(name) if folder in files), None)
    return f"its folder {safe(above)} is tracked as a file or a submodule" if above else None


def _negates(path: str) -> bool:
    """Return whether an ignore file has a negated line. Links are not followed, as in git."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    with os.fdopen(handle, "rb") as file:
        content = file.read(1 << 20)
    return content.startswith(b"!") or b"\n!" in content
