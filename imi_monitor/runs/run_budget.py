"""The budget of a run: money, as its program reports it, and minutes since its start. At 80 % an event, at 100 % an interrupt.

An interrupt ends the turn and keeps the session. What the user says then is the consent to the same amount again.
"""

from __future__ import annotations

import json
from contextlib import suppress

from imi_monitor.model import times
from imi_monitor.model.errors import Refused
from imi_monitor.runs import providers
from imi_monitor.runs.provider import TASK
from imi_monitor.store import db, events

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.runs.run_ingest import FollowedRun
    from imi_monitor.store.runs import RunRow

_WARN = 0.8
_FILE = "limits"  # of the launch folder: a line for each amount that was used up


def limits_of(row: RunRow) -> dict[str, float]:
    """Unit -> amount; empty: no budget."""
    found = json.loads(row.launch).get("budget")
    return {str(unit): float(amount) for unit, amount in found.items() if amount} if found else {}


def check(connection: sqlite3.Connection, one: FollowedRun) -> None:
    """Compare what the run has used with its budget; interrupt it where that is used up."""
    if one.row.way != TASK or one.reader.turn_over:
        return
    for unit, amount in limits_of(one.row).items():
        used = _used(one, unit)
        allowed = amount * (1 + one.folder.count_lines(_FILE, unit))
        if used is None or used < _WARN * allowed:
            continue
        if used >= allowed:
            with suppress(Refused):  # it does not read any more: it has ended
                one.folder.send(providers.by_name(one.row.program).interrupt(one.reader))
            one.folder.add_line(_FILE, unit)
        elif (unit, allowed) not in one.warned:
            one.warned.add((unit, allowed))
        else:
            continue
        data: dict[str, object] = {"run": one.row.id, "unit": unit, "used": round(used, 4), "budget": round(allowed, 4)}
        kind = "run.interrupted" if used >= allowed else "run.warned"
        row = one.row
        db.transact(connection, events.record, kind, row.repo_name, row.worktree_name, agent_id=row.agent_id, data=data)


def _used(one: FollowedRun, unit: str) -> float | None:
    if unit == "usd":
        return one.reader.facts.cost_usd
    began = times.parse(one.row.started_at)
    return None if began is None else (times.now() - began).total_seconds() / 60
