"""Which claims imi made by itself for a live session: the only ones that it gives back by itself.

A mark names the claim's epoch. Whatever happens to the claim afterwards (released, taken, renamed worktree) leaves a mark
that fits no standing claim any more, and then means nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3


@dataclass(frozen=True, slots=True)
class AutomaticClaim:
    repo_name: str
    worktree_name: str
    epoch: int
    agent_id: str
    session_id: str


def add(connection: sqlite3.Connection, mark: AutomaticClaim) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO automatic_claims (repo_name, worktree_name, epoch, agent_id, session_id)"
        " VALUES (?, ?, ?, ?, ?)",
        (mark.repo_name, mark.worktree_name, mark.epoch, mark.agent_id, mark.session_id),
    )


def list_standing(connection: sqlite3.Connection) -> list[AutomaticClaim]:
    """The marks whose claim still stands."""
    rows = connection.execute(
        "SELECT m.repo_name, m.worktree_name, m.epoch, m.agent_id, m.session_id FROM automatic_claims AS m"
        " JOIN claims AS c ON c.repo_name = m.repo_name AND c.worktree_name = m.worktree_name AND c.epoch = m.epoch"
        " AND c.agent_id = m.agent_id ORDER BY 1, 2"
    )
    return [AutomaticClaim(*row) for row in rows]


def remove(connection: sqlite3.Connection, mark: AutomaticClaim) -> None:
    connection.execute(
        "DELETE FROM automatic_claims WHERE repo_name = ? AND worktree_name = ? AND epoch = ?",
        (mark.repo_name, mark.worktree_name, mark.epoch),
    )
