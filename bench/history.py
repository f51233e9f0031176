"""The memory: searches in an archive of a million events, claims while it is loaded, and events to a RabbitMQ. # S2.29 S2.51

`IMI_BENCH_EVENTS` is the size of the archive, `IMI_AMQP_URL` a broker for the last figure.
"""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from bench.common import Row
from imi_monitor import config, host
from imi_monitor.sinks import amqp_sink, history_sink
from imi_monitor.sinks.relay import Relay
from imi_monitor.store import (
    claim_requests,
    db,
    events,
    history_file,
    history_search,
    repositories,
    sink_cursors,
    worktrees,
)
from imi_monitor.store.async_registry import open_registry
from imi_monitor.store.claims import ClaimRequest
from imi_monitor.store.event_batches import OutgoingEvent
from imi_monitor.store.history_file import HistoryEntry
from imi_monitor.store.history_search import HistoryQuery

_EVENTS = int(os.environ.get("IMI_BENCH_EVENTS", "1000000"))
_BATCH = 200
_SEARCHES = 200
_CLAIMS, _ROUNDS = 250, 12  # claims of one round, alone and while the archive is loaded
_BACKLOG = 5000
_SETTLE = 0.05  # seconds in which a batch of the archive ends
_STEMS = (
    "auth token cache index parse render socket queue retry merge branch layout theme claim agent panel stream outbox"
)
_ENDS = ("", "er", "ing", "s", "-fix", "less", "able")
_TYPES = (
    "worktree.claimed",
    "worktree.released",
    "worktree.commit",
    "session.progress",
    "session.ended",
    "intent.logged",
)


def run() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="imi-bench-") as folder:
        rows = _claims(folder)
        rows += searches(folder)
        return [*rows, *_relay(folder)]


def _entries(number: int) -> Iterator[HistoryEntry]:
    random_ = random.Random(7)
    words = [f"{stem}{end}" for stem in _STEMS.split() for end in _ENDS] + [f"w{rare:05x}" for rare in range(20_000)]
    pool = random_.choices(words, [1 / (place + 3) for place in range(len(words))], k=400_000)
    for place in range(number):
        at = random_.randrange(len(pool) - 20)
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(1_763_000_000 + place * 4))
        text = " ".join(pool[at : at + random_.randrange(4, 14)])
        agent, tree = f"claude-{place % 23}", f"feat-{pool[at]}-{place % 50}"
        yield HistoryEntry(
            f"{random_.getrandbits(128):032x}", "r1", _TYPES[place % 6], f"{moment}.000000+00:00", f"host{place % 20}",
            f"app{place % 5}", tree, agent, 1, "{}", f"{agent} did it in {tree}: {text}",
        )  # fmt: skip


def _load(connection: sqlite3.Connection, number: int, stop: threading.Event | None = None) -> float:
    """Load so many; returns the longest transaction in milliseconds."""
    longest, batch = 0.0, []
    for place, one in enumerate(_entries(number)):
        batch.append(one)
        if len(batch) == _BATCH:
            began = time.perf_counter()
            history_file.append(connection, batch, "r1", "events", place)
            longest = max(longest, time.perf_counter() - began)
            batch = []
        if stop is not None and stop.is_set():
            break
    return longest * 1000


