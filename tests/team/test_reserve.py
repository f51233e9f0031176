"""Reservations of what no machine has yet: one owner, an epoch that grows, an end by itself; advisory, and said so."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.helpers import Ran, Repo, imi
from tests.redis_server import RedisServer


@pytest.fixture
def repositories(tmp_path: Path) -> tuple[Repo, Repo]:
    return Repo.create(tmp_path / "one" / "app"), Repo.create(tmp_path / "two" / "app")


def reserve(at: Repo, server: RedisServer, *words: str) -> Ran:
    """`imi reserve` of a home of its own."""
    env = {"IMI_REDIS_URL": server.url, "HOME": str(at.path.parent), "IMI_HOST": at.path.parent.name}
    return imi("reserve", *words, cwd=at.path, env=env)


def test_a_reservation_has_one_owner_and_an_end(repositories: tuple[Repo, Repo], redis_server: RedisServer) -> None:
    one, two = repositories
    done = reserve(one, redis_server, "branch", "feat/login", "--agent", "claude-1", "--for", "60")
    assert done.code == 0 and "reserved for claude-1 for 1m (epoch 1); advisory" in done.out, done
    assert 50 < int(redis_server.run("TTL", "imi:{default}:reserved:branch:feat/login")[1:]) <= 60
    refused = reserve(two, redis_server, "branch", "feat/login", "--agent", "claude-1")
    assert refused.code == 1 and "is reserved for claude-1@one for" in refused.err and "(advisory)" in refused.err
    again = reserve(one, redis_server, "branch", "feat/login", "--agent", "claude-1", "--json")
    assert again.data["epoch"] == 1 and again.data["seconds_left"] == 3600, "renewed"
    assert reserve(two, redis_server, "task", "T-1", "--agent", "b").code == 0
    listed = [
        (row["kind"], row["name"], row["agent_id"]) for row in reserve(two, redis_server, "--json").data["reservations"]
    ]
    assert listed == [("branch", "feat/login", "claude-1"), ("task", "T-1", "b")]
    assert reserve(two, redis_server, "branch", "feat/login", "--agent", "claude-1", "--release").code == 1
    assert reserve(one, redis_server, "branch", "feat/login", "--agent", "claude-1", "--release").code == 0
    taken = reserve(two, redis_server, "branch", "feat/login", "--agent", "b", "--json")
    assert taken.data["epoch"] == 2


def test_epochs_grow_through_a_loss_of_the_servers_data(
    repositories: tuple[Repo, Repo], redis_server: RedisServer
) -> None:
    one, two = repositories
    for owner in (one, two, one):
        assert reserve(owner, redis_server, "task", "T-1", "--agent", "a").code == 0
        assert reserve(owner, redis_server, "task", "T-1", "--agent", "a", "--release").code == 0
    redis_server.run("FLUSHALL")
    assert reserve(one, redis_server, "task", "T-1", "--agent", "a", "--json").data["epoch"] == 4
    with closing(sqlite3.connect(one.path.parent / ".config" / "iMi" / "iMi.db")) as connection:
        assert connection.execute("SELECT epoch FROM reservations").fetchall() == [(4,)]


def test_what_is_wrong_or_hostile_is_refused(repositories: tuple[Repo, Repo], redis_server: RedisServer) -> None:
    one, _ = repositories
    for words in (("house", "x"), ("branch",), ("branch", "a..b"), ("branch", "x", "--for", "0"), ("task", "x" * 201)):
        assert reserve(one, redis_server, *words).code == 2, words
    redis_server.run("SET", "imi:{default}:reserved:branch:x", "theirs")
    foreign = reserve(one, redis_server, "branch", "x")
    assert foreign.code == 1 and "a value of another program" in foreign.err
    redis_server.run(
        "HSET", "imi:{default}:reserved:task:\x1b[2Jevil", "agent", "\x1b]0;x\x07", "host", "h" * 500, "epoch", "-1e9"
    )
    listed = reserve(one, redis_server)
    assert listed.code == 0 and "\x1b" not in listed.out and "evil" in listed.out
    without = imi("reserve", "branch", "x", cwd=one.path)
    assert without.code == 1 and "this home has no team" in without.err
