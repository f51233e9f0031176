"""Asking the remote before a branch starts: only for the refs in question, and never so that being offline is a failure.

Where a new worktree's branch comes from: an existing branch, `--from REF`, or the trunk, freshly fetched if it can be.

`--from REF`: a branch here or on the remote, a tag, a commit, or HEAD of where the caller stands; each with ~N or ^N.
"""

from __future__ import annotations

import os
import time

from imi_monitor.actions.creation.creation_request import case_twin
from imi_monitor.git import heads, layout
from imi_monitor.git.refs import resolve
from imi_monitor.model import names, times
from imi_monitor.model.errors import GitError, Refused, UsageError
from imi_monitor.model.text import count, safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.creation.creation_request import CreationRequest
    from imi_monitor.git.heads import Heads
    from imi_monitor.git.layout import Repository
    from imi_monitor.git.runner import Git


class FetchResult:
    """What is known after asking: `fresh` if the remote answered, else `why` not (None: it was not to be asked)."""

    __slots__ = ("fresh", "heads", "why")

    def __init__(self, known: Heads, fresh: bool, why: str | None = None) -> None:
        self.heads = known
        self.fresh = fresh
        self.why = why

    def warnings(self, git: Git, remote: str, branch: str) -> list[str]:
        """That, and how old what we have is."""
        if self.why is None:
            return []
        heard = _last_fetched(git.common_dir, remote, branch)
        age = f", last fetched {times.age(max(0.0, time.time() - heard))} ago" if heard else ""
        return [f"could not fetch ({self.why}): used {safe(branch)} as it is here{age}"]


def remote_name(context: Context) -> str:
    """The remote that new branches start from, checked: the setting may come from a file of the cluster."""
    remote = context.settings.text("git_settings.remote_name")
    problem = names.branch_problem(remote)
    if problem:
        raise UsageError(f"git_settings.remote_name {safe(remote)!r} {problem}", code="bad-setting")
    return remote


def fetch_branches(
    context: Context,
    git: Git,
    repository: Repository,
    known: Heads,
    remote: str,
    branches: list[str],
    perhaps: str | None = None,
) -> FetchResult:
    """Bring the remote-tracking refs of `branches` up to date, and that of `perhaps` if the remote has such a branch."""
    url = layout.remote_url(repository, remote)
    if not url or not context.settings.flag("git_settings.auto_fetch"):
        return FetchResult(known, False)
    asked = [*branches, *([perhaps] if perhaps else [])]
    if _up_to_date(url, asked, known):
        return FetchResult(known, True)
    context.progress(f"fetching {', '.join(map(safe, asked))} from {safe(remote)}")
    specs = [f"+refs/heads/{branch}:refs/remotes/{remote}/{branch}" for branch in branches]
    if perhaps:  # as a pattern it may be missing on the other side without being an error
        specs.append(f"+refs/heads/{perhaps}*:refs/remotes/{remote}/{perhaps}*")
    why = _fetch(context, git, remote, specs)
    return FetchResult(heads.read_heads(git, remote), why is None, why)


def _fetch(context: Context, git: Git, remote: str, specs: list[str]) -> str | None:
    """None if it worked, else why not."""
    from imi_monitor.git import remotes

    seconds = max(1, context.settings.number("git_settings.fetch_timeout_seconds"))
    try:
        remotes.fetch(git, remote, specs, timeout=seconds, on_progress=context.progress, cancelled=context.cancelled)
    except (GitError, Refused) as problem:
        if problem.code == "cancelled":
            raise
        return problem.sentence
    return None


def _up_to_date(url: str, branches: list[str], known: Heads) -> bool:
    """Whether a remote on this disk has nothing new, told by a look at its refs: a fetch would cost more than the rest."""
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
            continue  # packed, or never fetched: the others may tell
    return max(found, default=None)


_USUAL_TRUNKS = ("main", "master", "trunk", "develop")


class StartPoint:
    """Where the branch starts: at `sha`. `shown` is what people read, `base` the branch it will be merged into one day,
    `took_over` says that such a branch exists (local, remote), `upstream` which remote one a new local one follows.
    """

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
        self.shown = shown
        self.base = base
        self.warnings = warnings or []
        self.took_over = took_over
        self.upstream = upstream

    @property
    def new_branch(self) -> bool:
        """Whether the local branch has yet to be made."""
        return self.took_over != "local"


