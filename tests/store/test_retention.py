"""Retention: the oldest history is deleted in small steps, and nothing that is still true."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from imi_monitor.model.agent import COMPLETED, RUNNING
from imi_monitor.store import agents, claim_history, db, events, retention, sink_cursors
from imi_monitor.store.retention import RetentionLimits
from tests.helpers import set_clock
from tests.store import session_kit
from tests.store.session_kit import NOON, act, agent, record_observation

DAY = 86400.0
SMALL = RetentionLimits(events=100, grants=50, rows_per_call=20)


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(db.connect(str(tmp_path / "iMi.db"))) as connection:
        yield connection


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(session_kit.registry(tmp_path / "iMi.db")) as connection:
        yield connection


# events and claims ---------------------------------------------------------------------------------------------------


def add_events(connection: sqlite3.Connection, count: int) -> None:
    for number in range(count):
        events.append_row(connection, f"e{number}")


def add_grants(connection: sqlite3.Connection, count: int, ended: bool) -> None:
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


def test_history_is_due_only_beyond_the_limit(registry: sqlite3.Connection) -> None:
    assert not retention.is_history_due(registry, SMALL)
    db.transact(registry, add_events, 119)
    assert not retention.is_history_due(registry, SMALL)
    db.transact(registry, add_events, 2)
    assert retention.is_history_due(registry, SMALL)


def test_the_oldest_events_are_deleted_in_steps(registry: sqlite3.Connection) -> None:
    db.transact(registry, add_events, 150)
    deleted = []
    while retention.is_history_due(registry, SMALL):
        deleted.append(db.transact(registry, retention.trim_history, SMALL))
    assert deleted == [20, 20]
    assert db.transact(registry, retention.trim_history, SMALL) == 10
    assert db.transact(registry, retention.trim_history, SMALL) == 0
    assert registry.execute("SELECT min(seq), max(seq) FROM events").fetchone() == (51, 150)


def test_the_history_of_current_claims_is_never_deleted(registry: sqlite3.Connection) -> None:
    db.transact(registry, add_grants, 60, False)
    db.transact(registry, add_grants, 30, True)
    while db.transact(registry, retention.trim_history, SMALL):
        pass
    assert registry.execute("SELECT count(*) FROM claim_history WHERE released_at IS NULL").fetchone() == (60,)
    assert count(registry, "claim_history") == 60


def test_attempts_are_deleted_with_their_claims(registry: sqlite3.Connection) -> None:
    db.transact(registry, add_grants, 60, True)
    for epoch in range(60):
        db.transact(registry, claim_history.begin_attempt, ("app", "feat"), epoch, f"T-{epoch}", "2026")
    while db.transact(registry, retention.trim_history, SMALL):
        pass
    kept = [row[0] for row in registry.execute("SELECT epoch FROM tasks ORDER BY epoch")]
    assert kept == [row[0] for row in registry.execute("SELECT epoch FROM claim_history ORDER BY epoch")]
    assert kept == list(range(10, 60))


def test_event_numbers_are_never_reused(registry: sqlite3.Connection) -> None:
    """A reader that follows the log by number must not miss an event because a number was reused."""
    db.transact(registry, add_events, 5)
    db.transact(registry, lambda connection: connection.execute("DELETE FROM events"))
    db.transact(registry, add_events, 1)
    assert events.last_seq(registry) == 6


def test_checking_whether_history_is_due_is_fast(tmp_path: Path) -> None:
    with closing(db.connect(str(tmp_path / "large.db"))) as connection:
        db.transact(connection, add_events, retention.LIMITS.events // 10)
        before = time.process_time()
        for _ in range(100):
            retention.is_history_due(connection)
        assert time.process_time() - before < 0.5


# sessions ------------------------------------------------------------------------------------------------------------


def a_session(connection: sqlite3.Connection, name: str, day: float, acts: int = 5, ended: bool = True) -> None:
    then = day * DAY
    told = [act("message", f"m{n}", then, "x") for n in range(acts)]
    told += [act("tool_finished", "t", then, "ok", tool="Write", call="c", ok=True, files=("/w/feat-x/a",))]
    state = COMPLETED if ended else RUNNING
    record_observation(connection, agent(state, then, session=name, ended=ended), *told, now=then + 1)


def names(connection: sqlite3.Connection) -> list[str]:
    return [str(row[0]).removeprefix("claude:") for row in connection.execute("SELECT id FROM sessions ORDER BY seq")]


def trim(connection: sqlite3.Connection, keep_days: int = 30, limits: RetentionLimits = SMALL) -> list[int]:
    """The rows that each call of `trim_sessions` deleted until nothing is due."""
    deleted = []
    while retention.are_sessions_due(connection, keep_days, limits):
        deleted.append(db.transact(connection, retention.trim_sessions, keep_days, limits))
    assert db.transact(connection, retention.trim_sessions, keep_days, limits) == 0
    return deleted


def test_old_sessions_are_deleted_with_their_rows(kept: sqlite3.Connection) -> None:
    for name, day in (("old", 0), ("young", 20), ("new", 31), ("newest", 32)):
        a_session(kept, name, day)
    assert trim(kept) and names(kept) == ["young", "new", "newest"]
    for table in ("session_events", "tool_calls", "artifacts"):
        owners = {row[0] for row in kept.execute(f"SELECT DISTINCT session FROM {table}")}
        assert owners == {row[0] for row in kept.execute("SELECT seq FROM sessions")}, table
    assert [one.name for one in agents.list_agents(kept)] == ["claude:new", "claude:newest", "claude:young"]
    assert trim(kept, 5) and names(kept) == ["new", "newest"]
    assert trim(kept, 0) and names(kept) == [], "0 keeps no session"


def test_a_large_session_is_deleted_in_steps(kept: sqlite3.Connection) -> None:
    a_session(kept, "old", 0, acts=100)
    a_session(kept, "new", 40)
    a_session(kept, "newest", 41)
    deleted = trim(kept)
    assert len(deleted) > 4 and max(deleted) <= 21 and names(kept) == ["new", "newest"]


def test_a_running_session_stays_unless_unseen_for_days(kept: sqlite3.Connection) -> None:
    a_session(kept, "silent", 0, ended=False)
    a_session(kept, "new", 1.5)
    assert trim(kept, 1) == [] and names(kept) == ["silent", "new"]
    a_session(kept, "newer", 3)
    a_session(kept, "newest", 4.5)
    assert trim(kept, 1) and names(kept) == ["newer", "newest"]


def test_a_wrong_clock_deletes_no_session(kept: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    a_session(kept, "one", 0)
    a_session(kept, "two", 1)
    for wrong in (NOON.replace(year=2090), NOON.replace(year=2001)):
        set_clock(monkeypatch, wrong)
        assert not retention.are_sessions_due(kept, 30), wrong
    assert names(kept) == ["one", "two"]


def test_a_clock_set_forward_deletes_no_session_for_a_day(
    kept: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions go on while the clock is wrong; when it is right again, nothing is missing."""
    for name, day in (("one", 0), ("two", 5), ("wrong", 700), ("still wrong", 700.9), ("right", 5.1)):
        set_clock(monkeypatch, NOON + timedelta(days=day, seconds=10))
        a_session(kept, name, day)
        assert trim(kept) == [], name
    set_clock(monkeypatch, NOON + timedelta(days=701.1))
    a_session(kept, "a day later", 701.1)
    assert trim(kept) and names(kept) == ["wrong", "still wrong", "a day later"]


