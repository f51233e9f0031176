"""`imi sessions` and `imi session show`: the recorded sessions of agents.

The options and filters here are shared with `imi tasks` and `imi stats`.
"""

from __future__ import annotations

from imi_monitor.actions import time_format, worktree_lookup
from imi_monitor.actions.action import ALL_REPOSITORIES, OF_REPOSITORY, Action, Argument, Option, Outcome
from imi_monitor.actions.history import session_timeline
from imi_monitor.actions.registry_outage import follow_commits
from imi_monitor.actions.status import status_action
from imi_monitor.model import amounts, names, state_words, times
from imi_monitor.model.columns import Column, table
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.styled_text import NAME, styled
from imi_monitor.model.text import safe
from imi_monitor.store import claim_history, db, session_events, sessions
from imi_monitor.store.registry_identity import RegistryIdentity
from imi_monitor.store.sessions import OLD_STATE_WORDS, STATE_WORDS, SessionFilter, SessionRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context

_DEFAULT_LIMIT = 50
_DEFAULT_LINES = 200
_POLL_SECONDS = 0.1
WORKTREE = Option("worktree", "only in this worktree, which may be removed", value="NAME", aliases=("w",))
LIMIT = Option(
    "limit", f"the maximum number (default: {_DEFAULT_LIMIT}, without --since)", value="N", number=True, aliases=("n",)
)
AGENT = Option("agent", "only of this agent or program: claude-1, codex", value="NAME")
_COLUMNS = (
    Column("Id"),
    Column("Agent", least=6, name=True),
    Column("Worktree", least=8, name=True),
    Column("State"),
    Column("For", right=True),
    Column("Began", rank=2),
    Column("Tokens", right=True, rank=3),
    Column("Prompt", least=16, rank=1),
    Column("Repository", least=6, rank=4),
)


class SessionsAction(Action):
    words = ("sessions", "session list")
    group = "Agents"
    label = "Sessions"
    examples = (("imi sessions --state failed --since 2h", "the sessions that failed in the last two hours"),)
    help = "list the sessions of agents, newest first"
    more = f"""{OF_REPOSITORY} States: {", ".join(STATE_WORDS)}. The setting
    sessions.keep_days says how long they are kept; `imi session show ID` prints one from its start."""
    options = (
        WORKTREE,
        Option("since", "only those open or ended since: 10m, 2h, 3d ago, a date and time", value="WHEN"),
        AGENT,
        Option("state", "only in this state", value="STATE", choices=tuple(STATE_WORDS)),
        LIMIT,
        ALL_REPOSITORIES,
    )
    changes = False

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        wanted = session_filter(context, request)
        found = db.read(context.connection, sessions.find, wanted, at_most(request))
        many = wanted.repo_name is None and len({one.repo_name for one in found}) > 1
        short = db.read(context.connection, sessions.shortest_ids, found)
        rows = [_row(one, short[one.seq], many) for one in found]
        lines = (
            table(_COLUMNS, rows, status_action.terminal_width())
            if rows
            else ["no sessions are recorded" + _empty_reason(request)]
        )
        return Outcome(lines, {"sessions": [data(one) for one in found], "count": len(found)})


class SessionShowAction(Action):
    words = ("session show",)
    group = "Agents"
    label = "Session"
    help = "print one session: prompts, tool calls with their time, files, questions"
    more = """ID is shown by `imi sessions`; its first characters are enough. `--json` prints one object per line: the session,
    then its events; `seq` is the order in which imi read them. `--follow` continues until Ctrl-C."""
    arguments = (Argument("id", "the session: the first characters of its id are enough"),)
    options = (
        Option("follow", "print new events until Ctrl-C", aliases=("f",)),
        Option(
            "limit",
            f"the maximum number of past events (default: {_DEFAULT_LINES})",
            value="N",
            number=True,
            aliases=("n",),
        ),
    )
    changes = False
    streams = True

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        one = find_session(context, request.text("id") or "")
        follow, limit = request.flag("follow"), request.whole("limit")
        try:
            last = self._show(context, one, _DEFAULT_LINES if limit is None else limit)
            if follow:
                _follow(context, one.seq, last)
        except KeyboardInterrupt:
            if not follow:
                raise  # Ctrl-C is the way to end --follow
        return Outcome([])

    def _show(self, context: Context, one: SessionRow, limit: int) -> int:
        """Print the session and its last events; returns the number of the last one."""
        written = db.read(context.connection, session_events.list_artifacts, one.seq)
        head = "\n".join(_head(one, [file.path for file in written]))
        context.emit(head, {"session": data(one), "files": [_file(each) for each in written]})
        lines, last = db.read(context.connection, session_timeline.read_new, one.seq, 0, limit)
        for line in lines:
            _print(context, line)
        return last


def _follow(context: Context, session: int, behind: int) -> None:
    """Print the events after number `behind`, and new ones until the reader closes the pipe."""
    known = RegistryIdentity(context.connection)

    def show(connection: sqlite3.Connection) -> None:
        nonlocal behind
        if RegistryIdentity(connection) != known:
            raise Refused("the registry was replaced or restored: list the sessions again", code="registry-replaced")
        lines, behind = db.read(connection, session_timeline.read_new, session, behind)
        for line in lines:
            _print(context, line)

    follow_commits(context, show, _POLL_SECONDS)


