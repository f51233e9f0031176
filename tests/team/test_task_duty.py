"""Tasks from RabbitMQ onto the board of one of two homes, on real servers."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.helpers import wait_for
from tests.rabbitmq_server import RabbitServer
from tests.redis_server import RedisServer
from tests.runs import run_kit
from tests.team.home_kit import TeamHome


class Publisher:
    def __init__(self, url: str, exchange: str) -> None:
        self._connection = pika.BlockingConnection(pika.URLParameters(url))
        self._channel = self._connection.channel()
        self._exchange = exchange
        self._channel.exchange_declare(exchange, "topic", durable=True)
        self.bind(f"{exchange}.tasks")

    def bind(self, queue: str) -> None:
        """Make a queue before the homes are up."""
        self._channel.queue_declare(queue, durable=True)
        self._channel.queue_bind(queue, self._exchange, "#")

    def publish(self, key: str, body: object) -> None:
        self._channel.basic_publish(self._exchange, key, json.dumps(body).encode())

    def depth(self, queue: str) -> int:
        return int(self._channel.queue_declare(queue, passive=True).method.message_count)

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def items(one: TeamHome) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = one.imi("board", "--all", "--json").data["items"]
    return found


def settings(one: TeamHome, rabbit: RabbitServer, exchange: str, more: str = "") -> None:
    (one.home / ".config" / "iMi" / "config.toml").write_text(
        f'[servers]\namqp_url = "{rabbit.url}"\namqp_exchange = "{exchange}"\n[tasks]\nqueue = "{exchange}.tasks"\n{more}'
    )


def test_a_task_is_on_the_board_of_one_home_once(
    tmp_path: Path, rabbitmq: RabbitServer, redis_server: RedisServer, stack: ExitStack
) -> None:  # S2.8
    exchange = f"imi.test.{uuid.uuid4().hex[:8]}"
    left, right = (TeamHome(tmp_path / "homes", name, redis_server.url) for name in ("left", "right"))
    publisher = stack.enter_context(closing(Publisher(rabbitmq.url, exchange)))
    for one in (left, right):
        settings(one, rabbitmq, exchange)
    assert left.imi("release", "feat-left", "--agent", "agent-left").code == 0
    with left.process("serve"), right.process("serve"):
        for number in range(12):
            publisher.publish("task.created", {"data": {"id": f"T-{number}", "title": f"Task {number}"}})
        flume = {"event": "flume.task.created", "data": {"id": "T-3", "objective": "Task 3 again"}}
        wait_for(lambda: len(items(left)) + len(items(right)) == 12)
        publisher.publish("flume.task.created", flume)
        publisher.publish("task.created", {"no": "task"})
        publisher.publish("task.created", {"source": "//x/imi/y", "data": {"id": "own", "title": "own"}})
        wait_for(lambda: publisher.depth(f"{exchange}.tasks") == 0)
    ids = [one["external_id"] for home in (left, right) for one in items(home)]
    assert sorted(ids) == sorted(f"T-{number}" for number in range(12))


def test_an_agent_that_is_named_gets_the_worktree_that_is_named(
    tmp_path: Path, rabbitmq: RabbitServer, stack: ExitStack
) -> None:
    exchange = f"imi.test.{uuid.uuid4().hex[:8]}"
    left = TeamHome(tmp_path / "homes", "left", "")
    publisher = stack.enter_context(closing(Publisher(rabbitmq.url, exchange)))
    settings(left, rabbitmq, exchange)
    assert left.imi("release", "feat-left", "--agent", "agent-left").code == 0
    task = {"id": "T-1", "title": "password=hunter2supersecret\x1b[31m", "worktree": "feat-left"}
    task["repo"] = "git@github.com:acme/app.git"
    with left.process("serve"):
        publisher.publish("task.created", {"data": {**task, "agent": "codex-9"}})
        publisher.publish("task.created", {"data": {**task, "id": "T-2", "repo": "acme/none", "agent": "ada"}})
        wait_for(lambda: len(items(left)) == 2)
    first, second = sorted(items(left), key=lambda one: str(one["external_id"]))
    assert (first["repo_name"], first["worktree_name"], first["agent_id"]) == ("App", "feat-left", "codex-9")
    assert "hunter2" not in json.dumps(first) and "\x1b" not in first["title"]
    assert second["repo_name"] is None and "'acme/none' is not known here" in second["text"]
    claims = left.imi("claims", "--json").data["claims"]
    assert [(one["worktree_name"], one["agent_id"], one["task_id"]) for one in claims] == [
        ("feat-left", "codex-9", first["id"])
    ]
    kinds = left.imi("events", "--type", "task.*").out
    assert "codex-9" in kinds
    assert "after a crash one may be on the boards of two homes" in left.imi("doctor").out


def test_with_start_auto_an_agent_is_started_within_the_limits(
    tmp_path: Path, rabbitmq: RabbitServer, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = f"imi.test.{uuid.uuid4().hex[:8]}"
    monkeypatch.setenv("PATH", f"{run_kit.install(tmp_path / 'bin', 'claude')}:{os.environ['PATH']}")
    left = TeamHome(tmp_path / "homes", "left", "")
    stack.callback(run_kit.kill_runs, str(left.home))
    publisher = stack.enter_context(closing(Publisher(rabbitmq.url, exchange)))
    settings(left, rabbitmq, exchange, 'start = "auto"\n[runs]\nat_once = 1\n')
    with left.process("serve"):
        for number, repo in enumerate(("acme/App", "acme/App", "acme/none")):
            task = {"id": f"T-{number}", "title": f"Task {number}", "text": "[[slow]]", "repo": repo}
            publisher.publish("task.created", {"data": task})
            wait_for(lambda: len(items(left)) == number + 1)  # noqa: B023
        wait_for(lambda: len(left.imi("runs", "--json").data["runs"]) == 2 and bool(items(left)[-1]["error"]))
        shown = {one["id"]: one["shown_state"] for one in left.imi("runs", "--json").data["runs"]}
        first, second, unknown = sorted(items(left), key=lambda one: str(one["external_id"]))
        assert set(shown) == {first["run_id"], second["run_id"]} and "queued" in shown.values(), "runs.at_once holds"
        assert "names no repository of this machine" in unknown["error"] and unknown["status"] == "pending"
        assert "problem" in left.imi("item", "show", unknown["id"]).out
        tree = left.home / "app.worktrees" / first["worktree_name"]
        assert (tree / ".git").exists()
        wait_for(lambda: "word1" in left.imi("logs", first["run_id"]).out)  # it does what the task says


def test_an_agent_is_started_only_by_a_person_unless_the_user_wants_it(
    tmp_path: Path, rabbitmq: RabbitServer, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = f"imi.test.{uuid.uuid4().hex[:8]}"
    monkeypatch.setenv("PATH", f"{run_kit.install(tmp_path / 'bin', 'claude')}:{os.environ['PATH']}")
    left = TeamHome(tmp_path / "homes", "left", "")
    stack.callback(run_kit.kill_runs, str(left.home))
    publisher = stack.enter_context(closing(Publisher(rabbitmq.url, exchange)))
    settings(left, rabbitmq, exchange)
    with left.process("serve"):
        publisher.publish("task.created", {"data": {"id": "T-1", "title": "Mend it", "repo": "acme/App"}})
        wait_for(lambda: len(items(left)) == 1 and publisher.depth(f"{exchange}.tasks") == 0)
    assert left.imi("runs", "--json").data["runs"] == [] and items(left)[0]["status"] == "pending"
    assert left.imi("item", "start", items(left)[0]["id"], "claude").code == 0, "the yes of a person"
    assert [one["id"] for one in left.imi("runs", "--json").data["runs"]] == [items(left)[0]["run_id"]]


def test_postgresql_gives_a_task_to_one_of_two_homes(
    tmp_path: Path, rabbitmq: RabbitServer, database_url: str, stack: ExitStack
) -> None:
    """Each home has a queue of its own, so that both get every task."""
    exchange = f"imi.test.{uuid.uuid4().hex[:8]}"
    left, right = (TeamHome(tmp_path / "homes", name, "") for name in ("left", "right"))
    publisher = stack.enter_context(closing(Publisher(rabbitmq.url, exchange)))
    for one in (left, right):
        queue = (
            f'amqp_exchange = "{exchange}"\npostgres_url = "{database_url}"\n[tasks]\nqueue = "{exchange}.{one.name}"\n'
        )
        (one.home / ".config" / "iMi" / "config.toml").write_text(f'[servers]\namqp_url = "{rabbitmq.url}"\n{queue}')
        publisher.bind(f"{exchange}.{one.name}")
    assert left.imi("archive", "--init").code in (0, 1)
    for number in range(20):
        publisher.publish("task.created", {"data": {"id": f"T-{number}", "title": f"Task {number}"}})
    with left.process("serve"), right.process("serve"):
        wait_for(lambda: all(publisher.depth(f"{exchange}.{one.name}") == 0 for one in (left, right)))
        wait_for(lambda: len(items(left)) + len(items(right)) == 20)
    ids = [one["external_id"] for home in (left, right) for one in items(home)]
    assert sorted(ids) == sorted(f"T-{number}" for number in range(20)), "each on one board"
    assert "each to one home" in left.imi("doctor").out


@pytest.mark.parametrize("redelivered", [False, True])
def test_a_task_that_may_be_doubled_says_so(tmp_path: Path, redelivered: bool) -> None:
    from imi_monitor.model.task_message import IncomingTask
    from imi_monitor.store import db, task_intake

    task = IncomingTask("T-1", "Title", "Text", "high", None, None, None, None)
    with closing(db.connect(str(tmp_path / "iMi.db"))) as connection:
        item, new = db.transact(connection, task_intake.take, task, maybe_doubled=redelivered)
        again = db.transact(connection, task_intake.take, task)
    assert new and not again[1] and again[0].id == item.id
    assert (task_intake.DOUBLED in item.text) == redelivered
