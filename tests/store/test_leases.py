"""Claims of owners in other homes: who may end them, and when."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from imi_monitor import host
from imi_monitor.store import claim_requests, claims, db, leases
from imi_monitor.store.claim_holder import Caller
from imi_monitor.store.claims import ClaimRequest
from tests.store.claim_kit import REPO, check_history, claim_worktree, registry, request

KEY = (REPO, "feat-x")


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    made = registry(tmp_path / "r.db", ["feat-x"])
    answer = claim_worktree(made, "feat-x", remote("ada@far"))
    assert answer.granted
    db.transact(made, lambda inner: leases.begin(inner, answer.claim, "far-home", 60.0))
    yield made
    made.close()


def let_pass(connection: sqlite3.Connection, seconds: float) -> None:
    """Make every lease older."""
    db.transact(
        connection, lambda inner: inner.execute("UPDATE leases SET renewed_uptime = renewed_uptime - ?", (seconds,))
    )


def remote(agent: str) -> ClaimRequest:
    holder = host.remote_holder("far-home")
    return ClaimRequest(agent, holder, caller=Caller(None, {"given": f"{holder.host}/{agent}"}))


def owner(connection: sqlite3.Connection) -> str | None:
    return claims.current(connection, *KEY).agent_id


def how_it_ended(connection: sqlite3.Connection, epoch: int) -> str | None:
    (how,) = connection.execute("SELECT ended FROM claim_history WHERE epoch = ?", (epoch,)).fetchone()
    return str(how)


@pytest.mark.parametrize(("seconds", "granted"), [(20, False), (61, True)])
def test_another_agent_gets_the_worktree_only_when_the_lease_is_over(
    connection: sqlite3.Connection, seconds: float, granted: bool
) -> None:
    let_pass(connection, seconds)
    assert claim_requests.preview(connection, *KEY, request("new")).grantable is granted
    answer = claim_worktree(connection, "feat-x", request("new"))
    assert (answer.granted, answer.how if granted else None) == (granted, "claimed" if granted else None)
    assert owner(connection) == ("new" if granted else "ada@far")
    if granted:
        assert (answer.claim.epoch, how_it_ended(connection, 1)) == (2, leases.ENDED)
        assert leases.get(connection, KEY) is None
    check_history(connection)


def test_a_lease_of_an_earlier_boot_or_none_is_not_over(connection: sqlite3.Connection) -> None:
    let_pass(connection, 61)
    db.transact(connection, lambda inner: inner.execute("UPDATE leases SET boot = 'another'"))
    assert leases.are_due(connection), "it begins anew"
    assert not claim_worktree(connection, "feat-x", request("new")).granted
    assert db.transact(connection, leases.end_expired, 60.0) == []
    assert not leases.are_due(connection)
    db.transact(connection, lambda inner: inner.execute("DELETE FROM leases"))
    assert not claim_worktree(connection, "feat-x", request("new")).granted
    assert owner(connection) == "ada@far"


def test_a_renewed_lease_begins_anew_for_its_own_home_and_epoch_only(connection: sqlite3.Connection) -> None:
    let_pass(connection, 50)
    for epoch, home, answer in ((2, "far-home", "lost"), (1, "third-home", "lost"), (1, "far-home", "renewed")):
        assert db.transact(connection, leases.renew, KEY, epoch, home) == answer
    let_pass(connection, 20)
    assert db.transact(connection, leases.end_expired, 60.0) == []
    let_pass(connection, 41)
    assert leases.are_due(connection)
    assert db.transact(connection, leases.end_expired, 60.0) == [KEY]
    assert (owner(connection), how_it_ended(connection, 1)) == (None, leases.ENDED)
    assert not leases.are_due(connection)


def test_only_its_own_home_releases_a_claim(connection: sqlite3.Connection) -> None:
    for epoch, home in ((2, "far-home"), (1, "third-home")):
        assert not db.transact(connection, leases.release, KEY, epoch, home)
        assert owner(connection) == "ada@far"
    assert db.transact(connection, leases.release, KEY, 1, "far-home")
    assert owner(connection) is None
    assert leases.list_leases(connection) == []


def test_a_claim_without_a_lease_gets_one_that_begins_now(connection: sqlite3.Connection) -> None:
    db.transact(connection, lambda inner: inner.execute("DELETE FROM leases"))
    assert leases.are_due(connection)
    assert db.transact(connection, leases.end_expired, 60.0) == []
    let_pass(connection, 20)
    assert not leases.are_due(connection)
    let_pass(connection, 41)
    assert db.transact(connection, leases.end_expired, 60.0) == [KEY]


def test_a_lease_whose_claim_ended_otherwise_is_deleted(connection: sqlite3.Connection) -> None:
    assert claim_worktree(connection, "feat-x", request("new", force=True, reason="it is mine")).granted
    assert db.transact(connection, leases.renew, KEY, 1, "far-home") == "lost"
    assert db.transact(connection, leases.end_expired, 60.0) == []
    assert leases.list_leases(connection) == []
    assert owner(connection) == "new"
