"""`imi status --line`: one line for bars and prompts, fast, honest about what is not known, and without what a shell expands."""

from __future__ import annotations

from pathlib import Path

import pytest

from imi_monitor import config, host
from imi_monitor.actions.context import Context
from imi_monitor.model import times
from imi_monitor.store import db
from tests.helpers import Repo, imi


def line(repo: Repo) -> str:
    ran = imi("status", "--line", cwd=repo.path)
    assert (ran.code, ran.err) == (0, ""), ran
    return ran.out


def record_sessions(repo: Repo, worktree: str, *statuses: str) -> None:
    with Context(str(repo.path)) as context:
        name = context.register(context.repository())
        now = times.stamp()
        rows = [
            (f"s{n}", host.hostname(), "claude", name, worktree, f"claude-{n}", status, now, now, now, now)
            for n, status in enumerate(statuses)
        ]
        put = (
            "INSERT INTO sessions (id, host, cli, repo_name, worktree_name, agent_id, status, status_at, seen_at, created_at,"
            " updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        )
        db.transact(context.connection, lambda connection: [connection.execute(put, row) for row in rows])


def test_it_names_the_worktree_its_owner_and_what_is_known(repo: Repo) -> None:
    feat = repo.worktree("feat-x")
    assert line(feat) == "feat-x · 2 worktrees · agents ?\n", "nothing records agents"
    assert imi("claim", "feat-x", "--agent", "claude-1", cwd=repo.path).code == 0
    record_sessions(repo, "feat-x", "waiting_for_input", "running", "planning", "completed")
    assert line(feat) == "feat-x claude-1 · 2 worktrees · 1 claimed · 1 asks · 2 work\n"
    assert line(repo) == "app · 2 worktrees · 1 claimed · 1 asks · 2 work\n"
    data = imi("status", "--line", "--json", cwd=feat.path).data
    assert data["line"] + "\n" == line(feat)
    assert (data["worktree_name"], data["agent_id"], data["worktrees"], data["claimed"]) == ("feat-x", "claude-1", 2, 1)
    assert data["agents"] == {"asks": 1, "works": 2, "completed": 1}


def test_outside_of_repositories_it_counts_those_of_the_registry(repo: Repo, tmp_path: Path) -> None:
    outside = Repo(tmp_path / "outside")
    outside.path.mkdir()
    assert line(outside) == "\n", "a bar has nothing to show, and no error"
    repo.worktree("feat-x")
    imi("claim", "feat-x", "--agent", "a", cwd=repo.path)
    assert line(outside) == "2 worktrees · 1 claimed · agents ?\n"


def test_without_the_registry_claims_are_unknown(repo: Repo) -> None:
    database = Path(config.paths.default_database())
    database.parent.mkdir(parents=True, exist_ok=True)
    database.write_text("no registry")
    ran = imi("status", "--line", cwd=repo.path)
    assert (ran.code, ran.out) == (0, "app · 1 worktree · ? claimed · agents ?\n")


def test_names_hold_nothing_that_a_prompt_expands(repo: Repo) -> None:
    tree = repo.worktree("feat-$(touch x)`id`#[fg=red]%F{red}!\\u\x1b[31m", "feat/odd")
    shown = line(tree)
    assert shown.startswith("feat-__touch x__id__") and not set(shown) & set("$`#%!\\{}[]()\x1b")


def test_it_runs_no_git_and_no_recovery(repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trap = tmp_path / "bin" / "git"
    trap.parent.mkdir()
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    trap.chmod(0o755)
    monkeypatch.setenv("PATH", str(trap.parent))
    assert line(repo) == "app · 1 worktree · agents ?\n"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("other", [["--watch"], ["--all"], ["."]])
def test_what_does_not_go_together_is_refused(repo: Repo, other: list[str]) -> None:
    ran = imi("status", "--line", *other, cwd=repo.path)
    assert ran.code == 2 and "exclude each other" in ran.err
