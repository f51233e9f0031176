"""The budget of a run: money, as its program reports it or by prices, and minutes at work.

At 80 % there is an event, at 100 % an interrupt, too. What the user says then is the consent to the same amount again.
"""

from __future__ import annotations

import json
from functools import lru_cache

from imi_monitor.runs import run_interrupt
from imi_monitor.store import db, events, run_usage
from imi_monitor.store.run_usage import USD

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.runs.run_ingest import FollowedRun
    from imi_monitor.store.runs import RunRow

_WARN = 0.8


def limits_of(row: RunRow) -> dict[str, float]:
    """Unit -> amount; empty: no budget."""
    return _limits(row.launch)


@lru_cache(256)
def _limits(launch: str) -> dict[str, float]:
    found = json.loads(launch).get("budget")
    return {str(unit): float(amount) for unit, amount in found.items() if amount} if found else {}


def check(connection: sqlite3.Connection, one: FollowedRun) -> None:
    """Compare what the run has used with its budget; interrupt it where that is used up."""
    if one.reader.turn_over:
        return
    for unit, amount in limits_of(one.row).items():
        used = _used(connection, one, unit)
        allowed = amount * (1 + run_interrupt.count(one, unit))
        if used is None or used < _WARN * allowed:
            continue
        if used >= allowed:
            if not run_interrupt.interrupt(one, unit):
                continue
        elif (unit, allowed) not in one.warned:
            one.warned.add((unit, allowed))
        else:
            continue
        data: dict[str, object] = {"run": one.row.id, "unit": unit, "used": round(used, 4), "budget": round(allowed, 4)}
        kind = "run.interrupted" if used >= allowed else "run.warned"
        row = one.row
        db.transact(connection, events.record, kind, row.repo_name, row.worktree_name, agent_id=row.agent_id, data=data)


def _used(connection: sqlite3.Connection, one: FollowedRun, unit: str) -> float | None:
    if unit == USD:
        return one.cost()
    return (db.read(connection, run_usage.of_run, one.row.seq).seconds + one.worked) / 60
