"""The rules of claims at their borders: whose claim counts, which epoch is meant, what each act writes."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from imi_monitor import host
from imi_monitor.model.errors import Refused
from imi_monitor.store import (
    agents,
    claim_history,
    claim_queue,
    claim_requests,
    claims,
    db,
    events,
    repositories,
    worktrees,
)
from imi_monitor.store.claim_holder import Caller
from imi_monitor.store.claims import Claim, ClaimRequest
from tests.store.claim_kit import REPO, claim_worktree, registry, request

ME = host.identify_process(os.getpid())
DEAD = host.ProcessIdentity(ME.host, ME.boot, ME.pid, "1")
KEY = (REPO, "feat-x")


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    made = registry(tmp_path / "r.db", ["feat-x", "feat-y"])
    yield made
    made.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds since boot, which the test sets."""
    now = [1000.0]
    monkeypatch.setattr(time, "clock_gettime", lambda _: now[0])
    return now


def current(connection: sqlite3.Connection, name: str = "feat-x") -> Claim:
    return claims.current(connection, REPO, name)


def release(connection: sqlite3.Connection, agent: str, epoch: int, **more: object) -> bool:
    return db.transact(connection, claim_requests.release, *KEY, agent, epoch, **more)[0]  # type: ignore[arg-type]


def name_owner(connection: sqlite3.Connection, agent: str | None, name: str = "feat-x") -> None:
    """As another program does it that shares the registry."""
    connection.execute("UPDATE worktrees SET agent_id = ?, claimed_at = 'then' WHERE worktree_name = ?", (agent, name))


def told(connection: sqlite3.Connection) -> list[tuple[str, str | None, int | None, dict[str, object]]]:
    return [(one.type, one.agent_id, one.epoch, json.loads(one.data)) for one in events.list_events(connection)]


def grants(connection: sqlite3.Connection, name: str = "feat-x") -> list[tuple[object, ...]]:
    found = claim_history.list_grants(connection, REPO, name)
    return [(one.epoch, one.agent_id, one.ended, one.taken_by, one.reason) for one in found]


def claim_row(**columns: object) -> Claim:
    values = {
        "agent_id": "a",
        "epoch": 1,
        "heartbeat_uptime": 940.0,
        "ttl_seconds": 60.0,
        "host": ME.host,
        "boot": ME.boot,
        **columns,
    }
    names = [name.strip() for name in Claim.columns.split(",")]
    return Claim((*KEY, *(values.get(name) for name in names[2:])))


# -- the state of a claim -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "state"),
    [
        ({"agent_id": None}, "free"),
        ({}, "held"),
        ({"heartbeat_uptime": 939.9}, "stale"),
        ({"heartbeat_uptime": 939.9, "ttl_seconds": None}, "held"),
        ({"heartbeat_uptime": 0.0, "ttl_seconds": 0.0}, "held"),
        ({"heartbeat_uptime": None}, "held"),
        ({"heartbeat_uptime": 0.0, "boot": None}, "held"),
        ({"heartbeat_uptime": 0.0, "boot": ""}, "held"),
        ({"heartbeat_uptime": 0.0, "pid": ME.pid, "pid_started": ME.started}, "stale"),
        ({"heartbeat_uptime": 0.0, "pid": ME.pid, "pid_started": "1"}, "dead"),
        ({"boot": "other/pid:[1]"}, "dead"),
    ],
)
def test_a_claim_is_stale_when_it_was_silent_for_longer_than_its_time(
    clock: list[float], columns: dict[str, object], state: str
) -> None:
    assert claims.state(claim_row(**columns)) == state


def test_the_seconds_since_the_last_heartbeat(clock: list[float]) -> None:
    silent = claims.silent_seconds
    assert silent(claim_row()) == 60.0
    assert silent(claim_row(heartbeat_uptime=1001.0)) == 0.0, "the clocks of two processes"
    for unknown in ({"heartbeat_uptime": None}, {"boot": None}, {"boot": ""}, {"boot": "other/pid:[1]"}):
        assert silent(claim_row(**unknown)) is None


def test_a_dead_reservation_is_one_of_imi_whose_process_is_gone() -> None:
    dead = {"pid": ME.pid, "pid_started": "1"}
    for agent, columns, expected in (
        ("imi:remove", dead, True),
        ("imi:remove", {}, False),
        ("a", dead, False),
        (None, dead, False),
    ):
        assert claims.is_dead_reservation(claim_row(agent_id=agent, **columns)) is expected


# -- owners that another program names ------------------------------------------------------------------------------------


