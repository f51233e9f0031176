"""The feed of the team's Redis, on a real one: the last events as CloudEvents, again after the server has lost them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.helpers import Repo, imi
from tests.redis_server import RedisServer


def feed(server: RedisServer) -> list[str]:
    """The kinds of the events in the feed."""
    answer = server.run("XRANGE", "imi:{default}:feed", "-", "+")
    lines = [line for line in answer.splitlines() if line.startswith("{")]
    return [json.loads(line)["type"] for line in lines]


def test_the_feed_has_the_last_events_and_gets_them_again(
    repo: Repo, redis_server: RedisServer, tmp_path: Path
) -> None:
    env = {"IMI_REDIS_URL": redis_server.url}
    repo.worktree("feat-x")
    assert imi("claim", "feat-x", "--agent", "claude-1", cwd=repo.path).code == 0
    done = imi("archive", cwd=repo.path, env=env)
    assert done.code == 0 and "Redis: 1 event delivered, has every event" in done.out, done
    assert feed(redis_server) == ["worktree.claimed"]
    assert imi("release", "feat-x", "--agent", "claude-1", cwd=repo.path).code == 0
    assert imi("archive", cwd=repo.path, env=env).code == 0
    assert feed(redis_server) == ["worktree.claimed", "worktree.released"], "none twice"

    redis_server.run("FLUSHALL")
    assert imi("archive", cwd=repo.path, env=env).code == 0
    assert feed(redis_server) == ["worktree.claimed", "worktree.released"], "of the last day, again"
    redis_server.run("SET", "imi:{default}:feed", "foreign")
    assert imi("claim", "feat-x", "--agent", "claude-1", cwd=repo.path).code == 0
    refused = imi("archive", cwd=repo.path, env=env)
    assert refused.code == 1 and "choose another team.name" in refused.out and "1 event waits" in refused.out, refused
