"""Tasks as they are begun and ended: one row for each that a claim named. Lean: agents claim and release all day.

A task ends with its claim, or when the same claim goes on to another. Who had it and how the claim ended stands in the
grant of that epoch; what came of it is told by whoever gives the claim back, or else found out by `task_reading`. All of
these run inside the transaction that changes the claim.
"""

from __future__ import annotations

from imi_monitor.store import events

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.store.claims import Claim

TOLD = "told"  # where an outcome is from: somebody said so
TELLABLE = ("completed", "failed", "cancelled")
_GRANT = "repo_name = ? AND worktree_name = ? AND epoch = ?"


def begin(connection: sqlite3.Connection, key: tuple[str, str], epoch: int, task: str, at: str) -> None:
    """The claim is for this task from now on; one that it had before is over, one that it comes back to goes on."""
    connection.execute(f"UPDATE tasks SET ended_at = ? WHERE {_GRANT} AND ended_at IS NULL", (at, *key, epoch))
    connection.execute(
        "INSERT INTO tasks (repo_name, worktree_name, epoch, task_id, started_at) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET ended_at = NULL, outcome = NULL, outcome_from = NULL",
        (*key, epoch, task, at),
    )


def tell(connection: sqlite3.Connection, claim: Claim, outcome: str) -> None:
    """What came of the task that this claim was for last."""
    key = (claim.repo_name, claim.worktree_name)
    connection.execute(
        f"UPDATE tasks SET outcome = ?, outcome_from = ? WHERE {_GRANT} AND ended_at IS NULL",
        (outcome, TOLD, *key, claim.epoch),
    )
    data: dict[str, object] = {"task": claim.task_id, "outcome": outcome}
    events.record(connection, "task.ended", *key, agent_id=claim.agent_id, epoch=claim.epoch, data=data)


def go_along(connection: sqlite3.Connection, key: tuple[str, str], before: int, epoch: int) -> None:
    """The claim of epoch `before` was put back under another one: its tasks go on as if nothing had been."""
    connection.execute(f"DELETE FROM tasks WHERE {_GRANT}", (*key, epoch))
    connection.execute(f"UPDATE tasks SET epoch = ? WHERE {_GRANT}", (epoch, *key, before))
