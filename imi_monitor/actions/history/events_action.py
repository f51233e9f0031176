"""`imi events`: the event log, once or followed.

Following costs little: the log is read only when SQLite's change counter shows a commit.
"""

from __future__ import annotations

from imi_monitor.actions import time_format, worktree_lookup
from imi_monitor.actions.action import ALL_REPOSITORIES, OF_REPOSITORY, Action, Option, Outcome
from imi_monitor.actions.history import history_query
from imi_monitor.actions.registry_outage import follow_commits
from imi_monitor.fast import json_writer
from imi_monitor.model import event_text, names
from imi_monitor.model.text import safe
from imi_monitor.store import db, events, repositories
from imi_monitor.store.registry_identity import RegistryIdentity

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.store.events import Event

_POLL_SECONDS = 0.04
_PAGE = 500
_DEFAULT_LIMIT = 50  # without --since and --limit
_DEFAULT_LIMIT_WITH_FOLLOW = 10
_LONGEST_VALUE = 80


class EventQuery:
    """The filters of the command line, and the number of the last event that was printed."""

    __slots__ = ("after", "kinds", "repo_name", "seq", "worktree_name")

    def __init__(self, seq: int, after: str | None, kinds: tuple[str, ...], repo: str | None, worktree: str | None):
        self.seq = seq
        self.after = after
        self.kinds = kinds
        self.repo_name = repo
        self.worktree_name = worktree

    def read(self, connection: sqlite3.Connection, limit: int, *, newest: bool = False) -> list[Event]:
        return events.list_events(
            connection,
            self.seq,
            kinds=self.kinds,
            after=self.after,
            repositories=None if self.repo_name is None else (self.repo_name,),
            worktree_name=self.worktree_name,
            limit=limit,
            newest=newest,
        )


class EventsAction(Action):
    words = ("events",)
    group = "Status"
    label = "Events"
    examples = (("imi events --follow --type 'worktree.*'", "print events of worktrees as they happen"),)
    help = "list the events: claims, new, removed and synced worktrees, sessions"
    more = f"""
    {OF_REPOSITORY} Without options the last 50 events; `--follow` starts with the last 10 and prints new ones until Ctrl-C.
    Of each session's past, only the newest event is printed. `--json` prints every event as one object per line, with
    kind and data; --since with its `seq` continues after it.
    """
    options = (
        Option("follow", "print new events until Ctrl-C", aliases=("f",)),
        Option("since", "start at a time: 10m, 2h, 3d ago, a date and time; or after an event's seq", value="WHEN"),
        Option("type", "only events of this kind: worktree.claimed, worktree.*; several with commas", value="TYPE"),
        Option("worktree", "only events of this worktree, which may be removed", value="NAME", aliases=("w",)),
        Option("limit", "the maximum number of past events", value="N", number=True, aliases=("n",)),
        Option(
            "from",
            "amqp: follow the exchange of servers.amqp_url, with what other programs publish",
            value="WHERE",
            choices=("registry", "amqp"),
        ),
        ALL_REPOSITORIES,
    )
    changes = False
    streams = True

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        if request.text("from") == "amqp":
            return _follow_exchange(context, request)
        query = _query(context, request)
        many = len(repositories.list_repositories(context.connection)) > 1 and query.repo_name is None
        follow = request.flag("follow")
        shown = 0
        try:
            shown = _show_past(context, query, request.whole("limit"), follow=follow, many=many)
            if follow:
                _follow(context, query, many)
        except KeyboardInterrupt:
            if not follow:
                raise  # Ctrl-C is the way to end --follow
        return Outcome([] if shown or follow else ["no events" + (" of that kind" if request.narrows else " yet")])


def _follow_exchange(context: Context, request: Request) -> Outcome:
    from contextlib import suppress

    from imi_monitor.actions.history import exchange_events

    with suppress(KeyboardInterrupt):  # Ctrl-C is the way to end it
        exchange_events.follow(context, _kinds(request.text("type")))
    return Outcome()


def _query(context: Context, request: Request) -> EventQuery:
    repo = context.repo_filter(request)
    seq, after = _since(request.text("since"))
    worktree = request.text("worktree")
    if worktree is not None:
        worktree = _worktree_name(context, worktree, repo)
    return EventQuery(seq, after, _kinds(request.text("type")), repo, worktree)


def _show_past(context: Context, query: EventQuery, limit: int | None, *, follow: bool, many: bool) -> int:
    """Print past events and move the query behind them; returns their number."""
    end = events.last_seq(context.connection)
    shown = 0
    if limit is None and query.seq == 0 and query.after is None:
        limit = _DEFAULT_LIMIT_WITH_FOLLOW if follow else _DEFAULT_LIMIT
    if limit is not None:
        page = db.read(context.connection, query.read, limit, newest=True) if limit else []
        shown = _print(context, page, many)
    else:
        while page := db.read(context.connection, query.read, _PAGE):
            shown += _print(context, page, many)
            query.seq = page[-1].seq
            if context.cancelled():
                break
    query.seq = max(query.seq, page[-1].seq if page else 0, end)
    return shown


