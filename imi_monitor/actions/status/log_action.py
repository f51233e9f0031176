"""`imi log`: the commits of a worktree's branch, its own first, with the agent that held the claim at that time."""

from __future__ import annotations

from dataclasses import replace

from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.actions.status import status_action, worktree_git
from imi_monitor.git import commit_log
from imi_monitor.model import times
from imi_monitor.model.attribution import ClaimPeriod, holder_at, periods_by_worktree
from imi_monitor.model.columns import Column, table
from imi_monitor.model.commit_graph import CommitGraph
from imi_monitor.model.snapshot import Key
from imi_monitor.model.styled_text import MUTED, PLACE, SUCCESS, WORKS, join, styled
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.model.commit_graph import CommitLogEntry, CommitLogPage

_DEFAULT_NUMBER = 20
_MOST = 100_000
_COLUMNS = (
    Column("Graph", least=2),
    Column("Commit"),
    Column("Subject", least=20),
    Column("By", least=8, rank=1),
    Column("Age", right=True),
)


class LogAction(Action):
    words = ("log",)
    group = "Status"
    label = "Log"
    examples = (("imi log feat-user-auth -n 50", "its last 50 commits"),)
    help = "list the commits of a worktree's branch: its own first, then those of the trunk"
    more = """
    The column By shows the owner of the worktree's claim at the time of the commit, else the commit's author.
    """
    arguments = (Argument("name", "the worktree (default: the one around you)", optional=True),)
    options = (
        Option("number", f"the number of commits (default: {_DEFAULT_NUMBER})", value="N", aliases=("n",), number=True),
    )
    changes = False
    needs_registry = False

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        target = worktree_git.named_worktree(context, request)
        size = min(_MOST, request.whole("number") or _DEFAULT_NUMBER)
        found = page(context, target, (0, 0), size)
        return Outcome(_lines(found), _data(target, found))


def page(context: Context, target: Target, seen: tuple[int, int], size: int) -> CommitLogPage:
    """The next `size` commits after those already read, the branch's own ones with their owners."""
    git = worktree_git.git_in(context, target)
    found = commit_log.log_page(
        git, commit_log.log_tips(git, worktree_git.trunk_of(context, target.repository).ref), seen, size
    )
    return replace(found, entries=_attributed(context, target, found.entries))


def _attributed(context: Context, target: Target, entries: tuple[CommitLogEntry, ...]) -> tuple[CommitLogEntry, ...]:
    """The entries with owners. Commits of the trunk get none: they were made in other worktrees."""
    if target.repo_name is None or not any(entry.own for entry in entries):
        return entries
    from imi_monitor.store import claim_history, db

    given = db.read(context.connection, claim_history.list_grants, target.repo_name, target.name, 1000)
    key = Key("", target.repo_name, target.name)
    held = periods_by_worktree(ClaimPeriod(key, grant.agent_id, grant.claimed_at, grant.released_at) for grant in given)
    return tuple(
        replace(entry, by=holder_at(held, key, entry.at, grain=1.0)) if entry.own and entry.at else entry
        for entry in entries
    )


def _lines(found: CommitLogPage) -> list[str]:
    if not found.entries:
        return ["no commits yet"]
    graph, now = CommitGraph(), times.now()
    rows = [
        [
            graph.row(one.sha, one.parents),
            styled(one.sha[:8], PLACE),
            _subject(one),
            styled(safe(one.writer, 40), WORKS if one.by else MUTED),
            styled(times.age_of(one.at, now), MUTED),
        ]
        for one in found.entries
    ]
    lines = table(_COLUMNS, rows, status_action.terminal_width())
    own = sum(entry.own for entry in found.entries)
    if own and found.trunk and own < len(found.entries):
        lines.insert(1 + own, styled(f"── also on {safe(found.trunk)} ──", MUTED))
    return [*lines, styled(f"… more: -n {2 * len(found.entries)}", MUTED)] if found.more else lines


def _subject(entry: CommitLogEntry) -> str:
    names = f"[{', '.join(safe(name, 60) for name in entry.refs[:3])}] " if entry.refs else ""
    return join((styled(names, SUCCESS), safe(entry.subject)))


def _data(target: Target, found: CommitLogPage) -> dict[str, object]:
    return {
        "repo": target.repo_name,
        "worktree_name": target.name,
        "trunk": found.trunk,
        "more": found.more,
        "own": sum(entry.own for entry in found.entries),
        "commits": [entry.data() for entry in found.entries],
    }


ACTIONS = (LogAction(),)
