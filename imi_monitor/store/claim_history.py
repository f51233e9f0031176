"""What became of earlier claims: one row a grant, kept for ever. Read when somebody asks, or lost a claim.

Tasks as they are begun and ended: one row for each that a claim named. Lean: agents claim and release all day.

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


_COLUMNS = "repo_name, worktree_name, epoch, agent_id, task_id, host, claimed_at, released_at, ended, taken_by, reason"


class ClaimGrant:
    """One grant; `released_at` None still stands. `taken_by` and `reason` say who ended it if it was not the owner."""

    __slots__ = (
        "agent_id",
        "claimed_at",
        "ended",
        "epoch",
        "host",
        "reason",
        "released_at",
        "repo_name",
        "taken_by",
        "task_id",
        "worktree_name",
    )

    def __init__(self, row: tuple[object, ...]) -> None:
        def text(value: object) -> str | None:
            return None if value is None else str(value)

        self.repo_name = str(row[0])
        self.worktree_name = str(row[1])
        self.epoch = int(str(row[2]))
        self.agent_id = str(row[3])
        self.task_id = text(row[4])
        self.host = str(row[5])
        self.claimed_at = str(row[6])
        self.released_at = text(row[7])
        self.ended = text(row[8])
        self.taken_by = text(row[9])
        self.reason = text(row[10])


def last_grant(
    connection: sqlite3.Connection, repo_name: str, worktree_name: str, agent: str, epoch: int | None = None
) -> ClaimGrant | None:
    """The last grant of this worktree to `agent`, or the one of `epoch`."""
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM claim_history WHERE repo_name = ? AND worktree_name = ? AND agent_id = ?"
        " AND epoch = coalesce(?, epoch) ORDER BY epoch DESC LIMIT 1",
        (repo_name, worktree_name, agent, epoch),
    ).fetchone()
    return None if row is None else ClaimGrant(row)


def list_grants(
    connection: sqlite3.Connection, repo_name: str | None = None, worktree_name: str | None = None, limit: int = 100
) -> list[ClaimGrant]:
    """The last grants in order: of one worktree, one repository, or everywhere."""
    asked = [(f"{column} = ?", value) for column, value in _given(repo_name, worktree_name)]
    where = " WHERE " + " AND ".join(sql for sql, _ in asked) if asked else ""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM claim_history{where} ORDER BY claimed_at DESC, epoch DESC LIMIT ?",
        [*(value for _, value in asked), limit],
    )
    return [ClaimGrant(row) for row in rows][::-1]


def _given(repo_name: str | None, worktree_name: str | None) -> list[tuple[str, str]]:
    both = (("repo_name", repo_name), ("worktree_name", worktree_name))
    return [(column, value) for column, value in both if value is not None]


OUTCOME_TOLD = "told"  # where an outcome is from: somebody said so
REPORTABLE_OUTCOMES = ("completed", "failed", "cancelled")
_GRANT = "repo_name = ? AND worktree_name = ? AND epoch = ?"


def begin_attempt(connection: sqlite3.Connection, key: tuple[str, str], epoch: int, task: str, at: str) -> None:
    """The claim is for this task from now on; one that it had before is over, one that it comes back to goes on."""
    connection.execute(f"UPDATE tasks SET ended_at = ? WHERE {_GRANT} AND ended_at IS NULL", (at, *key, epoch))
    connection.execute(
        "INSERT INTO tasks (repo_name, worktree_name, epoch, task_id, started_at) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET ended_at = NULL, outcome = NULL, outcome_from = NULL",
        (*key, epoch, task, at),
    )


def record_outcome(connection: sqlite3.Connection, claim: Claim, outcome: str) -> None:
    """What came of the task that this claim was for last."""
    key = (claim.repo_name, claim.worktree_name)
    connection.execute(
        f"UPDATE tasks SET outcome = ?, outcome_from = ? WHERE {_GRANT} AND ended_at IS NULL",
        (outcome, OUTCOME_TOLD, *key, claim.epoch),
    )
    data: dict[str, object] = {"task": claim.task_id, "outcome": outcome}
    events.record(connection, "task.ended", *key, agent_id=claim.agent_id, epoch=claim.epoch, data=data)


def move_attempts(connection: sqlite3.Connection, key: tuple[str, str], before: int, epoch: int) -> None:
    """The claim of epoch `before` was put back under another one: its tasks go on as if nothing had been."""
    connection.execute(f"DELETE FROM tasks WHERE {_GRANT}", (*key, epoch))
    connection.execute(f"UPDATE tasks SET epoch = ? WHERE {_GRANT}", (epoch, *key, before))
