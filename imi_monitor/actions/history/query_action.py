"""`imi query`: read-only SQL over the registry under be-agents-service's names, or over any other SQLite database."""

from __future__ import annotations

import os
import signal

from imi_monitor import config
from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.actions.integrations import list_integrations
from imi_monitor.actions.signal_mark import SignalMark
from imi_monitor.actions.status import status_action
from imi_monitor.model.columns import Column, table
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.text import count, safe
from imi_monitor.store import query, query_views

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context

_NAMED = ", ".join(query_views.NAMED)


class QueryAction(Action):
    words = ("query",)
    group = "Status"
    label = "Query"
    help = "answer a SELECT, or a query with a name, and change nothing"
    more = f"""Names: {_NAMED}. Views: tasks, agents, teams, sessions, metrics, campaigns, integrations; beside them all tables
    of the registry (`main.items`). At most {query.SECONDS:g} seconds, {query.MOST_ROWS:,} rows and {query.MOST_BYTES >> 20}
    MB; Ctrl-C ends it. `--db FILE` asks another SQLite database, without writing a byte beside it."""
    examples = (
        ("imi query performance", "the items of each agent, and how many it completed"),
        ("imi query \"SELECT * FROM tasks WHERE status = 'failed'\"", "any SELECT"),
        ("imi query 'SELECT * FROM rewards' --db agent-service.db", "the database of another program"),
    )
    arguments = (Argument("sql", f"a SELECT, or one of {_NAMED}", optional=True, choices=tuple(query_views.NAMED)),)
    options = (Option("csv", "print comma-separated values"),)
    changes = False
    recovers = False

    def run(self, context: Context, request: Request) -> Outcome:
        given = request.text("sql")
        if given is None:
            lines = [f"{name:<12}{sql}" for name, sql in query_views.NAMED.items()]
            return Outcome(lines, {"queries": dict(query_views.NAMED)})
        if not given.strip() or "\0" in given:
            raise UsageError("give a SELECT, or one of " + _NAMED, code="bad-query")
        path = os.path.join(context.cwd, context.database)
        if not os.path.exists(path):
            raise Refused(f"there is no database {safe(path, 200)}", code="no-database")
        own = query.is_registry(path)
        sql = query_views.NAMED.get(given, given) if own else given
        traceless = path != config.database_path(None)
        with SignalMark() as stop:
            try:
                found = query.ask(
                    path,
                    sql,
                    own=own,
                    traceless=traceless,
                    limits=query.QueryLimits(whole_process=True),
                    integrations=list_integrations(context) if own else (),
                    cancelled=lambda: bool(stop.signal) or context.cancelled(),
                )
            except Refused:
                if stop.signal == signal.SIGINT:
                    raise KeyboardInterrupt from None
                raise
        data: dict[str, object] = {"columns": list(found.columns), "rows": [_plain(row) for row in found.rows]}
        data |= {"count": len(found.rows), "cut": found.cut}
        warnings = [f"only the first {count(len(found.rows), 'row')} are shown"] if found.cut else []
        if request.flag("csv"):
            return Outcome([_csv(row) for row in (found.columns, *found.rows)], data, warnings=warnings)
        shown = [[_shown(value) for value in row] for row in found.rows]
        heads = [Column(safe(name, 60), least=4) for name in found.columns]
        lines = table(heads, shown, status_action.terminal_width()) if shown else ["no rows"]
        return Outcome(lines, data, warnings=warnings)


def _plain(row: tuple[object, ...]) -> list[object]:
    return [f"<{len(value)} bytes>" if isinstance(value, bytes) else value for value in row]


def _shown(value: object) -> str:
    if value is None:
        return "–"
    return f"<{len(value)} bytes>" if isinstance(value, bytes) else safe(str(value), 400)


def _csv(row: tuple[object, ...]) -> str:
    cells = ["" if value is None else _shown(value) for value in row]
    return ",".join('"' + one.replace('"', '""') + '"' if set(one) & set(',"') else one for one in cells)


ACTIONS = (QueryAction(),)
