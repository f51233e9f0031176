"""Branches for creating a worktree: reads all of them with one process, and makes one.

Separate from `refs` and `update_ref`, whose imports take longer than git itself (bench/creation.py). Callers check names from
outside with `refs` and `model.names` first.
"""

from __future__ import annotations

from imi_monitor.model.errors import GitError, Refused
from imi_monitor.model.names import is_commit_id
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.git.runner import Git


class BranchHeads:
    """Local branches and those of one remote, each with its commit; `remote_default` is the remote's default branch."""

    __slots__ = ("local", "remote", "remote_default")

    def __init__(self, local: dict[str, str], remote: dict[str, str], remote_default: str | None) -> None:
        self.local = local
        self.remote = remote
        self.remote_default = remote_default

    def has(self, branch: str) -> bool:
        return branch in self.local or branch in self.remote


def read_heads(git: Git, remote: str) -> BranchHeads:
    """Return every local branch, and those of `remote` as of the last fetch."""
    prefix = f"refs/remotes/{remote}/"
    local: dict[str, str] = {}
    found: dict[str, str] = {}
    default = None
    fields = "--format=%(refname) %(objectname) %(symref)"
    for line in git.text("for-each-ref", fields, "--end-of-options", "refs/heads", prefix[:-1]).split("\n"):
        name, _, rest = line.partition(" ")
        sha, _, symref = rest.partition(" ")
        if name.startswith("refs/heads/"):
            local[name.removeprefix("refs/heads/")] = sha
        elif name == prefix + "HEAD":
            default = symref.removeprefix(prefix) or None
        elif name.startswith(prefix):
            found[name.removeprefix(prefix)] = sha
    return BranchHeads(local, found, default)


def make_branch(git: Git, branch: str, sha: str, note: str) -> None:
    """Make a branch that does not exist, by compare-and-swap. `note` in its reflog later proves that we made it."""
    ref, nothing = f"refs/heads/{branch}", "0" * len(sha)
    try:
        git.run("update-ref", "--no-deref", "--create-reflog", "-m", note, "--end-of-options", ref, sha, nothing)
    except GitError as problem:
        raise _why_not(git, branch, problem) from problem


def made_branch_tip(git: Git, branch: str, note: str) -> str | None:
    """Return the branch's commit if `make_branch` with this note was its last change; None: not ours, or moved."""
    ref = f"refs/heads/{branch}"
    newest = git.run("log", "-g", "-1", "--format=%H%x00%gs", "--end-of-options", ref, "--", ok=(0, 128)).stdout
    sha, _, message = newest.removesuffix(b"\n").decode("utf-8", "surrogateescape").partition("\0")
    return sha if message == note and is_commit_id(sha) else None


def find_name_clash(branch: str, among: dict[str, str]) -> str | None:
    """Return a branch that excludes this one: `feat` and `feat/x` would be a file and a folder of the same name."""
    return next((other for other in among if other.startswith(branch + "/") or branch.startswith(other + "/")), None)


def _why_not(git: Git, branch: str, problem: GitError) -> GitError | Refused:
    """Return the error, found from the present branches instead of git's message."""
    now = read_heads(git, "origin").local
    if branch in now:
        sentence = f"another process has just made the branch {safe(branch)}; it was not touched: try again to use it"
        return Refused(sentence, code="branch-exists")
    other = find_name_clash(branch, now)
    if other is not None:
        return Refused(f"a branch {safe(branch)} cannot exist beside the branch {safe(other)}", code="name-clash")
    return problem
