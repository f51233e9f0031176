"""Claims that imi made by itself for a live session: the only claims that imi releases by itself.

A row names the claim's epoch. Once the claim is released, taken or its worktree renamed, the row matches no current
claim and has no effect.
"""

from __future__ import annotations

from dataclasses import dataclass

from imi_monitor.store import claim_history, claim_requests, claims

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.store.claim_requests import ClaimAnswer, ClaimTarget
    from imi_monitor.store.claims import ClaimRequest

SESSION_ENDED = "its session ended; given back by imi, uncommitted work stays as it is"


@dataclass(frozen=True, slots=True)
class AutomaticClaim:
    repo_name: str
    worktree_name: str
    epoch: int
    agent_id: str
    session_id: str


def list_current(connection: sqlite3.Connection) -> list[AutomaticClaim]:
    """The automatic claims that still hold."""
    rows = connection.execute(
        "SELECT m.repo_name, m.worktree_name, m.epoch, m.agent_id, m.session_id FROM automatic_claims AS m"
        " JOIN claims AS c ON c.repo_name = m.repo_name AND c.worktree_name = m.worktree_name AND c.epoch = m.epoch"
        " AND c.agent_id = m.agent_id ORDER BY 1, 2"
    )
    return [AutomaticClaim(*row) for row in rows]


def claim(
    connection: sqlite3.Connection, target: ClaimTarget, request: ClaimRequest, session_id: str
) -> ClaimAnswer | None:
    """Claim a free worktree for a session and mark the claim as automatic; None when it must not be claimed.

    Only a worktree without any owner, dead or alive, is claimed; and not one whose claim was ended by another owner
    while the session went on, which is a decision that must stand.
    """
    if request.process.started is None:
        return None  # the agent's process died meanwhile
    if target.repo_name is not None:
        key = (target.repo_name, target.name)
        if claims.current(connection, *key).agent_id is not None:
            return None
        last = claim_history.last_grant(connection, *key, request.agent)
        if last is not None and last.released_at is not None and last.reason != SESSION_ENDED:
            return None
    answer = claim_requests.claim_target(connection, target, request)
    if answer.how != "claimed":
        return None
    made = answer.claim
    connection.execute(
        "INSERT OR REPLACE INTO automatic_claims (repo_name, worktree_name, epoch, agent_id, session_id)"
        " VALUES (?, ?, ?, ?, ?)",
        (*made.key, made.epoch, request.agent, session_id),
    )
    return answer


def release(connection: sqlite3.Connection, automatic: AutomaticClaim) -> bool:
    """Release exactly this claim, by agent and epoch; False when it was not current any more."""
    key = (automatic.repo_name, automatic.worktree_name)
    released, _ = claim_requests.release(connection, *key, automatic.agent_id, automatic.epoch, reason=SESSION_ENDED)
    connection.execute(
        "DELETE FROM automatic_claims WHERE repo_name = ? AND worktree_name = ? AND epoch = ?", (*key, automatic.epoch)
    )
    return released
