"""The claim of a run: granted with its row, bound to the agent's process at its birth, released at its end."""

from __future__ import annotations

import os

from imi_monitor import host, presence
from imi_monitor.git import layout
from imi_monitor.store import automatic_claims, claim_requests, claims, db, repositories, runs
from imi_monitor.store.claim_holder import Caller
from imi_monitor.store.claims import ClaimRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.store.runs import RunRow


def request(agent: str, run_id: str, pid: int | None, task: str | None = None) -> ClaimRequest:
    """The run's id is the session that proves the holder, so the agent's own `imi` calls are the holder's."""
    return ClaimRequest(agent, host.identify_process(pid), task=task, caller=Caller(pid, {"given": run_id}))


def bind(connection: sqlite3.Connection, row: RunRow, pid: int) -> None:
    """Let the claim end with the agent's process; a claim that was taken meanwhile stays its new owner's."""
    if row.epoch is None or row.repo_name is None or row.worktree_name is None:
        return
    answer = claim_requests.claim(connection, row.repo_name, row.worktree_name, request(row.agent_id, row.id, pid))
    if answer.granted:
        runs.set_epoch(connection, row, answer.claim.epoch)


def lost_to(connection: sqlite3.Connection, row: RunRow) -> str | None:
    """Who has the claim of a run that is to start; empty: no owner has it; None: the run itself, or it needs none."""
    if row.epoch is None or row.repo_name is None or row.worktree_name is None:
        return None
    claim = claims.current(connection, row.repo_name, row.worktree_name)
    return None if claim.agent_id == row.agent_id and claim.epoch == row.epoch else claim.agent_id or ""


def release(connection: sqlite3.Connection, row: RunRow) -> None:
    """Release the claim that the run was given, as it is for every session that ends: uncommitted work stays."""
    if row.epoch is None or row.repo_name is None or row.worktree_name is None:
        return
    key = (row.repo_name, row.worktree_name)
    claim_requests.release(connection, *key, row.agent_id, row.epoch, reason=automatic_claims.SESSION_ENDED)


def mirror(connection: sqlite3.Connection, row: RunRow) -> None:
    """Make the presence lock equal to the claim, after a commit. Outside of imi's control it never decides."""
    if row.epoch is None or row.repo_name is None or row.worktree_name is None:
        return
    folder = repositories.list_common_dirs(connection).get(row.repo_name)
    if folder is None or not os.path.isdir(folder) or not isinstance(connection, db.RegistryConnection):
        return
    lock = presence.presence_lock_path(layout.repository_at(folder), row.worktree_name)
    presence.update_presence_lock(connection, lock, row.repo_name, row.worktree_name, connection.named)
