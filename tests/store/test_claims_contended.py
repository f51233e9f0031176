"""Many processes, and holders that die, sleep or are stopped: always at most one owner. # C1 C3 C4"""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from imi_monitor import host
from imi_monitor.store import claim_requests, claims, db
from imi_monitor.store.claims import ClaimRequest
from tests.helpers import ROOT
from tests.limits import LIMIT, read_line, wait_for_zombie
from tests.store.claim_kit import REPO, check_history, claim_worktree, registry, request, worker


def _contend(tmp_path: Path, processes: int, grants: int, worktrees: int) -> list[float]:
    names = [f"feat-{number}" for number in range(worktrees)]
    connection = registry(tmp_path / "r.db", names)
    witness, start = tmp_path / "witness", tmp_path / "start"
    witness.mkdir()
    each = grants // processes
    running = worker("contend_all", str(processes), tmp_path / "r.db", witness, start, str(worktrees), str(each))
    start.touch()
    said = [json.loads(line) for line in running.communicate(timeout=600)[0].splitlines()]
    assert running.returncode == 0 and len(said) == processes
    assert sum(each["doubled"] for each in said) == 0
    assert check_history(connection) == each * processes
    assert claims.list_held(connection) == []
    assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    return sorted(wait for each in said for wait in each["waits"])


def test_contended_claims_have_one_owner_each(tmp_path: Path) -> None:  # C1, S2.9
    waits = _contend(tmp_path, 16, 384, 4)
    print(f"p50 {statistics.median(waits) * 1000:.1f} ms, p99 {waits[len(waits) * 99 // 100] * 1000:.1f} ms")


@pytest.mark.soak
def test_contended_claims_have_one_owner_each_long(tmp_path: Path) -> None:  # C1
    waits = _contend(tmp_path, 32, 10_000, 20)
    p99 = waits[len(waits) * 99 // 100]
    print(f"p50 {statistics.median(waits) * 1000:.1f} ms, p99 {p99 * 1000:.1f} ms, worst {waits[-1] * 1000:.0f} ms")


def _ended_process() -> host.ProcessIdentity:
    """The identity of a process that has ended and was waited for."""
    child = subprocess.Popen(["sleep", "60"])
    identity = host.identify_process(child.pid)
    child.kill()
    child.wait(LIMIT)
    return identity


def _reclaim(tmp_path: Path, worktrees: int) -> None:
    names = [f"feat-{number}" for number in range(worktrees)]
    connection = registry(tmp_path / "r.db", names)
    dead = _ended_process()
    for name in names:
        claim_worktree(connection, name, ClaimRequest("late", dead))
    start = tmp_path / "start"
    running = [worker("reclaim", tmp_path / "r.db", start, f"agent-{n}", str(worktrees)) for n in range(8)]
    start.touch()
    won = [number for process in running for number in json.loads(process.communicate(timeout=300)[0])["won"]]
    assert sorted(won) == list(range(worktrees)), "each dead claim goes to exactly one"
    assert check_history(connection) == 2 * worktrees
    ended = connection.execute("SELECT DISTINCT ended FROM claim_history WHERE epoch = 1").fetchall()
    assert ended == [("died",)]


def test_a_dead_claim_goes_to_exactly_one_of_eight(tmp_path: Path) -> None:  # C3
    _reclaim(tmp_path, 60)


@pytest.mark.soak
def test_a_dead_claim_goes_to_exactly_one_of_eight_long(tmp_path: Path) -> None:  # C3
    _reclaim(tmp_path, 500)


def test_a_living_holder_keeps_its_claim_however_old(tmp_path: Path) -> None:  # C3, mutant: age-based break
    connection = registry(tmp_path / "r.db", ["feat-0"])
    claim_worktree(connection, "feat-0", request("a", os.getpid(), ttl=0.001))
    connection.execute("UPDATE claims SET heartbeat_uptime = 0, claimed_at = '2001-01-01T00:00:00+00:00'")
    for _ in range(100):
        assert not claim_worktree(connection, "feat-0", request("b")).granted
    assert claims.state(claims.current(connection, REPO, "feat-0")) == "stale"


def test_an_unwatched_holder_keeps_its_claim(tmp_path: Path) -> None:  # C3
    connection = registry(tmp_path / "r.db", ["feat-0"])
    claim_worktree(connection, "feat-0", request("a"))
    assert not claim_worktree(connection, "feat-0", request("b")).granted
    assert claims.state(claims.current(connection, REPO, "feat-0")) == "held"


def test_a_zombie_holder_is_dead(tmp_path: Path) -> None:  # C3
    connection = registry(tmp_path / "r.db", ["feat-0"])
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    try:
        claim_worktree(connection, "feat-0", request("a", child.pid))
        assert not claim_worktree(connection, "feat-0", request("b")).granted
        child.stdin.close()  # type: ignore[union-attr]
        wait_for_zombie(child.pid)  # ended and not waited for: a zombie
        answer = claim_worktree(connection, "feat-0", request("b"))
        assert answer.how == "after_death"
    finally:
        child.wait(LIMIT)


def test_a_reused_pid_is_another_process(tmp_path: Path) -> None:  # C3
    connection = registry(tmp_path / "r.db", ["feat-0"])
    me = host.identify_process(os.getpid())
    claim_worktree(connection, "feat-0", ClaimRequest("a", host.ProcessIdentity(me.host, me.boot, me.pid, "1")))
    assert claim_worktree(connection, "feat-0", request("b")).how == "after_death"


_REUSE = """
import subprocess, sys
from pathlib import Path
from tests.store.claim_kit import registry, claim_worktree, request
connection = registry(Path(sys.argv[1]), ["feat-0"])
first = subprocess.Popen(["sleep", "60"])
claim_worktree(connection, "feat-0", request("a", first.pid))
held = claim_worktree(connection, "feat-0", request("b")).how
import time
time.sleep(0.05)  # the system gives start times in hundredths of a second
first.kill(); first.wait()
for _ in range(50):
    open("/proc/sys/kernel/ns_last_pid", "w").write(str(first.pid - 1))
    second = subprocess.Popen(["sleep", "60"])
    if second.pid == first.pid:
        break
    second.kill(); second.wait()
else:
    sys.exit(77)
print(held, claim_worktree(connection, "feat-0", request("b")).how)
second.kill(); second.wait()
"""


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="a pid namespace needs root")
def test_a_really_reused_pid_is_another_process(tmp_path: Path) -> None:  # C3
    done = subprocess.run(
        ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", _REUSE, str(tmp_path / "r.db")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=False,
    )
    if done.returncode in (1, 77) and ("unshare" in done.stderr or "ns_last_pid" in done.stderr or not done.stderr):
        pytest.skip(f"no pid namespace with ns_last_pid here: {done.stderr}")
    assert done.stdout.split() == ["held", "after_death"], done.stderr


