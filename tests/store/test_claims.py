"""Single claims: grant, renewal, force, takeover, release, and the reservations of imi's operations."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from imi_monitor import host
from imi_monitor.model.errors import Refused, RegistryError
from imi_monitor.store import agents, claim_history, claim_holder, claim_requests, claims, db, events, worktrees
from imi_monitor.store.claims import ClaimRequest
from tests.store.claim_kit import REPO, become_machine, check_history, claim_worktree, registry, request


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    made = registry(tmp_path / "r.db", ["feat-x"])
    yield made
    made.close()


def _current(connection: sqlite3.Connection) -> claims.Claim:
    return claims.current(connection, REPO, "feat-x")


def _release(connection: sqlite3.Connection, agent: str, epoch: int, **more: object) -> bool:
    return db.transact(connection, claim_requests.release, REPO, "feat-x", agent, epoch, **more)[0]  # type: ignore[arg-type]


def _log(connection: sqlite3.Connection) -> list[tuple[str, str | None, dict[str, object]]]:
    return [(event.type, event.agent_id, json.loads(event.data)) for event in events.list_events(connection)]


def _projection(connection: sqlite3.Connection) -> worktrees.WorktreeRow:
    row = worktrees.get(connection, REPO, "feat-x")
    assert row is not None
    return row


def test_claim_and_release_update_our_tables_and_imis_columns(connection: sqlite3.Connection) -> None:  # S2.9 S2.13
    answer = claim_worktree(connection, "feat-x", request("claude-1", os.getpid(), task="T-1"))
    assert (answer.how, answer.claim.epoch) == ("claimed", 1)
    row = _projection(connection)
    assert (row.agent_id, row.released_at) == ("claude-1", None)
    assert row.claimed_at == answer.claim.claimed_at
    assert _log(connection) == [("worktree.claimed", "claude-1", {"epoch": 1, "task": "T-1"})]  # S2.11
    assert [agent.name for agent in agents.list_agents(connection)] == ["claude-1"]
    assert _release(connection, "claude-1", 1)
    row = _projection(connection)
    assert row.agent_id is None
    assert row.released_at is not None
    assert _log(connection)[1:] == [("worktree.released", "claude-1", {"epoch": 1, "how": "released", "task": "T-1"})]
    assert claims.state(_current(connection)) == "free"
    assert agents.list_agents(connection)[0].status == "idle"


def test_an_owner_on_a_row_that_imi_closed_does_not_count(connection: sqlite3.Connection) -> None:
    """iMi leaves the owner's name on the rows it deactivates."""
    connection.execute("UPDATE worktrees SET active = 0, agent_id = 'old-1'")
    assert claims.state(_current(connection)) == "free"
    assert claim_worktree(connection, "feat-x", request("claude-1")).how == "claimed"


def test_a_renewal_repairs_what_imi_overwrote(connection: sqlite3.Connection) -> None:
    """iMi's INSERT OR REPLACE gives a row new values, and the owner is gone from it."""
    claimed_at = claim_worktree(connection, "feat-x", request("claude-1")).claim.claimed_at
    connection.execute("UPDATE worktrees SET agent_id = NULL, claimed_at = NULL, released_at = 'then'")
    connection.execute("DELETE FROM agents")
    assert claim_worktree(connection, "feat-x", request("claude-1")).how == "renewed"
    row = _projection(connection)
    assert (row.agent_id, row.claimed_at, row.released_at) == ("claude-1", claimed_at, None)
    assert [agent.name for agent in agents.list_agents(connection)] == ["claude-1"]


def test_the_end_of_a_claim_of_imi_leaves_the_history_of_ours(connection: sqlite3.Connection) -> None:
    """A claim that only iMi's column names has no grant of its own; the last one of ours is closed already."""
    claim_worktree(connection, "feat-x", request("claude-1"))
    assert _release(connection, "claude-1", 1)
    (before,) = claim_history.list_grants(connection)
    connection.execute("UPDATE worktrees SET agent_id = 'old-1'")
    assert _current(connection).foreign
    assert _current(connection).claimed_at == before.claimed_at, "iMi's column has the time, too"
    assert _release(connection, "boss", 1, force=True, reason="it is gone")
    (after,) = claim_history.list_grants(connection)
    assert (after.released_at, after.ended, after.taken_by, after.reason) == (
        before.released_at,
        "released",
        None,
        None,
    )


