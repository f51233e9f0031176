"""`imi agents` and `imi agents explain`, on real processes with the names of agents in real worktrees."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.helpers import Repo, imi
from tests.limits import LIMIT

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="names a process by exec -a and /proc")


@pytest.fixture
def codex(repo: Repo) -> Iterator[Repo]:
    """A process called codex in feat-a."""
    tree = repo.worktree("feat-a")
    process = subprocess.Popen(["bash", "-c", "exec -a codex sleep 60"], cwd=tree.path)
    yield tree
    process.kill()
    process.wait(LIMIT)


def test_agents_lists_each_agent_with_its_worktree(codex: Repo, repo: Repo) -> None:
    done = imi("agents", "--json", cwd=repo.path)
    assert done.code == 0, done.err
    data = done.data
    assert [(one["cli"], one["worktree"], one["state"]) for one in data["agents"]] == [("codex", "feat-a", "unknown")]
    assert data["agents"][0]["source"] == "process"
    assert "codex  feat-a  unknown" in imi("agents", cwd=repo.path).out


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
    assert (one["name"], one["claim"]) == ("codex", "other")
    assert "works where claude-1 holds the claim!" in imi("agents", cwd=repo.path).out


def test_a_description_is_shown_beside_the_agents_name(codex: Repo, repo: Repo) -> None:
    assert imi("claim", "feat-a", "--agent", "codex-9", cwd=repo.path).code == 0
    assert imi("agents", "describe", "codex-9", "--emoji", "🦊", "--team", "web", cwd=repo.path).code == 0
    (one,) = imi("agents", "--json", cwd=repo.path).data["agents"]
    assert (one["emoji"], one["team"], one["role"]) == ("🦊", "web", None)
    assert "codex-9 🦊 (web)  feat-a  unknown" in imi("agents", cwd=repo.path).out
    assert "described as: 🦊 team web" in imi("agents", "explain", "codex-9", cwd=repo.path).out
