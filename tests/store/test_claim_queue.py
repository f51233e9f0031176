"""The line of a claimed worktree in the registry: order, dead, suspended and expired waiters."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from imi_monitor import host
from imi_monitor.store import claim_queue, claim_requests, db, events
from imi_monitor.store.claims import ClaimRequest
from tests.limits import LIMIT, wait_for_zombie
from tests.store.claim_kit import REPO, claim_worktree, registry, request


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    made = registry(tmp_path / "r.db", ["feat-x"])
    yield made
    made.close()


@pytest.fixture
def sleepers() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Three processes that stand for waiters."""
    made = [subprocess.Popen(["sleep", "60"]) for _ in range(3)]
    yield made
    for process in made:
        process.kill()
        process.wait(LIMIT)


def _join(connection: sqlite3.Connection, agent: str, pid: int, seconds: float = 60.0) -> int:
    return db.transact(
        connection, claim_queue.join, REPO, "feat-x", agent, host.identify_process(pid), task=None, seconds=seconds
    )


def _free(connection: sqlite3.Connection, agent: str, epoch: int) -> None:
    assert db.transact(connection, claim_requests.release, REPO, "feat-x", agent, epoch)[0]


def _take_as(connection: sqlite3.Connection, agent: str, seq: int | None) -> claim_requests.ClaimAnswer:
    return db.transact(connection, claim_requests.claim, REPO, "feat-x", request(agent), seq=seq)


def test_the_line_is_first_come_first_served(
    connection: sqlite3.Connection, sleepers: list[subprocess.Popen[bytes]]
) -> None:
    claim_worktree(connection, "feat-x", request("holder"))
    seqs = [_join(connection, f"w{number}", process.pid) for number, process in enumerate(sleepers)]
    _free(connection, "holder", 1)
    refused = claim_worktree(connection, "feat-x", request("barger"))
    assert (refused.how, refused.ahead.agent_id if refused.ahead else "") == ("queued", "w0")
    assert _take_as(connection, "w1", seqs[1]).how == "queued", "the second in line is not the first"
    granted = _take_as(connection, "w0", seqs[0])
    assert granted.how == "claimed"
    assert [waiter.agent_id for waiter in claim_queue.list_waiters(connection)] == ["w1", "w2"]


def test_a_dead_waiter_holds_up_no_other(
    connection: sqlite3.Connection, sleepers: list[subprocess.Popen[bytes]]
) -> None:
    claim_worktree(connection, "feat-x", request("holder"))
    seqs = [_join(connection, f"w{number}", process.pid) for number, process in enumerate(sleepers)]
    for process in sleepers[:2]:
        process.kill()
        process.wait(LIMIT)
    _free(connection, "holder", 1)
    assert _take_as(connection, "w2", seqs[2]).how == "claimed"
    assert claim_queue.list_waiters(connection) == [], "a writer deletes dead waiters"


def test_a_zombie_waiter_counts_as_dead(connection: sqlite3.Connection) -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        _join(connection, "w0", child.pid)
        child.kill()
        wait_for_zombie(child.pid)
        assert claim_worktree(connection, "feat-x", request("a")).how == "claimed"
    finally:
        child.wait(LIMIT)


def test_a_suspended_waiter_is_skipped_and_keeps_its_place(
    connection: sqlite3.Connection, sleepers: list[subprocess.Popen[bytes]]
) -> None:
    claim_worktree(connection, "feat-x", request("holder"))
    first, second = (_join(connection, f"w{number}", process.pid) for number, process in enumerate(sleepers[:2]))
    os.kill(sleepers[0].pid, signal.SIGSTOP)
    while not host.is_suspended(sleepers[0].pid):
        time.sleep(0.001)
    _free(connection, "holder", 1)
    assert _take_as(connection, "w1", second).how == "claimed"
    os.kill(sleepers[0].pid, signal.SIGCONT)
    while host.is_suspended(sleepers[0].pid):
        time.sleep(0.001)
    _free(connection, "w1", 2)
    assert claim_worktree(connection, "feat-x", request("barger")).how == "queued"
    assert _take_as(connection, "w0", first).how == "claimed"


def test_a_waiter_whose_time_is_over_does_not_count(connection: sqlite3.Connection) -> None:
    _join(connection, "w0", os.getpid(), seconds=-1.0)
    behind = _join(connection, "w1", os.getpid())
    assert claim_queue.position(connection, REPO, "feat-x", behind) == 1
    db.transact(connection, claim_queue.leave, behind)
    assert claim_worktree(connection, "feat-x", request("a")).how == "claimed"
    assert claim_queue.list_waiters(connection) == []


