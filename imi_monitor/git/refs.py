"""Reads refs: local and remote-tracking branches, their commits, and the distance between two of them.

Names from outside are checked here before they reach git, and are passed as full refs: `refs/heads/x` cannot be an option,
a tag of the same name or `@{-1}`.
"""

from __future__ import annotations

from imi_monitor.fast.frozen_dataclass import dataclass
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


@dataclass(frozen=True, slots=True)
class Trunk:
    """The branch everything is merged into, its full ref (of the remote at the last fetch, else the local one) and its commit."""

    branch: str
    ref: str | None
    sha: str | None


def check_branch_name(name: str) -> str:
    """Return `name`; UsageError unless it is an allowed branch name."""
    return _checked(name, "branch name", branch_problem(name))


def check_remote_name(name: str) -> str:
    """Return `name`; UsageError unless it is valid as a branch name (a URL or a path never is)."""
    return _checked(name, "remote name", branch_problem(name))


def check_commit_id(sha: str) -> str:
    """Return `sha`; UsageError unless it is a full object id."""
    return _checked(sha, "commit id", None if is_commit_id(sha) and sha.strip("0") else "is not a full commit id")


def check_ref(ref: str) -> str:
    """Return `ref`; UsageError unless it is a full ref such as `refs/heads/feat/x` or `refs/pull/12/head`."""
    root, _, rest = ref.partition("/")
    kind, _, name = rest.partition("/")
    good = root == "refs" and kind.isascii() and kind.replace("-", "").isalnum() and not kind.startswith("-")
    return _checked(ref, "ref", branch_problem(name) if good else "is not a full ref (refs/heads/…)")


def check_revision(revision: str) -> str:
    """Return `revision`; UsageError unless it is a full commit id, a full ref or HEAD."""
    return revision if revision == "HEAD" or is_commit_id(revision) else check_ref(revision)


def _checked(name: str, kind: str, problem: str | None) -> str:
    if problem is not None:
        raise UsageError(f"the {kind} {safe(name, 80) or '(empty)'} {problem}", code="bad-name")
    return name


def resolve(git: Git, revision: str) -> str | None:
    """Return the commit of a full id, a full ref or HEAD; None when there is none."""
    if check_revision(revision) == "HEAD" or is_commit_id(revision):
        done = git.run("rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}", ok=(0, 1, 128))
        return done.stdout.decode("ascii").strip() if done.returncode == 0 else None
    # rev-parse would also try refs/tags/refs/heads/x and the like; for-each-ref is exact
    for fields in _each_ref(git, "%(refname) %(objecttype) %(objectname) %(*objecttype) %(*objectname)", revision):
        if fields[0] == revision:
            return fields[2] if fields[1] == "commit" else fields[4] if fields[3] == "commit" else None
    return None


def branch_sha(git: Git, branch: str) -> str | None:
    """Return the commit of a local branch; None when there is no such branch."""
    return resolve(git, f"refs/heads/{check_branch_name(branch)}")


def branches(git: Git) -> dict[str, str]:
    """Return all local branches and their commits; names may contain bytes that are not UTF-8, as surrogates."""
    found = _each_ref(git, "%(refname) %(objectname)", "refs/heads")
    return {name.removeprefix("refs/heads/"): sha for name, sha in found}


def list_shared(git: Git) -> dict[str, str]:
    """Return the full names of all branches and tags of the repository, and what they point to."""
    return {one[0]: one[1] for one in _each_ref(git, "%(refname) %(objectname)", "refs/heads", "refs/tags")}


def remote_branches(git: Git, remote: str) -> dict[str, str]:
    """Return the branches of a remote as of the last fetch, named without the remote."""
    prefix = f"refs/remotes/{check_remote_name(remote)}"
    found = {name.removeprefix(prefix + "/"): sha for name, sha in _each_ref(git, "%(refname) %(objectname)", prefix)}
    found.pop("HEAD", None)
    return found


def tracking(git: Git) -> dict[str, Branch]:
    """Return every local branch with its upstream and the distance to it, read by one process."""
    fields = "%(refname) %(objectname) %(upstream) %(upstream:track,nobracket)"
    return {made.name: made for made in map(_tracked, _each_ref(git, fields, "refs/heads", parts=4))}


def default_branch(git: Git, remote: str = "origin", configured: str | None = None) -> str:
    """Return the trunk: the configured branch if it exists, the remote's default, a usual name, else the main HEAD's branch."""
    return find_trunk(git, remote, configured).branch


def find_trunk(git: Git, remote: str = "origin", configured: str | None = None) -> Trunk:
    """Return the trunk as `default_branch` chooses it, with its ref and commit, read by one process."""
    prefix = f"refs/remotes/{check_remote_name(remote)}/"
    each = _each_ref(git, "%(refname) %(objectname) %(symref)", "refs/heads", prefix[:-1], parts=3)
    found = {name: (sha, symref) for name, sha, symref in each}
    remote_default = found.get(prefix + "HEAD", ("", ""))[1].removeprefix(prefix)
    for name in (configured or "", remote_default, *_USUAL_TRUNKS):
        for ref in (prefix + name, f"refs/heads/{name}"):
            if name and ref in found:
                return Trunk(name, ref, found[ref][0])
    head = git.at(git.common_dir, None).run("symbolic-ref", "--quiet", "HEAD", ok=(0, 1)).stdout
    name = head.decode("utf-8", "surrogateescape").strip().removeprefix("refs/heads/") or configured or "main"
    ref = f"refs/heads/{name}"
    return Trunk(name, ref, found[ref][0]) if ref in found else Trunk(name, None, None)


def commits_only_on(git: Git, tip: str, *excluded: str, limit: int = MOST_COMMITS) -> list[tuple[str, str]]:
    """Return (sha, subject) of the commits of `tip` that none of the `excluded` refs has; missing refs exclude nothing."""
    others = [f"^{found}" for ref in excluded if (found := resolve(git, ref))]
    return [(one.sha, one.subject) for one in list_commits(git, _known(git, tip), *others, limit=limit)]


def _known(git: Git, revision: str) -> str:
    sha = resolve(git, revision)
    if sha is None:
        raise GitError(
            f"{safe(revision.removeprefix('refs/heads/'))} does not exist here, or has no commit", code="no-ref"
        )
    return sha


def _each_ref(git: Git, fields: str, *prefixes: str, parts: int | None = None) -> list[list[str]]:
    """Return the fields of each ref below `prefixes`; a ref name has no space and no newline."""
    text = git.text("for-each-ref", f"--format={fields}", "--end-of-options", *prefixes)
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
    """Return how many commits only `tip` and only `base` has; both are full ids, full refs or HEAD."""
    between = f"{check_revision(tip)}...{check_revision(base)}"
    ahead, behind = git.text("rev-list", "--left-right", "--count", "--end-of-options", between, "--").split("\t")
    return int(ahead), int(behind)


def trunk_ref(git: Git, remote: str, trunk: str) -> str | None:
    """Return the full ref of the trunk: the remote-tracking branch, else the local branch; None without either."""
    candidates = (f"refs/remotes/{check_remote_name(remote)}/{trunk}", f"refs/heads/{trunk}")
    return next((ref for ref in candidates if resolve(git, ref) is not None), None)


def changed_files(git: Git, old: str, new: str) -> set[str]:
    """Return the files that differ between two commits, by their old and new names."""
    between = (check_revision(old), check_revision(new))
    return set(git.lines0("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--end-of-options", *between, "--"))
