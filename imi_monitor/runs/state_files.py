"""Writes the state files of sessions: `.compound-state/session-<epoch>/{session,orchestrator,<agent>}.json`, each by a rename.

A run's file is written when it is queued and when it ends. A run of a batch stands in the batch's folder, any other in one of
its own start. They can be copied and read elsewhere; `imi sync-state` reads them back.
"""

from __future__ import annotations

import os
from contextlib import suppress

from imi_monitor.fast import json_writer
from imi_monitor.model import board, state_file, times
from imi_monitor.store import db, state_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence

    from imi_monitor.store.items import ItemRow
    from imi_monitor.store.runs import RunRow

_RUN_STATUS = {
    "queued": board.PENDING,
    "starting": board.IN_PROGRESS,
    "alive": board.IN_PROGRESS,
    "crashed": board.FAILED,
}


def folder_of(home: str, session: str) -> str:
    return os.path.join(home, state_file.FOLDER, session)


def home_of(row: RunRow) -> str:
    """The folder that holds the run folders."""
    return os.path.dirname(os.path.dirname(row.folder))


def write_run(connection: sqlite3.Connection, row: RunRow) -> None:
    """Write the state of a run as it is now; a folder that cannot be written costs only the copy."""
    item, session, branch, pr_url = db.read(connection, state_rows.of_run, row)
    name = item["session_id"] if item and item["session_id"] else f"session-{_epoch(row.created_at)}"
    status = _RUN_STATUS.get(row.status, row.status)
    about = {"startTime": row.started_at or row.created_at, "endTime": row.ended_at, "updatedAt": times.stamp()}
    ours: dict[str, object] = {
        "item": item,
        "session": session,
        "run": row.id,
        "program": row.program,
        "repository": row.repo_name,
        "worktree": row.worktree_name,
        "branch": branch,
        "prUrl": pr_url,
        "durationSeconds": _duration(row),
        "retries": item["retries"] if item else 0,
        "exitCode": row.exit_code,
    }
    shown = item or {"id": row.id, "title": row.prompt, "error": None}
    if status == board.FAILED:
        shown = {**shown, "error": shown["error"] or row.detail or "it failed for an unknown reason"}
    folder = folder_of(home_of(row), str(name))
    _write(folder, state_file.agent_file(row.agent_id), state_file.agent_json(row.agent_id, shown, status, about, ours))
    _write_session(folder, str(name), row.created_at, "completed" if row.ended_at else "active")


def write_batch(home: str, session: str, about: Mapping[str, object], found: Sequence[ItemRow]) -> None:
    """Write the state of a batch. `about`: as for `state_file.orchestrator_json`."""
    folder = folder_of(home, session)
    agents = {one.agent_id or one.id: one.status for one in found}
    _write(folder, "orchestrator.json", state_file.orchestrator_json(session, about, agents))
    _write_session(folder, session, str(about["startTime"]), "completed" if about.get("endTime") else "active")


def _write_session(folder: str, name: str, created: str, status: str) -> None:
    """Write session.json from the files that are there."""
    with suppress(OSError):
        agents = [one.removesuffix(".json") for one in sorted(os.listdir(folder)) if one.endswith(".json")]
        listed = [one for one in agents if one != state_file.SESSION]
        _write(folder, "session.json", state_file.session_json(name, created, status, listed))


def _write(folder: str, name: str, plain: dict[str, object]) -> None:
    temporary = os.path.join(folder, f".{name}.{os.getpid()}")
    with suppress(OSError):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(handle, "w", encoding="utf-8", errors="replace") as file:
            file.write(json_writer.dumps(plain, 2) + "\n")
        os.rename(temporary, os.path.join(folder, name))


def _epoch(text: str) -> int:
    made = times.parse(text)
    return int(made.timestamp()) if made is not None else 0


def _duration(row: RunRow) -> float | None:
    begun, ended = times.parse(row.started_at), times.parse(row.ended_at)
    return None if begun is None or ended is None else round((ended - begun).total_seconds(), 3)