def test_only_an_owner_of_this_worktree_makes_it_taken(connection: sqlite3.Connection) -> None:
    name_owner(connection, "old-1", "feat-y")
    place = {"common_dir": "/z.git", "path": "/z", "remote_url": "", "default_branch": "main"}
    db.transact(connection, repositories.register, repositories.RepositoryRegistration("other", **place))
    db.transact(connection, worktrees.register, "other", "feat-x", branch="feat-x", kind="feat", path="/z/feat-x")
    connection.execute("UPDATE worktrees SET agent_id = 'old-2' WHERE repo_name = 'other'")
    assert current(connection).agent_id is None
    assert claim_worktree(connection, "feat-x", request("a")).how == "claimed"
    assert [(one.key, one.agent_id, one.epoch, one.foreign) for one in claims.list_held(connection)] == [
        (("app", "feat-x"), "a", 1, False),
        (("app", "feat-y"), "old-1", 0, True),
        (("other", "feat-x"), "old-2", 0, True),
    ]
    assert [one.agent_id for one in claims.list_held(connection, "app")] == ["a", "old-1"]
    connection.execute("UPDATE worktrees SET active = 0")
    assert [one.agent_id for one in claims.list_held(connection)] == ["a"]


def test_a_claim_of_another_program_continues_our_epochs(connection: sqlite3.Connection) -> None:
    claim_worktree(connection, "feat-x", request("a"))
    assert release(connection, "a", 1)
    name_owner(connection, "old-1")
    seen = current(connection)
    assert (seen.agent_id, seen.foreign, seen.epoch, seen.claimed_at, seen.pid) == ("old-1", True, 1, "then", None)
    (held,) = claims.list_held(connection)
    assert (held.foreign, held.claimed_at, held.host) == (True, "then", None)
    assert not db.transact(connection, claims.free, seen, "forced", holder="old-2")
    name_owner(connection, "old-2")
    assert not db.transact(connection, claims.free, seen, "forced"), "it is another one's by now"
    assert current(connection).agent_id == "old-2"
    assert db.transact(connection, claims.free, seen, "forced", holder="old-2", by="boss")
    assert current(connection).agent_id is None
    row = worktrees.get(connection, *KEY)
    assert row is not None and row.agent_id is None and row.released_at is not None