def _print(context: Context, line: session_timeline.TimelineLine) -> None:
    context.emit("\n".join(session_timeline.text_lines(line)), session_timeline.data(line))


def at_most(request: Request) -> int | None:
    """The maximum number; None, which means all, if only --since is given."""
    wanted = request.whole("limit")
    return _DEFAULT_LIMIT if wanted is None and request.text("since") is None else wanted


def worktree_name(context: Context, name: str, repo: str | None) -> str:
    """The worktree name that `name` stands for, among those with sessions or claims; the worktree may be removed."""
    for candidate in names.candidates(name, worktree_lookup.name_prefixes(context)):
        kept = sessions.find(context.connection, SessionFilter(repo, candidate), 1)
        if kept or claim_history.list_grants(context.connection, repo, candidate, 1):
            return candidate
    return name


def session_filter(context: Context, request: Request) -> SessionFilter:
    """The filter of the command line."""
    repo = context.repo_filter(request)
    state = request.text("state")
    if state is not None and state not in (*STATE_WORDS, *OLD_STATE_WORDS):
        raise UsageError(
            f"{safe(state)!r} is not a state of sessions: use one of {', '.join(STATE_WORDS)}", code="bad-option"
        )
    worktree = request.text("worktree")
    if worktree is not None:
        worktree = worktree_name(context, worktree, repo)
    return SessionFilter(repo, worktree, request.text("agent"), state, time_format.since(request.text("since")))


def find_session(context: Context, ident: str) -> SessionRow:
    """The one session whose id starts with `ident`."""
    found = db.read(context.connection, sessions.find_by_prefix, ident) if ident else []
    if len(found) == 1:
        return found[0]
    if not found:
        raise Refused(f"no session {safe(ident, 60)!r} is recorded: `imi sessions` lists them", code="no-session")
    named = ", ".join(safe(one.id, 60) for one in found[:5])
    raise Refused(f"{safe(ident, 60)!r} may mean {named}: give more characters", code="ambiguous")


def agent_name(one: SessionRow) -> str:
    """The name of the agent, or of its program if it never claimed."""
    return one.cli if one.agent_id == one.id else one.agent_id


def data(one: SessionRow) -> dict[str, object]:
    """A session for `--json`; null where unknown."""
    import json

    plain = {name: getattr(one, name) for name in one.__dataclass_fields__ if name not in ("seq", "metadata")}
    return {**plain, "agent_id": agent_name(one), "state": one.state, "metadata": json.loads(one.metadata)}


def _row(one: SessionRow, short: str, many: bool) -> list[str]:
    tokens = (one.tokens_in or 0) + (one.tokens_out or 0)
    known = one.tokens_in is not None or one.tokens_out is not None
    text = (one.prompt or one.title or "").split("\n")[0]
    return [
        safe(short),
        safe(agent_name(one), 40),
        styled(safe(one.worktree_name or "", 60), NAME),
        state_words.in_style(one.state_word),
        times.age_of(one.ended_at or one.status_at),
        times.age_of(one.began_at),
        f"{tokens:,}" if known else "–",
        safe(text, 200),
        safe(one.repo_name or "", 60) if many else "",
    ]


def _empty_reason(request: Request) -> str:
    return " of that kind" if request.narrows else " yet: a dashboard or `imi watch` records them"


def _head(one: SessionRow, files: list[str]) -> list[str]:
    tokens = ", ".join(
        f"{amounts.count(number)} {word}"
        for word, number in (("in", one.tokens_in), ("out", one.tokens_out), ("cached", one.tokens_cached))
        if number is not None
    )
    cost = f", ${one.cost_usd:.2f}" if one.cost_usd is not None else ""
    facts = [
        ("session", one.id),
        ("agent", _agent(one)),
        ("where", " of ".join(filter(None, (one.worktree_name, one.repo_name))) or one.cwd or "?"),
        (
            "state",
            f"{one.state_word}{': ' + one.detail if one.detail else ''}, since {time_format.clock(one.status_at)}",
        ),
        ("model", one.model or "–"),
        ("began", time_format.clock(one.began_at)),
        ("ended", time_format.clock(one.ended_at) if one.ended_at else "–"),
        ("tokens", (tokens or "–") + cost),
        ("files", f"{len(files)}: {', '.join(files[-5:])}" if files else "–"),
    ]
    return [*(f"{name:<8}  {safe(text, 300)}" for name, text in facts), ""]


def _agent(one: SessionRow) -> str:
    program = " ".join(filter(None, (one.cli, one.version)))
    return program if agent_name(one) == one.cli else f"{agent_name(one)} ({program})"


def _file(each: session_events.Artifact) -> dict[str, object]:
    return {name: getattr(each, name) for name in each.__dataclass_fields__}


ACTIONS = (SessionsAction(), SessionShowAction())
