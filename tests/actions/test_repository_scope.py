"""Listings are about the repository around the caller; with --all, and outside of a repository, about all."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from imi_monitor import config
from imi_monitor.store import db
from tests.helpers import Repo, imi


@pytest.fixture
def two_repositories(repo: Repo, cluster: Repo) -> tuple[Repo, Repo]:
    """Each with a claim for a task, a waiter and a session; the registry names them after their folders."""
    for number, one in enumerate((repo, cluster), 1):
        one.worktree(f"feat-{number}")
        assert (
            imi("claim", f"feat-{number}", "--agent", f"agent-{number}", "--task", f"T-{number}", cwd=one.path).code
            == 0
        )
    with closing(db.connect(config.database_path(None))) as connection:
        names = [row[0] for row in connection.execute("SELECT repo_name FROM claims ORDER BY agent_id")]
        db.transact(connection, _add_sessions, names)
    return repo, cluster


def _add_sessions(connection: sqlite3.Connection, names: list[str]) -> None:
    for number, name in enumerate(names, 1):
        connection.execute(
            "INSERT INTO sessions (id, host, cli, repo_name, worktree_name, agent_id, status, status_at, seen_at,"
            " created_at, updated_at) SELECT ?, host, 'claude', ?, ?, ?, 'completed', claimed_at, claimed_at, claimed_at,"
            " claimed_at FROM claims WHERE repo_name = ?",
            (f"claude:{number}", name, f"feat-{number}", f"agent-{number}", name),
        )
        connection.execute(
            "INSERT INTO claim_queue (repo_name, worktree_name, agent_id, host, boot, pid, pid_started, enqueued_at,"
            " gives_up_uptime) SELECT repo_name, worktree_name, ?, host, boot, ?, NULL, claimed_at, 1e12 FROM claims"
            " WHERE repo_name = ?",
            (f"waiter-of-agent-{number}", 1, name),
        )


@pytest.mark.parametrize("verb", ["claims", "claims --history", "queue", "tasks", "stats", "sessions", "events"])
def test_a_listing_is_about_the_repository_around(
    two_repositories: tuple[Repo, Repo], tmp_path: Path, verb: str
) -> None:
    first, second = two_repositories
    words = verb.split()

    def agents(*more: str, cwd: Path) -> set[str]:
        for as_json in ((), ("--json",)):
            done = imi(*words, *more, *as_json, cwd=cwd)
            assert done.code == 0, done.err
            found = {name for name in ("agent-1", "agent-2") if name in done.out}
        return found

    assert agents(cwd=first.path) == {"agent-1"}
    assert agents(cwd=second.path) == {"agent-2"}
    assert agents("--all", cwd=first.path) == agents("-a", cwd=second.path) == {"agent-1", "agent-2"}
    assert agents(cwd=tmp_path) == {"agent-1", "agent-2"}, "outside of a repository"
    assert agents("--repo", str(second.path), cwd=first.path) == {"agent-2"}
