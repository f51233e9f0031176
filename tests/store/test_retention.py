"""History has an end: the oldest goes first, in bites, and nothing that is still true goes at all."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from imi_monitor.store import claim_history, db, events, retention


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[sqlite3.Connection]:
    for name, value in (("MOST_EVENTS", 100), ("MOST_GRANTS", 50), ("_BITE", 20)):
        monkeypatch.setattr(retention, name, value)
    with closing(db.connect(str(tmp_path / "iMi.db"))) as connection:
        yield connection


def tell(connection: sqlite3.Connection, count: int) -> None:
    for number in range(count):
        events.append_row(connection, f"e{number}")


def grant(connection: sqlite3.Connection, count: int, ended: bool) -> None:
    rows = (
        ("app", "held" if not ended else "feat", n, "a", "h", f"2026-01-01T00:00:{n:09}", "t" if ended else None)
        for n in range(count)
    )
    connection.executemany(
        "INSERT INTO claim_history (repo_name, worktree_name, epoch, agent_id, host, claimed_at, released_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        rows,
    )


def count(connection: sqlite3.Connection, table: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def test_nothing_is_due_before_there_is_too_much(registry: sqlite3.Connection) -> None:
    assert not retention.is_history_due(registry)
    db.transact(registry, tell, 119)
    assert not retention.is_history_due(registry)
    db.transact(registry, tell, 2)
    assert retention.is_history_due(registry)


def test_the_oldest_events_go_in_bites_and_the_newest_stay(registry: sqlite3.Connection) -> None:
    db.transact(registry, tell, 150)
    gone = []
    while retention.is_history_due(registry):
        gone.append(db.transact(registry, retention.trim_history))
    assert gone == [20, 20]
    assert db.transact(registry, retention.trim_history) == 10
    assert db.transact(registry, retention.trim_history) == 0
    assert registry.execute("SELECT min(seq), max(seq) FROM events").fetchone() == (51, 150)


def test_a_claim_that_is_held_is_never_forgotten(registry: sqlite3.Connection) -> None:
    db.transact(registry, grant, 60, False)
    db.transact(registry, grant, 30, True)
    while db.transact(registry, retention.trim_history):
        pass
    assert registry.execute("SELECT count(*) FROM claim_history WHERE released_at IS NULL").fetchone() == (60,)
    assert count(registry, "claim_history") == 60


def test_tasks_go_with_the_claims_that_they_were_of(registry: sqlite3.Connection) -> None:
    db.transact(registry, grant, 60, True)
    for epoch in range(60):
        db.transact(registry, claim_history.begin_attempt, ("app", "feat"), epoch, f"T-{epoch}", "2026")
    while db.transact(registry, retention.trim_history):
        pass
    kept = [row[0] for row in registry.execute("SELECT epoch FROM tasks ORDER BY epoch")]
    assert kept == [row[0] for row in registry.execute("SELECT epoch FROM claim_history ORDER BY epoch")]
    assert kept == list(range(10, 60))


def test_a_sequence_is_never_used_twice(registry: sqlite3.Connection) -> None:
    """Who follows the log by its numbers must not miss an event because an old number came back."""
    db.transact(registry, tell, 5)
    db.transact(registry, lambda connection: connection.execute("DELETE FROM events"))
    db.transact(registry, tell, 1)
    assert events.last_seq(registry) == 6


def test_looking_costs_nothing_and_a_bite_little(tmp_path: Path) -> None:
    with closing(db.connect(str(tmp_path / "large.db"))) as connection:
        db.transact(connection, tell, retention.MOST_EVENTS // 10)
        before = time.perf_counter()
        for _ in range(100):
            retention.is_history_due(connection)
        assert time.perf_counter() - before < 0.5