def test_session_events_have_a_limit_whatever_their_age(kept: sqlite3.Connection) -> None:
    for number in range(10):
        a_session(kept, f"s{number}", number, acts=10)
    trim(kept, limits=RetentionLimits(session_events=60, rows_per_call=20))
    left = kept.execute("SELECT count(*) FROM session_events").fetchone()[0]
    assert left <= 60 and names(kept) == [f"s{number}" for number in range(10 - len(names(kept)), 10)] and names(kept)


# sinks ---------------------------------------------------------------------------------------------------------------


def trim_all(connection: sqlite3.Connection, limits: RetentionLimits) -> tuple[int, int]:
    while retention.is_history_due(connection, limits):
        db.transact(connection, retention.trim_history, limits)
    found: tuple[int, int] = connection.execute("SELECT min(seq), max(seq) FROM events").fetchone()
    return found


def test_no_event_is_deleted_that_a_configured_sink_does_not_have(registry: sqlite3.Connection) -> None:
    db.transact(registry, add_events, 200)
    db.transact(registry, sink_cursors.configure, {"fast": None, "slow": None})
    db.transact(registry, sink_cursors.advance, "fast", 0, 200)
    assert trim_all(registry, SMALL) == (1, 200)
    db.transact(registry, sink_cursors.advance, "slow", 0, 60)
    assert trim_all(registry, SMALL) == (41, 200), "in steps of 20"
    db.transact(registry, sink_cursors.configure, {"fast": None})
    assert trim_all(registry, SMALL) == (81, 200), "a sink that is not configured any more holds nothing"


@pytest.mark.parametrize("cap", [{"events_at_most": 150}, {"file_bytes": 1000}])
def test_beyond_a_hard_cap_events_are_deleted_and_each_sink_counts_its_loss(
    registry: sqlite3.Connection, cap: dict[str, int]
) -> None:
    limits = RetentionLimits(events=100, grants=50, rows_per_call=20, **cap)
    db.transact(registry, add_events, 200)
    db.transact(registry, sink_cursors.configure, {"away": None, "late": None, "fast": None})
    db.transact(registry, sink_cursors.advance, "late", 0, 30)
    db.transact(registry, sink_cursors.advance, "fast", 0, 200, {3: "refused"})
    first, _ = trim_all(registry, limits)
    assert first == (41 if "events_at_most" in cap else 81)
    lost = {one.name: (one.dropped, one.backlog, one.parked) for one in sink_cursors.list_sinks(registry)}
    assert lost == {"away": (first - 1, 201 - first, 0), "late": (first - 31, 201 - first, 0), "fast": (1, 0, 0)}
