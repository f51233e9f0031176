"""Where a new worktree's branch comes from: an existing branch, `--from REF`, or the trunk, freshly fetched if it can be."""

from __future__ import annotations

import os

from imi_monitor.actions.creation import freshness
from imi_monitor.actions.creation.where import twin
from imi_monitor.git import heads, layout
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.text import count, safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.creation.freshness import News
    from imi_monitor.actions.creation.where import Wanted
    from imi_monitor.git.heads import Heads
    from imi_monitor.git.run import Git

_USUAL_TRUNKS = ("main", "master", "trunk", "develop")


class Start:
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


def start(context: Context, git: Git, wanted: Wanted) -> Start:
    """Decide it. Goes to the network at most once."""
    remote = freshness.remote_name(context)
    known = heads.read(git, remote)
    refuse_at_once(git, wanted, known, remote)
    if wanted.source is not None:
        from imi_monitor.actions.creation import from_ref

        return from_ref.start(context, git, wanted, known, remote)
    if wanted.branch in known.local:
        return Start(known.local[wanted.branch], None, took_over="local")
    trunk_name = trunk(context, wanted, known)
    branches = [trunk_name] if trunk_name else []
    news = freshness.ask(context, git, wanted.repository, known, remote, branches, perhaps=wanted.branch)
    if wanted.branch in news.heads.remote:
        shown = f"{remote}/{wanted.branch}"
        warnings = news.warnings(git, remote, wanted.branch)
        return Start(news.heads.remote[wanted.branch], shown, warnings=warnings, took_over="remote", upstream=shown)
    if trunk_name is None or not news.heads.has(trunk_name):
        raise _no_trunk(wanted, news, remote, trunk_name)
    return _at_trunk(git, news, remote, trunk_name)


def refuse_at_once(git: Git, wanted: Wanted, known: Heads, remote: str) -> None:
    """What can be told to be in the way without the network."""
    _refuse_clash(wanted, known)
    if wanted.source is not None:
        _refuse_both(wanted, known, remote)
    elif wanted.branch in known.local:
        _refuse_in_use(git, wanted)


def _refuse_clash(wanted: Wanted, known: Heads) -> None:
    other = twin(wanted.branch, [*known.local, *known.remote])
    if other is not None and wanted.branch not in known.local:
        raise UsageError(
            f"the branch {safe(wanted.branch)} differs from the existing {safe(other)} only in case: use that with "
            "--branch, or another name",
            code="case-twin",
        )
    other = heads.clash(wanted.branch, known.local)
    if other is not None:
        raise Refused(
            f"a branch {safe(wanted.branch)} cannot be beside the branch {safe(other)}: give another one with --branch",
            code="name-clash",
        )


def _refuse_both(wanted: Wanted, known: Heads, remote: str) -> None:
    """A branch that exists starts where it is: moving it to `--from` could lose commits, ignoring `--from` would lie."""
    if known.has(wanted.branch):
        where = "" if wanted.branch in known.local else f" on {safe(remote)}"
        raise Refused(
            f"the branch {safe(wanted.branch)} exists already{where}: leave out --from to take it over as it is, or give "
            "another one with --branch",
            code="branch-exists",
        )


def _refuse_in_use(git: Git, wanted: Wanted) -> None:
    from imi_monitor.git.worktrees import branch_users

    for path in branch_users(git, wanted.branch):
        if wanted.repository.bare and os.path.realpath(path) == wanted.repository.common_dir:
            continue  # a bare repository's HEAD checks nothing out
        if _lock_of(wanted, path).startswith("imi trash "):
            sentence = f"the branch {safe(wanted.branch)} belongs to a removed worktree: `imi undo` brings that back"
        else:
            sentence = (
                f"the branch {safe(wanted.branch)} is checked out in {safe(path)}: go there, or use another --branch"
            )
        raise Refused(sentence, code="checked-out", data={"worktree_path": path, "branch": wanted.branch})


def _lock_of(wanted: Wanted, path: str) -> str:
    found = [linked.locked for linked in layout.linked_worktrees(wanted.repository.common_dir) if linked.path == path]
    return (found[0] if found else None) or ""


def trunk(context: Context, wanted: Wanted, known: Heads) -> str | None:
    """The trunk's branch: as configured, as the remote says, a usual name, else what the main worktree has checked out."""
    configured = context.settings.text("git_settings.default_branch")
    head, _ = layout.read_head(wanted.repository.common_dir, wanted.repository.common_dir)
    for name in (configured, known.said, *_USUAL_TRUNKS, head):
        if name and known.has(name):
            return name
    return configured or head


def _no_trunk(wanted: Wanted, news: News, remote: str, trunk: str | None) -> Refused:
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


def _at_trunk(git: Git, news: News, remote: str, trunk: str) -> Start:
    """The remote's trunk if it was just asked, or has all that the local one has; else the local one."""
    here, there = news.heads.local.get(trunk), news.heads.remote.get(trunk)
    warnings = news.warnings(git, remote, trunk)
    if here is None or there is None or here == there:
        return Start(there or here or "", f"{remote}/{trunk}" if there else trunk, trunk, warnings=warnings)
    only_there, only_here = _distance(git, there, here)
    if news.fresh or not only_here:
        if only_here:
            commits = count(only_here, "commit")
            warnings.append(
                f"the local {safe(trunk)} has {commits} that {safe(remote)} has not; the new branch is without"
            )
        return Start(there, f"{remote}/{trunk}", trunk, warnings=warnings)
    if only_there:
        commits = count(only_there, "commit")
        warnings.append(f"{safe(remote)}/{safe(trunk)} has {commits} that the local {safe(trunk)} has not")
    return Start(here, trunk, trunk, warnings=warnings)


def _distance(git: Git, there: str, here: str) -> tuple[int, int]:
    text = git.text("rev-list", "--left-right", "--count", "--end-of-options", f"{there}...{here}", "--", timeout=30)
    left, _, right = text.partition("\t")
    return int(left), int(right)
