"""Which names git itself minds: tracked ones, and ones that a `.gitignore` un-ignores. Those are never linked over.

Asked for every shared file in every worktree, so git is run only where a look at the index and the ignore files
cannot rule it out.
"""

from __future__ import annotations

import os

from imi_monitor.model.errors import GitError
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from imi_monitor.git.run import Git

_PLAIN_INDEX = (b"DIRC\0\0\0\2", b"DIRC\0\0\0\3")  # version 4 compresses its paths


def tracked(git: Git, admin_dir: str, names: Iterable[str]) -> dict[str, str]:
    """name -> why it is taken, for the names that the worktree's index holds (also as a folder, or a folder above)."""
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


def unignored(git: Git, work_tree: str, names: list[str]) -> set[str]:
    """The names that git would add to a commit although `info/exclude` lists them: a `.gitignore` wins over that."""
    folders = {"", *(folder for name in names for folder in _folders_above(name))}
    if not names or not any(_negates(os.path.join(work_tree, folder, ".gitignore")) for folder in folders):
        return set()
    listed = b"".join(os.fsencode(name) + b"\0" for name in names)
    done = git.run("check-ignore", "--no-index", "--stdin", "-z", stdin=listed, ok=(0, 1))
    return set(names) - {os.fsdecode(name) for name in done.stdout.split(b"\0") if name}


def _index(admin_dir: str) -> bytes | None:
    """The index as bytes in which every tracked path stands whole; None when it is of another kind."""
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
    """The folders above `name` that could be tracked as a file, a link or a submodule."""
    return [f for f in _folders_above(name) if index is None or _entry(index, os.fsencode(f) + b"\0")]


def _is_file(git: Git, path: str) -> bool:
    """Whether the index has an entry of exactly this name. `ls-files` would list all that is below a folder."""
    return git.run("rev-parse", "--verify", "--quiet", "--end-of-options", f":0:{path}", ok=(0, 1)).returncode == 0


def _entry(index: bytes, start: bytes) -> bool:
    """Whether an entry's path starts like this. In front of a path stands its length, so that chance finds are none."""
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
    """Whether an ignore file has a line that takes something out again. Links are not followed: git does not either."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    with os.fdopen(handle, "rb") as file:
        content = file.read(1 << 20)
    return content.startswith(b"!") or b"\n!" in content
