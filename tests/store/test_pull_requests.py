"""The cache of what forges listed, and that one process at a time asks a forge."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from imi_monitor.model import times
from imi_monitor.model.pull_request import PullRequest
from imi_monitor.model.pull_request_list import PullRequestList
from imi_monitor.store import db, pull_requests

NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)
APP = "github.com/acme/app"
PULL = PullRequest(3, "Änderung", "alice", "main", "feat/x", ("bob", "app-2"), True, True, state="OPEN", ci="failed")


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = db.connect(str(tmp_path / "iMi.db"))
    yield connection
    connection.close()


def reserve(registry: sqlite3.Connection, after: float = 0, pause: float = 60) -> bool:
    return db.transact(registry, pull_requests.reserve, APP, NOW + timedelta(seconds=after), pause)


def test_one_process_asks_within_the_pause(registry: sqlite3.Connection, tmp_path: Path) -> None:
    other = db.connect(str(tmp_path / "iMi.db"))
    assert reserve(registry) and not reserve(other) and not reserve(registry, 59)
    assert reserve(other, 60) and not reserve(registry, 61)
    assert reserve(registry, -3600)  # the clock was set back
    other.close()


def test_what_was_listed_stays_while_the_forge_cannot_be_asked(registry: sqlite3.Connection) -> None:
    assert pull_requests.read_list(registry, APP) == PullRequestList(APP)
    reserve(registry)
    listed = db.transact(registry, pull_requests.record, APP, "gh", [PULL, PullRequest(2)], 7, NOW)
    assert listed == PullRequestList(APP, "gh", times.stamp(NOW), 7, (PULL, PullRequest(2)))
    stamp = pull_requests.read_stamp(registry, APP)
    later = NOW + timedelta(minutes=3)
    failed = db.transact(registry, pull_requests.record_problem, APP, "offline", later)
    assert pull_requests.read_stamp(registry, APP) != stamp
    again = db.transact(registry, pull_requests.record_problem, APP, "offline", later + timedelta(minutes=1))
    assert failed == again and (failed.pulls, failed.problem_since) == (listed.pulls, times.stamp(later))
    assert failed.origin(NOW + timedelta(minutes=5)) == (
        "7 open pull requests from gh, the 1 that changed last, 5m ago; offline (for 2m)"
    )
    assert db.transact(registry, pull_requests.record, APP, "gh", [], 0, later).problem is None


def test_a_rate_limit_is_waited_for(registry: sqlite3.Connection) -> None:
    reserve(registry)
    db.transact(registry, pull_requests.record_problem, APP, "the rate limit is used up", NOW, limited=600)
    assert not reserve(registry, 599) and reserve(registry, 600) and reserve(registry, 660)


def test_a_list_of_a_later_version_or_a_damaged_one_is_read_as_far_as_it_goes(registry: sqlite3.Connection) -> None:
    reserve(registry)
    registry.execute("""UPDATE forges SET pulls = '[{"number": 4, "later": 1, "fork": "x"}, 5]'""")
    assert pull_requests.read_list(registry, APP).pulls == (PullRequest(4),)
    registry.execute("UPDATE forges SET pulls = '{'")
    assert pull_requests.read_list(registry, APP).pulls == ()


def test_a_project_that_is_not_asked_about_is_forgotten(registry: sqlite3.Connection) -> None:
    reserve(registry)
    db.transact(registry, pull_requests.reserve, "github.com/acme/other", NOW + timedelta(days=91), 60)
    assert [row[0] for row in registry.execute("SELECT project FROM forges")] == ["github.com/acme/other"]
