"""What runs have used, by day: money, tokens, and time at work; and the budgets of the days.

A run's row of a day has what was added on that day, so the sums over days and over runs are both right. The day is that of
this machine's clock, as its user reads it.
"""

from __future__ import annotations

import sqlite3

from imi_monitor import host
from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model import times
from imi_monitor.store.runs import RunRow

USD, MINUTES = "usd", "minutes"
_SUMS = (
    "SELECT sum(usd), coalesce(sum(tokens), 0), coalesce(sum(seconds), 0),"
    " coalesce(sum(CASE WHEN usd IS NULL THEN tokens END), 0) FROM run_usage"
)


@dataclass(frozen=True, slots=True)
class Usage:
    """Money None: no run reported any, or has a price. `unpriced`: the tokens of runs whose money is unknown."""

    usd: float | None = None
    tokens: int = 0
    seconds: float = 0.0
    unpriced: int = 0

    def of_unit(self, unit: str) -> float | None:
        return self.usd if unit == USD else self.seconds / 60


@dataclass(frozen=True, slots=True)
class DayBudget:
    """`granted`: how often the user allowed the same amount again; `warned`: the amount that was warned of."""

    granted: int = 0
    warned: float = 0.0


def today() -> str:
    return times.now().astimezone().strftime("%Y-%m-%d")


def add(
    connection: sqlite3.Connection,
    one: RunRow,
    usd: float | None,
    tokens: int | None,
    seconds: float,
    *,
    whole_session: bool,
) -> None:
    """Add to today what the run has used since the last call. `usd` and `tokens` are totals, `seconds` are new ones.

    `whole_session`: the totals are those of the session, of which earlier runs have a part. Repeated calls add nothing.
    """
    before = _recorded(connection, one, whole_session=whole_session)
    more = None if usd is None else max(0.0, usd - before[0])
    said = None if tokens is None else max(0, tokens - before[1])
    if not more and not said and not seconds:
        return
    connection.execute(
        "INSERT INTO run_usage (run, day, usd, tokens, seconds) VALUES (?1, ?2, ?3, ?4, ?5)"
        " ON CONFLICT (run, day) DO UPDATE SET seconds = seconds + ?5,"
        " usd = CASE WHEN ?3 IS NULL THEN usd ELSE coalesce(usd, 0) + ?3 END,"
        " tokens = CASE WHEN ?4 IS NULL THEN tokens ELSE coalesce(tokens, 0) + ?4 END",
        (one.seq, today(), more, said, seconds),
    )


def _recorded(connection: sqlite3.Connection, one: RunRow, *, whole_session: bool) -> tuple[float, int]:
    """(money, tokens) that are recorded of the run, or of all runs of its session."""
    row = connection.execute(
        "SELECT coalesce(sum(usd), 0), coalesce(sum(tokens), 0) FROM run_usage WHERE run = ?1"
        " OR (?2 IS NOT NULL AND run IN (SELECT seq FROM runs WHERE session = ?2))",
        (one.seq, one.session if whole_session else None),
    ).fetchone()
    return float(row[0]), int(row[1])


def of_run(connection: sqlite3.Connection, seq: int) -> Usage:
    """Return the usage of a run, summed over all days."""
    return _sum(connection.execute(f"{_SUMS} WHERE run = ?", (seq,)).fetchone())


def of_day(connection: sqlite3.Connection, day: str) -> Usage:
    """Return the usage of this machine's runs on one day."""
    row = connection.execute(
        f"{_SUMS} JOIN runs ON runs.seq = run_usage.run WHERE day = ? AND runs.host = ?", (day, host.hostname())
    ).fetchone()
    return _sum(row)


def _sum(row: tuple[float | None, int, float, int]) -> Usage:
    return Usage(*row)


def day_budget(connection: sqlite3.Connection, day: str, unit: str) -> DayBudget:
    row = connection.execute(
        "SELECT granted, warned FROM day_budgets WHERE day = ? AND unit = ?", (day, unit)
    ).fetchone()
    return DayBudget() if row is None else DayBudget(int(row[0]), float(row[1]))


def grant(connection: sqlite3.Connection, day: str, unit: str, before: int) -> bool:
    """Allow the same amount once more; False if another process has allowed it since `before` was read."""
    if before == 0:
        connection.execute("INSERT OR IGNORE INTO day_budgets (day, unit) VALUES (?, ?)", (day, unit))
    return bool(
        connection.execute(
            "UPDATE day_budgets SET granted = granted + 1 WHERE day = ? AND unit = ? AND granted = ?",
            (day, unit, before),
        ).rowcount
    )


def warn(connection: sqlite3.Connection, day: str, unit: str, allowed: float) -> bool:
    """Note the warning of an amount; False if it was noted before."""
    connection.execute("INSERT OR IGNORE INTO day_budgets (day, unit) VALUES (?, ?)", (day, unit))
    return bool(
        connection.execute(
            "UPDATE day_budgets SET warned = ?1 WHERE day = ?2 AND unit = ?3 AND warned < ?1", (allowed, day, unit)
        ).rowcount
    )
