"""The budget of a run: money, as its program reports it or by prices, and minutes at work.

At 80 % there is an event, at 100 % another one, and a turn that goes on is interrupted. The next prompt is refused then, until
`--over-budget` allows the same amount again.
"""

from __future__ import annotations

import json
from functools import lru_cache

from imi_monitor.runs import launch_folder, run_interrupt
from imi_monitor.runs.day_budget import UsedBudget, reaches
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
    """Compare what the run has used with its budget: warn once, and where it is used up say so and interrupt the turn."""
    for unit, amount in limits_of(one.row).items():
        used = _used(connection, one, unit)
        if used is None or used < _WARN * amount:
            continue
        allowed = amount * (1 + max(run_interrupt.count(one, unit), run_interrupt.count(one, _allowed(unit))))
        if reaches(used, allowed):
            kind = "run.used_up" if one.reader.turn_over else "run.interrupted"
            if not run_interrupt.interrupt(one, unit):
                continue
            # one turn may use the amount several times
            while reaches(used, amount * (1 + run_interrupt.count(one, unit))):
                run_interrupt.note(one, unit)
        elif used >= _WARN * allowed and not run_interrupt.count(one, f"{unit} warned {allowed:g}"):
            kind = "run.warned"
            run_interrupt.note(one, f"{unit} warned {allowed:g}")
        else:
            continue
        data: dict[str, object] = {"run": one.row.id, "unit": unit, "used": round(used, 4), "budget": round(allowed, 4)}
        row = one.row
        db.transact(connection, events.record, kind, row.repo_name, row.worktree_name, agent_id=row.agent_id, data=data)


def list_used_up(connection: sqlite3.Connection, row: RunRow) -> list[UsedBudget]:
    """The amounts that a run has used up and its user has not allowed again."""
    limits = limits_of(row)
    if not limits:
        return []
    used, folder = db.read(connection, run_usage.of_run, row.seq), launch_folder.folder_of(row.id)
    found = []
    for unit, amount in limits.items():
        granted = folder.count_lines(run_interrupt.FILE, _allowed(unit))
        found.append(UsedBudget(unit, used.of_unit(unit) or 0.0, amount * (1 + granted), granted))
    return [one for one in found if one.used_up]


def grant(connection: sqlite3.Connection, row: RunRow) -> list[str]:
    """Allow the used up amounts once more, on top of what is used; returns what was allowed, as sentences."""
    lines, folder = [], launch_folder.folder_of(row.id)
    for one in list_used_up(connection, row):
        amount, granted = limits_of(row)[one.unit], one.granted
        while reaches(one.used, amount * (1 + granted)):
            folder.add_line(run_interrupt.FILE, _allowed(one.unit))
            granted += 1
        lines.append(f"the budget of {row.short} was used up ({one}): the same amount is allowed again")
    return lines


def sentence(row: RunRow, used_up: list[UsedBudget]) -> str:
    return f"the budget of {row.short} is used up: {', '.join(map(str, used_up))}"


def _allowed(unit: str) -> str:
    """The line of the launch folder that stands for the user's consent to the same amount again."""
    return f"{unit} allowed"


def _used(connection: sqlite3.Connection, one: FollowedRun, unit: str) -> float | None:
    if unit == USD:
        return one.cost()
    return (db.read(connection, run_usage.of_run, one.row.seq).seconds + one.worked) / 60
