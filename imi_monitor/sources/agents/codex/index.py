"""Codex's own index of its threads, in SQLite: which file, which folder, which title, how the last turn ended."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from imi_monitor.model.agent import CANCELLED, COMPLETED, FAILED, RUNNING, Evidence
from imi_monitor.sources.agents import loose
from imi_monitor.sources.agents.codex.items import why
from imi_monitor.sources.agents.foreign_db import placeholders, rows

_MOST = 300
_TURNS = {"inProgress": RUNNING, "completed": COMPLETED, "interrupted": CANCELLED, "failed": FAILED}


@dataclass(frozen=True, slots=True)
class Listed:
    """A row of `threads`."""

    id: str
    path: str | None
    cwd: str | None
    title: str | None
    archived: bool


def threads(home: str, since: float, also: Iterable[str]) -> list[Listed]:
    """Those that moved since then, and those that are named. Every column but these may come and go."""
    database = _newest(home, "state")
    if database is None:
        return []
    named = [name for name in also if len(name) < 100][:_MOST]
    question = (
        f"SELECT * FROM threads WHERE updated_at >= ? OR id IN ({placeholders(named)}) ORDER BY updated_at DESC LIMIT ?"
    )
    return [one for row in rows(database, question, int(since), *named, _MOST) if (one := _listed(row))]


def last_turn(home: str, thread: str) -> Evidence | None:
    """How its last turn stands, for a rollout that we cannot read."""
    database = _newest(home, "thread_history")
    question = "SELECT * FROM thread_turns WHERE thread_id = ? ORDER BY started_at DESC, rollout_ordinal DESC LIMIT 1"
    row = next(iter(rows(database, question, thread)), None) if database else None
    state = _TURNS.get(str(row.get("status"))) if row else None
    if row is None or state is None:
        return None
    at = loose.moment(row.get("completed_at")) or loose.moment(row.get("started_at"))
    error = loose.record(str(row.get("error_json") or ""))
    says = f"{os.path.basename(database or '')} says its last turn is {row.get('status')}"
    return Evidence("transcript", state, at, says, why(error)) if at else None


def _listed(row: dict[str, object]) -> Listed | None:
    ident = loose.text(row.get("id"), 100)
    if ident is None:
        return None
    return Listed(
        ident,
        loose.path(row.get("rollout_path")),
        loose.path(row.get("cwd")),
        loose.one_line(loose.text(row.get("name")) or loose.text(row.get("title"))),
        bool(row.get("archived")),
    )


def _newest(home: str, name: str) -> str | None:
    """`state_5.sqlite`: the number grows with versions, the old file stays."""
    shape = re.compile(rf"{name}_(\d+)\.sqlite$")
    try:
        found = [(int(match[1]), entry) for entry in os.listdir(home) if (match := shape.match(entry))]
    except OSError:
        return None
    return os.path.join(home, max(found)[1]) if found else None