def find_start(context: Context, git: Git, wanted: CreationRequest) -> StartPoint:
    """Decide it. Goes to the network at most once."""
    remote = remote_name(context)
    known = heads.read_heads(git, remote)
    refuse_known_conflicts(git, wanted, known, remote)
    if wanted.source is not None:
        return start_at_ref(context, git, wanted, known, remote)
    if wanted.branch in known.local:
        return StartPoint(known.local[wanted.branch], None, took_over="local")
    trunk_name = trunk_branch(context, wanted, known)
    branches = [trunk_name] if trunk_name else []
    news = fetch_branches(context, git, wanted.repository, known, remote, branches, perhaps=wanted.branch)
    if wanted.branch in news.heads.remote:
        shown = f"{remote}/{wanted.branch}"
        warnings = news.warnings(git, remote, wanted.branch)
        return StartPoint(
            news.heads.remote[wanted.branch], shown, warnings=warnings, took_over="remote", upstream=shown
        )
    if trunk_name is None or not news.heads.has(trunk_name):
        raise _no_trunk(wanted, news, remote, trunk_name)
    return _at_trunk(git, news, remote, trunk_name)


def refuse_known_conflicts(git: Git, wanted: CreationRequest, known: Heads, remote: str) -> None:
    """What can be told to be in the way without the network."""
    _refuse_clash(wanted, known)
    if wanted.source is not None:
        _refuse_both(wanted, known, remote)
    elif wanted.branch in known.local:
        _refuse_in_use(git, wanted)


def _refuse_clash(wanted: CreationRequest, known: Heads) -> None:
    other = case_twin(wanted.branch, [*known.local, *known.remote])
    if other is not None and wanted.branch not in known.local:
        raise UsageError(
            f"the branch {safe(wanted.branch)} differs from the existing {safe(other)} only in case: use that with "
            "--branch, or another name",
            code="case-twin",
        )
    other = heads.find_name_clash(wanted.branch, known.local)
    if other is not None:
        raise Refused(
            f"a branch {safe(wanted.branch)} cannot be beside the branch {safe(other)}: give another one with --branch",
            code="name-clash",
        )


def _refuse_both(wanted: CreationRequest, known: Heads, remote: str) -> None:
    """A branch that exists starts where it is: moving it to `--from` could lose commits, ignoring `--from` would lie."""
    if known.has(wanted.branch):
        where = "" if wanted.branch in known.local else f" on {safe(remote)}"
        raise Refused(
            f"the branch {safe(wanted.branch)} exists already{where}: leave out --from to take it over as it is, or give "
            "another one with --branch",
            code="branch-exists",
        )


def _refuse_in_use(git: Git, wanted: CreationRequest) -> None:
    from imi_monitor.git.worktree_list import worktrees_using_branch

    for path in worktrees_using_branch(git, wanted.branch):
        if wanted.repository.bare and os.path.realpath(path) == wanted.repository.common_dir:
            continue  # a bare repository's HEAD checks nothing out
        if _lock_of(wanted, path).startswith("imi trash "):
            sentence = f"the branch {safe(wanted.branch)} belongs to a removed worktree: `imi undo` brings that back"
        else:
            sentence = (
                f"the branch {safe(wanted.branch)} is checked out in {safe(path)}: go there, or use another --branch"
            )
        raise Refused(sentence, code="checked-out", data={"worktree_path": path, "branch": wanted.branch})


def _lock_of(wanted: CreationRequest, path: str) -> str:
    found = [linked.locked for linked in layout.linked_worktrees(wanted.repository.common_dir) if linked.path == path]
    return (found[0] if found else None) or ""


def trunk_branch(context: Context, wanted: CreationRequest, known: Heads) -> str | None:
    """The trunk's branch: as configured, as the remote says, a usual name, else what the main worktree has checked out."""
    configured = context.settings.text("git_settings.default_branch")
    head, _ = layout.read_head(wanted.repository.common_dir, wanted.repository.common_dir)
    for name in (configured, known.said, *_USUAL_TRUNKS, head):
        if name and known.has(name):
            return name
    return configured or head


