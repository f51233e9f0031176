"""How a claim passes from hand to hand: the one conditional UPDATE that decides, and what is written beside it.

Inside the caller's BEGIN IMMEDIATE. Every grant raises the epoch; whatever is done later in a claim's name says which
epoch it means, and 0 rows changed means that it was refused. History, agent, iMi's own columns and the event are
written in the same transaction, so no reader ever sees one without the others.
"""

from __future__ import annotations

from imi_monitor import host
from imi_monitor.model import times
from imi_monitor.model.names import OURS
from imi_monitor.store import agents, events, tasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.store.claims import Claim

_SEIZE = (
    "UPDATE claims SET agent_id = ?, epoch = epoch + 1, task_id = ?, claimed_at = ?, heartbeat_at = ?,"
    " heartbeat_uptime = ?, ttl_seconds = ?, host = ?, boot = ?, pid = ?, pid_started = ?"
    " WHERE repo_name = ? AND worktree_name = ? AND "
)
# Free is free in iMi's column too: another program that shares the registry knows no other.
_IF_FREE = (
    "agent_id IS NULL AND NOT EXISTS (SELECT 1 FROM worktrees AS seen WHERE seen.repo_name = claims.repo_name"
    " AND seen.worktree_name = claims.worktree_name AND seen.active = 1 AND seen.agent_id <> ?)"
)
_IF_STILL = "agent_id IS ? AND epoch = ?"
_FREE = (
    "UPDATE claims SET agent_id = NULL, task_id = NULL, claimed_at = NULL, heartbeat_at = NULL,"
    " heartbeat_uptime = NULL, ttl_seconds = NULL, host = NULL, boot = NULL, pid = NULL, pid_started = NULL"
    " WHERE repo_name = ? AND worktree_name = ? AND agent_id = ? AND epoch = ?"
)
_PROJECT_FREE = "UPDATE worktrees SET agent_id = NULL, released_at = ? WHERE repo_name = ? AND worktree_name = ?"


class Wish:
    """What a claimer asks for: who, as which process (pid None: nobody to watch), and with what right."""

    __slots__ = ("agent", "displaced", "force", "process", "reason", "takeover", "task", "ttl")

    def __init__(
        self,
        agent: str,
        process: host.Process,
        *,
        task: str | None = None,
        ttl: float | None = None,
        takeover: bool = False,
        force: bool = False,
        reason: str | None = None,
        displaced: str | None = None,
    ) -> None:
        self.agent = agent
        self.process = process
        self.task = task
        self.ttl = ttl
        self.takeover = takeover
        self.force = force
        self.reason = reason
        self.displaced = displaced  # an owner whom only a presence lock names, when force goes past him


def is_ours(agent: str | None) -> bool:
    """Whether this holder is imi itself in the middle of an act."""
    return agent is not None and agent.startswith(OURS)


def seize(
    connection: sqlite3.Connection,
    repo_name: str,
    worktree_name: str,
    wish: Wish,
    *,
    instead_of: Claim | None = None,
    ended: str = "",
    about: dict[str, object] | None = None,
) -> int | None:
    """Give the slot to `wish.agent` if it is free, or if exactly the claim `instead_of` still stands; the new epoch.

    None: it did not come to that, and nothing was changed. `ended` says how the earlier claim ended, `about` goes into
    the event.
    """
    at, process, key = times.stamp(), wish.process, (repo_name, worktree_name)
    values = (
        wish.agent,
        wish.task,
        at,
        at,
        host.uptime(),
        wish.ttl,
        process.host,
        process.boot,
        process.pid,
        process.started,
        *key,
    )
    connection.execute("INSERT OR IGNORE INTO claims (repo_name, worktree_name) VALUES (?, ?)", key)
    if instead_of is None:
        changed = connection.execute(_SEIZE + _IF_FREE, (*values, wish.agent)).rowcount
    else:
        before = None if instead_of.foreign else instead_of.agent_id
        changed = connection.execute(_SEIZE + _IF_STILL, (*values, before, instead_of.epoch)).rowcount
    if changed != 1:
        return None
    if instead_of is not None and instead_of.agent_id is not None:
        _closed(connection, instead_of, ended, by=wish.agent, reason=wish.reason, at=at)
    return _opened(connection, key, wish, at, about or {})


def vacate(
    connection: sqlite3.Connection,
    claim: Claim,
    how: str,
    *,
    by: str | None = None,
    reason: str | None = None,
    holder: str | None = None,
    epoch: int | None = None,
) -> bool:
    """Free the slot if exactly this claim still stands, or the one of the `holder` and `epoch` that somebody names.

    False when it does not, and nothing was changed.
    """
    at, key = times.stamp(), (claim.repo_name, claim.worktree_name)
    expected = (claim.agent_id if holder is None else holder, claim.epoch if epoch is None else epoch)
    if claim.foreign:  # there is no claim of ours: iMi's column is all that says who has it
        sql, values = _PROJECT_FREE + " AND agent_id = ?", (at, *key, expected[0])
        if connection.execute(sql, values).rowcount != 1:
            return False
    elif connection.execute(_FREE, (*key, *expected)).rowcount != 1:
        return False
    connection.execute(_PROJECT_FREE, (at, *key))
    _closed(connection, claim, how, by=by, reason=reason, at=at)
    return True


def _opened(connection: sqlite3.Connection, key: tuple[str, str], wish: Wish, at: str, about: dict[str, object]) -> int:
    """History, agent, iMi's columns and the event of a grant that was just made; gives its epoch."""
    row = connection.execute("SELECT epoch FROM claims WHERE repo_name = ? AND worktree_name = ?", key).fetchone()
    epoch = int(row[0])
    connection.execute(
        "INSERT INTO claim_history (repo_name, worktree_name, epoch, agent_id, task_id, host, claimed_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*key, epoch, wish.agent, wish.task, wish.process.host, at),
    )
    connection.execute(
        "UPDATE worktrees SET agent_id = ?, claimed_at = ?, released_at = NULL"
        " WHERE repo_name = ? AND worktree_name = ?",
        (wish.agent, at, *key),
    )
    if not is_ours(wish.agent):
        if wish.task is not None:
            tasks.begin(connection, key, epoch, wish.task, at)
        agents.seen(connection, wish.agent, wish.process.host, at)
        data: dict[str, object] = {"epoch": epoch, "task": wish.task, **about}
        events.record(connection, "worktree.claimed", *key, agent_id=wish.agent, epoch=epoch, data=data)
    return epoch


def _closed(
    connection: sqlite3.Connection, claim: Claim, how: str, *, by: str | None, reason: str | None, at: str
) -> None:
    """Write down how a claim ended, and tell it to the log; `by` counts when it was somebody else."""
    key = (claim.repo_name, claim.worktree_name)
    other = by if by != claim.agent_id else None
    connection.execute(
        "UPDATE claim_history SET released_at = ?, ended = ?, taken_by = ?, reason = ?"
        " WHERE repo_name = ? AND worktree_name = ? AND epoch = ? AND released_at IS NULL",
        (at, how, other, reason, *key, claim.epoch),
    )
    if claim.agent_id is None or is_ours(claim.agent_id):
        return
    agents.released(connection, claim.agent_id)
    data: dict[str, object] = {"epoch": claim.epoch, "how": how, "task": claim.task_id}
    data.update((name, value) for name, value in (("by", other), ("reason", reason)) if value is not None)
    events.record(connection, "worktree.released", *key, agent_id=claim.agent_id, epoch=claim.epoch, data=data)
