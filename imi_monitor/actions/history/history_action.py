"""`imi history`: searches everything that happened, also long ago and in repositories that are gone."""

from __future__ import annotations

from contextlib import closing

from imi_monitor.actions import time_format
from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.actions.history import archive_action, history_query
from imi_monitor.model import columns, history_words
from imi_monitor.model.columns import Column
from imi_monitor.model.contained_names import shown_repository
from imi_monitor.model.errors import ImiError, Refused, RegistryError
from imi_monitor.model.styled_text import MUTED, styled
from imi_monitor.model.text import count, safe
from imi_monitor.store import db, history_file, history_search
from imi_monitor.store.history_search import HistoryQuery

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.store.history_search import HistoryHit

_DEFAULT_LIMIT = 50
_EXCERPT = 200
_ID = 10
_COLUMNS = (Column("When"), Column("What", least=30), Column("Repository", least=6, rank=2), Column("Id", rank=1))


class HistoryAction(Action):
    words = ("history",)
    group = "Status"
    label = "History"
    examples = (
        ("imi history token refresh --since 30d", "who did what about these words in a month"),
        (
            "imi history --worktree feat-api --type worktree.removed",
            "when a worktree was removed, and by which agent or person",
        ),
    )
    help = "search everything that happened: claims, commits, sessions and their prompts, removals"
    more = """
    All words must occur; the last one may be the beginning of a word. Newest first, of all repositories, also of those that
    are gone; `--repo` takes any name. The archive is `history.db` beside the registry. A dashboard, `imi watch` and
    `imi serve` write it all the time, and a search adds first what it does not have yet. Nothing in it is deleted except
    by `--forget`.
    """
    arguments = (Argument("words", "what to look for; without words the newest entries", optional=True, rest=True),)
    options = (
        Option("since", "start at a time: 10m, 2h, 3d ago, a date and time", value="WHEN"),
        Option("agent", "only of this agent", value="NAME"),
        Option("worktree", "only about this worktree", value="NAME", aliases=("w",)),
        Option("type", "only of this type: worktree.removed, session.prompt, worktree.*", value="TYPE"),
        Option("limit", f"the maximum number (default: {_DEFAULT_LIMIT})", value="N", number=True, aliases=("n",)),
        Option("forget", "delete this entry for good, here and in the registry", value="ID"),
    )
    changes = False
    needs_registry = False
    recovers = False  # it must answer while the registry is gone

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        wanted = request.text("forget")
        if wanted is not None:
            return _forget(context, wanted)
        query = _query(context, request)
        limit = request.whole("limit") or _DEFAULT_LIMIT
        warnings = _update_archive(context)
        answer = history_query.search_server(context.settings, query, limit, warnings)
        if answer is None:
            answer = history_query.search(context.database, query, limit)
        if answer is None:
            return Outcome(
                ["nothing is archived: history.enabled is off, or nothing has happened yet"],
                {"entries": [], "count": 0, "total": 0, "source": None},
                warnings=warnings,
            )
        warnings += [] if answer.indexed else [history_query.WITHOUT_INDEX]
        data = {
            "entries": [history_query.data(hit) for hit in answer.hits],
            "count": len(answer.hits),
            "total": answer.total,
            "source": answer.path,
        }
        lines = _lines(answer.hits, query.words) or [f"nothing matches among {count(answer.total, 'entry', 'entries')}"]
        return Outcome(lines, data, warnings=warnings)


def _update_archive(context: Context) -> list[str]:
    """Add what happened since, so that a search finds it; returns warnings. Without a registry there is nothing to add."""
    if context.registry_problem is not None:
        return []
    try:
        problem = archive_action.update_history(context)
    except RegistryError as error:  # read-only, or its disk is full
        problem = error.sentence
    return [f"what happened last is not in the archive yet: {problem}"] if problem else []


def _query(context: Context, request: Request) -> HistoryQuery:
    types: list[str] = []
    for kind in filter(None, (word.strip() for word in (request.text("type") or "").split(","))):
        types.append(kind if "." in kind else f"{kind}.*")
    return HistoryQuery(
        words=tuple(" ".join(request.rest("words")).split()),
        since=time_format.since(request.text("since")),
        agent=request.text("agent"),
        repo_name=_repository(context),
        worktree_name=request.text("worktree"),
        types=tuple(types),
    )


def _repository(context: Context) -> str | None:
    """Return what `--repo` names: a repository here, or just the name of one that is gone."""
    named = context.repo_option
    if named is None:
        return None
    try:
        return context.repo_name(context.repository()) or named
    except ImiError:
        return named


def _lines(hits: list[HistoryHit], words: tuple[str, ...]) -> list[str]:
    from imi_monitor.actions.status.status_action import terminal_width

    rows = []
    for hit in hits:
        excerpt = history_query.excerpt(hit, words, _EXCERPT)
        what = safe(history_words.sentence(hit.words), 300) + (f" · {safe(excerpt, _EXCERPT + 2)}" if excerpt else "")
        rows.append(
            [
                time_format.clock(hit.at),
                what,
                safe(shown_repository(hit.repo_name or ""), 40),
                styled(safe(hit.id[:_ID]), MUTED),
            ]
        )
    return columns.table(_COLUMNS, rows, terminal_width()) if rows else []


def _forget(context: Context, prefix: str) -> Outcome:
    """Delete one entry, and the same event in the registry; what was delivered to servers is theirs."""
    path = history_file.history_path(context.database)
    with closing(history_file.connect(path, create=False)) as connection:
        found = history_search.find(connection, prefix)
        if len(found) != 1:
            problem = "no entry has" if not found else f"{len(found)} or more entries have"
            raise Refused(
                f"{problem} an id that begins with {safe(prefix)!r}: `imi history --json` shows whole ids",
                code="no-entry",
            )
        hit = found[0]
        history_file.forget(connection, hit.id)
    if context.registry_problem is None:
        db.transact(context.connection, history_search.forget_in_registry, hit)
    lines = [f"forgot: {safe(history_words.sentence(hit.words), 200)}"]
    sent = [name for name in _servers(context) if name]
    if sent:
        lines.append(f"{' and '.join(sent)} got it too: delete it there by its id {safe(hit.id)}")
    return Outcome(lines, {"forgotten": hit.id, "servers": sent})


def _servers(context: Context) -> list[str]:
    pairs = (("Redis", "servers.redis_url"), ("RabbitMQ", "servers.amqp_url"), ("PostgreSQL", "servers.postgres_url"))
    return [name for name, key in pairs if context.settings.text(key)]


ACTIONS = (HistoryAction(),)
