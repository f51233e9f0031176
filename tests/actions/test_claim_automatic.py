"""Claims that follow live agents: only of free worktrees, released at the end, and never another agent's. # S2.14"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from imi_monitor import auto_claim, config, host
from imi_monitor.model import times
from imi_monitor.model.agent import DEAD, RUNNING, Agent, SessionFacts, Truth
from imi_monitor.model.snapshot import Key
from imi_monitor.store import claims, db
from tests.helpers import ROOT, Repo, imi
from tests.limits import LIMIT


class Sleeper:
    """A process to claim for."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(["sleep", "600"])
        self.started = host.start_time(self.process.pid)

    def end(self) -> None:
        self.process.kill()
        self.process.wait(LIMIT)


@pytest.fixture
def sleeper() -> Iterator[Sleeper]:
    made = Sleeper()
    yield made
    made.end()


@pytest.fixture
def tree(repo: Repo) -> Repo:
    return repo.worktree("feat-x")


def agent(tree: Repo, sleeper: Sleeper, session: str = "abcdef12-3456", **more: Any) -> Agent:
    ended = more.pop("ended", False)
    truth = Truth(DEAD if ended else RUNNING, times.stamp(), "registry", "exact", ended=ended)
    key = Key(host.hostname(), "app", tree.path.name)
    cwd = more.pop("cwd", str(tree.path))
    return Agent(
        f"claude:{session}",
        "claude",
        "claude",
        key,
        cwd,
        session,
        sleeper.process.pid,
        sleeper.started,
        truth,
        SessionFacts(**more),
    )


def follow(*agents: Agent) -> list[str]:
    return auto_claim.update_claims(config.database_path(None), agents)


def held() -> dict[str, str | None]:
    with closing(db.connect(config.database_path(None))) as connection:
        return {one.worktree_name: one.agent_id for one in claims.list_held(connection)}


def registry() -> sqlite3.Connection:
    return db.connect(config.database_path(None))


def test_a_live_agent_has_its_free_worktree_until_its_session_ends(tree: Repo, sleeper: Sleeper, repo: Repo) -> None:
    one = agent(tree, sleeper)
    assert follow(one) == ["feat-x is claimed for claude-1, who works in it"]
    assert follow(one) == [] and held() == {"feat-x": "claude-1"}
    claim = imi("claims", "--json", cwd=repo.path).data["claims"][0]
    assert claim["pid"] == sleeper.process.pid and claim["state"] == "held"
    assert imi("claim", "feat-x", "--agent", "other", cwd=repo.path).code == 1
    (tree.path / "unsaved.txt").write_text("work")
    assert follow(agent(tree, sleeper, ended_at=times.stamp())) == [
        "feat-x is unclaimed again: the session of claude-1 is over"
    ]
    assert held() == {} and (tree.path / "unsaved.txt").read_text() == "work"
    told = [line for line in imi("events", "--json", cwd=repo.path).out.splitlines() if "worktree.released" in line]
    assert len(told) == 1 and "uncommitted work stays as it is" in told[0]
    assert follow(one) != [] and held() == {"feat-x": "claude-1"}, "taken up again"


def test_automatic_claims_take_no_claim_from_its_owner(tree: Repo, sleeper: Sleeper, repo: Repo) -> None:
    assert imi("claim", "feat-x", "--agent", "human:ann", cwd=repo.path).code == 0
    assert follow(agent(tree, sleeper)) == [] and held() == {"feat-x": "human:ann"}
    assert follow(agent(tree, sleeper, ended=True)) == [] and held() == {"feat-x": "human:ann"}


def test_a_dead_holders_claim_is_not_taken_automatically(tree: Repo, sleeper: Sleeper, repo: Repo) -> None:
    other = Sleeper()
    assert imi("claim", "feat-x", "--agent", "claude-9", "--pid", str(other.process.pid), cwd=repo.path).code == 0
    other.end()
    assert follow(agent(tree, sleeper)) == [] and held() == {"feat-x": "claude-9"}


def test_an_agents_own_claim_is_not_released_automatically(tree: Repo, sleeper: Sleeper, repo: Repo) -> None:
    mine = ("claim", "feat-x", "--agent", "claude-1", "--pid", str(sleeper.process.pid))
    assert imi(*mine, cwd=repo.path).code == 0
    assert follow(agent(tree, sleeper)) == []
    assert follow(agent(tree, sleeper, ended=True)) == []
    assert held() == {"feat-x": "claude-1"}


def test_an_automatic_claim_taken_by_force_is_not_released(tree: Repo, sleeper: Sleeper, repo: Repo) -> None:
    follow(agent(tree, sleeper))
    assert imi("claim", "feat-x", "--agent", "ann", "--force", "--reason", "mine", cwd=repo.path).code == 0
    assert follow(agent(tree, sleeper, ended=True)) == [] and held() == {"feat-x": "ann"}


def test_a_freed_worktree_is_not_claimed_again_by_the_same_session(tree: Repo, sleeper: Sleeper, repo: Repo) -> None:
    one = agent(tree, sleeper)
    follow(one)
    freed = imi("release", "feat-x", "--agent", "ann", "--force", "--reason", "I need it", cwd=repo.path)
    assert freed.code == 0
    assert follow(one) == [] and held() == {}
    assert follow(agent(tree, sleeper, session="another-1")) != []