def _follow(context: Context, query: EventQuery, many: bool) -> None:
    """Print new events until the reader closes the pipe; of a registry that takes the place of this one, all its new ones."""
    query.after = None
    known = RegistryIdentity(context.connection)

    def show(connection: sqlite3.Connection) -> None:
        nonlocal known
        if RegistryIdentity(connection) != known:
            known = RegistryIdentity(connection)
            query.seq = events.last_seq(connection)
            context.notify("the registry was replaced or restored: its new events follow")
        while not context.cancelled() and (page := db.read(connection, query.read, _PAGE)):
            _print(context, page, many)
            query.seq = page[-1].seq

    follow_commits(context, show, _POLL_SECONDS)


def page(
    context: Context,
    *,
    behind: int = 0,
    before: int | None = None,
    limit: int = _PAGE,
    repositories: tuple[str, ...] | None = None,
) -> list[Event]:
    """One page of the log of these repositories: the last events before number `before`, or those after `behind`.

    In front of the log's first event the archive continues it, with negative numbers.
    """
    found: list[Event] = []
    if before is None or before > 0:
        found = db.read(
            context.connection,
            lambda inner: events.list_events(
                inner, behind, before=before, limit=limit, newest=behind == 0, repositories=repositories
            ),
        )
    if before is None or len(found) >= limit:
        return found
    first = db.read(context.connection, events.first_id)
    older = history_query.older_events(context.database, first, before, limit - len(found), repositories)
    return [*older, *found]


def details(event: Event) -> list[str]:
    """The event's data as `key=value` words."""
    return _details(_data(event))


def clock(event: Event) -> str:
    return time_format.clock(event.occurred_at)


def _print(context: Context, page: list[Event], many: bool) -> int:
    shown = {one.event.seq: one for one in event_text.fold([events.to_model(event) for event in page])}
    for event in page:
        one = shown.get(event.seq)
        context.emit(None if one is None else line(one, event, with_repo=many), entry(event))
    return len(page)


def entry(event: Event) -> dict[str, object]:
    """One event as a JSON object."""
    return {
        "seq": event.seq,
        "id": event.id,
        "type": event.type,
        "occurred_at": event.occurred_at,
        "host": event.host,
        "repo_name": event.repo_name,
        "worktree_name": event.worktree_name,
        "agent_id": event.agent_id,
        "epoch": event.epoch,
        "data": _data(event),
    }


def line(one: event_text.ShownEvent, event: Event, *, with_repo: bool = False) -> str:
    """`14:02:09 claude-1 claimed feat-api for T-7`, with the date if it was not today."""
    more = f" ({one.earlier} earlier)" if one.earlier else ""
    undo = " (undo: imi undo)" if one.restorable else ""
    return f"{clock(event)} {event_text.sentence(one.event, repository=(one.event.repo or '') if with_repo else '')}{more}{undo}"


def _details(data: object) -> list[str]:
    if not isinstance(data, dict):
        return [f"data={_short(data)}"]
    return [
        f"{safe(str(key), _LONGEST_VALUE)}={_short(value)}"
        for key, value in data.items()
        if value not in (None, "", 0, [], {}, False)
    ]


def _short(value: object) -> str:
    plain = isinstance(value, str) and value.isprintable() and " " not in value
    text = str(value) if plain else json_writer.dumps(value)
    return safe(text, _LONGEST_VALUE)


def _data(event: Event) -> object:
    import json

    try:
        return json.loads(event.data)
    except ValueError:
        return event.data


def _since(text: str | None) -> tuple[int, str | None]:
    """`--since` as (event number, moment)."""
    if text is not None and text.isdecimal() and text.isascii() and len(text) < 16:
        return int(text), None
    return 0, time_format.since(text, "use 10m, 2h, 3d, 2026-01-27T15:30, or an entry's seq")


def _kinds(text: str | None) -> tuple[str, ...]:
    """The patterns of `--type`; `worktree` means `worktree.*` too."""
    kinds: list[str] = []
    for kind in filter(None, (word.strip() for word in (text or "").split(","))):
        kinds += [kind] if "." in kind or "*" in kind else [kind, f"{kind}.*"]
    return tuple(kinds)


def _worktree_name(context: Context, name: str, repo: str | None) -> str:
    """The worktree name in the log that `name` stands for; the worktree may be removed."""
    for candidate in names.candidates(name, worktree_lookup.name_prefixes(context)):
        if events.list_events(context.connection, repo_name=repo, worktree_name=candidate, limit=1):
            return candidate
    return name


ACTIONS = (EventsAction(),)
