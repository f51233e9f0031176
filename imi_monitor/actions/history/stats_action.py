"""`imi stats`: work of the last days per agent and worktree, from recorded sessions, attempts and commits."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import timedelta

from imi_monitor.actions import time_format
from imi_monitor.actions.action import ALL_REPOSITORIES, OF_REPOSITORY, Action, Option, Outcome
from imi_monitor.actions.history import sessions_action, stats_over_time
from imi_monitor.actions.history.session_commits import CommitCounts
from imi_monitor.actions.status import status_action
from imi_monitor.model import day_work, times
from imi_monitor.model.agent import COMPLETED, FAILED
from imi_monitor.model.attempt import OUTCOMES
from imi_monitor.model.columns import Column, table
from imi_monitor.model.errors import UsageError
from imi_monitor.model.session_status import INTERRUPTED, SessionTime, add_known, measure_session_time
from imi_monitor.model.snapshot import DayWork
from imi_monitor.model.styled_text import NAME, styled
from imi_monitor.model.text import safe
from imi_monitor.store import agents, attempts, db, sessions

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from datetime import datetime

    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.store.sessions import SessionFilter, SessionRow

_DAYS = 7
_BY = ("day", "week", "agent", "team", "worktree", "repo")
_COLUMNS = (
    Column("Agent", least=6, name=True),
    Column("Team", least=4, rank=8),
    Column("Worktree", least=8, name=True),
    Column("Tasks"),
    Column("Done", right=True),
    Column("Sessions", right=True),
    Column("Turns", right=True, rank=3),
    Column("Working", right=True),
    Column("Waiting", right=True),
    Column("Idle", right=True, rank=4),
    Column("Failed", right=True),
    Column("Stopped", right=True, rank=6),
    Column("Tools", right=True, rank=5),
    Column("Tokens", right=True, rank=1),
    Column("Cost", right=True, rank=2),
    Column("Files", right=True, rank=2),
    Column("Commits", right=True, rank=1),
    Column("Repository", least=6, rank=7),
)


@dataclass(slots=True)
class StatsGroup:
    """The figures of one agent in one worktree, or of several. None: unknown, or more than one."""

    agent: str | None
    cli: str | None
    repo_name: str | None
    worktree_name: str | None
    team: str | None = None
    tasks: Counter[str] = field(default_factory=Counter)  # by outcome
    sessions: int = 0
    live: int = 0
    interrupted: int = 0
    turns: int = 0
    tools: int = 0
    tools_failed: int = 0
    tokens_in: float | None = None
    tokens_out: float | None = None
    tokens_cached: float | None = None
    cost_usd: float | None = None
    commits: float | None = None
    spent: SessionTime = field(default_factory=SessionTime)
    files: set[str] = field(default_factory=set)


class StatsAction(Action):
    words = ("stats",)
    group = "Agents"
    label = "Statistics"
    examples = (
        ("imi stats --by agent --since 7d", "the numbers of each agent for a week"),
        ("imi stats --by day", "the last two weeks, a line for each day"),
        ("imi stats --format openmetrics", "a file for the textfile collector of node_exporter"),
    )
    help = "count tasks, sessions, time, failures, tokens, files and commits per agent and worktree"
    more = f"""{OF_REPOSITORY}
    Tasks are those of `imi tasks`. Waiting means for a person; idle means between two turns. Tokens count whole
    sessions, also their part before this time. Commits are those of the worktree's branch made while the agent held its
    claim. A dash, or null with --json, means unknown."""
    options = (
        Option("since", "start at a time: 7d (default), 2h ago, a date and time", value="WHEN"),
        sessions_action.WORKTREE,
        sessions_action.AGENT,
        Option(
            "by",
            "print one line for each of them; a day or week counts only the sessions that ended in it",
            value="WHAT",
            choices=_BY,
        ),
        Option(
            "format",
            "csv: a table of ended sessions; openmetrics: counters of all that is known, for Prometheus",
            value="FORMAT",
            choices=stats_over_time.FORMATS,
        ),
        ALL_REPOSITORIES,
    )
    changes = False

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        by = request.text("by")
        if by is not None and by not in _BY:
            raise UsageError(f"--by {safe(by)!r} is unknown: use one of {', '.join(_BY)}", code="bad-option")
        form = request.text("format")
        if form is not None and form not in stats_over_time.FORMATS:
            raise UsageError(f"--format {safe(form)!r} is unknown: use csv or openmetrics", code="bad-option")
        if form is not None:
            return stats_over_time.export(context, request, form, by)
        if by in stats_over_time.PERIODS:
            return stats_over_time.by_period(context, request, by)
        wanted = sessions_action.session_filter(context, request)
        since = wanted.since or times.stamp(times.now() - timedelta(days=_DAYS))
        wanted = type(wanted)(wanted.repo_name, wanted.worktree_name, wanted.agent, None, since)
        groups = db.read(context.connection, _with_tasks, wanted, since)
        commits = CommitCounts(context, since)
        for group in groups:
            group.commits = commits.count(group.repo_name, group.worktree_name, group.agent or "")
        total = _total(groups)
        if by is not None:
            groups = _by(groups, by)
        many = by == "repo" or len({group.repo_name for group in groups}) > 1
        rows = [_row(group, many) for group in groups]
        if len(groups) > 1:
            rows.append(_row(total, many))
        lines = (
            table(_columns(by), rows, status_action.terminal_width())
            if rows
            else ["no sessions and no tasks are recorded for this time"]
        )
        if by == "team" and not any(group.team for group in groups):
            lines.append("no agent has a team yet: `imi agents describe AGENT --team NAME` gives it one")
        return Outcome(lines, {"since": since, "groups": [_data(group) for group in groups], "total": _data(total)})


def today(connection: sqlite3.Connection) -> tuple[DayWork, ...]:
    """What agents have done since midnight in each repository, by its name here; first outside of all, even if nothing."""
    since, until = map(times.stamp, day_work.bounds(times.now()))
    found: dict[str, list[StatsGroup]] = {"": []}
    for group in _groups(connection, sessions.SessionFilter(since=since), since):
        found.setdefault(group.repo_name or "", []).append(group)
    return tuple(_day_work(repo, until, _total(groups)) for repo, groups in found.items())


def _day_work(repo: str, until: str, done: StatsGroup) -> DayWork:
    spent, tokens = done.spent, add_known(done.tokens_in, done.tokens_out)
    cents = None if done.cost_usd is None else 100 * done.cost_usd
    amounts = {"working": spent.working, "waiting": spent.waiting, "tokens": tokens, "cents": cents}
    return DayWork(
        repo,
        until,
        sessions=done.sessions,
        files=len(done.files),
        failed=spent.failed + done.interrupted,
        **{name: round(amount) for name, amount in amounts.items() if amount is not None},
    )


def _groups(connection: sqlite3.Connection, wanted: SessionFilter, since: str) -> list[StatsGroup]:
    """The groups by agent and worktree, the longest working first."""
    found: dict[tuple[str, str | None, str | None], StatsGroup] = {}
    for one in sessions.find(connection, wanted):
        key = (sessions_action.agent_name(one), one.repo_name, one.worktree_name)
        group = found.setdefault(key, StatsGroup(key[0], one.cli, one.repo_name, one.worktree_name))
        _add(connection, group, one, since)
    return sorted(found.values(), key=lambda group: (-(group.spent.working or 0.0), group.agent or ""))


def _with_tasks(connection: sqlite3.Connection, wanted: SessionFilter, since: str) -> list[StatsGroup]:
    """The groups with the attempts of this time, also those of agents without a recorded session."""
    found = {(group.agent, group.repo_name, group.worktree_name): group for group in _groups(connection, wanted, since)}
    asked = attempts.AttemptFilter(wanted.repo_name, wanted.worktree_name, wanted.agent, since=since)
    for task in attempts.find(connection, asked):
        where = (task.repo_name, task.worktree_name)
        group = found.setdefault((task.agent_id, *where), StatsGroup(task.agent_id, None, *where))
        group.tasks[task.outcome] += 1
    described = agents.list_descriptions(connection)
    for group in found.values():
        group.team = described.get(group.agent or "", agents.NOT_DESCRIBED).team
    return list(found.values())


def _by(groups: list[StatsGroup], what: str) -> list[StatsGroup]:
    """One group for each agent, worktree, team or repository, without the texts that differ inside it."""
    found: dict[object, list[StatsGroup]] = {}
    for group in groups:
        keys: dict[str, object] = {"agent": group.agent, "team": group.team, "repo": group.repo_name}
        keys["worktree"] = (group.repo_name, group.worktree_name)
        found.setdefault(keys[what], []).append(group)
    return [_total(members, alike=("agent", "cli", "repo_name", "worktree_name", "team")) for members in found.values()]


def _add(connection: sqlite3.Connection, group: StatsGroup, one: SessionRow, since: str) -> None:
    begin, end = _moment(since), _moment(one.ended_at or one.seen_at)
    changes = [(each.at, each.status) for each in sessions.list_status_changes(connection, [one.seq])]
    group.spent += measure_session_time(changes, begin, end)
    turns, tools, failed = sessions.count_activity(connection, one.seq, since)
    group.sessions += 1
    group.live += one.ended_at is None
    group.interrupted += one.lost == INTERRUPTED
    group.turns += turns
    group.tools += tools
    group.tools_failed += failed
    group.files |= sessions.list_written_files(connection, one.seq, since)
    for name in ("tokens_in", "tokens_out", "tokens_cached", "cost_usd"):
        setattr(group, name, add_known(getattr(group, name), getattr(one, name)))


def _total(groups: list[StatsGroup], *, alike: tuple[str, ...] = ()) -> StatsGroup:
    """The total of the groups, with the texts named in `alike` that are the same in all."""
    total = StatsGroup(None, None, None, None)
    for name in alike:
        values = {getattr(group, name) for group in groups}
        setattr(total, name, values.pop() if len(values) == 1 else None)
    for group in groups:
        total.tasks += group.tasks
        total.spent += group.spent
        total.files |= {f"{group.repo_name}/{group.worktree_name}/{path}" for path in group.files}
        for name in ("sessions", "live", "interrupted", "turns", "tools", "tools_failed"):
            setattr(total, name, getattr(total, name) + getattr(group, name))
        for name in ("tokens_in", "tokens_out", "tokens_cached", "cost_usd", "commits"):
            setattr(total, name, add_known(getattr(total, name), getattr(group, name)))
    return total


def _columns(by: str | None) -> list[Column]:
    """The columns; the one that the lines are grouped by is never dropped."""
    return [replace(one, rank=0) if by is not None and one.title == by.capitalize() else one for one in _COLUMNS]


def _row(group: StatsGroup, many: bool) -> list[str]:
    time, tokens = group.spent, add_known(group.tokens_in, group.tokens_out)
    return [
        safe(group.agent or ("" if group.team or group.worktree_name else "all"), 40),
        safe(group.team or "", 40),
        styled(safe(group.worktree_name or "", 60), NAME),
        *_tasks(group.tasks),
        str(group.sessions),
        str(group.turns),
        time_format.span(time.working),
        time_format.span(time.waiting),
        time_format.span(time.idle),
        str(time.failed + group.interrupted),
        str(time.cancelled),
        str(group.tools),
        _number(tokens),
        "" if group.cost_usd is None else f"${group.cost_usd:.2f}",
        str(len(group.files)),
        _number(group.commits),
        safe(group.repo_name or "", 60) if many else "",
    ]


def _tasks(outcomes: Counter[str]) -> tuple[str, str]:
    """(`5, 1 failed`, number completed); empty if there are none."""
    if not outcomes.total():
        return "", ""
    failed = f", {outcomes[FAILED]} failed" if outcomes[FAILED] else ""
    return f"{outcomes.total()}{failed}", str(outcomes[COMPLETED])


def _number(value: float | None) -> str:
    return "–" if value is None else f"{int(value):,}"


def _data(group: StatsGroup) -> dict[str, object]:
    time = group.spent
    return {
        "agent_id": group.agent,
        "cli": group.cli,
        "repo_name": group.repo_name,
        "worktree_name": group.worktree_name,
        "team": group.team,
        "tasks": group.tasks.total(),
        **{f"tasks_{word}": group.tasks[word] for word in OUTCOMES},
        "sessions": group.sessions,
        "live": group.live,
        "turns": group.turns,
        "turns_completed": time.completed,
        "turns_failed": time.failed,
        "turns_cancelled": time.cancelled,
        "interrupted": group.interrupted,
        "working_seconds": time.working,
        "waiting_seconds": time.waiting,
        "idle_seconds": time.idle,
        "tools": group.tools,
        "tools_failed": group.tools_failed,
        "tokens_in": group.tokens_in,
        "tokens_out": group.tokens_out,
        "tokens_cached": group.tokens_cached,
        "cost_usd": group.cost_usd,
        "files": len(group.files),
        "commits": group.commits,
    }


def _moment(text: str) -> datetime:
    return times.parse(text) or times.now()


ACTIONS = (StatsAction(),)