@pytest.mark.parametrize(
    ("marks", "is_holder"),
    [
        ("process:{dead}", True),
        ("tmux:%1\nprocess:{dead}", False),
        ("process:{alive}", False),
        ("process:{mine}", True),
    ],
)
def test_a_terminal_that_is_gone_proves_nothing_alone(
    connection: sqlite3.Connection, marks: str, is_holder: bool
) -> None:
    """Its user may go on in another terminal; but a pane that was recorded beside it may still be there."""
    mine, parents = (f"{pid}/{host.start_time(pid)}" for pid in (os.getpid(), os.getppid()))
    session = marks.format(dead=f"{os.getpid()}/1", alive=parents, mine=mine)
    claim = claim_worktree(connection, "feat-x", request("claude-1", session=session)).claim
    assert claim_holder.holds(claim, claim_holder.Caller(1, {"process": mine})) == is_holder


def test_claim_and_event_are_one_transaction(connection: sqlite3.Connection) -> None:  # S2.6
    def half(inner: sqlite3.Connection) -> None:
        claim_requests.claim(inner, REPO, "feat-x", request("claude-1"))
        raise Refused("the process dies here")

    with pytest.raises(Refused):
        db.transact(connection, half)
    assert _log(connection) == []
    assert _projection(connection).agent_id is None
    assert claim_history.list_grants(connection) == []


def test_a_refused_claim_writes_nothing(connection: sqlite3.Connection) -> None:
    claim_worktree(connection, "feat-x", request("a"))
    answer = claim_worktree(connection, "feat-x", request("b"))
    assert (answer.how, answer.claim.agent_id) == ("held", "a")
    assert len(_log(connection)) == 1


def test_claiming_again_renews_with_the_same_epoch(connection: sqlite3.Connection) -> None:
    first = claim_worktree(connection, "feat-x", request("a", task="T-1", ttl=60.0)).claim
    again = claim_worktree(connection, "feat-x", request("a", os.getpid()))
    assert (again.how, again.claim.epoch) == ("renewed", 1)
    assert (again.claim.pid, again.claim.task_id, again.claim.ttl_seconds) == (os.getpid(), "T-1", 60.0)
    assert again.claim.claimed_at == first.claimed_at
    assert len(_log(connection)) == 1
    assert claim_worktree(connection, "feat-x", request("a")).claim.pid == os.getpid(), (
        "a living process goes on being watched"
    )


def test_renewing_forgets_a_dead_process(connection: sqlite3.Connection) -> None:
    me = host.identify_process(os.getpid())
    claim_worktree(connection, "feat-x", ClaimRequest("a", host.ProcessIdentity(me.host, me.boot, me.pid, "1")))
    assert claims.state(_current(connection)) == "dead"
    assert claim_worktree(connection, "feat-x", request("a")).how == "renewed"
    assert claims.state(_current(connection)) == "held"


def test_force_takes_from_a_living_holder_and_records_it(connection: sqlite3.Connection) -> None:
    claim_worktree(connection, "feat-x", request("a", os.getpid()))
    answer = claim_worktree(connection, "feat-x", request("b", force=True, reason="release blocker"))
    assert (answer.how, answer.claim.epoch) == ("forced", 2)
    lost = claim_history.last_grant(connection, REPO, "feat-x", "a")
    assert lost is not None
    assert (lost.ended, lost.taken_by, lost.reason, lost.epoch) == ("forced", "b", "release blocker", 1)
    released, claimed = _log(connection)[1:]
    assert released[2]["by"] == "b"
    assert claimed[2] == {"epoch": 2, "task": None, "forced_from": "a", "reason": "release blocker"}
    check_history(connection)


def test_takeover_takes_stale_claims_only(connection: sqlite3.Connection) -> None:
    claim_worktree(connection, "feat-x", request("a", ttl=1000.0))
    assert not claim_worktree(connection, "feat-x", request("b", takeover=True)).granted
    connection.execute("UPDATE claims SET heartbeat_uptime = heartbeat_uptime - 1001")
    assert claims.state(_current(connection)) == "stale"
    assert not claim_worktree(connection, "feat-x", request("b")).granted, "stale is shown, never free"
    assert claim_worktree(connection, "feat-x", request("b", takeover=True)).how == "taken_over"
    assert _log(connection)[-1][2]["takeover_from"] == "a"


def test_claims_do_not_depend_on_the_wall_clock(connection: sqlite3.Connection) -> None:
    claim_worktree(connection, "feat-x", request("a", ttl=1000.0))
    for moment in ("1999-01-01T00:00:00+00:00", "2999-01-01T00:00:00+00:00"):
        connection.execute("UPDATE claims SET claimed_at = ?, heartbeat_at = ?", (moment, moment))
        assert claims.state(_current(connection)) == "held"


