"""What became of earlier claims: one row a grant, kept for ever. Read when somebody asks, or lost a claim."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

_COLUMNS = "repo_name, worktree_name, epoch, agent_id, task_id, host, claimed_at, released_at, ended, taken_by, reason"


class Grant:
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


def last_of(
    connection: sqlite3.Connection, repo_name: str, worktree_name: str, agent: str, epoch: int | None = None
) -> Grant | None:
    """The last grant of this worktree to `agent`, or the one of `epoch`."""
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM claim_history WHERE repo_name = ? AND worktree_name = ? AND agent_id = ?"
        " AND epoch = coalesce(?, epoch) ORDER BY epoch DESC LIMIT 1",
        (repo_name, worktree_name, agent, epoch),
    ).fetchone()
    return None if row is None else Grant(row)


def history(
    connection: sqlite3.Connection, repo_name: str | None = None, worktree_name: str | None = None, limit: int = 100
) -> list[Grant]:
    """The last grants in order: of one worktree, one repository, or everywhere."""
    asked = [(f"{column} = ?", value) for column, value in _given(repo_name, worktree_name)]
    where = " WHERE " + " AND ".join(sql for sql, _ in asked) if asked else ""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM claim_history{where} ORDER BY claimed_at DESC, epoch DESC LIMIT ?",
        [*(value for _, value in asked), limit],
    )
    return [Grant(row) for row in rows][::-1]


def _given(repo_name: str | None, worktree_name: str | None) -> list[tuple[str, str]]:
    both = (("repo_name", repo_name), ("worktree_name", worktree_name))
    return [(column, value) for column, value in both if value is not None]
