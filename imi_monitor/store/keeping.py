"""How much history the registry keeps: enough to ask who did what, never so much that it slows down what is asked daily.

Counted in rows, not in days: a clock that is wrong must not empty the log. Tidying is done in small bites by commands
that are in no hurry, so that nobody waits for it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

MOST_EVENTS = 100_000
MOST_GRANTS = 20_000  # ended claims
_BITE = 2_000


def due(connection: sqlite3.Connection) -> bool:
    """Whether there is a bite to take; costs next to nothing."""
    # asked for one by one SQLite finds each at once; together it would walk through all
    first, last = connection.execute("SELECT (SELECT min(seq) FROM events), (SELECT max(seq) FROM events)").fetchone()
    if last is not None and last - first >= MOST_EVENTS + _BITE:
        return True
    return bool(connection.execute("SELECT count(*) FROM claim_history").fetchone()[0] >= MOST_GRANTS + _BITE)


def tidy(connection: sqlite3.Connection) -> int:
    """Forget the oldest events and ended claims beyond what is kept, one bite of each; gives how many rows went."""
    events = connection.execute(
        "DELETE FROM events WHERE seq <= (SELECT max(seq) FROM events) - ? AND seq < (SELECT min(seq) FROM events) + ?",
        (MOST_EVENTS, _BITE),
    ).rowcount
    surplus = connection.execute("SELECT count(*) FROM claim_history").fetchone()[0] - MOST_GRANTS
    grants = connection.execute(
        "DELETE FROM claim_history WHERE (repo_name, worktree_name, epoch) IN (SELECT repo_name, worktree_name, epoch"
        " FROM claim_history WHERE released_at IS NOT NULL ORDER BY claimed_at LIMIT ?)",
        (max(0, min(_BITE, surplus)),),
    ).rowcount
    if grants:
        connection.execute(
            "DELETE FROM tasks WHERE NOT EXISTS (SELECT 1 FROM claim_history AS g WHERE g.repo_name = tasks.repo_name"
            " AND g.worktree_name = tasks.worktree_name AND g.epoch = tasks.epoch)"
        )
    return int(events + grants)
