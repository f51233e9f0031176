"""Reading refs: which branches and remote-tracking branches there are, where they stand, and what only one of them has.

Names from outside are checked here before they reach git, and always travel as full refs: `refs/heads/x` can be no
option, no tag of the same name and no `@{-1}`.

How far a commit is from a ref, for people: shown, never decided by.
"""

from __future__ import annotations

from dataclasses import dataclass

from imi_monitor.git.commits import MOST_COMMITS, list_commits
from imi_monitor.model.errors import GitError, UsageError
from imi_monitor.model.names import branch_problem, is_commit_id
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.git.runner import Git


_USUAL_TRUNKS = ("main", "master", "trunk", "develop")


@dataclass(frozen=True, slots=True)
class Branch:
    """A local branch and its upstream; `ahead` and `behind` are None when there is no upstream (any more)."""

    name: str
    sha: str
    upstream: str | None
    gone: bool
    ahead: int | None
    behind: int | None


def check_branch_name(name: str) -> str:
    """`name` itself, or UsageError when it is no name we let near git."""
    return _checked(name, "branch name", branch_problem(name))


def check_remote_name(name: str) -> str:
    """`name` itself, or UsageError; remotes follow the rules of branches (a URL or a path never passes)."""
    return _checked(name, "remote name", branch_problem(name))


def check_commit_id(sha: str) -> str:
    """`sha` itself if it is a full object id, which cannot mean anything else."""
    return _checked(sha, "commit id", None if is_commit_id(sha) and sha.strip("0") else "is no full commit id")


def check_ref(ref: str) -> str:
    """`ref` itself if it is a full ref such as `refs/heads/feat/x` or `refs/pull/12/head`."""
    root, _, rest = ref.partition("/")
    room, _, name = rest.partition("/")
    good = root == "refs" and room.isascii() and room.replace("-", "").isalnum() and not room.startswith("-")
    return _checked(ref, "ref", branch_problem(name) if good else "is no full ref (refs/heads/…)")


def check_revision(revision: str) -> str:
    """A full commit id, a full ref, or HEAD: all that we ever hand to git as a revision."""
    return revision if revision == "HEAD" or is_commit_id(revision) else check_ref(revision)


def _checked(name: str, kind: str, problem: str | None) -> str:
    if problem is not None:
        raise UsageError(f"the {kind} {safe(name, 80) or '(empty)'} {problem}", code="bad-name")
    return name


def resolve(git: Git, revision: str) -> str | None:
    """The commit that a full id, a full ref or HEAD stands for; None when there is none."""
    if check_revision(revision) == "HEAD" or is_commit_id(revision):
        done = git.run("rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}", ok=(0, 1, 128))
        return done.stdout.decode("ascii").strip() if done.returncode == 0 else None
    # rev-parse would go on to look for refs/tags/refs/heads/x and the like; for-each-ref is exact.
    for fields in _each_ref(git, "%(refname) %(objecttype) %(objectname) %(*objecttype) %(*objectname)", revision):
        if fields[0] == revision:
            return fields[2] if fields[1] == "commit" else fields[4] if fields[3] == "commit" else None
    return None


def branch_sha(git: Git, branch: str) -> str | None:
    """Where a local branch stands; None when there is no such branch."""
    return resolve(git, f"refs/heads/{check_branch_name(branch)}")


def branches(git: Git) -> dict[str, str]:
    """All local branches and where they stand, whatever their names (they may hold bytes that are not UTF-8)."""
    found = _each_ref(git, "%(refname) %(objectname)", "refs/heads")
    return {name.removeprefix("refs/heads/"): sha for name, sha in found}


def remote_branches(git: Git, remote: str) -> dict[str, str]:
    """The branches of a remote as they were at the last fetch, named without the remote."""
    room = f"refs/remotes/{check_remote_name(remote)}"
    found = {name.removeprefix(room + "/"): sha for name, sha in _each_ref(git, "%(refname) %(objectname)", room)}
    found.pop("HEAD", None)
    return found


