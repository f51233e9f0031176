"""Commits of worktrees: each is one event, `worktree.commit`, whatever sees it first and however often it is seen."""

from __future__ import annotations

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.store import events

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class CommitPosition:
    """Where a worktree's reflog was read to: the commit, and the moment of the entry."""

    head: str
    read_at: str


@dataclass(frozen=True, slots=True)
class MadeCommit:
    """A commit and when it was made. `agent`: who made it, if that is known better than from the claim."""

    sha: str
    at: str
    subject: str
    agent: str | None = None


def find_position(connection: sqlite3.Connection, repo_name: str, worktree_name: str) -> CommitPosition | None:
    row = connection.execute(
        "SELECT head, read_at FROM commit_positions WHERE repo_name = ? AND worktree_name = ?",
        (repo_name, worktree_name),
    ).fetchone()
    return None if row is None else CommitPosition(*row)


def known_since(connection: sqlite3.Connection, repo_name: str, worktree_name: str) -> str | None:
    """Return when the registry got this worktree; None for one that it does not have."""
    row = connection.execute(
        "SELECT created_at FROM worktrees WHERE repo_name = ? AND worktree_name = ?", (repo_name, worktree_name)
    ).fetchone()
    return None if row is None or row[0] is None else str(row[0])


def record_commits(
    connection: sqlite3.Connection,
    repo_name: str,
    worktree_name: str,
    branch: str | None,
    commits: Sequence[MadeCommit],
    position: CommitPosition | None = None,
) -> int:
    """Record the commits that are new, each with the owner of the worktree at that moment; returns their number.

    Call it inside a transaction.
    """
    added = 0
    for one in commits:
        if connection.execute(
            "INSERT OR IGNORE INTO recorded_commits (repo_name, sha) VALUES (?, ?)", (repo_name, one.sha)
        ).rowcount:
            agent, epoch = _holder(connection, repo_name, worktree_name, one.at)
            if one.agent is not None and one.agent != agent:
                agent, epoch = one.agent, None
            data: dict[str, object] = {"branch": branch, "commit": one.sha}
            data |= {"subject": one.subject, "committed_at": one.at}
            events.record(
                connection, "worktree.commit", repo_name, worktree_name, agent_id=agent, epoch=epoch, data=data
            )
            added += 1
    if position is not None:
        connection.execute(
            "INSERT INTO commit_positions (repo_name, worktree_name, head, read_at) VALUES (?1, ?2, ?3, ?4)"
            " ON CONFLICT (repo_name, worktree_name) DO UPDATE SET head = ?3, read_at = ?4",
            (repo_name, worktree_name, position.head, position.read_at),
        )
    return added


def _holder(
    connection: sqlite3.Connection, repo_name: str, worktree_name: str, at: str
) -> tuple[str | None, int | None]:
    """The owner at that moment, which git stores in whole seconds, and the epoch; (None, None) while it was unclaimed."""
    row = connection.execute(
        "SELECT agent_id, epoch FROM claim_history WHERE repo_name = ? AND worktree_name = ?"
        " AND substr(claimed_at, 1, 19) <= substr(?3, 1, 19)"
        " AND (released_at IS NULL OR substr(released_at, 1, 19) >= substr(?3, 1, 19)) ORDER BY epoch DESC LIMIT 1",
        (repo_name, worktree_name, at),
    ).fetchone()
    return (None, None) if row is None else (str(row[0]), int(row[1]))