def test_a_killed_agents_claim_is_released_and_an_unseen_ones_is_not(tree: Repo, repo: Repo) -> None:
    mortal = Sleeper()
    follow(agent(tree, mortal))
    assert follow() == [] and held() == {"feat-x": "claude-1"}, "not seen is not over"
    mortal.end()
    assert follow() == ["feat-x is unclaimed again: the session of claude-1 is over"]


def test_a_resumed_session_claims_for_its_new_process(tree: Repo, sleeper: Sleeper, repo: Repo) -> None:
    mortal = Sleeper()
    follow(agent(tree, mortal))
    mortal.end()
    assert len(follow(agent(tree, sleeper))) == 2
    claim = imi("claims", "--json", cwd=repo.path).data["claims"][0]
    assert (claim["agent_id"], claim["pid"], claim["state"]) == ("claude-1", sleeper.process.pid, "held")


def test_an_agent_not_proven_to_run_claims_nothing(tree: Repo, sleeper: Sleeper, repo: Repo) -> None:
    one = agent(tree, sleeper)
    wrong = [
        Agent(one.id, one.cli, one.name, one.key, one.cwd, one.session, pid, started, one.truth, one.facts)
        for pid, started in ((None, None), (one.pid, None), (one.pid, "1"), (2**22 + 1, "1"))
    ]
    assert follow(*wrong) == []
    assert (
        follow(Agent(one.id, one.cli, one.name, None, one.cwd, one.session, one.pid, one.pid_started, one.truth)) == []
    )
    assert held() == {}


def test_the_trunk_and_other_folders_are_not_claimed_automatically(
    repo: Repo, tree: Repo, sleeper: Sleeper, tmp_path: Path
) -> None:
    assert follow(agent(repo, sleeper)) == []
    assert follow(agent(tree, sleeper, cwd=str(tmp_path))) == []
    assert held() == {}


def test_the_first_of_two_agents_gets_the_automatic_claim(tree: Repo, sleeper: Sleeper) -> None:
    late = agent(tree, sleeper, session="late-1", started_at="2026-01-02T00:00:00Z")
    early = agent(tree, sleeper, session="early-1", started_at="2026-01-01T00:00:00Z")
    assert follow(late, early) == ["feat-x is claimed for claude-1, who works in it"]


def test_a_cleared_session_hands_over_to_the_next(tree: Repo, sleeper: Sleeper) -> None:
    old, new = agent(tree, sleeper, session="old-1"), agent(tree, sleeper, session="new-1")
    follow(old)
    assert len(follow(agent(tree, sleeper, session="old-1", ended_at=times.stamp()), new)) == 2
    assert held() == {"feat-x": "claude-2"}


def test_the_presence_lock_mirrors_it_and_a_foreign_one_is_respected(cluster: Repo, sleeper: Sleeper) -> None:
    tree = cluster.worktree("feat-x")
    lock = cluster.path.parent / ".iMi" / "presence" / "feat-x.lock"
    lock.parent.mkdir()
    lock.write_text("claude-of-another-program")
    assert follow(agent(tree, sleeper)) == [] and held() == {}
    lock.unlink()
    follow(agent(tree, sleeper))
    assert "claude-1" in lock.read_text()
    follow(agent(tree, sleeper, ended=True))
    assert not lock.exists()


def test_a_waiter_comes_before_an_automatic_claim(tree: Repo, sleeper: Sleeper, repo: Repo) -> None:
    """A free worktree belongs to the waiter in its line, not to the agent that works there."""
    assert imi("claim", "feat-x", "--agent", "ann", cwd=repo.path).code == 0
    waiter = subprocess.Popen(
        [sys.executable, "-m", "imi_monitor", "claim", "feat-x", "--agent", "bob", "--wait", "60"],
        cwd=repo.path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
    )
    try:
        while not imi("queue", "--json", cwd=repo.path).data["count"]:
            pass
        assert imi("release", "feat-x", "--agent", "ann", cwd=repo.path).code == 0
        assert follow(agent(tree, sleeper)) == []
        assert waiter.wait(LIMIT) == 0 and held() == {"feat-x": "bob"}
    finally:
        waiter.kill()
        waiter.wait(LIMIT)


def test_many_monitors_make_one_claim(tree: Repo, sleeper: Sleeper) -> None:
    one = agent(tree, sleeper)
    follow()  # the registry is there
    with ThreadPoolExecutor(6) as pool:
        said = [line for lines in pool.map(lambda _: follow(one), range(12)) for line in lines]
    assert said == ["feat-x is claimed for claude-1, who works in it"]
    with ThreadPoolExecutor(6) as pool:
        said = [
            line for lines in pool.map(lambda _: follow(agent(tree, sleeper, ended=True)), range(12)) for line in lines
        ]
    assert said == ["feat-x is unclaimed again: the session of claude-1 is over"]
    with closing(registry()) as connection:
        assert connection.execute("SELECT count(*) FROM claim_history").fetchone() == (1,)


def test_a_renamed_worktree_keeps_its_automatic_claim(tree: Repo, sleeper: Sleeper, repo: Repo) -> None:
    follow(agent(tree, sleeper))
    with closing(registry()) as connection:
        db.transact(connection, claims.rename_worktree, "app", "feat-x", "feat-z")
    assert follow(agent(tree, sleeper, ended=True)) == ["feat-z is unclaimed again: the session of claude-1 is over"]
