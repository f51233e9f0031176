"""The whole chain: registry, relays, RabbitMQ, PostgreSQL, history.db and a subscriber, while each of them is killed.

0 events lost, 0 applied twice, their order kept. The long form has 20,000 events and 33 kills.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from tests import postgres_server, rabbitmq_server
from tests.helpers import ROOT, imi_argv, wait_for
from tests.limits import LIMIT
from tests.postgres_server import PostgresServer
from tests.rabbitmq_server import RabbitServer
from tests.sinks.sink_kit import add_events, state
from tests.team.home_kit import TeamHome


class Mortal:
    """A process that is started again after each kill."""

    def __init__(self, argv: list[str], env: dict[str, str]) -> None:
        self._argv, self._env = argv, {**os.environ, "PYTHONPATH": str(ROOT), **env}
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        quiet = subprocess.DEVNULL
        return subprocess.Popen(self._argv, env=self._env, stdin=quiet, stdout=quiet, stderr=quiet)

    def kill(self) -> None:
        self.end()
        self._process = self._start()

    def end(self) -> None:
        self._process.kill()
        self._process.wait(LIMIT)


class Chain:
    """One home with `imi serve`, and a subscriber."""

    def __init__(self, folder: Path, rabbit: RabbitServer, postgres: PostgresServer, stack: ExitStack) -> None:
        self.home = TeamHome(folder / "homes", "left", "")
        self.registry = self.home.home / ".config" / "iMi" / "iMi.db"
        self.seen = folder / "seen.db"
        exchange = f"imi.chain.{uuid.uuid4().hex[:8]}"
        (self.registry.parent / "config.toml").write_text(
            f'[servers]\namqp_url = "{rabbit.url}"\namqp_exchange = "{exchange}"\npostgres_url = "{postgres.url()}"\n'
        )
        self.postgres_url = postgres.url()
        assert self.home.imi("archive", "--init").code in (0, 1)
        program = str(Path(__file__).with_name("subscriber_process.py"))
        words = [rabbit.url, exchange, f"{exchange}.seen", str(self.seen)]
        self.subscriber = Mortal([sys.executable, program, *words], {})
        stack.callback(self.subscriber.end)
        self.relay = Mortal(imi_argv("serve"), self.home.env)
        stack.callback(self.relay.end)

    def ids(self) -> list[tuple[str, str, int]]:
        """(id, worktree, number) of every event in the registry."""
        with closing(sqlite3.connect(self.registry)) as connection:
            return connection.execute(
                "SELECT id, repo_name || '/' || worktree_name, seq FROM events ORDER BY seq"
            ).fetchall()

    def archived(self) -> list[tuple[str, int]]:
        try:
            with psycopg.connect(self.postgres_url, connect_timeout=2) as connection:
                return connection.execute("SELECT id, seq FROM imi.events ORDER BY registry, seq").fetchall()
        except psycopg.Error:
            return []

    def applied(self) -> tuple[list[tuple[str, str, int]], int, int]:
        """What the subscriber did, in the order in which it did it; how many effects it counted, and deliveries."""
        with closing(sqlite3.connect(self.seen)) as connection, suppress(sqlite3.OperationalError):
            rows = connection.execute("SELECT id, subject, sequence FROM effects ORDER BY at").fetchall()
            return (rows, *connection.execute("SELECT effects, deliveries FROM counts").fetchone())
        return [], 0, 0

    def history(self) -> int:
        path = self.registry.parent / "history.db"
        if not path.exists():
            return 0
        with closing(sqlite3.connect(path)) as connection, suppress(sqlite3.OperationalError):
            return int(connection.execute("SELECT count(*) FROM entries").fetchone()[0])
        return 0


@contextmanager
def own_postgres() -> Iterator[PostgresServer]:
    postgres_server.skip_without()
    server = PostgresServer(postgres_server.new_folder())
    try:
        server.create()
        server.start()
        yield server
    finally:
        with suppress(AssertionError):
            server.stop()
        shutil.rmtree(server.folder)


def play(chain: Chain, events: int, kills: list[Callable[[], None]], pause: float, limit: float) -> None:
    before = len(chain.ids())
    step = max(1, events // (len(kills) + 1))
    for number, kill in enumerate(kills):
        add_events(chain.registry, min(step, events - number * step))
        time.sleep(random.Random(number).uniform(0.5, 1.0) * pause)
        kill()
    add_events(chain.registry, before + events - len(chain.ids()))
    wanted = len(chain.ids())
    everywhere = [chain.history, lambda: len(chain.archived()), lambda: len(chain.applied()[0])]
    wait_for(lambda: all(count() >= wanted for count in everywhere), limit)

    made, (applied, effects, deliveries) = chain.ids(), chain.applied()
    assert [(ident, seq) for ident, _, seq in made] == chain.archived(), "PostgreSQL: none lost, none twice, in order"
    assert chain.history() == wanted and {one[0] for one in applied} == {one[0] for one in made}
    assert effects == wanted, "no effect twice"
    for worktree in {one[1] for one in made}:
        own = [seq for _, subject, seq in applied if subject == worktree]
        assert own == sorted(own), f"the order of {worktree}"
    assert all(state(chain.registry, name).parked == 0 for name in ("amqp", "postgres", "history"))
    print(f"{wanted} events, {deliveries - wanted} delivered again")


def test_a_chain_that_is_broken_at_each_link_loses_nothing(tmp_path: Path, rabbitmq: RabbitServer) -> None:
    with own_postgres() as postgres, ExitStack() as stack:
        chain = Chain(tmp_path, rabbitmq, postgres, stack)

        def restart() -> None:
            postgres.stop()
            postgres.start()

        play(chain, 400, [chain.relay.kill, restart, chain.subscriber.kill, chain.relay.kill], 1.5, LIMIT)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_20_000_events_survive_33_kills(tmp_path: Path) -> None:
    rabbitmq_server.skip_without()
    rabbit = RabbitServer(tmp_path / "rabbit")
    with own_postgres() as postgres, ExitStack() as stack:
        rabbit.start()
        stack.callback(rabbit.stop)
        chain = Chain(tmp_path, rabbit, postgres, stack)

        def restart_postgres() -> None:
            postgres.stop()
            postgres.start()

        def restart_rabbit() -> None:
            rabbit.kill()
            rabbit.start()

        kills = [chain.relay.kill] * 20 + [restart_rabbit] * 3 + [restart_postgres] * 4 + [chain.subscriber.kill] * 6
        random.Random(4).shuffle(kills)
        play(chain, 20_000, kills, 2.5, 600)
