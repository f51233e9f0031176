"""RabbitMQ as a sink, on a real one: what arrives, what is given back, and what happens while the broker is gone."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pika
import pytest
from textual.pilot import Pilot

from imi_monitor.model import times
from imi_monitor.store import db
from imi_monitor.ui.app import ImiApp
from tests import certificates
from tests.helpers import ROOT, Repo, imi, wait_for
from tests.limits import LIMIT, read_line
from tests.rabbitmq_server import RabbitServer
from tests.sinks.sink_kit import add_events, state
from tests.store import session_kit
from tests.team.home_kit import TeamHome
from tests.ui.pilot_kit import run_dashboard, screen_text, wait_until


class Subscriber:
    """A program of another team: plain pika, and its own queue."""

    def __init__(self, url: str, exchange: str, key: str = "#") -> None:
        self._connection = pika.BlockingConnection(pika.URLParameters(url))
        self._channel = self._connection.channel()
        self._channel.exchange_declare(exchange, "topic", durable=True)
        self.queue = str(self._channel.queue_declare("", exclusive=True).method.queue)
        self._channel.queue_bind(self.queue, exchange, key)

    def messages(self) -> list[tuple[Any, Any, dict[str, Any]]]:
        """(delivery, properties, body) of what is in the queue now."""
        found = []
        while (one := self._channel.basic_get(self.queue, auto_ack=True))[0] is not None:
            found.append((one[0], one[1], json.loads(one[2])))
        return found

    def publish(self, exchange: str, key: str, body: object, **properties: str) -> None:
        self._channel.basic_publish(exchange, key, json.dumps(body).encode(), pika.BasicProperties(**properties))

    def close(self) -> None:
        if self._connection.is_open:
            self._connection.close()


@pytest.fixture
def exchange() -> str:
    return f"imi.test.{uuid.uuid4().hex[:8]}"


@pytest.fixture
def subscriber(rabbitmq: RabbitServer, exchange: str) -> Iterator[Subscriber]:
    one = Subscriber(rabbitmq.url, exchange)
    yield one
    one.close()


@pytest.fixture
def home(rabbitmq: RabbitServer, exchange: str, repo: Repo) -> Repo:
    """A repository whose home publishes to the exchange, and a claim in it."""
    config = Path(os.environ["HOME"]) / ".config" / "iMi" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(
        f'[servers]\namqp_url = "{rabbitmq.url}"\namqp_exchange = "{exchange}"\namqp_prefix = "imi."\n'
        "[history]\nenabled = false\n"
    )
    repo.worktree("feat-x")
    assert imi("claim", "feat-x", "--agent", "claude-1", cwd=repo.path).code == 0
    return repo


def registry() -> Path:
    return Path(os.environ["HOME"]) / ".config" / "iMi" / "iMi.db"


def test_a_subscriber_gets_every_event_once_in_order(
    home: Repo, subscriber: Subscriber
) -> None:  # S2.6 S2.11 S2.13 S2.20
    assert imi("add", "feat", "new", cwd=home.path).code == 0
    with closing(db.connect(str(registry()))) as connection:
        session_kit.record_observation(connection, session_kit.agent(), now=5)
    assert imi("release", "feat-x", "--agent", "claude-1", cwd=home.path).code == 0
    done = imi("archive", cwd=home.path)
    assert done.code == 0 and done.out == "RabbitMQ: 4 events delivered, has every event\n", done
    got = subscriber.messages()
    kinds = ["worktree.claimed", "worktree.created", "session.started", "worktree.released"]
    assert [delivery.routing_key for delivery, _, _ in got] == [f"imi.{kind}" for kind in kinds]
    assert [body["type"] for _, _, body in got] == kinds
    properties, body = got[0][1:]
    assert properties.delivery_mode == 2 and properties.message_id == body["id"] and properties.app_id == "imi"
    assert properties.content_type == "application/cloudevents+json" and body["specversion"] == "1.0"
    assert imi("archive", cwd=home.path).code == 0 and subscriber.messages() == []


def test_what_cannot_be_delivered_is_parked_and_said(home: Repo, exchange: str, rabbitmq: RabbitServer) -> None:
    """Poison: an event of 2 MB, one whose type is no routing key, and one that no queue takes."""
    picky = Subscriber(rabbitmq.url, exchange, "imi.worktree.*")
    add_events(registry(), 1, data={f"k{number}": "x" * 2000 for number in range(1000)})
    add_events(registry(), 1, kind="x" * 300)
    add_events(registry(), 1, kind="type.added", data={"type": "nul \0 inside"})
    done = imi("archive", cwd=home.path)
    assert [body["type"] for _, _, body in picky.messages()] == ["worktree.claimed"]
    assert (
        "3 events refused" in done.out
        and "larger than 64 KB" in done.out
        and "no queue takes imi.type.added" in done.out
    )
    assert (state(registry(), "amqp").backlog, state(registry(), "amqp").parked) == (0, 3)
    picky.close()
    everything = Subscriber(rabbitmq.url, exchange)
    imi("archive", cwd=home.path)
    assert [body["data"] for _, _, body in everything.messages()] == [{"type": "nul  inside"}]
    assert state(registry(), "amqp").parked == 2
    everything.close()


def test_a_broker_that_is_away_or_refuses_is_said_and_loses_nothing(home: Repo, subscriber: Subscriber) -> None:
    config = Path(os.environ["HOME"]) / ".config" / "iMi" / "config.toml"
    good = config.read_text()
    silent = socket.create_server(("127.0.0.1", 0))
    for url, says in (
        ("amqp://guest:guest@127.0.0.1:1/", "RabbitMQ at 127.0.0.1:1 cannot be reached"),
        (f"amqp://guest:guest@127.0.0.1:{silent.getsockname()[1]}/", "does not answer within 5 s"),
        (good.split('"')[1].replace("guest:guest", "guest:hunter2"), "refuses the user or password"),
    ):
        config.write_text(good.replace(good.split('"')[1], url))
        done = imi("archive", cwd=home.path)
        assert done.code == 1 and "1 event waits for" in done.out and says in done.out, done
        assert "hunter2" not in done.out + done.err and "Traceback" not in done.err
        assert "warn  events to RabbitMQ: 1 event waits" in imi("doctor", cwd=home.path).out
    silent.close()
    config.write_text(good)
    assert imi("archive", cwd=home.path).code == 0 and len(subscriber.messages()) == 1


@pytest.mark.parametrize("number", [1_000, pytest.param(20_000, marks=pytest.mark.soak)])
def test_an_hour_without_a_broker_loses_nothing(
    home: Repo, subscriber: Subscriber, rabbitmq: RabbitServer, number: int
) -> None:  # S2.51 S2.58
    """The hour is compressed: its events are written at once, with the moments of the last hour."""
    config = Path(os.environ["HOME"]) / ".config" / "iMi" / "config.toml"
    there = config.read_text()
    config.write_text(there.replace(str(rabbitmq.port), "1"))
    add_events(registry(), number)
    with closing(db.connect(str(registry()))) as connection, connection:
        began = datetime.now(UTC) - timedelta(minutes=61)
        step = 3600 / number
        connection.executemany(
            "UPDATE events SET occurred_at = ? WHERE seq = ?",
            [(times.stamp(began + timedelta(seconds=step * seq)), seq) for seq in range(1, number + 1)],
        )
    away = imi("archive", cwd=home.path)
    assert away.code == 1 and f"{number + 1:,} events wait, the oldest for 1h" in away.out, away
    assert imi("release", "feat-x", "--agent", "claude-1", cwd=home.path).code == 0, "commands need no broker"

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        await wait_until(pilot, lambda: f"RabbitMQ ⇡{number + 2:,}" in screen_text(app))

    run_dashboard(home, play)
    assert f"{number + 2:,} events wait" in imi("doctor", cwd=home.path).out
    config.write_text(there)
    assert f"{number + 2:,} events delivered, has every event" in imi("archive", cwd=home.path).out
    assert [int(body["sequence"]) for _, _, body in subscriber.messages()] == list(range(1, number + 3))


def test_tls_and_the_ways_to_log_in(home: Repo, subscriber: Subscriber, rabbitmq: RabbitServer) -> None:
    """Encrypted and verified, with a password or with a certificate of the user; anything else is one sentence."""
    certificates.skip_without()
    config = Path(os.environ["HOME"]) / ".config" / "iMi" / "config.toml"
    plain, files = config.read_text(), rabbitmq.certificates
    place = f"127.0.0.1:{rabbitmq.tls}/?cafile={files.file('authority')}"
    for number, (url, says) in enumerate(
        (
            (f"amqps://guest:guest@{place}", "1 event delivered, has every event"),
            (
                f"amqps://{place}&auth=external&certfile={files.file('user')}&keyfile={files.key('user')}",
                "1 event delivered",
            ),
            (f"amqps://guest:hunter2@{place}", "refuses the user or password"),
            (f"amqps://guest:guest@{place.replace('authority', 'stranger')}", "has a certificate that is not trusted"),
            (
                f"amqps://guest:guest@{place.replace('authority', 'none')}",
                "a file of certificates that its address names",
            ),
            (f"amqps://guest:guest@{place.replace(str(rabbitmq.tls), str(rabbitmq.port))}", "is this its TLS port?"),
            (f"amqp://guest:guest@{place.partition('?')[0]}", "RabbitMQ at 127.0.0.1:"),
        )
    ):
        config.write_text(plain.replace(rabbitmq.url, url))
        add_events(registry(), 1 if number else 0)
        done = imi("archive", cwd=home.path)
        assert done.code == (number > 1) and says in done.out, (url, done)
        assert "hunter2" not in done.out + done.err and "Traceback" not in done.err
    config.write_text(plain)
    assert imi("archive", cwd=home.path).code == 0 and len(subscriber.messages()) == 7, "nothing is lost"


def test_the_librarys_own_reports_stay_off_the_screen() -> None:
    report = "import logging; logging.getLogger('aiormq.connection').error('lost'); logging.getLogger('aio_pika.x').error('lost')"
    for first, says in (("", "lost\nlost\n"), ("from imi_monitor.links import amqp_link\n", "")):
        argv = [sys.executable, "-c", first + report]
        done = subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True, timeout=LIMIT)
        assert done.stderr == says


def test_bloodbanks_envelope_is_a_setting(home: Repo, subscriber: Subscriber) -> None:
    config = Path(os.environ["HOME"]) / ".config" / "iMi" / "config.toml"
    config.write_text(config.read_text().replace("[history]", 'amqp_envelope = "bloodbank"\n[history]'))
    assert imi("archive", cwd=home.path).code == 0
    ((_, properties, body),) = subscriber.messages()
    assert body["event_type"] == "worktree.claimed" and properties.content_type == "application/json"


def test_the_exchange_is_followed(
    tmp_path: Path, rabbitmq: RabbitServer, exchange: str, subscriber: Subscriber
) -> None:
    left = TeamHome(tmp_path / "homes", "left", "")
    config = left.home / ".config" / "iMi" / "config.toml"
    config.write_text(f'[servers]\namqp_url = "{rabbitmq.url}"\namqp_exchange = "{exchange}"\n')
    with left.process("events", "--from", "amqp") as followed, left.process("serve"):
        assert followed.stdout is not None
        wait_for(lambda: subscriber.messages())

        def publish() -> bool:
            subscriber.publish(
                exchange, "flume.task.blocked", {"event": "flume.task.blocked", "data": {"taskId": "t1"}}
            )
            return True

        wait_for(lambda: publish() and "flume.task.blocked" in read_line(followed.stdout))
        assert left.imi("release", "feat-left", "--agent", "agent-left").code == 0
        while "agent-left released feat-left" not in (line := read_line(followed.stdout)):
            assert line, "it ended"
