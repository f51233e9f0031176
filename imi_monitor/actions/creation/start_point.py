"""Where a new worktree's branch starts: an existing branch, `--from REF`, or the trunk, fetched first if possible.

Only the refs in question are fetched, and being offline is a warning, not a failure. REF is a branch here or on the remote,
a tag, a commit, or HEAD of the caller's worktree; each with ~N or ^N.
"""

from __future__ import annotations

import os

from imi_monitor.actions.creation.creation_request import case_twin
from imi_monitor.git import heads, layout
from imi_monitor.model import amounts, names, times
from imi_monitor.model.advice import advised
from imi_monitor.model.errors import GitError, Refused, UsageError
from imi_monitor.model.text import count, safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.creation.creation_request import CreationRequest
    from imi_monitor.git.heads import BranchHeads
    from imi_monitor.git.layout import Repository
    from imi_monitor.git.runner import Git


class FetchResult:
    """The refs after a fetch. `fresh` if the remote answered; else `why` it failed (None: no fetch was attempted)."""

    __slots__ = ("fresh", "heads", "why")

    def __init__(self, known: BranchHeads, fresh: bool, why: str | None = None) -> None:
        self.heads = known
        self.fresh = fresh
        self.why = why

    def warnings(self, git: Git, remote: str, branch: str) -> list[str]:
        """The failure and the age of the local copy."""
        if self.why is None:
            return []
        fetched_at = _last_fetched(git.common_dir, remote, branch)
        age = f", last fetched {amounts.long_age(max(0.0, times.clock() / 1e9 - fetched_at))} ago" if fetched_at else ""
        return [f"could not fetch ({self.why}): used the local copy of {safe(branch)}{age}"]


def remote_name(context: Context) -> str:
    """The remote new branches start from; the setting is checked, as it may come from a file of the cluster."""
    remote = context.settings.text("git.remote_name")
    problem = names.branch_problem(remote)
    if problem:
        raise UsageError(f"git.remote_name {safe(remote)!r} {problem}", code="bad-setting")
    return remote


def fetch_branch(context: Context, git: Git, repository: Repository, branch: str) -> list[str]:
    """Fetch a branch of the remote, unless git.auto_fetch is off; returns warnings: being offline is one."""
    remote = remote_name(context)
    known = heads.read_heads(git, remote)
    return _fetch_branches(context, git, repository, known, remote, [branch]).warnings(git, remote, branch)


def _fetch_branches(
    context: Context,
    git: Git,
    repository: Repository,
    known: BranchHeads,
    remote: str,
    branches: list[str],
    optional: str | None = None,
) -> FetchResult:
    """Fetch the remote-tracking refs of `branches`, and of `optional` if the remote has such a branch."""
    url = layout.remote_url(repository, remote)
    if not url or not context.settings.flag("git.auto_fetch"):
        return FetchResult(known, False)
    asked = [*branches, *([optional] if optional else [])]
    if _up_to_date(url, asked, known):
        return FetchResult(known, True)
    context.progress(f"fetching {', '.join(map(safe, asked))} from {safe(remote)}")
    specs = [f"+refs/heads/{branch}:refs/remotes/{remote}/{branch}" for branch in branches]
    if optional:  # a pattern may match nothing without an error
        specs.append(f"+refs/heads/{optional}*:refs/remotes/{remote}/{optional}*")
    why = _fetch(context, git, remote, specs)
    return FetchResult(heads.read_heads(git, remote), why is None, why)


def _fetch(context: Context, git: Git, remote: str, specs: list[str]) -> str | None:
    """Fetch; returns why it failed, None on success."""
    from imi_monitor.git import remotes

    seconds = max(1, context.settings.number("git.fetch_timeout_seconds"))
    try:
        remotes.fetch(git, remote, specs, timeout=seconds, on_progress=context.progress, cancelled=context.cancelled)
    except (GitError, Refused) as problem:
        if problem.code == "cancelled":
            raise
        return problem.sentence
    return None