def tracking(git: Git) -> dict[str, Branch]:
    """Every local branch with its upstream and the distance to it, by one process however many there are."""
    fields = "%(refname) %(objectname) %(upstream) %(upstream:track,nobracket)"
    return {made.name: made for made in map(_tracked, _each_ref(git, fields, "refs/heads", parts=4))}


def default_branch(git: Git, remote: str = "origin", configured: str | None = None) -> str:
    """The trunk: what is configured if it exists, what the remote says, a usual name, else what the main HEAD names."""
    room = f"refs/remotes/{check_remote_name(remote)}/"
    found: dict[str, str] = dict(_each_ref(git, "%(refname) %(symref)", "refs/heads", room[:-1]))
    said = found.get(room + "HEAD", "").removeprefix(room)
    for name in (configured or "", said, *_USUAL_TRUNKS):
        if name and (f"refs/heads/{name}" in found or room + name in found):
            return name
    head = git.at(git.common_dir, None).run("symbolic-ref", "--quiet", "HEAD", ok=(0, 1)).stdout
    return head.decode("utf-8", "surrogateescape").strip().removeprefix("refs/heads/") or configured or "main"


def commits_only_on(git: Git, tip: str, *excluded: str, limit: int = MOST_COMMITS) -> list[tuple[str, str]]:
    """(sha, subject) of the commits of `tip` that none of the `excluded` refs has; missing refs exclude nothing."""
    others = [found for ref in excluded if (found := resolve(git, ref))]
    return [(made.sha, made.subject) for made in list_commits(git, _known(git, tip), *_without(others), limit=limit)]


def _known(git: Git, revision: str) -> str:
    sha = resolve(git, revision)
    if sha is None:
        raise GitError(
            f"{safe(revision.removeprefix('refs/heads/'))} does not exist here, or has no commit", code="no-ref"
        )
    return sha


def _without(shas: list[str]) -> list[str]:
    return [f"^{sha}" for sha in shas]


def _each_ref(git: Git, fields: str, *rooms: str, parts: int | None = None) -> list[list[str]]:
    """The refs in `rooms`, one list of fields each; no ref name holds a space or a newline."""
    text = git.text("for-each-ref", f"--format={fields}", "--end-of-options", *rooms)
    most = -1 if parts is None else parts - 1
    return [line.split(" ", most) for line in text.split("\n") if line]


def _tracked(fields: list[str]) -> Branch:
    name, sha, upstream, distance = fields
    gone = distance == "gone"
    known = bool(upstream) and not gone
    counts = dict(part.split(" ") for part in distance.split(", ")) if known and distance else {}
    ahead, behind = (int(counts.get(side, 0)) if known else None for side in ("ahead", "behind"))
    return Branch(name.removeprefix("refs/heads/"), sha, upstream or None, gone, ahead, behind)


def distance(git: Git, tip: str, base: str) -> tuple[int, int]:
    """(commits only `tip` has, commits only `base` has); both are full ids, full refs or HEAD."""
    between = f"{check_revision(tip)}...{check_revision(base)}"
    ahead, behind = git.text("rev-list", "--left-right", "--count", "--end-of-options", between, "--").split("\t")
    return int(ahead), int(behind)


def trunk_ref(git: Git, remote: str, trunk: str) -> str | None:
    """The full ref that stands for the trunk: what the remote had at the last fetch, else the local branch, if any."""
    candidates = (f"refs/remotes/{check_remote_name(remote)}/{trunk}", f"refs/heads/{trunk}")
    return next((ref for ref in candidates if resolve(git, ref) is not None), None)


def changed_files(git: Git, old: str, new: str) -> set[str]:
    """The files that differ between two commits, by their old and new names."""
    between = (check_revision(old), check_revision(new))
    return set(git.lines0("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--end-of-options", *between, "--"))