def test_a_heartbeat_keeps_a_claim_from_going_stale(connection: sqlite3.Connection) -> None:
    claim_worktree(connection, "feat-x", request("a", ttl=1000.0))
    connection.execute("UPDATE claims SET heartbeat_uptime = heartbeat_uptime - 1001")
    assert db.transact(connection, claim_requests.heartbeat, REPO, "feat-x", "a", 1)[0]
    assert claims.state(_current(connection)) == "held"
    assert not db.transact(connection, claim_requests.heartbeat, REPO, "feat-x", "b", None)[0]
    assert not db.transact(connection, claim_requests.heartbeat, REPO, "feat-x", "a", 2)[0]


def test_a_heartbeat_does_not_bring_a_dead_claim_back(connection: sqlite3.Connection) -> None:
    me = host.identify_process(os.getpid())
    claim_worktree(connection, "feat-x", ClaimRequest("a", host.ProcessIdentity(me.host, me.boot, me.pid, "1")))
    assert not db.transact(connection, claim_requests.heartbeat, REPO, "feat-x", "a", 1)[0]
    assert claims.state(_current(connection)) == "dead"


def test_release_names_owner_and_epoch(connection: sqlite3.Connection) -> None:
    claim_worktree(connection, "feat-x", request("a"))
    assert not _release(connection, "b", 1)
    assert not _release(connection, "a", 0)
    assert not _release(connection, "b", 2, force=True, reason="r")
    assert _release(connection, "b", 1, force=True, reason="it is late")
    lost = claim_history.last_grant(connection, REPO, "feat-x", "a", 1)
    assert lost is not None
    assert (lost.ended, lost.taken_by, lost.reason) == ("forced", "b", "it is late")
    assert not _release(connection, "a", 1), "what is free cannot be released"


def test_the_epoch_survives_release_and_grows_with_every_grant(connection: sqlite3.Connection) -> None:
    for number in range(1, 6):
        assert claim_worktree(connection, "feat-x", request(f"a{number % 2}")).claim.epoch == number
        assert _release(connection, f"a{number % 2}", number)
    assert check_history(connection) == 5


def test_a_replaced_row_of_imi_does_not_lose_the_claim(connection: sqlite3.Connection) -> None:
    """iMi 2.0.2 writes INSERT OR REPLACE, which empties the owner column; the next heartbeat writes it again."""
    claim_worktree(connection, "feat-x", request("a"))
    connection.execute(
        "INSERT OR REPLACE INTO worktrees (id, repo_name, worktree_name, branch_name, worktree_type, path, created_at,"
        " updated_at, active, agent_id) VALUES ('new', 'app', 'feat-x', 'feat/x', 'feat', '/x', 'now', 'now', 1, NULL)"
    )
    assert not claim_worktree(connection, "feat-x", request("b")).granted
    assert db.transact(connection, claim_requests.heartbeat, REPO, "feat-x", "a", None)[0]
    assert _projection(connection).agent_id == "a"


def test_an_owner_that_only_imis_column_names_counts(connection: sqlite3.Connection) -> None:
    """Another program shares the registry and does not use our tables."""
    connection.execute("UPDATE worktrees SET agent_id = 'old-1', claimed_at = '2026-01-01T00:00:00+00:00'")
    assert not claim_worktree(connection, "feat-x", request("b")).granted
    assert [(claim.agent_id, claim.foreign) for claim in claims.list_held(connection)] == [("old-1", True)]
    assert not _release(connection, "b", 0)
    assert claim_worktree(connection, "feat-x", request("b", force=True, reason="gone for good")).how == "forced"
    assert _projection(connection).agent_id == "b"
    assert _release(connection, "b", 1)
    connection.execute("UPDATE worktrees SET agent_id = 'old-1'")
    assert _release(connection, "old-1", 1), "it may give back what it has"
    connection.execute("UPDATE worktrees SET agent_id = 'old-1'")
    assert claim_worktree(connection, "feat-x", request("old-1")).claim.epoch == 2, "and may claim it properly"