def _up_to_date(url: str, branches: list[str], known: BranchHeads) -> bool:
    """True if a remote on this disk has nothing new by its ref files, which saves the cost of a fetch."""
    path = url.removeprefix("file://")
    if not os.path.isabs(path):
        return False
    inner = os.path.join(path, ".git")
    common_dir = inner if os.path.isdir(inner) else path
    if not os.path.isfile(os.path.join(common_dir, "HEAD")) or os.path.isdir(os.path.join(common_dir, "reftable")):
        return False
    return all(layout.read_ref(common_dir, f"refs/heads/{branch}") == known.remote.get(branch) for branch in branches)


def _last_fetched(common_dir: str, remote: str, branch: str) -> float | None:
    found = []
    for name in ("FETCH_HEAD", f"refs/remotes/{remote}/{branch}", f"logs/refs/remotes/{remote}/{branch}"):
        try:
            found.append(os.stat(os.path.join(common_dir, name)).st_mtime)
        except OSError:
            continue  # packed, or never fetched: try the others
    return max(found, default=None)


_USUAL_TRUNKS = ("main", "master", "trunk", "develop")


class StartPoint:
    """The commit a branch starts at, and what follows from where it was found."""

    __slots__ = ("base", "sha", "shown", "took_over", "upstream", "warnings")

    def __init__(
        self,
        sha: str,
        shown: str | None,
        base: str | None = None,
        *,
        warnings: list[str] | None = None,
        took_over: str | None = None,
        upstream: str | None = None,
    ) -> None:
        self.sha = sha
        self.shown = shown  # the start point as text
        self.base = base  # the branch to merge into later
        self.warnings = warnings or []
        self.took_over = took_over  # "local" or "remote": the branch exists there
        self.upstream = upstream  # the remote branch a new local one tracks

    @property
    def new_branch(self) -> bool:
        """True if the local branch does not exist yet."""
        return self.took_over != "local"


def find_start(context: Context, git: Git, wanted: CreationRequest) -> StartPoint:
    """Find the start point; uses the network at most once."""
    remote = remote_name(context)
    known = heads.read_heads(git, remote)
    refuse_known_conflicts(git, wanted, known, remote)
    if wanted.source is not None:
        return _start_at_ref(context, git, wanted, known, remote)
    if wanted.branch in known.local:
        return StartPoint(known.local[wanted.branch], None, took_over="local")
    trunk_name = trunk_branch(context, wanted, known)
    branches = [trunk_name] if trunk_name else []
    fetched = _fetch_branches(context, git, wanted.repository, known, remote, branches, optional=wanted.branch)
    if wanted.branch in fetched.heads.remote:
        shown = f"{remote}/{wanted.branch}"
        warnings = fetched.warnings(git, remote, wanted.branch)
        return StartPoint(
            fetched.heads.remote[wanted.branch], shown, warnings=warnings, took_over="remote", upstream=shown
        )
    if trunk_name is None or not fetched.heads.has(trunk_name):
        raise _no_trunk(wanted, fetched, remote, trunk_name)
    return _at_trunk(git, fetched, remote, trunk_name)


def refuse_known_conflicts(git: Git, wanted: CreationRequest, known: BranchHeads, remote: str) -> None:
    """Raise the conflicts that are visible without the network."""
    _refuse_clash(wanted, known)
    if wanted.source is not None:
        _refuse_both(wanted, known, remote)
    elif wanted.branch in known.local:
        _refuse_in_use(git, wanted)


def _refuse_clash(wanted: CreationRequest, known: BranchHeads) -> None:
    other = case_twin(wanted.branch, [*known.local, *known.remote])
    if other is not None and wanted.branch not in known.local:
        raise UsageError(
            advised(
                f"the branch {safe(wanted.branch)} differs from the existing {safe(other)} only in case",
                "use that with --branch, or another name",
                "choose another name",
            ),
            code="case-twin",
        )
    other = heads.find_name_clash(wanted.branch, known.local)
    if other is not None:
        raise Refused(
            advised(
                f"git cannot hold a branch {safe(wanted.branch)} beside the branch {safe(other)}",
                "give another one with --branch",
                "choose another name",
            ),
            code="name-clash",
        )