def test_another_boot_is_death_and_another_namespace_or_host_is_not(tmp_path: Path) -> None:  # C3
    connection = registry(tmp_path / "r.db", ["feat-0", "feat-1", "feat-2"])
    me = host.identify_process(os.getpid())
    boot, _, namespace = me.boot.partition("/")
    claim_worktree(
        connection, "feat-0", ClaimRequest("a", host.ProcessIdentity(me.host, f"other-boot/{namespace}", None, None))
    )
    claim_worktree(
        connection, "feat-1", ClaimRequest("a", host.ProcessIdentity(me.host, f"{boot}/pid:[1]", 999_999_999, "1"))
    )
    claim_worktree(connection, "feat-2", ClaimRequest("a", host.ProcessIdentity("other-host", "other-boot/-", 1, "1")))
    assert claim_worktree(connection, "feat-0", request("b")).how == "after_death"
    assert not claim_worktree(connection, "feat-1", request("b")).granted
    assert not claim_worktree(connection, "feat-2", request("b")).granted


def _stopped_holder(tmp_path: Path, rounds: int) -> None:
    """A holder is stopped, its claim taken over, and it continues later: none of its acts may succeed."""
    connection = registry(tmp_path / "r.db", ["feat-0"])
    holder = worker("hold", tmp_path / "r.db", "sleeper", stdin=subprocess.PIPE)

    def tell(word: str) -> None:
        print(word, file=holder.stdin, flush=True)

    def said() -> dict[str, object]:
        answer: dict[str, object] = json.loads(read_line(holder.stdout))  # type: ignore[union-attr]
        return answer

    try:
        for number in range(rounds):
            tell("claim")
            epoch = said()["epoch"]
            os.kill(holder.pid, signal.SIGSTOP)
            while (answer := claim_worktree(connection, "feat-0", request("taker", takeover=True))).how != "taken_over":
                time.sleep(0.005)
            assert answer.claim.epoch == epoch + 1  # type: ignore[operator]
            if (
                number % 2
            ):  # the same agent has come back meanwhile, in another session: only the epoch tells them apart
                db.transact(connection, claim_requests.release, REPO, "feat-0", "taker", answer.claim.epoch)
                answer = claim_worktree(connection, "feat-0", request("sleeper"))
            tell("act")
            os.kill(holder.pid, signal.SIGCONT)
            assert said() == {"heartbeat": False, "release": False, "removed": False}
            now = claims.current(connection, REPO, "feat-0")
            assert (now.agent_id, now.epoch) == (answer.claim.agent_id, answer.claim.epoch)
            db.transact(connection, claim_requests.release, REPO, "feat-0", str(now.agent_id), now.epoch)
    finally:
        os.kill(holder.pid, signal.SIGCONT)
        holder.communicate(timeout=LIMIT)
    check_history(connection)


def test_a_stopped_holder_cannot_act_after_the_takeover(tmp_path: Path) -> None:  # C4, mutant: no epoch in WHERE
    _stopped_holder(tmp_path, 10)


@pytest.mark.soak
def test_a_stopped_holder_cannot_act_after_the_takeover_long(tmp_path: Path) -> None:  # C4
    _stopped_holder(tmp_path, 500)