class TestReservations:
    """What a removal does: reserve the worktree, then close or restore the claim."""

    def test_a_reservation_is_refused_after_the_claim_changed(self, connection: sqlite3.Connection) -> None:
        seen = _current(connection)
        claim_worktree(connection, "feat-x", request("a"))
        with pytest.raises(Refused, match="a has it now"):
            db.transact(connection, claims.reserve, REPO, "feat-x", expect_epoch=seen.epoch, by="remove")
        assert _current(connection).agent_id == "a"

    def test_a_reserved_worktree_cannot_be_claimed(self, connection: sqlite3.Connection) -> None:
        epoch = db.transact(connection, claims.reserve, REPO, "feat-x", expect_epoch=0, by="remove")
        assert epoch == 1
        assert not claim_worktree(connection, "feat-x", request("a")).granted
        assert _log(connection) == [], "a reservation is not the claim of an agent"

    def test_restore_gives_the_owner_a_new_epoch(self, connection: sqlite3.Connection) -> None:
        claim_worktree(connection, "feat-x", request("a", os.getpid(), task="T", ttl=60.0))
        before = _current(connection)
        epoch = db.transact(connection, claims.reserve, REPO, "feat-x", expect_epoch=1, by="remove")
        assert not _release(connection, "a", 1)
        assert db.transact(connection, claims.restore, before, epoch) == 3
        now = _current(connection)
        for name in (
            "agent_id",
            "task_id",
            "claimed_at",
            "heartbeat_uptime",
            "ttl_seconds",
            "boot",
            "pid",
            "pid_started",
        ):
            assert getattr(now, name) == getattr(before, name), name
        assert _projection(connection).agent_id == "a"
        history = [(grant.agent_id, grant.epoch, grant.ended) for grant in claim_history.list_grants(connection)]
        assert history == [("a", 1, "reserved"), ("imi:remove", 2, "given_back"), ("a", 3, None)]

    def test_restore_of_a_free_worktree_leaves_it_free(self, connection: sqlite3.Connection) -> None:
        before = _current(connection)
        epoch = db.transact(connection, claims.reserve, REPO, "feat-x", expect_epoch=0, by="remove")
        db.transact(connection, claims.restore, before, epoch)
        assert claims.state(_current(connection)) == "free"
        assert claim_worktree(connection, "feat-x", request("a")).claim.epoch == epoch + 1

    def test_a_reservation_whose_process_died_waits_for_recovery(self, connection: sqlite3.Connection) -> None:
        claim_worktree(connection, "feat-x", request("a"))
        db.transact(connection, claims.reserve, REPO, "feat-x", expect_epoch=1, by="remove")
        connection.execute("UPDATE claims SET pid_started = '1'")
        assert claims.state(_current(connection)) == "dead"
        assert not claim_worktree(connection, "feat-x", request("b")).granted, "a had it, and shall have it again"
        assert not claim_requests.preview(connection, REPO, "feat-x", request("b")).grantable
        assert claim_worktree(connection, "feat-x", request("b", force=True, reason="it never ends")).how == "forced"

    def test_close_ends_the_claim_of_a_removed_worktree(self, connection: sqlite3.Connection) -> None:
        claim_worktree(connection, "feat-x", request("a"))
        epoch = db.transact(connection, claims.reserve, REPO, "feat-x", expect_epoch=1, by="remove")
        db.transact(connection, claims.close, REPO, "feat-x", epoch=epoch, how="worktree_removed", by="b")
        assert claims.state(_current(connection)) == "free"
        assert [(kind, who) for kind, who, _ in _log(connection)] == [
            ("worktree.claimed", "a"),
            ("worktree.released", "a"),
        ]
        with pytest.raises(Refused):
            db.transact(connection, claims.close, REPO, "feat-x", epoch=1, how="worktree_removed", by="b")

    def test_renaming_a_worktree_keeps_its_claim_and_unique_epochs(self, connection: sqlite3.Connection) -> None:
        claim_worktree(connection, "feat-y", request("old"))
        db.transact(connection, claim_requests.release, REPO, "feat-y", "old", 1)
        claim_worktree(connection, "feat-x", request("a"))
        connection.execute("UPDATE worktrees SET worktree_name = 'feat-y' WHERE worktree_name = 'feat-x'")
        assert db.transact(connection, claims.rename_worktree, REPO, "feat-x", "feat-y") == 2
        now = claims.current(connection, REPO, "feat-y")
        assert (now.agent_id, now.epoch) == ("a", 2)
        history = claim_history.list_grants(connection, REPO, "feat-y")
        assert [(grant.epoch, grant.agent_id) for grant in history] == [(1, "old"), (2, "a")]
        assert claims.state(_current(connection)) == "free"