def test_the_id_of_a_worktree_is_that_of_its_row(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE worktrees SET id = 'w-' || worktree_name")
    assert claims.worktree_id(connection, REPO, "feat-y") == "w-feat-y"
    assert claims.worktree_id(connection, REPO, "feat-z") is claims.worktree_id(connection, "other", "feat-x") is None


# -- grants and ends ------------------------------------------------------------------------------------------------------


def test_a_grant_that_replaces_a_claim_needs_exactly_that_claim(connection: sqlite3.Connection) -> None:
    first = claim_worktree(connection, "feat-x", request("a")).claim
    assert release(connection, "a", 1)
    claim_worktree(connection, "feat-x", request("a"))
    for seen in (first, claim_row(agent_id="b", epoch=2)):
        assert db.transact(connection, claims.grant, *KEY, request("c"), replaces=seen, ended="forced") is None
    assert (current(connection).agent_id, current(connection).epoch) == ("a", 2)
    assert db.transact(connection, claims.grant, *KEY, request("c"), replaces=current(connection), ended="forced") == 3
    assert grants(connection) == [
        (1, "a", "released", None, None),
        (2, "a", "forced", "c", None),
        (3, "c", None, None, None),
    ]


def test_a_claim_is_freed_by_its_owner_and_epoch_only(connection: sqlite3.Connection) -> None:
    seen = claim_worktree(connection, "feat-x", request("a")).claim
    claim_worktree(connection, "feat-y", request("a"))
    for more in ({"holder": "b"}, {"epoch": 2}, {"epoch": 0}):
        assert not db.transact(connection, claims.free, seen, "released", **more)  # type: ignore[arg-type]
    assert db.transact(connection, claims.free, seen, "released")
    assert not db.transact(connection, claims.free, seen, "released")
    assert current(connection, "feat-y").agent_id == "a", "the claim on another worktree stays"


@pytest.mark.parametrize(
    ("by", "how", "other"),
    [
        ("a", "released", None),
        ("b", "released", "b"),
        ("a", "forced", "a"),
        ("a", "taken_over", "a"),
        (None, "worktree_removed", None),
    ],
)
def test_who_ended_a_claim_is_recorded_unless_it_was_the_holder(
    connection: sqlite3.Connection, by: str | None, how: str, other: str | None
) -> None:
    """Another process with the owner's name may end its claim by force."""
    seen = claim_worktree(connection, "feat-x", request("a", task="T")).claim
    assert db.transact(connection, claims.free, seen, how, by=by, reason="why" if by else None)
    assert grants(connection) == [(1, "a", how, other, "why" if by else None)]
    data = {
        "epoch": 1,
        "how": how,
        "task": "T",
        **({"by": other} if other else {}),
        **({"reason": "why"} if by else {}),
    }
    assert told(connection)[1:] == [("worktree.released", "a", 1, data)]
    assert [(one.name, one.status) for one in agents.list_agents(connection)] == [("a", "idle")]


def test_a_claim_keeps_what_was_asked_for(connection: sqlite3.Connection) -> None:
    caller = Caller(ME.pid, {"given": "s", "tmux": "1/%1"})
    asked = ClaimRequest("a", ME, task="T", ttl=60.0, caller=caller)
    now = claim_worktree(connection, "feat-x", asked).claim
    assert (now.task_id, now.ttl_seconds, now.host, now.boot, now.pid, now.pid_started, now.session) == (
        *("T", 60.0, ME.host, ME.boot, ME.pid, ME.started),
        "given:s\ntmux:1/%1",
    )
    assert now.heartbeat_at == now.claimed_at is not None
    assert now.heartbeat_uptime is not None and 0 <= host.uptime() - now.heartbeat_uptime < 60
    assert ClaimRequest("a", ME, session="given:t").session == "given:t"
    assert ClaimRequest("a", ME, caller=Caller(None, {}), session="given:t").session is None
    assert (ClaimRequest("a", ME).caller.pid, ClaimRequest("a", ME).caller.session) == (ME.pid, {})
    assert ClaimRequest("a", ME, caller=caller).caller is caller
    assert not (asked.force or asked.takeover)


# -- operations of imi ----------------------------------------------------------------------------------------------------


def reserve(connection: sqlite3.Connection, epoch: int) -> int:
    return db.transact(connection, claims.reserve, *KEY, expect_epoch=epoch, by="remove")


def test_a_reservation_is_held_by_this_process_and_tells_no_one(connection: sqlite3.Connection) -> None:
    epoch = reserve(connection, 0)
    now = current(connection)
    assert (now.agent_id, now.epoch, now.pid, now.pid_started) == ("imi:remove", epoch, ME.pid, ME.started)
    assert (told(connection), agents.list_agents(connection)) == ([], [])
    with pytest.raises(Refused, match=r"changed during this operation \(imi:remove has it now\)") as caught:
        reserve(connection, 0)
    assert caught.value.code == "claim-changed"


def test_only_the_reservation_that_was_made_is_given_back(connection: sqlite3.Connection) -> None:
    before = claim_worktree(connection, "feat-x", request("a")).claim
    epoch = reserve(connection, 1)
    for wrong in (1, 3):
        with pytest.raises(Refused, match="imi:remove has it now"):
            db.transact(connection, claims.restore, before, wrong)
    claim_worktree(connection, "feat-x", request("b", force=True))
    with pytest.raises(Refused, match="b has it now"):
        db.transact(connection, claims.restore, before, epoch + 1)
    assert release(connection, "b", 3)
    with pytest.raises(Refused, match="it is unclaimed now"):
        db.transact(connection, claims.restore, before, epoch + 1)


def test_a_restored_claim_is_the_former_one_under_a_new_epoch(connection: sqlite3.Connection) -> None:
    there = host.ProcessIdentity("elsewhere", "boot/pid:[1]", 7, "9")
    caller = Caller(7, {"tmux": "1/%1"})
    claim_worktree(connection, "feat-x", ClaimRequest("a", there, task="T", ttl=60.0, caller=caller))
    connection.execute("UPDATE claims SET claimed_at = 'then', heartbeat_at = 'later', heartbeat_uptime = 7.0")
    claim_worktree(connection, "feat-y", request("b"))
    other = vars(current(connection, "feat-y"))
    before = current(connection)
    assert db.transact(connection, claims.restore, before, reserve(connection, 1)) == 3
    assert vars(current(connection)) == {**vars(before), "epoch": 3}
    assert vars(current(connection, "feat-y")) == other
    assert told(connection)[-1] == ("worktree.claimed", "a", 3, {"epoch": 3, "task": "T", "how": "given_back"})
    attempts = connection.execute("SELECT epoch, task_id, ended_at FROM tasks").fetchall()
    assert attempts == [(3, "T", None)], "the attempt goes on"
    assert grants(connection)[1:] == [(2, "imi:remove", "given_back", "a", None), (3, "a", None, None, None)]


def test_a_restored_claim_without_a_place_is_one_of_this_machine(connection: sqlite3.Connection) -> None:
    name_owner(connection, "old-1")
    before = current(connection)
    assert db.transact(connection, claims.restore, before, reserve(connection, 0)) == 2
    now = current(connection)
    assert (now.agent_id, now.host, now.boot, now.pid, now.foreign) == ("old-1", ME.host, None, None, False)


def test_a_free_worktree_is_given_back_free(connection: sqlite3.Connection) -> None:
    before = current(connection)
    assert db.transact(connection, claims.restore, before, reserve(connection, 0)) == 1
    assert (current(connection).agent_id, current(connection).epoch, told(connection)) == (None, 1, [])
    assert grants(connection) == [(1, "imi:remove", "given_back", None, None)]


def test_closing_ends_the_claim_of_that_epoch(connection: sqlite3.Connection) -> None:
    claim_worktree(connection, "feat-x", request("a"))
    for epoch in (0, 2):
        with pytest.raises(Refused, match="a has it now"):
            db.transact(connection, claims.close, *KEY, epoch=epoch, how="worktree_removed", by="b")
    db.transact(connection, claims.close, *KEY, epoch=1, how="worktree_removed", by="b")
    assert grants(connection) == [(1, "a", "worktree_removed", "b", None)]
    db.transact(connection, claims.close, *KEY, epoch=1, how="worktree_removed", by="b")
    assert len(told(connection)) == 2, "what is free stays free"


def test_epochs_of_another_registry_are_those_of_one_worktree(connection: sqlite3.Connection) -> None:
    for name in ("feat-x", "feat-y"):
        claim_worktree(connection, name, request("a"))
    db.transact(connection, claims.raise_epoch, *KEY, 7)
    assert [(current(connection, name).epoch, current(connection, name).agent_id) for name in ("feat-x", "feat-y")] == [
        (7, "a"),
        (1, "a"),
    ]


def test_a_renamed_worktree_takes_everything_of_its_claim_along(connection: sqlite3.Connection) -> None:
    for agent, epoch in (("p", 1), ("q", 2)):
        claim_worktree(connection, "feat-y", request(agent, task="old"))
        assert db.transact(connection, claim_requests.release, REPO, "feat-y", agent, epoch)[0]
    claim_worktree(connection, "feat-x", request("a", task="T"))
    db.transact(connection, claim_queue.join, *KEY, "w", ME, task=None, seconds=60.0)
    for name in ("feat-x", "feat-y", "feat-z"):
        connection.execute(
            "INSERT INTO automatic_claims (repo_name, worktree_name, epoch, agent_id, session_id)"
            " VALUES ('app', ?, 1, 'a', ?)",
            (name, f"of {name}"),
        )
    assert db.transact(connection, claims.rename_worktree, REPO, "feat-x", "feat-y") == 3
    now = current(connection, "feat-y")
    assert (now.agent_id, now.epoch, current(connection).epoch) == ("a", 3, 0)
    assert [(epoch, agent) for epoch, agent, *_ in grants(connection, "feat-y")] == [(1, "p"), (2, "q"), (3, "a")]
    assert grants(connection) == []
    tasks = "SELECT worktree_name, epoch, task_id FROM tasks ORDER BY epoch"
    assert connection.execute(tasks).fetchall() == [("feat-y", 1, "old"), ("feat-y", 2, "old"), ("feat-y", 3, "T")]
    assert [one.worktree_name for one in claim_queue.list_waiters(connection)] == ["feat-y"]
    automatic = "SELECT worktree_name, epoch, session_id FROM automatic_claims ORDER BY worktree_name"
    assert connection.execute(automatic).fetchall() == [("feat-y", 3, "of feat-x"), ("feat-z", 1, "of feat-z")]


def test_a_renamed_worktree_begins_with_its_own_epochs_if_the_name_is_new(connection: sqlite3.Connection) -> None:
    claim_worktree(connection, "feat-x", request("a"))
    claim_worktree(connection, "feat-y", request("b"))
    assert db.transact(connection, claims.rename_worktree, REPO, "feat-x", "feat-new") == 1
    assert (current(connection, "feat-new").agent_id, current(connection, "feat-y").agent_id) == ("a", "b")
    assert db.transact(connection, claims.rename_worktree, REPO, "feat-never", "feat-none") == 0


# -- history --------------------------------------------------------------------------------------------------------------


def test_grants_are_listed_oldest_first_and_the_newest_are_kept(connection: sqlite3.Connection) -> None:
    for epoch, (name, agent) in enumerate(
        (("feat-x", "a"), ("feat-y", "b"), ("feat-x", "b"), ("feat-x", "a")), start=1
    ):
        connection.execute(
            "INSERT INTO claim_history (repo_name, worktree_name, epoch, agent_id, host, claimed_at)"
            " VALUES ('app', ?, ?, ?, 'h', ?)",
            (name, epoch, agent, "same" if epoch > 1 else "earlier"),
        )
    connection.execute(
        "INSERT INTO claim_history (repo_name, worktree_name, epoch, agent_id, host, claimed_at)"
        " VALUES ('other', 'feat-x', 9, 'a', 'h', 'zero')"
    )

    def listed(*where: str, limit: int = 100) -> list[int]:
        return [one.epoch for one in claim_history.list_grants(connection, *where, limit=limit)]

    assert (listed(), listed(REPO), listed(REPO, "feat-x")) == ([1, 2, 3, 4, 9], [1, 2, 3, 4], [1, 3, 4])
    assert (listed(REPO, limit=2), listed(limit=1)) == ([3, 4], [9])
    last = [
        (one := claim_history.last_grant(connection, *KEY, agent, epoch)) and one.epoch
        for agent, epoch in (("a", None), ("b", None), ("a", 1), ("a", 3), ("c", None))
    ]
    assert last == [4, 3, 1, None, None]


def test_an_attempt_ends_when_the_claim_names_another_task(connection: sqlite3.Connection) -> None:
    def attempts() -> list[tuple[object, ...]]:
        found = "SELECT worktree_name, task_id, ended_at IS NULL, outcome FROM tasks ORDER BY worktree_name, started_at"
        return connection.execute(found).fetchall()

    claim_worktree(connection, "feat-y", request("b", task="other"))
    claim = claim_worktree(connection, "feat-x", request("a", task="one")).claim
    claim_worktree(connection, "feat-x", request("a", task="two"))
    assert attempts() == [("feat-x", "one", 0, None), ("feat-x", "two", 1, None), ("feat-y", "other", 1, None)]
    db.transact(connection, claim_history.record_outcome, current(connection), "failed", "no time")
    assert attempts() == [("feat-x", "one", 0, None), ("feat-x", "two", 1, "failed"), ("feat-y", "other", 1, None)]
    assert told(connection)[-1] == ("task.ended", "a", 1, {"task": "two", "outcome": "failed"})
    db.transact(connection, claim_history.begin_attempt, claim.key, 1, "one", "now")
    db.transact(connection, claim_history.begin_attempt, claim.key, 1, "two", "now")
    assert attempts() == [("feat-x", "one", 0, None), ("feat-x", "two", 1, None), ("feat-y", "other", 1, None)]
    sources = connection.execute("SELECT outcome_from FROM tasks").fetchall()
    assert sources == [(None,)] * 3, "an attempt that is begun again has no outcome yet"


# -- requests -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rights", "how", "event"),
    [
        ({}, "after_death", {"died_before": "a"}),
        ({"force": True, "reason": "why"}, "after_death", {"died_before": "a", "reason": "why"}),
        ({"takeover": True}, "after_death", {"died_before": "a"}),
    ],
)
def test_a_dead_owners_claim_is_anyones(
    connection: sqlite3.Connection, rights: dict[str, object], how: str, event: dict[str, object]
) -> None:
    claim_worktree(connection, "feat-x", ClaimRequest("a", DEAD))
    answer = claim_worktree(connection, "feat-x", request("b", **rights))
    assert (answer.how, answer.claim.agent_id, answer.before and answer.before.agent_id) == (how, "b", "a")
    assert told(connection)[-1][3] == {"epoch": 2, "task": None, **event}
    assert [ended for _, _, ended, *_ in grants(connection)] == ["died", None]


