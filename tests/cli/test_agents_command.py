"""`imi agents` and `imi agents explain`, on real processes with the names of agents in real worktrees."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from imi_monitor.cli import agents_command
from imi_monitor.model.agent import COMPLETED, DEAD, RUNNING, Agent, Truth
from tests.helpers import Repo, imi
from tests.limits import LIMIT

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="names a process by exec -a and /proc")


@contextmanager
def running_codex(tree: Repo) -> Iterator[None]:
    """A process called codex in the worktree."""
    process = subprocess.Popen(["bash", "-c", "exec -a codex sleep 60"], cwd=tree.path)
    try:
        yield
    finally:
        process.kill()
        process.wait(LIMIT)


@pytest.fixture
def codex(repo: Repo) -> Iterator[Repo]:
    tree = repo.worktree("feat-a")
    with running_codex(tree):
        yield tree


def test_agents_lists_each_agent_with_its_worktree(codex: Repo, repo: Repo) -> None:
    done = imi("agents", "--json", cwd=repo.path)
    assert done.code == 0, done.err
    data = done.data
    assert [(one["cli"], one["worktree"], one["state"]) for one in data["agents"]] == [("codex", "feat-a", "unknown")]
    assert data["agents"][0]["source"] == "process"
    assert "codex-1  feat-a  unknown" in imi("agents", cwd=repo.path).out


def test_agents_explain_shows_the_evidence(codex: Repo, repo: Repo) -> None:
    told = imi("agents", "explain", "feat-a", cwd=repo.path)
    assert told.code == 0, told.err
    assert "process, now: unknown" in told.out


def test_without_agents_the_list_says_so(repo: Repo) -> None:
    assert "no agent was found" in imi("agents", cwd=repo.path).out
    refused = imi("agents", "explain", "bob", cwd=repo.path)
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == "imi: no agent is called 'bob': no agent was found\n"


def test_an_agent_is_named_by_its_claim(codex: Repo, repo: Repo) -> None:
    assert imi("claim", "feat-a", "--agent", "codex-9", cwd=repo.path).code == 0
    (one,) = imi("agents", "--json", cwd=repo.path).data["agents"]
    assert (one["name"], one["claim"], one["claimed_by"]) == ("codex-9", "mine", "codex-9")
    assert imi("claim", "feat-a", "--agent", "claude-1", "--force", "--reason", "test", cwd=repo.path).code == 0
    (one,) = imi("agents", "--json", cwd=repo.path).data["agents"]
    assert (one["name"], one["claim"]) == ("codex-1", "other")
    assert "works where claude-1 holds the claim!" in imi("agents", cwd=repo.path).out


def test_a_description_is_shown_beside_the_agents_name(codex: Repo, repo: Repo) -> None:
    assert imi("claim", "feat-a", "--agent", "codex-9", cwd=repo.path).code == 0
    assert imi("agents", "describe", "codex-9", "--emoji", "🦊", "--team", "web", cwd=repo.path).code == 0
    (one,) = imi("agents", "--json", cwd=repo.path).data["agents"]
    assert (one["emoji"], one["team"], one["role"]) == ("🦊", "web", None)
    assert "codex-9 🦊 (web)  feat-a  unknown" in imi("agents", cwd=repo.path).out
    assert "described as: 🦊 team web" in imi("agents", "explain", "codex-9", cwd=repo.path).out


def dead(session: str, at: str, *, state: str = DEAD, looked_at: bool = False) -> Agent:
    truth = Truth(state, f"2026-01-01T12:{at}:00+00:00", "process", "exact", ended=True)
    return Agent(f"codex:{session}", "codex", session, None, "/x", session, None, None, truth, looked_at=looked_at)


def test_ended_agents_are_left_out_but_the_newest_unseen_death() -> None:
    lives = replace(dead("lives", "01", state=RUNNING), truth=Truth(RUNNING, None, None, "exact"))
    old, new, seen = dead("old", "10"), dead("new", "30"), dead("seen", "40", looked_at=True)
    done = dead("done", "50", state=COMPLETED)
    shown = agents_command.without_ended((lives, old, new, seen, done))
    assert [one.name for one in shown] == ["lives", "new"]
    assert agents_command.without_ended((done, seen)) == ()


def test_an_agent_keeps_its_name_and_an_ended_one_is_shown_on_demand(codex: Repo, repo: Repo) -> None:
    (one,) = imi("agents", "--json", cwd=repo.path).data["agents"]
    assert (one["name"], one["label"]) == ("codex-1", "codex-1")
    tree = repo.worktree("feat-b")
    with running_codex(tree):
        found = imi("agents", "--json", "--ended", cwd=repo.path).data
        assert {each["worktree"]: each["label"] for each in found["agents"]} == {
            "feat-a": "codex-1",
            "feat-b": "codex-2",
        }
        assert imi("claim", "feat-b", "--agent", "codex-2", cwd=repo.path).code == 0
        explained = imi("agents", "explain", "codex-2", "--json", cwd=repo.path).data["agent"]
        assert (explained["worktree"], explained["claim"]) == ("feat-b", "mine")
    assert imi("agents", "--all", "--json", cwd=repo.path).data["count"] >= 1
