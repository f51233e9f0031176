"""`imi tasks`: the attempts of agents at tasks, with their sessions and outcomes."""

from __future__ import annotations

from imi_monitor.actions import time_format
from imi_monitor.actions.action import ALL_REPOSITORIES, OF_REPOSITORY, Action, Option, Outcome
from imi_monitor.actions.claims.claims_action import end_text
from imi_monitor.actions.history import sessions_action
from imi_monitor.actions.status import status_action
from imi_monitor.model import attempt as model
from imi_monitor.model import state_words, times
from imi_monitor.model.agent import FAILED
from imi_monitor.model.columns import Column, table
from imi_monitor.model.errors import UsageError
from imi_monitor.model.styled_text import NAME, styled
from imi_monitor.model.text import safe
from imi_monitor.store import attempts, db, sessions
from imi_monitor.store.attempts import Attempt, AttemptFilter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.store.agents import AgentDescription
    from imi_monitor.store.sessions import SessionRow

_COLUMNS = (
    Column("Task", least=10),
    Column("Agent", least=14, name=True),
    Column("Role", least=4, rank=4),
    Column("Team", least=4, rank=3),
    Column("Worktree", least=8, name=True),
    Column("Outcome"),
    Column("For", right=True),
    Column("Began", rank=1),
    Column("Ended", least=10, rank=2),
    Column("Sessions", least=8, rank=5),
    Column("Repository", least=6, rank=6),
)


class TasksAction(Action):
    words = ("tasks",)
    group = "Agents"
    label = "Tasks"
    help = "list the tasks of `imi claim --task` with their outcome, newest first"
    more = f"""{OF_REPOSITORY}
    Outcomes: {", ".join(model.OUTCOMES)}. The outcome is the one given with `imi release --outcome`, else the end
    of the turn in which the claim was released, or of the turn before; without a session it is unknown. `imi stats --by
    agent` counts the completed ones of each agent."""
    options = (
        sessions_action.AGENT,
        Option("team", "only of agents in this team (`imi agents describe`)", value="TEAM"),
        Option("session", "only those of this session: the first characters of its id", value="ID"),
        sessions_action.WORKTREE,
        Option("failed", "only failed ones"),
        Option("state", "only with this outcome", value="OUTCOME", aliases=("outcome",), choices=tuple(model.OUTCOMES)),
        Option("since", "only those open or ended since: 10m, 2h, 7d ago, a date and time", value="WHEN"),
        sessions_action.LIMIT,
        ALL_REPOSITORIES,
    )
    changes = False

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        wanted = _filter(context, request)
        found = db.read(context.connection, attempts.find, wanted, sessions_action.at_most(request))
        many = wanted.repo_name is None and len({one.repo_name for one in found}) > 1
        shown = [session for one in found for session in one.sessions]
        short = db.read(context.connection, sessions.shortest_ids, shown)
        lines = (
            table(_COLUMNS, [_row(one, short, many) for one in found], status_action.terminal_width())
            if found
            else [_none(request)]
        )
        return Outcome(lines, {"tasks": [data(one) for one in found], "count": len(found)})


def name_with_emoji(agent: str, described: AgentDescription) -> str:
    """`claude-1 🦊`: the emoji after the name, so that names align."""
    return " ".join(filter(None, (safe(agent, 40), safe(described.emoji or "", 8))))


def data(one: Attempt) -> dict[str, object]:
    """A task for `--json`; null where unknown."""
    return {
        "task_id": one.task_id,
        "repo_name": one.repo_name,
        "worktree_name": one.worktree_name,
        "epoch": one.epoch,
        "agent": {"name": one.agent_id, "kind": one.kind, "host": one.host, **one.described.data()},
        "started_at": one.started_at,
        "ended_at": one.ended_at,
        "seconds": _seconds(one),
        "ended": one.ended,
        "taken_by": one.taken_by,
        "reason": one.reason,
        "outcome": one.outcome,
        "outcome_from": one.outcome_from,
        "sessions": [_session(each) for each in one.sessions],
    }


def _filter(context: Context, request: Request) -> AttemptFilter:
    """The filter of the command line."""
    outcome = request.text("state")
    if request.flag("failed"):
        if outcome not in (None, FAILED):
            raise UsageError("--failed and --state exclude each other: give one of them", code="bad-option")
        outcome = FAILED
    if outcome is not None and outcome not in model.OUTCOMES:
        raise UsageError(
            f"--state {safe(outcome)!r} is unknown: use one of {', '.join(model.OUTCOMES)}", code="bad-option"
        )
    repo = context.repo_filter(request)
    worktree, session = request.text("worktree"), request.text("session")
    return AttemptFilter(
        repo,
        None if worktree is None else sessions_action.worktree_name(context, worktree, repo),
        request.text("agent"),
        request.text("team"),
        outcome,
        None if session is None else sessions_action.find_session(context, session),
        time_format.since(request.text("since")),
    )


def _row(one: Attempt, short: dict[int, str], many: bool) -> list[str]:
    return [
        safe(one.task_id, 60),
        name_with_emoji(one.agent_id, one.described),
        safe(one.described.role or "", 40),
        safe(one.described.team or "", 40),
        styled(safe(one.worktree_name, 60), NAME),
        state_words.in_style(one.outcome),
        time_format.span(_seconds(one)),
        time_format.clock(one.started_at),
        _ending(one),
        " ".join(safe(short[each.seq]) for each in one.sessions[-3:]),
        safe(one.repo_name, 60) if many else "",
    ]


def _ending(one: Attempt) -> str:
    """Return how the attempt ended, by which claim and why; empty while it is open."""
    if one.ended is None:
        return ""
    return f"{end_text(one.ended, one.taken_by)}{f': {safe(one.reason, 80)}' if one.reason else ''}"


def _seconds(one: Attempt) -> float | None:
    begun, ended = times.parse(one.started_at), times.parse(one.ended_at)
    if begun is None or (ended is None and one.ended_at is not None):
        return None
    return max(0.0, ((ended or times.now()) - begun).total_seconds())


def _session(one: SessionRow) -> dict[str, object]:
    return {"id": one.id, "cli": one.cli, "state": one.state, "began_at": one.began_at, "ended_at": one.ended_at}


def _none(request: Request) -> str:
    return "no tasks of that kind" if request.narrows else "no tasks yet: `imi claim NAME --task TASK` starts one"


ACTIONS = (TasksAction(),)