def test_force_passes_a_waiter_and_ignores_the_lock_of_another_program(connection: sqlite3.Connection) -> None:
    asked = request("b", force=True, displaced="old-1", reason="why")
    assert claim_worktree(connection, "feat-x", asked).how == "claimed"
    assert told(connection)[-1][3] == {"epoch": 1, "task": None, "forced_from": "old-1", "reason": "why"}
    assert release(connection, "b", 1)
    assert claim_worktree(connection, "feat-x", request("b", reason="why")).how == "claimed"
    assert told(connection)[-1][3] == {"epoch": 2, "task": None}, "a reason is one for a right that was used"
    db.transact(connection, claim_queue.join, *KEY, "w", ME, task=None, seconds=60.0)
    answer = claim_worktree(connection, "feat-x", request("c", force=True, reason="why"))
    assert (answer.how, answer.ahead) == ("forced", None)
    event = {"epoch": 3, "task": None, "forced_from": "b", "passed_by": "w", "reason": "why"}
    assert told(connection)[-1][3] == event


def test_takeover_passes_waiters_of_a_stale_claim(connection: sqlite3.Connection, clock: list[float]) -> None:
    """None of them could have claimed it."""
    claim_worktree(connection, "feat-x", request("a", ttl=60.0))
    db.transact(connection, claim_queue.join, *KEY, "w", ME, task=None, seconds=600.0)
    clock[0] += 61
    assert claim_worktree(connection, "feat-x", request("b")).how == "queued"
    answer = claim_worktree(connection, "feat-x", request("b", takeover=True, reason="why"))
    assert (answer.how, answer.granted) == ("taken_over", True)
    assert told(connection)[-1][3] == {"epoch": 2, "task": None, "takeover_from": "a", "reason": "why"}