def _refuse_both(wanted: CreationRequest, known: BranchHeads, remote: str) -> None:
    """Refuse `--from` for an existing branch: moving it could lose commits, ignoring `--from` would mislead."""
    if known.has(wanted.branch):
        where = "" if wanted.branch in known.local else f" on {safe(remote)}"
        raise Refused(
            advised(
                f"the branch {safe(wanted.branch)} already exists{where}",
                "leave out --from to use it unchanged, or give another one with --branch",
                "leave the start point empty to use it unchanged, or enter another branch",
            ),
            code="branch-exists",
        )


def _refuse_in_use(git: Git, wanted: CreationRequest) -> None:
    from imi_monitor.git.worktree_list import worktrees_using_branch

    for path in worktrees_using_branch(git, wanted.branch):
        if wanted.repository.bare and os.path.realpath(path) == wanted.repository.common_dir:
            continue  # HEAD of a bare repository is no checkout
        if _lock_of(wanted, path).startswith("imi trash "):
            removed = f"the branch {safe(wanted.branch)} belongs to a removed worktree"
            sentence = f"{removed}: `imi trash list` lists it, `imi undo` restores it"
        else:
            taken = f"the branch {safe(wanted.branch)} is checked out in {safe(path)}"
            sentence = advised(taken, "go there, or use another --branch", "go there, or choose another name")
        raise Refused(sentence, code="checked-out", data={"worktree_path": path, "branch": wanted.branch})


def _lock_of(wanted: CreationRequest, path: str) -> str:
    found = [linked.locked for linked in layout.linked_worktrees(wanted.repository.common_dir) if linked.path == path]
    return (found[0] if found else None) or ""


def trunk_branch(context: Context, wanted: CreationRequest, known: BranchHeads) -> str | None:
    """The trunk: the configured branch, the remote's default, a common name, else the main worktree's branch."""
    configured = context.settings.text("git.default_branch")
    head, _ = layout.read_head(wanted.repository.common_dir, wanted.repository.common_dir)
    for name in (configured, known.remote_default, *_USUAL_TRUNKS, head):
        if name and known.has(name):
            return name
    return configured or head


def refuse_without_commit(wanted: CreationRequest, known: BranchHeads, remote: str, trunk: str | None) -> None:
    """Refuse a new branch for which no commit is known and none can be fetched."""
    if not (trunk and known.has(trunk)) and not layout.remote_url(wanted.repository, remote):
        raise _no_trunk(wanted, FetchResult(known, False), remote, trunk)


def _no_trunk(wanted: CreationRequest, fetched: FetchResult, remote: str, trunk: str | None) -> Refused:
    home = safe(wanted.repository.home)
    why = [] if fetched.why is None else [f"could not fetch from {safe(remote)}: {fetched.why}"]
    if not fetched.heads.local and not fetched.heads.remote:
        return Refused(
            f"{home} has no commit to branch from: make a first one there (git commit --allow-empty -m first)",
            code="unborn",
            details=why,
        )
    missing = f"its trunk {safe(trunk)} has no commit" if trunk else "no branch was found that is the trunk"
    return Refused(
        advised(
            f"{home}: {missing}",
            "give a start point with --from, or set git.default_branch",
            "set git.default_branch",
            joint="; ",
        ),
        code="no-trunk",
        details=why,
    )


