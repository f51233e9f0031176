"""The runs that screens show: those that are not over, and those that ended lately and were not resumed. Reads only."""

from __future__ import annotations

import json
import sqlite3

from imi_monitor import host
from imi_monitor.model import run_modes
from imi_monitor.model.agent import SessionFacts, ToolCall
from imi_monitor.model.run import CRASHED, OPEN, QUEUED, STALLED, Question, Run, WantedDelivery
from imi_monitor.model.snapshot import Key
from imi_monitor.store import contained_work, runs
from imi_monitor.store.contained_work import WAITS, WANTED

_MOST = 200
_OPEN = ", ".join(f"'{one}'" for one in OPEN)
_FACTS = (
    "version",
    "model",
    "title",
    "branch",
    "started_at",
    "ended_at",
    "prompt",
    "last_message",
    "tokens_in",
    "tokens_out",
    "tokens_cached",
    "cost_usd",
    "context_used",
    "context_size",
)


def list_shown(connection: sqlite3.Connection, since: str) -> list[Run]:
    """The runs of this machine that are open or ended after `since`, the newest first."""
    rows = connection.execute(
        f"SELECT {', '.join(runs.RunRow.__dataclass_fields__)} FROM runs WHERE host = ?"
        f" AND (status IN ({_OPEN}) OR ended_at >= ? OR id IN (SELECT run FROM deliveries WHERE state = '{WAITS}'))"
        " AND id NOT IN (SELECT resumed_from FROM runs WHERE resumed_from IS NOT NULL) ORDER BY seq DESC LIMIT ?",
        (host.hostname(), since, _MOST),
    )
    return [_shown(connection, runs.RunRow(*row)) for row in rows]


def _shown(connection: sqlite3.Connection, one: runs.RunRow) -> Run:
    launch = json.loads(one.launch)
    facts, since, tool = _recorded(connection, one)
    word = one.shown_state
    over = None if one.is_open else one.ended_at
    contained = launch.get("contained")
    workspace = str(contained["path"]) if isinstance(contained, dict) else None
    return Run(
        id=one.id,
        program=one.program,
        agent=one.agent_id,
        way=one.way,
        status=one.status,
        state=one.state,
        shown=word,
        since=over or (one.active_at if word == STALLED else since or one.started_at or one.created_at),
        detail=one.detail,
        session=one.session,
        key=Key(one.host, one.repo_name, one.worktree_name) if one.repo_name and one.worktree_name else None,
        cwd=one.cwd,
        folder=one.folder,
        mode=str(launch.get("mode") or run_modes.ASK),
        dangerous=bool(launch.get("dangerous")),
        prompt=one.prompt,
        pid=one.pid,
        pid_started=one.pid_started,
        created_at=one.created_at,
        ended_at=one.ended_at,
        place=runs.place_in_queue(connection, one) if one.status == QUEUED else None,
        question=_question(connection, one) if one.is_open else None,
        group=launch.get("group"),
        facts=facts,
        tool=tool,
        gone=one.is_open and host.is_alive(one.host, one.boot, one.pid, one.pid_started) is False,
        resumable=one.status == CRASHED,
        wall=launch.get("sandbox"),
        workspace=workspace,
        deliveries=_deliveries(connection, workspace, one.id) if workspace is not None else (),
    )


def _deliveries(connection: sqlite3.Connection, workspace: str, run_id: str) -> tuple[WantedDelivery, ...]:
    found = contained_work.list_deliveries(connection, workspace, WANTED, WAITS)
    return tuple(WantedDelivery(one.name, one.target, one.state == WAITS) for one in found if one.run == run_id)


def _question(connection: sqlite3.Connection, one: runs.RunRow) -> Question | None:
    asked = next(iter(runs.list_asks(connection, one.seq)), None)
    return None if asked is None else Question(asked.id, asked.tool, asked.text, asked.asked_at, asked.position)


def _recorded(
    connection: sqlite3.Connection, one: runs.RunRow
) -> tuple[SessionFacts | None, str | None, ToolCall | None]:
    """(what is recorded of its session, since when it is in its state, the tool call that is under way)."""
    if one.session is None:
        return None, None, None
    row = connection.execute(
        f"SELECT {', '.join(_FACTS)}, seq, status, status_at FROM sessions WHERE host = ? AND id = ?",
        (one.host, f"{one.program}:{one.session}"),
    ).fetchone()
    if row is None:
        return None, None, None
    *known, seq, status, since = row
    call = None
    if one.is_open:
        call = connection.execute(
            "SELECT name, input, id FROM tool_calls WHERE session = ? AND status = 'running' ORDER BY started_at DESC",
            (seq,),
        ).fetchone()
    tool = None if call is None else ToolCall(call[0], call[1], call[2])
    return SessionFacts(**dict(zip(_FACTS, known, strict=True))), since if status == one.state else None, tool