def preview(connection: sqlite3.Connection, asked: ClaimRequest, seq: int | None = None) -> tuple[bool, bool, bool]:
    seen = claim_requests.preview(connection, *KEY, asked, seq)
    return seen.grantable, seen.free, seen.ahead is not None


def test_a_preview_says_what_a_claim_would_answer(connection: sqlite3.Connection, clock: list[float]) -> None:
    def all_previews() -> list[tuple[bool, bool, bool]]:
        return [
            preview(connection, asked)
            for asked in (request("b"), request("a"), request("b", force=True), request("b", takeover=True))
        ]

    assert all_previews() == [(True, True, False)] * 4, "free"
    seq = db.transact(connection, claim_queue.join, *KEY, "w", ME, task=None, seconds=6000.0)
    assert all_previews() == [(False, True, True), (False, True, True), (True, True, True), (False, True, True)]
    assert preview(connection, request("w"), seq) == (True, True, False), "it is first in line"
    db.transact(connection, claim_queue.leave, seq)
    claim_worktree(connection, "feat-x", request("a", ttl=60.0))
    assert all_previews() == [
        (False, False, False),
        (True, False, False),
        (True, False, False),
        (False, False, False),
    ], "held"
    clock[0] += 61
    assert all_previews()[3] == (True, False, False), "stale"
    assert preview(connection, request("b"), seq) == (True, False, False), "its place is lost: it must ask"
    seq = db.transact(connection, claim_queue.join, *KEY, "b", ME, task=None, seconds=6000.0)
    assert preview(connection, request("b"), seq) == (False, False, False)
    connection.execute("UPDATE claims SET pid = ?, pid_started = '1'", (ME.pid,))
    assert all_previews()[0] == (False, True, True), "its owner died, and one waits"
    assert all_previews()[1] == (True, True, True), "the owner itself"