def searches(folder: str) -> list[Row]:
    path = os.path.join(folder, "search.db")
    with closing(history_file.connect(path)) as connection:
        began = time.perf_counter()
        _load(connection, _EVENTS)
        loaded = time.perf_counter() - began
        words = [f"{stem}{end}" for stem in _STEMS.split() for end in _ENDS]
        random_ = random.Random(3)
        found: list[float] = []
        for place in range(_SEARCHES):
            query = HistoryQuery(
                tuple(random_.choices([*words, "w00a7f", "w01b00", "tok", "aut"], k=1 + place % 2)),
                agent=f"claude-{place % 23}" if place % 4 == 1 else None,
                repo_name=f"app{place % 5}" if place % 4 == 2 else None,
                since="2025-12-20T00:00:00" if place % 4 == 3 else None,
                types=("session.*",) if place % 8 == 4 else (),
            )
            began = time.perf_counter()
            history_search.search(connection, query, 50)
            found.append((time.perf_counter() - began) * 1000)
        found.sort()
        size = os.stat(path).st_size / _EVENTS
    name = f"search of {_EVENTS:,} events"
    return [
        Row(f"{name}, p50", found[len(found) // 2], "ms"),
        Row(f"{name}, p95", found[int(len(found) * 0.95)], "ms", budget=50.0),
        Row("load of the archive", _EVENTS / loaded, "events/s"),
        Row("size of the archive", size, "bytes/event"),
    ]


def _claims(folder: str) -> list[Row]:
    """p99 of a claim alone, and while the relay of another process archives a backlog of the same registry, in turns."""
    path = os.path.join(folder, "iMi.db")
    with closing(db.connect(path)) as connection:
        registration = repositories.RepositoryRegistration(
            "app", common_dir=f"{folder}/app/.git", path=folder, remote_url="", default_branch="main"
        )

        def register(inner: sqlite3.Connection) -> None:
            repositories.register(inner, registration)
            for number in range(20):
                worktrees.register(inner, "app", f"feat-{number}", branch=f"feat/{number}", kind="feat", path=folder)

        def fill(inner: sqlite3.Connection) -> None:
            for number in range(min(_EVENTS, 100_000)):
                events.append_row(inner, "worktree.moved", "app", f"feat-{number % 20}", data={"path": f"/w/{number}"})

        db.transact(connection, register)
        db.transact(connection, fill)
        db.transact(connection, sink_cursors.configure, {"history": None})
        child = os.fork()
        if not child:
            asyncio.run(_archive(path))
            os._exit(0)
        pause = Path(f"{path}.pause")
        spent: dict[bool, list[float]] = {False: [], True: []}
        try:
            time.sleep(1.0)
            for number in range(2 * _ROUNDS):
                is_loading = number % 2 == 1
                pause.unlink(missing_ok=True) if is_loading else pause.touch()
                time.sleep(_SETTLE)
                spent[is_loading] += _claim_times(connection)
            one = sink_cursors.find(connection, "history")
            assert one is not None and one.seq and one.backlog, "the archive was loaded all the time"
        finally:
            os.kill(child, 9)
            os.waitpid(child, 0)
        alone, loading = (statistics.quantiles(spent[one], n=100)[98] for one in (False, True))
    return [
        Row("a claim while the archive is loaded, p99", loading, "ms", alone, "the same alone", loading / alone, 1.5)
    ]


class _PausedSink(history_sink.HistorySink):
    """Archives nothing while there is a file beside the registry."""

    async def deliver(self, batch: Sequence[OutgoingEvent]) -> Mapping[int, str]:
        pause = Path(self._path).with_name("iMi.db.pause")
        while pause.exists():
            await asyncio.sleep(0.005)
        return await super().deliver(batch)


async def _archive(path: str) -> None:
    async with open_registry(path) as registry:
        await Relay(_PausedSink(path), registry).run()


def _claim_times(connection: sqlite3.Connection) -> list[float]:
    """The milliseconds of some claims."""
    process = host.identify_process(os.getpid())
    spent = []
    for number in range(_CLAIMS):
        began = time.perf_counter()
        target = claim_requests.ClaimTarget("app", f"feat-{number % 20}")
        claim_requests.request_claim(
            connection, target, ClaimRequest(f"a{number}", process, force=True, reason="bench")
        )
        spent.append((time.perf_counter() - began) * 1000)
    return spent


def _relay(folder: str) -> list[Row]:
    """A backlog to RabbitMQ as a dashboard delivers it, between two rounds of a bare publisher with confirms.

    The broker becomes slower the more messages it holds, so that one round in front would not be fair.
    """
    url = os.environ.get("IMI_AMQP_URL")
    if not url:
        return []
    path = os.path.join(folder, "relay.db")
    settings = config.Settings()
    settings.set("servers.amqp_url", url, "bench")
    settings.set("servers.amqp_exchange", f"imi.bench.{uuid.uuid4().hex[:8]}", "bench")

    def fill(connection: sqlite3.Connection) -> None:
        for number in range(_BACKLOG):
            events.append_row(connection, "worktree.moved", "app", f"feat-{number % 20}", data={"path": "x" * 200})

    with closing(db.connect(path)) as connection:
        db.transact(connection, fill)
        db.transact(connection, sink_cursors.configure, {"amqp": None})

    async def work() -> tuple[float, float]:
        from imi_monitor.links import amqp_link, server_url

        link = amqp_link.AmqpLink(server_url.parse_amqp(url))
        await link.open(settings.text("servers.amqp_exchange"))
        await link.bind_own_queue(("#",))
        messages = [
            amqp_link.OutgoingMessage(str(number), "t", "t", b"x" * 400, "text/plain") for number in range(_BACKLOG)
        ]

        async def publish() -> float:
            began = time.perf_counter()
            for first in range(0, _BACKLOG, 100):
                await link.publish(messages[first : first + 100])
            return time.perf_counter() - began

        bare = await publish()
        async with open_registry(path) as registry:
            relay = Relay(amqp_sink.make_sink(settings, path), registry)
            began = time.perf_counter()
            assert await relay.drain() and relay.delivered == _BACKLOG
            drained = time.perf_counter() - began
            await relay.sink.close()
        bare = (bare + await publish()) / 2
        await link.close()
        return bare, drained

    bare, drained = asyncio.run(work())
    return [
        Row(
            "events to RabbitMQ",
            _BACKLOG / drained,
            "events/s",
            _BACKLOG / bare,
            "bare aio-pika",
            bare / drained,
            0.5,
            True,
        )
    ]