def _no_trunk(wanted: CreationRequest, news: FetchResult, remote: str, trunk: str | None) -> Refused:
    home = safe(wanted.repository.home)
    why = [] if news.why is None else [f"could not fetch from {safe(remote)}: {news.why}"]
    if not news.heads.local and not news.heads.remote:
        return Refused(
            f"{home} has no commit yet to branch from: make a first one there (git commit --allow-empty -m first)",
            code="unborn",
            details=why,
        )
    missing = f"its trunk {safe(trunk)} has no commit" if trunk else "it is not clear which branch is the trunk"
    return Refused(
        f"{home}: {missing}; say where to start with --from, or set git_settings.default_branch",
        code="no-trunk",
        details=why,
    )


def _at_trunk(git: Git, news: FetchResult, remote: str, trunk: str) -> StartPoint:
    """The remote's trunk if it was just asked, or has all that the local one has; else the local one."""
    here, there = news.heads.local.get(trunk), news.heads.remote.get(trunk)
    warnings = news.warnings(git, remote, trunk)
    if here is None or there is None or here == there:
        return StartPoint(there or here or "", f"{remote}/{trunk}" if there else trunk, trunk, warnings=warnings)
    only_there, only_here = _distance(git, there, here)
    if news.fresh or not only_here:
        if only_here:
            commits = count(only_here, "commit")
            warnings.append(
                f"the local {safe(trunk)} has {commits} that {safe(remote)} has not; the new branch is without"
            )
        return StartPoint(there, f"{remote}/{trunk}", trunk, warnings=warnings)
    if only_there:
        commits = count(only_there, "commit")
        warnings.append(f"{safe(remote)}/{safe(trunk)} has {commits} that the local {safe(trunk)} has not")
    return StartPoint(here, trunk, trunk, warnings=warnings)


def _distance(git: Git, there: str, here: str) -> tuple[int, int]:
    text = git.text("rev-list", "--left-right", "--count", "--end-of-options", f"{there}...{here}", "--", timeout=30)
    left, _, right = text.partition("\t")
    return int(left), int(right)


_HEX = frozenset("0123456789abcdef")


def start_at_ref(context: Context, git: Git, wanted: CreationRequest, known: Heads, remote: str) -> StartPoint:
    """Where REF is; a branch of the remote is asked for afresh."""
    text = wanted.source or ""
    base, steps = _parse(text)
    there = base.removeprefix(remote + "/")
    on_remote = there != base and there in known.remote and base not in known.local
    warnings: list[str] = []
    if on_remote and not steps:
        news = fetch_branches(context, git, wanted.repository, known, remote, [there])
        warnings, known = news.warnings(git, remote, there), news.heads
    sha = known.remote.get(there) if on_remote else _resolve(context, git, base, known)
    if sha is not None and steps:
        sha = _verified(git, sha + steps)
    if sha is None:
        raise _unknown(text, known, remote)
    branch = there if on_remote else base if base in known.local else None
    return StartPoint(sha, text, None if steps else branch, warnings=warnings)


def _parse(text: str) -> tuple[str, str]:
    """`main~3` -> `main`, `~3`. Whatever else git would read into a revision is refused: it can mean too much."""
    cut = next((at for at, char in enumerate(text) if char in "~^"), len(text))
    base, steps = text[:cut], text[cut:]
    if not all(char in "~^0123456789" for char in steps) or not _is_name(base):
        raise UsageError(f"--from {safe(text, 80)!r} is no branch, tag or commit", code="bad-name")
    return base, steps


def _is_name(base: str) -> bool:
    if base == "HEAD" or names.is_commit_id(base):
        return True
    return (
        names.branch_problem(base.removeprefix("refs/").partition("/")[2] if base.startswith("refs/") else base) is None
    )


def _resolve(context: Context, git: Git, base: str, known: Heads) -> str | None:
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
    """In full: a commit id, abbreviated or with steps back from it. Nothing else comes here."""
    done = git.run("rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}", ok=(0, 1, 128))
    return done.stdout.decode("ascii").strip() if done.returncode == 0 else None


def _unknown(text: str, known: Heads, remote: str) -> Refused:
    from difflib import get_close_matches

    near = get_close_matches(text, [*known.local, *(f"{remote}/{name}" for name in known.remote)], 3)
    hint = f"did you mean {', '.join(map(safe, near))}?" if near else "`git branch -a` lists the branches"
    return Refused(f"--from {safe(text, 80)}: there is no such branch, tag or commit here; {hint}", code="no-ref")