def test_an_operation_that_died_is_left_to_recovery(connection: sqlite3.Connection) -> None:
    reserve(connection, 0)
    connection.execute("UPDATE claims SET pid_started = '1'")
    assert preview(connection, request("b")) == (False, False, False)
    assert claim_worktree(connection, "feat-x", request("b")).how == "held"
    assert preview(connection, request("b", force=True)) == (True, False, False)


def test_a_refusal_is_certain_only_for_a_worktree_with_a_row(connection: sqlite3.Connection) -> None:
    target = claim_requests.ClaimTarget(REPO, "feat-x")
    assert claim_requests.refusal(connection, target, request("b")) is None
    seq = db.transact(connection, claim_queue.join, *KEY, "w", ME, task=None, seconds=60.0)
    refused = claim_requests.refusal(connection, target, request("b"))
    assert refused is not None and (refused.how, refused.ahead and refused.ahead.seq) == ("queued", seq)
    db.transact(connection, claim_queue.leave, seq)
    claim_worktree(connection, "feat-x", request("a"))
    refused = claim_requests.refusal(connection, target, request("b"))
    assert refused is not None and (refused.how, refused.ahead, refused.claim.agent_id) == ("held", None, "a")
    assert (refused.seq, refused.before, refused.granted) == (0, None, False)


