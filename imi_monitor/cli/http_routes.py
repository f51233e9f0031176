"""What `imi serve --http` answers: each route is a verb's data or a log, read in a thread with a registry of its own.

GET /api/tasks, /api/sessions, /api/agents, /api/data/campaigns    rows of the views of `imi query`; ?NAME=VALUE selects
GET /api/logs/ID[?follow=1]      the log of a run, a job or a batch as text: the last 200 lines
GET /api/stream/ID               the events of a session as they come, as server-sent events
"""

from __future__ import annotations

import json
import os
import string
from collections.abc import Callable, Iterator, Mapping

from imi_monitor.actions.context import Context
from imi_monitor.actions.history import session_timeline, sessions_action
from imi_monitor.actions.runs import foreign_log
from imi_monitor.actions.runs.logs_action import OutputReader
from imi_monitor.cli.loopback_server import EVENTS, JSON, TEXT, RouteAnswer, failure
from imi_monitor.model.errors import ImiError, Refused
from imi_monitor.runs import job_log, log_text
from imi_monitor.store import batches, db, query, runs
from imi_monitor.store.runs import RunRow

_VIEWS = {
    "/api/tasks": ("tasks", "started_at IS NULL, started_at DESC, id"),
    "/api/sessions": ("sessions", "started_at DESC"),
    "/api/agents": ("agents", "id"),
    "/api/data/campaigns": ("campaigns", "created_at DESC"),
}
_LINES = 200
_MOST_LOG = 4 << 20  # bytes of a log's end
_PLAIN = frozenset(string.ascii_letters + string.digits + "-_.:")
_MOST_ID = 120
_SESSION = "session-"


def answer(open_context: Callable[[], Context], path: str, given: Mapping[str, str]) -> RouteAnswer:
    """The answer to a GET. Runs in a thread."""
    try:
        if path in _VIEWS:
            return _rows(open_context, *_VIEWS[path], given)
        for prefix, read in (("/api/logs/", _log), ("/api/stream/", _stream)):
            ident = path.removeprefix(prefix)
            if ident != path and is_plain(ident):
                return read(open_context, ident, given)
    except Refused as error:
        return failure(404, error.sentence)
    except ImiError as error:
        return failure(503, error.sentence)
    return failure(404, "there is no such route")


def is_plain(ident: str) -> bool:
    """Whether a text can be an id; it is only looked up, and never part of a path."""
    return 0 < len(ident) <= _MOST_ID and set(ident) <= _PLAIN and not ident.startswith(".")


def _rows(open_context: Callable[[], Context], view: str, order: str, given: Mapping[str, str]) -> RouteAnswer:
    with open_context() as context:
        database = context.database
    found = query.ask(database, f"SELECT * FROM {view} ORDER BY {order}", own=True, traceless=False)
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    wanted = {name: value for name, value in given.items() if name in found.columns}
    kept = [row for row in rows if all(str(row[name]) == value for name, value in wanted.items())]
    plain = {"success": True, view: kept, "count": len(kept), "cut": found.cut}
    return RouteAnswer(200, JSON, json.dumps(plain, ensure_ascii=False).encode("utf-8", "replace"))


# -- logs -------------------------------------------------------------------------------------------------------------


def _log(open_context: Callable[[], Context], ident: str, given: Mapping[str, str]) -> RouteAnswer:
    if ident.startswith(_SESSION):
        return _batch_log(open_context, ident)
    try:
        row = _find_run(open_context, ident)
    except Refused:
        with open_context() as context:
            path = foreign_log.find(context, ident)
        if path is None:
            raise
        return RouteAnswer(200, TEXT, _joined(foreign_log.last_lines(path, _LINES)))
    reader = OutputReader(row)
    lines = [line for one in reader.read() for line in log_text.entry_lines(one)][-_LINES:]
    first = _joined(lines)
    if given.get("follow") != "1":
        return RouteAnswer(200, TEXT, first)
    return RouteAnswer(200, TEXT, first, _follow_log(open_context, row, reader))


def _follow_log(open_context: Callable[[], Context], row: RunRow, reader: OutputReader) -> Callable[[], bytes | None]:
    def more() -> bytes | None:
        with open_context() as context:
            current = db.read(context.connection, runs.by_id, row.id)
        news = _joined([line for one in reader.read() for line in log_text.entry_lines(one)])
        over = current is None or not current.is_open
        return news or (None if over else b"")

    return more


def _find_run(open_context: Callable[[], Context], ident: str) -> RunRow:
    """The run with this id, session or agent, or of this job."""
    with open_context() as context:
        if ident.startswith("job-"):
            everything = db.read(context.connection, runs.list_runs, limit=10_000)
            found = [one for one in everything if job_log.job_id(one) == ident]
        else:
            found = db.read(context.connection, runs.find_by_prefix, ident)
    if not found:
        raise Refused("there is no run, job or batch of this id", code="no-run")
    return found[0]


def _batch_log(open_context: Callable[[], Context], session: str) -> RouteAnswer:
    """The orchestrator's log of a batch, found by the runs of the session."""
    with open_context() as context:
        ids = [one.run_id for one in db.read(context.connection, batches.list_session, session) if one.run_id]
        row = db.read(context.connection, runs.by_id, ids[0]) if ids else None
    if row is None:
        raise Refused("there is no batch of this id", code="no-batch")
    home = os.path.dirname(os.path.dirname(row.folder))
    path = os.path.join(home, "logs", "orchestrator-sessions", session, "orchestrator.log")
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            file.seek(max(0, os.fstat(handle).st_size - _MOST_LOG))
            lines = file.read(_MOST_LOG).decode("utf-8", "replace").splitlines()[-_LINES:]
    except OSError as error:
        raise Refused("the log of this batch is gone", code="missing") from error
    return RouteAnswer(200, TEXT, _joined(lines))


def _joined(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


# -- events -----------------------------------------------------------------------------------------------------------


def _stream(open_context: Callable[[], Context], ident: str, _given: Mapping[str, str]) -> RouteAnswer:
    with open_context() as context:
        try:
            one = sessions_action.find_session(context, ident)
        except Refused:
            run = _find_run(open_context, ident)
            one = sessions_action.find_session(context, f"{run.program}:{run.session}")
        head = _event("session", sessions_action.data(one))
    behind = 0

    def more() -> bytes | None:
        nonlocal behind
        with open_context() as context:
            lines = db.read(context.connection, session_timeline.timeline, one.seq, behind)
            behind = max([behind, *(line.seq for line in lines)])
        return b"".join(_event(line.kind, session_timeline.data(line)) for line in lines)

    return RouteAnswer(200, EVENTS, head, more)


def _event(kind: str, data: Mapping[str, object]) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(data, default=str)}\n\n".encode("utf-8", "replace")


def paths() -> Iterator[str]:
    """All routes, for the documentation and the tests."""
    yield from _VIEWS
    yield from ("/api/logs/ID", "/api/stream/ID")
