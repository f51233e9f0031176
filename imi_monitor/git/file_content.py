"""Contents of one file as git stores it and as it lies in the worktree, byte for byte, with git's own conversions."""

from __future__ import annotations

from imi_monitor.git.config_scan import scan_config
from imi_monitor.model.errors import Refused
from imi_monitor.model.line_edit import LineChange, parse_changes
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.git.runner import Git

LINK, REPOSITORY = "120000", "160000"
_MOST_BYTES = 1 << 30
_TIMEOUT = 60.0


def read_blob(git: Git, sha: str) -> bytes:
    return git.run("cat-file", "blob", sha, cap=_MOST_BYTES, timeout=_TIMEOUT).stdout


def store_blob(git: Git, data: bytes) -> str:
    """Store these bytes as they are and return their id."""
    return git.text("hash-object", "-w", "--stdin", "--no-filters", stdin=data, timeout=_TIMEOUT)


def store_file(git: Git, path: str, mode: str, data: bytes) -> str:
    """Store what git makes of a file's bytes (line ends, encoding, filters) and return the id."""
    if mode == LINK:
        return store_blob(git, data)
    _refuse_disabled_filter(git, path)
    return git.text("hash-object", "-w", "--stdin", f"--path={path}", stdin=data, timeout=_TIMEOUT)


def checked_out(git: Git, path: str, mode: str, sha: str) -> bytes:
    """Return the bytes that git writes into the worktree for this object."""
    if mode == LINK:
        return read_blob(git, sha)
    _refuse_disabled_filter(git, path)
    return git.run("cat-file", "--filters", f"--path={path}", sha, cap=_MOST_BYTES, timeout=_TIMEOUT).stdout


def line_changes(git: Git, old: str, new: str) -> list[LineChange]:
    """Return the changed lines between two blobs."""
    words = ("--unified=0", "--inter-hunk-context=0", "--no-color", "--no-ext-diff", "--no-textconv", "--text")
    patch = git.run("diff", *words, old, new, "--", cap=_MOST_BYTES, timeout=_TIMEOUT).stdout
    return parse_changes(patch)


def _refuse_disabled_filter(git: Git, path: str) -> None:
    """Refuse a file that goes through a program of the repository, which does not run: the bytes would be wrong."""
    if git.trusted:
        return
    keys = (line.partition("=")[0] for line in scan_config(git.common_dir, git.admin_dir).programs)
    names = {key.removeprefix("filter.").rpartition(".")[0] for key in keys if key.startswith("filter.")}
    value = git.lines0("check-attr", "-z", "filter", "--", path)[2] if names else ""
    if value in names:
        raise Refused(
            f"{safe(path)} goes through the program of filter.{safe(value)}, which the repository configures: run it "
            "with git, or run `imi trust` first",
            code="filtered",
        )