def test_a_certain_refusal_does_not_wait_for_a_writer(connection: sqlite3.Connection, tmp_path: Path) -> None:
    claim_worktree(connection, "feat-x", request("a"))
    with closing(sqlite3.connect(tmp_path / "r.db", isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        answer = claim_requests.request_claim(connection, claim_requests.ClaimTarget(REPO, "feat-x"), request("b"))
        assert (answer.how, answer.claim.agent_id) == ("held", "a")


def test_who_asks_to_wait_for_a_free_worktree_claims_it(connection: sqlite3.Connection) -> None:
    target = claim_requests.ClaimTarget(REPO, "feat-x")
    answer = claim_requests.request_or_join(connection, target, request("a"), host.uptime() + 60)
    assert (answer.how, answer.seq, claim_queue.list_waiters(connection)) == ("claimed", 0, [])


def test_a_worktree_without_a_row_is_registered_by_its_first_claim(
    connection: sqlite3.Connection, tmp_path: Path
) -> None:
    place = {"common_dir": "/z.git", "path": "/z", "remote_url": "", "default_branch": "main"}
    target = claim_requests.ClaimTarget(
        None,
        "feat-n",
        path=str(tmp_path),
        registration=repositories.RepositoryRegistration("other", **place),
        branch="feat/n",
        kind="feat",
    )
    assert claim_requests.refusal(connection, target, request("a")) is None
    assert claim_requests.request_claim(connection, target, request("a")).claim.key == ("other", "feat-n")
    row = worktrees.get(connection, "other", "feat-n")
    assert row is not None
    assert (row.branch, row.type, row.path, row.agent_id) == ("feat/n", "feat", str(tmp_path), "a")


def test_a_heartbeat_is_the_owners_of_that_epoch(connection: sqlite3.Connection, clock: list[float]) -> None:
    claim_worktree(connection, "feat-x", request("a", ttl=60.0))
    claim_worktree(connection, "feat-y", request("a", ttl=60.0))
    clock[0] += 50
    caller = Caller(1, {"tmux": "1/%1"})
    for agent, epoch, by, accepted in (
        ("b", 1, None, False),
        ("a", 2, None, False),
        ("a", 0, None, False),
        ("a", 1, None, True),
        ("a", None, None, True),
        ("a", 1, caller, True),
    ):
        done, claim = db.transact(connection, claim_requests.heartbeat, *KEY, agent, epoch, by)
        assert (done, claim.agent_id, claim.heartbeat_uptime) == (accepted, "a", clock[0] if accepted else 1000.0)
    assert current(connection, "feat-y").heartbeat_uptime == 1000.0
    connection.execute("UPDATE claims SET session = 'tmux:1/%2'")
    assert not db.transact(connection, claim_requests.heartbeat, *KEY, "a", 1, caller)[0], "another holder"
    assert db.transact(connection, claim_requests.heartbeat, *KEY, "a", 1, None)[0], "imi acts for the owner"


def test_a_release_is_the_holders_unless_it_is_forced(connection: sqlite3.Connection) -> None:
    claim_worktree(connection, "feat-x", request("a", task="T"))
    connection.execute("UPDATE claims SET session = 'tmux:1/%2'")
    other = Caller(1, {"tmux": "1/%1"})
    assert not release(connection, "a", 1, caller=other), "another process of its name"
    assert not release(connection, "b", 1)
    assert release(connection, "a", 1, caller=other, force=True, reason="why")
    assert grants(connection) == [(1, "a", "forced", "a", "why")]
    claim_worktree(connection, "feat-x", request("a", task="T"))
    assert release(connection, "a", 2, force=True, outcome="completed", reason="done")
    assert grants(connection)[1:] == [(2, "a", "released", None, "done")], "it is its own"
    assert [kind for kind, *_ in told(connection)][-2:] == ["worktree.released", "task.ended"]
    assert not release(connection, "a", 2, outcome="completed")
    assert len(told(connection)) == 5


def test_a_release_deletes_the_waiters_that_are_gone(connection: sqlite3.Connection) -> None:
    claim_worktree(connection, "feat-x", request("a"))
    for seconds in (-1.0, 60.0):
        db.transact(connection, claim_queue.join, *KEY, "w", ME, task=None, seconds=seconds)
    assert not release(connection, "b", 1)
    assert len(claim_queue.list_waiters(connection)) == 2
    assert release(connection, "a", 1)
    assert len(claim_queue.list_waiters(connection)) == 1


def test_a_renewal_changes_only_what_the_request_names(connection: sqlite3.Connection, clock: list[float]) -> None:
    first = claim_worktree(connection, "feat-x", ClaimRequest("a", ME, task="T", ttl=60.0)).claim
    claim_worktree(connection, "feat-y", request("a"))
    clock[0] += 5
    again = claim_worktree(connection, "feat-x", request("a")).claim
    assert vars(again) == {**vars(first), "heartbeat_uptime": 1005.0, "heartbeat_at": again.heartbeat_at}
    changed = claim_worktree(connection, "feat-x", request("a", task="U", ttl=7.0)).claim
    assert (changed.task_id, changed.ttl_seconds, changed.pid) == ("U", 7.0, ME.pid)
    assert claim_worktree(connection, "feat-x", request("a", ttl=0.0)).claim.ttl_seconds == 0.0
    assert connection.execute("SELECT task_id FROM tasks ORDER BY started_at").fetchall() == [("T",), ("U",)]
    assert claim_worktree(connection, "feat-x", request("a", task="U")).claim.task_id == "U"
    assert connection.execute("SELECT count(*) FROM tasks WHERE ended_at IS NULL").fetchone() == (1,)
    assert current(connection, "feat-y").heartbeat_uptime == 1000.0
    assert len(told(connection)) == 2, "a renewal is no event"


def test_a_renewal_without_a_process_keeps_the_one_that_may_live(connection: sqlite3.Connection) -> None:
    there = host.ProcessIdentity("elsewhere", "boot/pid:[1]", 7, "9")
    claim_worktree(connection, "feat-x", ClaimRequest("a", there, session="given:s"))
    mine = ClaimRequest("a", host.identify_process(None), caller=Caller(None, {"given": "s"}))
    kept = claim_worktree(connection, "feat-x", mine).claim
    assert (kept.host, kept.boot, kept.pid, kept.pid_started) == ("elsewhere", "boot/pid:[1]", 7, "9")
    named = ClaimRequest("a", ME, caller=Caller(ME.pid, {"given": "s"}))
    assert claim_worktree(connection, "feat-x", named).claim.pid == ME.pid, "unless it names another"
    connection.execute("UPDATE claims SET pid_started = '1'")
    assert claim_worktree(connection, "feat-x", mine).claim.pid is None, "or the process is gone"
    again = claim_worktree(connection, "feat-x", mine).claim
    assert (again.pid, again.host, again.boot) == (None, ME.host, ME.boot)


def test_a_waiter_that_is_granted_leaves_the_line_and_one_whose_time_is_over_as_well(
    connection: sqlite3.Connection, clock: list[float]
) -> None:
    target = claim_requests.ClaimTarget(REPO, "feat-x")
    claim_worktree(connection, "feat-x", request("a"))
    seq = claim_requests.request_or_join(connection, target, request("b"), 1060.0).seq
    (waiter,) = claim_queue.list_waiters(connection)
    assert (waiter.seq, waiter.gives_up_uptime, waiter.pid, waiter.agent_id) == (seq, 1060.0, ME.pid, "b")
    clock[0] = 1059.0
    refused = claim_requests.request_from_line(connection, target, request("b"), seq, 1060.0)
    assert (refused.how, refused.seq) == ("held", seq)
    db.transact(connection, claim_queue.leave, seq)
    again = claim_requests.request_from_line(connection, target, request("b"), seq, 1060.0)
    assert again.seq > seq, "it was deleted by mistake, and stands in line anew"
    clock[0] = 1060.0
    last = claim_requests.request_from_line(connection, target, request("b"), again.seq, 1060.0)
    assert (last.how, claim_queue.list_waiters(connection)) == ("held", [])
    assert release(connection, "a", 1)
    seq = db.transact(connection, claim_queue.join, *KEY, "b", ME, task=None, seconds=60.0)
    done = claim_requests.request_from_line(connection, target, request("b"), seq, 2000.0)
    assert (done.how, done.seq, claim_queue.list_waiters(connection)) == ("claimed", seq, [])


def test_a_folder_that_is_missing_is_not_claimed(connection: sqlite3.Connection, tmp_path: Path) -> None:
    for act in (
        lambda target: claim_requests.request_claim(connection, target, request("a")),
        lambda target: claim_requests.request_or_join(connection, target, request("a"), host.uptime() + 60),
        lambda target: claim_requests.request_from_line(connection, target, request("a"), 1, host.uptime() + 60),
    ):
        with pytest.raises(Refused) as caught:
            act(claim_requests.ClaimTarget(REPO, "feat-x", path=str(tmp_path / "gone")))
        assert caught.value.code == "missing"
    assert current(connection).agent_id is None
    here = claim_requests.ClaimTarget(REPO, "feat-x", path=str(tmp_path))
    assert claim_requests.request_claim(connection, here, request("a")).how == "claimed"
    assert claim_requests.ClaimTarget(REPO, "feat-x").path is None
