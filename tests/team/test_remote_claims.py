"""Claims of one home's agents in another home: asked, granted as leases, renewed, waited for in line, released, ended."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from imi_monitor.actions.team import home_names
from imi_monitor.model.errors import UsageError
from imi_monitor.model.snapshot import HERE, HomeState
from imi_monitor.store.duty_lock import DutyLock
from tests.helpers import wait_for
from tests.limits import LIMIT
from tests.redis_server import RedisServer, running_server
from tests.team.home_kit import TeamHome


class Pair:
    """Two homes that publish and answer; `right` has the worktrees fix-1 to fix-6."""

    def __init__(self, folder: Path, server: RedisServer) -> None:
        self.folder, self.server = folder / "homes", server
        self.left, self.right = self.home("left"), self.home("right")
        for number in range(1, 7):
            self.right.repo.worktree(f"fix-{number}")

    def home(self, name: str) -> TeamHome:
        made = TeamHome(self.folder, name, self.server.url)
        config = made.home / ".config" / "iMi" / "config.toml"
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text("[team]\nlease_seconds = 3\n")
        return made


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """One for all tests here: each uses a worktree of its own."""
    folder = tmp_path_factory.mktemp("team")
    with pytest.MonkeyPatch.context() as patch, running_server(folder / "redis") as server:
        config = folder / "gitconfig"
        config.write_text("[user]\n\tname = Test\n\temail = test@example.invalid\n[init]\n\tdefaultBranch = main\n")
        patch.setenv("GIT_CONFIG_GLOBAL", str(config))
        patch.setenv("HOME", str(folder))
        made = Pair(folder, server)
        with made.left.process("serve"), made.right.process("serve"):
            wait_for(lambda: "fix-6" in made.left.imi("list", "--all-hosts").out)
            yield made


def owner(home: TeamHome, name: str) -> str | None:
    held = {one["worktree_name"]: one["agent_id"] for one in home.imi("claims", "--json").data["claims"]}
    return held.get(name)


def seconds_left(home: TeamHome, name: str) -> float:
    return float(home.imi("verify-lock", name, "--agent", "claude-1", "--json").data["seconds_left"])


def history(home: TeamHome, name: str) -> list[Any]:
    with closing(sqlite3.connect(home.home / ".config" / "iMi" / "iMi.db")) as connection:
        return connection.execute(
            "SELECT agent_id, ended FROM claim_history WHERE worktree_name = ? ORDER BY epoch", (name,)
        ).fetchall()


def test_a_claim_is_asked_granted_renewed_verified_and_released(pair: Pair) -> None:
    left, right = pair.left, pair.right
    done = left.imi("claim", "right:1", "--agent", "claude-1", "--task", "T-1", "--json")
    assert done.code == 0, done.err
    assert (done.data["host"], done.data["worktree_name"], done.data["how"]) == ("right", "fix-1", "granted")
    assert owner(right, "fix-1") == "claude-1@left"
    assert left.imi("verify-lock", "right:fix-1", "--agent", "claude-1").code == 0
    assert "on another machine: right:fix-1  claude-1, certain for" in left.imi("claims").out
    assert left.imi("verify-lock", "right:fix-1", "--agent", "claude-2").code == 1
    assert right.imi("release", "fix-1", "--agent", "claude-1").code == 1, "an agent of that name here is another one"
    held = left.imi("claim", "right:fix-1", "--agent", "claude-2")
    assert held.code == 1 and "right:fix-1 has been held by claude-1@left" in held.err
    local = right.imi("claim", "fix-1", "--agent", "ada")
    assert local.code == 1 and "claude-1@left" in local.err
    again = left.imi("claim", "right:fix-1", "--agent", "claude-1", "--json")
    assert (again.data["how"], again.data["epoch"]) == ("renewed", done.data["epoch"])
    left_over = [seconds_left(left, "right:fix-1")]

    def is_renewed() -> bool:
        left_over.append(seconds_left(left, "right:fix-1"))
        return left_over[-1] > left_over[-2]

    wait_for(is_renewed)
    assert owner(right, "fix-1") == "claude-1@left"
    other = left.imi("release", "right:fix-1", "--agent", "claude-2")
    assert other.code == 1 and "not by claude-2" in other.err
    assert (
        left.imi("release", "right:fix-1", "--agent", "claude-1").out
        == "right:fix-1 is unclaimed: claude-1 released it\n"
    )
    assert owner(right, "fix-1") is None
    assert history(right, "fix-1") == [("claude-1@left", "released")]
    listed = left.imi("events", "--all").out
    assert "claude-1 claimed right:fix-1" in listed and "claude-1 released right:fix-1" in listed


def test_a_home_that_ends_loses_its_claims_when_the_lease_is_over(pair: Pair) -> None:
    third, right = pair.home("third"), pair.right
    with third.process("serve") as process:
        wait_for(lambda: third.imi("claim", "right:fix-2", "--agent", "a").code == 0)
        process.kill()
        process.wait(LIMIT)
        refused = third.imi("claim", "right:fix-2", "--agent", "b")
        assert refused.code == 1 and "no process of this machine would renew" in refused.err
    wait_for(lambda: owner(right, "fix-2") is None)
    assert history(right, "fix-2") == [("a@third", "lease")]
    assert third.imi("verify-lock", "right:fix-2", "--agent", "a").code == 1


def test_waiters_of_all_homes_are_served_in_their_order(pair: Pair) -> None:
    left, right = pair.left, pair.right
    assert right.imi("claim", "fix-3", "--agent", "first").code == 0
    waiting: list[subprocess.Popen[str]] = []
    with ExitStack() as stack:
        for number, (home, name) in enumerate([(left, "right:fix-3"), (right, "fix-3"), (left, "right:fix-3")], 1):
            process = stack.enter_context(
                home.process("claim", name, "--agent", f"w{number}", "--wait", "60", "--json")
            )
            waiting.append(process)
            wait_for(lambda number=number: len(right.imi("queue", "--json").data["queue"]) == number)  # type: ignore[misc]
        line = right.imi("queue", "--json").data["queue"]
        assert [one["agent_id"] for one in line] == ["w1@left", "w2", "w3@left"]
        assert right.imi("release", "fix-3", "--agent", "first").code == 0
        assert waiting[0].wait(LIMIT) == 0
        assert owner(right, "fix-3") == "w1@left" and waiting[1].poll() is None
        assert left.imi("release", "right:fix-3", "--agent", "w1").code == 0
        assert waiting[1].wait(LIMIT) == 0
        assert right.imi("release", "fix-3", "--agent", "w2").code == 0
        assert waiting[2].wait(LIMIT) == 0
    assert [agent for agent, _ in history(right, "fix-3")] == ["first", "w1@left", "w2", "w3@left"]


def test_a_waiter_that_is_interrupted_leaves_the_line(pair: Pair) -> None:
    left, right = pair.left, pair.right
    assert right.imi("claim", "fix-4", "--agent", "first").code == 0
    with left.process("claim", "right:fix-4", "--agent", "w1", "--wait", "60") as process:
        wait_for(lambda: len(right.imi("queue", "--json").data["queue"]) == 1)
        process.terminate()
        assert process.wait(LIMIT) != 0
        wait_for(lambda: right.imi("queue", "--json").data["queue"] == [])


def test_the_dashboard_asks_waits_and_shows_the_answer(pair: Pair) -> None:
    left, right = pair.left, pair.right
    assert right.imi("claim", "fix-6", "--agent", "keeper").code == 0
    with left.dashboard() as terminal:
        terminal.until(b"fix-6")
        terminal.send(b"/fix-6\r")
        terminal.until(b"fix-6")
        terminal.send(b"c")
        terminal.until(b"has been held by keeper")
        terminal.send(b"\x1b")
        assert right.imi("release", "fix-6", "--agent", "keeper").code == 0
        wait_for(lambda: "keeper" not in left.imi("list", "--all-hosts").out)
        terminal.send(b"c")
        terminal.until(b"that machine decides")
        terminal.send(b"\r")
        wait_for(lambda: owner(right, "fix-6") == "human:ada@left")
        terminal.until(b"is claimed by human:ada")
        terminal.send(b"\x1bqq")


def test_a_home_without_its_duties_is_one_sentence_within_two_seconds(pair: Pair) -> None:
    left, right = pair.left, pair.right
    lock = DutyLock(str(right.home / ".config" / "iMi" / "iMi.db"))
    pid = lock.holder()
    assert pid is not None
    os.kill(pid, 19)
    try:
        began = time.monotonic()
        done = left.imi("claim", "right:fix-5", "--agent", "a")
        assert done.code == 1 and done.out == "" and "right does not answer within 2 s" in done.err
        assert done.err.count("\n") == 1 and time.monotonic() - began < 2 + LIMIT / 10
    finally:
        os.kill(pid, 18)
    time.sleep(0.5)
    assert owner(right, "fix-5") is None, "the question is too old"


@pytest.mark.parametrize(
    ("name", "code", "why"),
    [
        ("nowhere:fix-y", 2, "no machine of the team is called 'nowhere' (known: left, right"),
        (":fix-y", 2, "is not HOST:NAME"),
        ("right:", 2, "is not HOST:NAME"),
        ("right:a:b", 2, "is not HOST:NAME"),
        ("right:none", 1, "right publishes no worktree 'none'"),
    ],
)
def test_what_names_no_worktree_of_the_team_is_refused(name: str, code: int, why: str, pair: Pair) -> None:
    for verb in ("claim", "release", "remove"):
        done = pair.left.imi(verb, name)
        assert (done.code, done.out) == (code, "") and why in done.err, (verb, done)


def test_a_host_that_may_be_two_machines_is_refused() -> None:
    homes = [HomeState(ident, f"ubuntu~{ident}", "ubuntu", "", "", "", HERE, None, False) for ident in ("aa", "bb")]
    with pytest.raises(UsageError, match="'ubuntu' may be ubuntu~aa, ubuntu~bb: give one of these"):
        home_names.find_home("ubuntu", homes)
    assert home_names.find_home("ubuntu~bb", homes).id == "bb"


def test_other_acts_are_done_there(pair: Pair) -> None:
    left = pair.left
    done = left.imi("remove", "right:feat-right")
    assert (done.code, done.out) == (1, "") and "feat-right is on right: this can only be done there" in done.err
    forced = left.imi("claim", "right:feat-right", "--force", "--reason", "mine")
    assert forced.code == 1 and "do that on right" in forced.err
    assert left.imi("verify-lock", "left:feat-left", "--agent", "agent-left").code in (0, 1)
