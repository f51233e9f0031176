"""What remains of each claim: one grant in `claim_history`, and one attempt in `tasks` for each task it named.

Rows are kept until `retention` removes them. Writers run inside the transaction that changes the claim. Lean.
"""

from __future__ import annotations

from imi_monitor.store import db, events
from imi_monitor.store.row import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.store.claims import Claim

OUTCOME_TOLD = "told"  # `outcome_from` of an outcome given with `imi release --outcome`
REPORTABLE_OUTCOMES = ("completed", "failed", "cancelled")
_GRANT = "repo_name = ? AND worktree_name = ? AND epoch = ?"


class ClaimGrant(Row):
    """One grant. `released_at` None: current. `taken_by` and `reason`: who ended it if not the owner, and why."""

    repo_name: str
    worktree_name: str
    epoch: int
    agent_id: str
    task_id: str | None
    host: str
    claimed_at: str
    released_at: str | None
    ended: str | None
    taken_by: str | None
    reason: str | None


def last_grant(
    connection: sqlite3.Connection, repo_name: str, worktree_name: str, agent: str, epoch: int | None = None
) -> ClaimGrant | None:
    """The last grant of this worktree to `agent`, or the one of `epoch`."""
    row = connection.execute(
        f"SELECT {ClaimGrant.columns} FROM claim_history WHERE repo_name = ? AND worktree_name = ? AND agent_id = ?"
        " AND epoch = coalesce(?, epoch) ORDER BY epoch DESC LIMIT 1",
        (repo_name, worktree_name, agent, epoch),
    ).fetchone()
    return None if row is None else ClaimGrant(row)


def list_grants(
    connection: sqlite3.Connection, repo_name: str | None = None, worktree_name: str | None = None, limit: int = 100
) -> list[ClaimGrant]:
    """The last grants, oldest first: of one worktree, one repository, or all."""
    where, values = db.where(repo_name=repo_name, worktree_name=worktree_name)
    rows = connection.execute(
        f"SELECT {ClaimGrant.columns} FROM claim_history{where} ORDER BY claimed_at DESC, epoch DESC LIMIT ?",
        (*values, limit),
    )
    return [ClaimGrant(row) for row in rows][::-1]


def add_grant(
    connection: sqlite3.Connection, key: tuple[str, str], epoch: int, agent: str, task: str | None, host: str, at: str
) -> None:
    connection.execute(
        "INSERT INTO claim_history (repo_name, worktree_name, epoch, agent_id, task_id, host, claimed_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*key, epoch, agent, task, host, at),
    )


def end_grant(
    connection: sqlite3.Connection,
    key: tuple[str, str],
    epoch: int,
    at: str,
    how: str,
    *,
    taken_by: str | None,
    reason: str | None,
) -> None:
    connection.execute(
        "UPDATE claim_history SET released_at = ?, ended = ?, taken_by = ?, reason = ?"
        f" WHERE {_GRANT} AND released_at IS NULL",
        (at, how, taken_by, reason, *key, epoch),
    )


def begin_attempt(connection: sqlite3.Connection, key: tuple[str, str], epoch: int, task: str, at: str) -> None:
    """Start an attempt at `task` and end the claim's earlier one; an attempt at the same task is reopened."""
    connection.execute(f"UPDATE tasks SET ended_at = ? WHERE {_GRANT} AND ended_at IS NULL", (at, *key, epoch))
    connection.execute(
        "INSERT INTO tasks (repo_name, worktree_name, epoch, task_id, started_at) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET ended_at = NULL, outcome = NULL, outcome_from = NULL",
        (*key, epoch, task, at),
    )
    from imi_monitor.store import item_moves  # only claims with a task need it

    owner = connection.execute(f"SELECT agent_id FROM claim_history WHERE {_GRANT}", (*key, epoch)).fetchone()
    item_moves.begin(connection, task, str(owner[0]), *key)


def record_outcome(connection: sqlite3.Connection, claim: Claim, outcome: str, reason: str | None = None) -> None:
    """Store the outcome that the owner reports for the claim's last attempt, and move its item."""
    connection.execute(
        f"UPDATE tasks SET outcome = ?, outcome_from = ? WHERE {_GRANT} AND ended_at IS NULL",
        (outcome, OUTCOME_TOLD, *claim.key, claim.epoch),
    )
    data: dict[str, object] = {"task": claim.task_id, "outcome": outcome}
    events.record(connection, "task.ended", *claim.key, agent_id=claim.agent_id, epoch=claim.epoch, data=data)
    if claim.task_id is not None:
        from imi_monitor.store import item_moves

        item_moves.finish(connection, claim.task_id, outcome, claim.agent_id, reason)


def move_attempts(connection: sqlite3.Connection, key: tuple[str, str], before: int, epoch: int) -> None:
    """Continue the attempts of epoch `before` under `epoch`, after the claim was restored."""
    connection.execute(f"DELETE FROM tasks WHERE {_GRANT}", (*key, epoch))
    connection.execute(f"UPDATE tasks SET epoch = ? WHERE {_GRANT}", (epoch, *key, before))
