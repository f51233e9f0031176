"""Entries of agents before their first claim, their end, teams, and what imi is connected with."""

from __future__ import annotations

import socket

from tests.helpers import Repo, imi


def test_an_agent_is_described_before_its_first_claim_and_forgotten(repo: Repo) -> None:  # S4.31
    repo.worktree("feat-x")
    assert imi("agents", "describe", "claude-1", cwd=repo.path).code == 1
    assert (
        imi("agents", "describe", "claude-1", "--team", "web", "--emoji", "🦊", cwd=repo.path).out
        == "claude-1: 🦊 team web\n"
    )
    close = imi("agents", "describe", "claude-2", "--team", "web", cwd=repo.path)
    assert close.err == "imi: no agent is called 'claude-2': did you mean claude-1?\n"
    assert imi("agents", "describe", "claude-2", "--team", "data", "--new", cwd=repo.path).code == 0
    bad = imi("agents", "describe", "\x1b[2J", "--team", "x", "--new", cwd=repo.path)
    assert bad.code == 2 and "\x1b" not in bad.err
    imi("item", "add", "page", "--for", "claude-1", cwd=repo.path)
    imi("item", "done", "1", cwd=repo.path)
    assert imi("agents", "teams", "--json", cwd=repo.path).data["teams"] == [
        {"team": "data", "agents": ["claude-2"], "items": 0, "completed": 0, "failed": 0},
        {"team": "web", "agents": ["claude-1"], "items": 1, "completed": 1, "failed": 0},
    ]
    imi("claim", "feat-x", "--agent", "claude-1", cwd=repo.path)
    held = imi("agents", "forget", "claude-1", cwd=repo.path)
    assert held.code == 1 and held.err == "imi: claude-1 holds feat-x: `imi release` it first\n"
    imi("release", "feat-x", "--agent", "claude-1", cwd=repo.path)
    assert imi("agents", "forget", "claude-1", cwd=repo.path).out == "forgot claude-1\n"
    assert imi("agents", "forget", "claude-1", cwd=repo.path).code == 1


def test_integrations_say_what_is_configured_and_reachable(repo: Repo) -> None:  # S4.31
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        env = {
            "IMI_AMQP_URL": f"amqp://user:secret@127.0.0.1:{port}/",
            "IMI_POSTGRES_URL": "postgres://u:pw@127.0.0.1:1/x",
        }
        ran = imi("integrations", "--json", cwd=repo.path, env=env)
        found = {one["name"]: one for one in ran.data["integrations"]}
    assert (found["redis"]["status"], found["redis"]["reachable"]) == ("not configured", None)
    assert (found["rabbitmq"]["status"], found["rabbitmq"]["reachable"]) == ("configured", "yes")
    assert found["postgresql"]["reachable"].startswith("no: it cannot be reached")
    assert "secret" not in ran.out and "pw" not in ran.out
    assert {"github", "tmux"} <= set(found)