@pytest.mark.parametrize(
    ("agent", "kind"),
    [("claude-1", "claude"), ("human:ann", "human"), ("Codex", "codex"), ("worker-7", "agent"), (":x", "agent")],
)
def test_the_kind_of_an_agent_follows_from_its_name(agent: str, kind: str) -> None:
    assert agents.kind_of(agent) == kind


# -- synced when it is reported ---------------------------------------------------------------------------------------------


def request_claim(connection: sqlite3.Connection, asked: ClaimRequest) -> claim_requests.ClaimAnswer:
    return claim_requests.request_claim(connection, claim_requests.ClaimTarget(REPO, "feat-x"), asked)


def test_a_forced_claim_is_on_disk_before_the_owner_loses_it(
    connection: sqlite3.Connection, broken_disk: list[int]
) -> None:
    """A release would not restore the earlier owner, so a forced claim is synced under the lock."""
    claim_worktree(connection, "feat-x", request("claude-1"))
    assert request_claim(connection, request("claude-2", force=True)).how == "forced"
    assert connection.execute("PRAGMA synchronous").fetchone()[0] == 2
    assert not broken_disk


def test_a_place_in_line_does_not_wait_for_the_disk(connection: sqlite3.Connection, broken_disk: list[int]) -> None:
    claim_worktree(connection, "feat-x", request("a"))
    target = claim_requests.ClaimTarget(REPO, "feat-x")
    answer = claim_requests.request_or_join(connection, target, request("b"), host.uptime() + 60)
    assert (answer.how, answer.seq > 0, broken_disk) == ("held", True, [])


def test_a_claim_that_cannot_be_synced_is_released(connection: sqlite3.Connection, broken_disk: list[int]) -> None:
    with pytest.raises(RegistryError, match="cannot be put on its disk"):
        request_claim(connection, request("claude-1"))
    assert broken_disk
    assert claims.state(_current(connection)) == "free"
    assert check_history(connection) == 1


def test_a_renewed_claim_stays_if_the_disk_fails(connection: sqlite3.Connection, broken_disk: list[int]) -> None:
    claim_worktree(connection, "feat-x", request("claude-1"))
    with pytest.raises(RegistryError, match="cannot be put on its disk"):
        request_claim(connection, request("claude-1"))
    assert _current(connection).agent_id == "claude-1"


def test_a_refusal_does_not_wait_for_the_disk(connection: sqlite3.Connection, broken_disk: list[int]) -> None:
    claim_worktree(connection, "feat-x", request("claude-1"))
    assert not request_claim(connection, request("claude-2")).granted
    assert not broken_disk


# -- machines: boots and pids of another one say nothing here ------------------------------------------------------------


def test_a_holder_on_another_machine_of_the_same_name_is_not_dead(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two containers may have one host name, and one registry on a shared disk."""
    become_machine(monkeypatch, "machine-b", "boot-b")
    there = request("claude-1", os.getpid())
    assert claim_worktree(connection, "feat-x", there).how == "claimed"
    become_machine(monkeypatch, "machine-a", "boot-a")
    claim = claims.current(connection, REPO, "feat-x")
    assert claims.state(claim) == "held" and claims.silent_seconds(claim) is None
    assert claim_worktree(connection, "feat-x", request("claude-2")).how == "held"


def test_a_holder_of_an_earlier_boot_of_this_machine_is_dead(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    become_machine(monkeypatch, "machine-a", "boot-a")
    claim_worktree(connection, "feat-x", request("claude-1", os.getpid()))
    become_machine(monkeypatch, "machine-a", "boot-b")
    assert claims.state(claims.current(connection, REPO, "feat-x")) == "dead"


def test_a_holder_in_another_home_is_held_whatever_its_name(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ClaimRequest("claude-1", host.remote_holder("1f3a"))
    claim_worktree(connection, "feat-x", asked)
    monkeypatch.setenv("IMI_HOST", "home:1f3a")
    claim = claims.current(connection, REPO, "feat-x")
    assert (claims.state(claim), host.home_of(claim.host)) == ("held", "1f3a")
    assert host.is_alive(claim.host, "other-boot/x", 1, "1") is None


def test_epochs_continue_after_those_of_another_registry(connection: sqlite3.Connection) -> None:
    for given, expected in ((7, 7), (5, 7), (9, 9)):
        db.transact(connection, claims.raise_epoch, REPO, "feat-x", given)
        assert _current(connection).epoch == expected
    assert claim_worktree(connection, "feat-x", request("a")).claim.epoch == 10