def _at_trunk(git: Git, fetched: FetchResult, remote: str, trunk: str) -> StartPoint:
    """The remote's trunk if it was just fetched or contains the local one; else the local trunk."""
    here, there = fetched.heads.local.get(trunk), fetched.heads.remote.get(trunk)
    warnings = fetched.warnings(git, remote, trunk)
    if here is None or there is None or here == there:
        return StartPoint(there or here or "", f"{remote}/{trunk}" if there else trunk, trunk, warnings=warnings)
    only_there, only_here = _distance(git, there, here)
    if fetched.fresh or not only_here:
        if only_here:
            commits = count(only_here, "commit")
            warnings.append(
                f"the local {safe(trunk)} has {commits} not on {safe(remote)}; the new branch starts without them"
            )
        return StartPoint(there, f"{remote}/{trunk}", trunk, warnings=warnings)
    if only_there:
        commits = count(only_there, "commit")
        warnings.append(f"{safe(remote)}/{safe(trunk)} has {commits} not in the local {safe(trunk)}")
    return StartPoint(here, trunk, trunk, warnings=warnings)


def _distance(git: Git, there: str, here: str) -> tuple[int, int]:
    text = git.text("rev-list", "--left-right", "--count", "--end-of-options", f"{there}...{here}", "--", timeout=30)
    left, _, right = text.partition("\t")
    return int(left), int(right)


_HEX = frozenset("0123456789abcdef")


def _start_at_ref(context: Context, git: Git, wanted: CreationRequest, known: BranchHeads, remote: str) -> StartPoint:
    """The start point REF; a branch of the remote is fetched first."""
    text = wanted.source or ""
    base, steps = _parse(text)
    there = base.removeprefix(remote + "/")
    on_remote = there != base and there in known.remote and base not in known.local
    warnings: list[str] = []
    if on_remote and not steps:
        fetched = _fetch_branches(context, git, wanted.repository, known, remote, [there])
        warnings, known = fetched.warnings(git, remote, there), fetched.heads
    sha = known.remote.get(there) if on_remote else _resolve(context, git, base, known)
    if sha is not None and steps:
        sha = _verified(git, sha + steps)
    if sha is None:
        raise _unknown(text, known, remote)
    branch = there if on_remote else base if base in known.local else None
    return StartPoint(sha, text, None if steps else branch, warnings=warnings)


def _parse(text: str) -> tuple[str, str]:
    """`main~3` -> `main`, `~3`. Any other revision syntax of git is refused."""
    cut = next((at for at, char in enumerate(text) if char in "~^"), len(text))
    base, steps = text[:cut], text[cut:]
    if not all(char in "~^0123456789" for char in steps) or not _is_name(base):
        raise UsageError(f"{safe(text, 80)!r} is not a branch, tag or commit", code="bad-name")
    return base, steps


def _is_name(base: str) -> bool:
    if base == "HEAD" or names.is_commit_id(base):
        return True
    return (
        names.branch_problem(base.removeprefix("refs/").partition("/")[2] if base.startswith("refs/") else base) is None
    )


def _resolve(context: Context, git: Git, base: str, known: BranchHeads) -> str | None:
    from imi_monitor.git.refs import resolve

    if base == "HEAD":
        place = context.place()
        here = place is not None and place.repository.common_dir == git.common_dir
        return resolve(git.at(place.admin_dir, place.path) if place and here else git, "HEAD")
    if base in known.local:
        return known.local[base]
    if base.startswith("refs/") or names.is_commit_id(base):
        return resolve(git, base)
    found = resolve(git, f"refs/tags/{base}") or resolve(git, f"refs/remotes/{base}")
    return _verified(git, base) if found is None and len(base) >= 4 and _HEX.issuperset(base) else found


def _verified(git: Git, revision: str) -> str | None:
    """The full id of a commit id that may be abbreviated or followed by steps; None if there is no such commit."""
    done = git.run("rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}", ok=(0, 1, 128))
    return done.stdout.decode("ascii").strip() if done.returncode == 0 else None


def _unknown(text: str, known: BranchHeads, remote: str) -> Refused:
    from difflib import get_close_matches

    near = get_close_matches(text, [*known.local, *(f"{remote}/{name}" for name in known.remote)], 3)
    hint = f"did you mean {', '.join(map(safe, near))}?" if near else "`git branch -a` lists the branches"
    return Refused(f"there is no branch, tag or commit {safe(text, 80)} here; {hint}", code="no-ref")