def test_waiters_from_before_a_restart_do_not_count(connection: sqlite3.Connection) -> None:
    me = host.identify_process(os.getpid())
    then = host.ProcessIdentity(me.host, "other-boot/pid:[1]", me.pid, me.started)
    db.transact(connection, claim_queue.join, REPO, "feat-x", "w0", then, task=None, seconds=1e6)
    assert claim_worktree(connection, "feat-x", request("a")).how == "claimed"


def test_a_waiter_of_another_boot_is_from_before_a_restart_whatever_its_machine_was_called(
    connection: sqlite3.Connection,
) -> None:
    """The registry lies on this machine's disk; the machine may have another identity since."""
    me = host.identify_process(os.getpid())
    then = host.ProcessIdentity(me.host, "other-boot/pid:[1]/other-machine", me.pid, me.started)
    db.transact(connection, claim_queue.join, REPO, "feat-x", "w0", then, task=None, seconds=1e6)
    (waiter,) = claim_queue.list_waiters(connection)
    assert (waiter.gone, waiter.ready) == (True, False)


def test_a_waiter_in_another_namespace_is_not_suspended_with_the_process_of_its_number_here(
    connection: sqlite3.Connection, sleepers: list[subprocess.Popen[bytes]]
) -> None:
    os.kill(sleepers[0].pid, signal.SIGSTOP)
    while not host.is_suspended(sleepers[0].pid):
        time.sleep(0.001)
    me = host.identify_process(sleepers[0].pid)
    there = host.ProcessIdentity(me.host, me.boot.partition("/")[0] + "/pid:[1]", me.pid, me.started)
    db.transact(connection, claim_queue.join, REPO, "feat-x", "w0", there, task=None, seconds=60.0)
    first = claim_queue.first_ready(connection, REPO, "feat-x")
    assert first is not None and first.agent_id == "w0"


def test_a_process_leaves_only_its_own_places(connection: sqlite3.Connection) -> None:
    boot = "b/pid:[1]"
    mine = (REPO, "feat-x", "h", boot, 7, "9")
    others: list[tuple[str, str, str, str, int, str | None]] = [
        ("other", "feat-x", "h", boot, 7, "9"),
        (REPO, "feat-y", "h", boot, 7, "9"),
        (REPO, "feat-x", "h2", boot, 7, "9"),
        (REPO, "feat-x", "h", "b2", 7, "9"),
        (REPO, "feat-x", "h", boot, 8, "9"),
        (REPO, "feat-x", "h", boot, 7, "10"),
        (REPO, "feat-x", "h", boot, 7, None),
    ]
    for repo, name, *process in (mine, *others, mine):
        one = host.ProcessIdentity(*process)  # type: ignore[arg-type]
        db.transact(connection, claim_queue.join, repo, name, "w", one, task=None, seconds=60.0)
    db.transact(connection, claim_queue.leave_all, REPO, "feat-x", host.ProcessIdentity("h", boot, 7, "9"))
    left = claim_queue.list_waiters(connection)
    assert [(one.repo_name, one.worktree_name, one.host, one.boot, one.pid, one.pid_started) for one in left] == others
    db.transact(connection, claim_queue.leave_all, REPO, "feat-x", host.ProcessIdentity("h", boot, 7, None))
    assert len(claim_queue.list_waiters(connection)) == len(others) - 1, "one whose start is unknown"


def test_the_line_of_a_worktree_has_no_waiters_of_others(connection: sqlite3.Connection) -> None:
    me = host.identify_process(os.getpid())
    places = [("other", "feat-x"), (REPO, "feat-y"), (REPO, "feat-x"), (REPO, "feat-x")]
    seqs = [
        db.transact(connection, claim_queue.join, repo, name, f"w{number}", me, task=None, seconds=60.0)
        for number, (repo, name) in enumerate(places)
    ]
    first = claim_queue.first_ready(connection, REPO, "feat-x")
    assert first is not None and first.seq == seqs[2]
    assert claim_queue.first_ready(connection, REPO, "feat-x", before=seqs[2]) is None
    assert [claim_queue.position(connection, REPO, "feat-x", seq) for seq in seqs[2:]] == [1, 2]
    assert [one.seq for one in claim_queue.list_waiters(connection, REPO, "feat-x")] == seqs[2:]
    assert [one.seq for one in claim_queue.list_waiters(connection, REPO)] == seqs[1:]
    assert [one.seq for one in claim_queue.list_waiters(connection)] == seqs
    connection.execute("UPDATE claim_queue SET gives_up_uptime = 0")
    db.transact(connection, claim_queue.remove_gone, REPO, "feat-x")
    assert [one.seq for one in claim_queue.list_waiters(connection)] == seqs[:2]


