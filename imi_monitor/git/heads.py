"""All branches at one look, and making one: what a creation needs to know, in a single process and without imports that
cost more than it (bench/creation.py counts them). Names from outside go through `refs` and `model.names` first.
"""

from __future__ import annotations

from imi_monitor.model.errors import GitError, Refused
from imi_monitor.model.names import is_commit_id
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.git.runner import Git


class Heads:
    """Local branches and those of one remote, each with its commit; `said` is what the remote calls its default."""

    __slots__ = ("local", "remote", "said")

    def __init__(self, local: dict[str, str], remote: dict[str, str], said: str | None) -> None:
        self.local = local
        self.remote = remote
        self.said = said

    def has(self, branch: str) -> bool:
        return branch in self.local or branch in self.remote


def read_heads(git: Git, remote: str) -> Heads:
    """Every branch here and of `remote` as it was at the last fetch."""
    room = f"refs/remotes/{remote}/"
    local: dict[str, str] = {}
    found: dict[str, str] = {}
    said = None
    fields = "--format=%(refname) %(objectname) %(symref)"
    for line in git.text("for-each-ref", fields, "--end-of-options", "refs/heads", room[:-1]).split("\n"):
        name, _, rest = line.partition(" ")
        sha, _, symref = rest.partition(" ")
        if name.startswith("refs/heads/"):
            local[name.removeprefix("refs/heads/")] = sha
        elif name == room + "HEAD":
            said = symref.removeprefix(room) or None
        elif name.startswith(room):
            found[name.removeprefix(room)] = sha
    return Heads(local, found, said)


def make_branch(git: Git, branch: str, sha: str, note: str) -> None:
    """Make a branch that does not exist, by compare-and-swap. `note` stands in its reflog and later proves who made it."""
    ref, nothing = f"refs/heads/{branch}", "0" * len(sha)
    try:
        git.run("update-ref", "--no-deref", "--create-reflog", "-m", note, "--end-of-options", ref, sha, nothing)
    except GitError as problem:
        raise _why_not(git, branch, problem) from problem


def made_branch_tip(git: Git, branch: str, note: str) -> str | None:
    """Where the branch stands if `make` with this note was the last that happened to it; else None: not ours, or moved."""
    ref = f"refs/heads/{branch}"
    newest = git.run("log", "-g", "-1", "--format=%H%x00%gs", "--end-of-options", ref, "--", ok=(0, 128)).stdout
    sha, _, said = newest.removesuffix(b"\n").decode("utf-8", "surrogateescape").partition("\0")
    return sha if said == note and is_commit_id(sha) else None


def find_name_clash(branch: str, among: dict[str, str]) -> str | None:
    """A branch that cannot be beside this one: `feat` and `feat/x` would be a file and a folder of one name."""
    return next((other for other in among if other.startswith(branch + "/") or branch.startswith(other + "/")), None)


def _why_not(git: Git, branch: str, problem: GitError) -> GitError | Refused:
    """Told by how things are now, not by git's wording."""
    now = read_heads(git, "origin").local
    if branch in now:
        sentence = f"the branch {safe(branch)} was made by somebody else just now; it was not touched: try again to take it over"
        return Refused(sentence, code="branch-exists")
    other = find_name_clash(branch, now)
    if other is not None:
        return Refused(f"a branch {safe(branch)} cannot be beside the branch {safe(other)}", code="name-clash")
    return problem