def test_a_process_that_asks_again_stands_in_line_once(connection: sqlite3.Connection) -> None:
    claim_worktree(connection, "feat-x", request("holder"))
    target = claim_requests.ClaimTarget(REPO, "feat-x")
    for _ in range(2):
        answer = claim_requests.request_or_join(connection, target, request("w0"), host.uptime() + 60)
    assert [one.seq for one in claim_queue.list_waiters(connection)] == [answer.seq]


def test_a_waiter_in_another_namespace_counts_until_its_time_is_over(connection: sqlite3.Connection) -> None:
    me = host.identify_process(os.getpid())
    there = host.ProcessIdentity(me.host, me.boot.partition("/")[0] + "/pid:[1]", 1, "1")
    db.transact(connection, claim_queue.join, REPO, "feat-x", "w0", there, task=None, seconds=60.0)
    assert claim_worktree(connection, "feat-x", request("a")).how == "queued"
    connection.execute("UPDATE claim_queue SET gives_up_uptime = 0")
    assert claim_worktree(connection, "feat-x", request("a")).how == "claimed"


def test_the_owner_renews_past_the_line_and_force_passes_it(connection: sqlite3.Connection) -> None:
    claim_worktree(connection, "feat-x", request("holder"))
    _join(connection, "w0", os.getpid())
    assert claim_worktree(connection, "feat-x", request("holder")).how == "renewed"
    _free(connection, "holder", 1)
    forced = claim_worktree(connection, "feat-x", request("boss", force=True, reason="now"))
    assert forced.how == "forced"
    told = json.loads(events.list_events(connection)[-1].data)
    assert (told["passed_by"], told["reason"]) == ("w0", "now")
    assert [waiter.agent_id for waiter in claim_queue.list_waiters(connection)] == ["w0"], "those in line go on waiting"


def test_a_dead_holder_does_not_let_a_newcomer_pass_the_line(connection: sqlite3.Connection) -> None:
    me = host.identify_process(os.getpid())
    claim_worktree(connection, "feat-x", ClaimRequest("holder", host.ProcessIdentity(me.host, me.boot, me.pid, "1")))
    seq = _join(connection, "w0", os.getpid())
    assert claim_worktree(connection, "feat-x", request("barger", takeover=True)).how == "queued"
    assert _take_as(connection, "w0", seq).how == "after_death"


def test_a_preview_tells_a_waiter_whether_it_can_claim(
    connection: sqlite3.Connection, sleepers: list[subprocess.Popen[bytes]]
) -> None:
    claim_worktree(connection, "feat-x", request("holder"))
    seqs = [_join(connection, f"w{number}", process.pid) for number, process in enumerate(sleepers)]

    def look(number: int) -> tuple[bool, bool]:
        seen = claim_requests.preview(connection, REPO, "feat-x", request(f"w{number}"), seqs[number])
        return seen.grantable, seen.free

    assert look(0) == (False, False)
    _free(connection, "holder", 1)
    assert [look(number) for number in range(3)] == [(True, True), (False, True), (False, True)]
    assert [claim_queue.position(connection, REPO, "feat-x", seq) for seq in seqs] == [1, 2, 3]
    db.transact(connection, claim_queue.leave, seqs[1])
    assert _take_as(connection, "w0", seqs[0]).granted
    assert look(1) == (True, False), "struck out by mistake: it must ask, and stands in line anew"


def test_a_waiter_of_another_home_keeps_its_place_while_its_question_is_repeated(
    connection: sqlite3.Connection,
) -> None:
    claim_worktree(connection, "feat-x", request("holder"))
    key = (REPO, "feat-x")

    def join(question: str, number: int, seconds: float = 60.0, home: str = "far") -> int:
        return db.transact(
            connection,
            claim_queue.join_from,
            key,
            question,
            home,
            f"{question}@{home}",
            task="t",
            number=number,
            seconds=seconds,
        )

    first, second = join("q1", 1), join("q2", 1)
    assert (join("q1", 3, 600.0), join("q1", 2, 600.0)) == (first, first)
    waiters = claim_queue.list_from_homes(connection)
    assert [(one.seq, one.question, one.agent_id, one.asked, one.task_id) for one in waiters] == [
        (first, "q1", "q1@far", 3, "t"),
        (second, "q2", "q2@far", 1, "t"),
    ]
    assert {(host.home_of(one.host), one.pid) for one in waiters} == {("far", 0)}
    assert waiters[0].gives_up_uptime > host.uptime() + 500 > waiters[1].gives_up_uptime
    db.transact(connection, claim_queue.leave_from, "q1", "third")
    assert len(claim_queue.list_from_homes(connection)) == 2, "another home ends no waiter of this one"
    db.transact(connection, claim_queue.leave_from, "q1", "far")
    assert [one.question for one in claim_queue.list_from_homes(connection)] == ["q2"]
    assert join("q1", 1) > second, "at the end of the line"
