"""Teams on a real Redis: what presence costs, how late a change is read and painted elsewhere, asking another home, contexts of
terminals, the feed of events, and searches of the archive.

`IMI_BENCH_EVENTS` is the size of the archive.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

from bench import history, ui_rows
from bench.common import IMI, Row, interleaved, process, ratio
from bench.ui import Pane
from imi_monitor.links import presence_keys, redis_url
from imi_monitor.links.context_store import ContextStore, SharedContext
from imi_monitor.links.presence_keys import TeamKeys
from imi_monitor.links.presence_publisher import PresencePublisher
from imi_monitor.links.presence_reader import PresenceReader
from imi_monitor.links.question_channel import QuestionChannel
from imi_monitor.links.redis_link import RedisLink
from imi_monitor.model import times
from imi_monitor.model.agent import RUNNING, Agent, ToolCall, Truth
from imi_monitor.model.home import PROTOCOL, HomeDescription
from imi_monitor.model.home_rows import RowEncoder, describe
from imi_monitor.model.home_states import HomeStates, PublishedRows
from imi_monitor.model.snapshot import HomeState, Snapshot, Worktree
from imi_monitor.model.team_question import CLAIM, HomeAnswer, HomeQuestion
from imi_monitor.model.team_rows import TeamRows
from imi_monitor.sinks.redis_sink import RedisSink
from imi_monitor.sinks.relay import Relay
from imi_monitor.store import db, events, sink_cursors
from imi_monitor.store.async_registry import open_registry

_HOMES, _TREES, _AGENTS, _CHANGED, _SECONDS = 20, 20, 40, 6, 10.0
_SNAPSHOT_PAUSE = 1 / 7.5  # seconds between two snapshots of the engine, at its usual rate
_MEASURED = 3  # the home whose first worktree is looked at on the screen
_PAINTED = 100
_CONTEXTS = 300
_EVENTS, _FEED = 20_000, 100  # events, and so many at once
_BARE = "return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'EX', 60)"


def run() -> Iterator[Row]:
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        return
    with tempfile.TemporaryDirectory(prefix="imi-bench-") as folder, socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        free.close()
        argv = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", folder, "--save", ""]
        server = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
        try:
            url = f"redis://127.0.0.1:{port}"
            time.sleep(0.5)
            yield from asyncio.run(_presence(url))
            yield from asyncio.run(_screen(url, Path(folder, "lead")))
            yield from asyncio.run(_questions(url))
            yield from asyncio.run(_contexts(url))
            yield from _notes(Path(folder))
            yield from asyncio.run(_relay(url, folder))
            yield from history.searches(folder)
        finally:
            server.kill()
            server.wait()


@asynccontextmanager
async def _link(url: str, *, blocking: bool = False) -> AsyncIterator[RedisLink]:
    link = RedisLink(redis_url.parse(url), blocking=blocking)
    try:
        yield link
    finally:
        await link.close()


# -- presence -----------------------------------------------------------------------------------------------------------


class _Home:
    """A home of 20 worktrees and 40 agents, of which some rows change; the task of its first worktree is a moment."""

    def __init__(self, number: int, link: RedisLink, keys: TeamKeys) -> None:
        self._trees = [_tree(number, place) for place in range(_TREES)]
        self._agents = [_agent(self._trees[place % _TREES], place) for place in range(_AGENTS)]
        self._encoder, self._at = RowEncoder("names", lambda name: f"github.com/acme/{name}"), 0
        ident = f"{number:02}ff" * 8
        home = HomeDescription(ident, f"host-{number:02}", "ada", "0.1.0", PROTOCOL, times.stamp(), times.stamp())
        self._publisher = PresencePublisher(link, keys, ident, "m", lambda: describe(home))

    def change(self) -> None:
        for _ in range(_CHANGED):
            self._at = (self._at + 1) % (_TREES + _AGENTS)
            if self._at < _TREES:
                self._trees[self._at] = ui_rows.changed(self._trees[self._at], time.monotonic_ns())
            else:
                place = self._at - _TREES
                self._agents[place] = replace(
                    self._agents[place], truth=replace(self._agents[place].truth, since=times.stamp())
                )

    async def publish(self, task: str | None = None) -> None:
        first = self._trees[0]
        if first.claim is not None:
            name = task or f"T-{time.monotonic_ns()}"
            self._trees[0] = replace(first, claim=replace(first.claim, task=name))
        world = Snapshot(1, times.stamp(), "desk", tuple(self._trees), agents=tuple(self._agents))
        await self._publisher.publish(self._encoder.rows(world))


def _tree(home: int, place: int) -> Worktree:
    """One with a branch of its own; every seventh has changed a file that others have changed as well."""
    tree, name = ui_rows.tree(place), f"feat-{home}-{place:03d}"
    assert tree.git is not None
    key = replace(tree.key, worktree=name)
    file = replace(tree.git.files[0], path=f"src/{name}.py" if place % 7 else f"src/shared-{place}.py")
    claim = tree.claim and replace(tree.claim, key=key)
    return replace(tree, key=key, branch=f"feat/{name}", git=replace(tree.git, files=(file,)), claim=claim)


def _agent(tree: Worktree, number: int) -> Agent:
    """One at work; the first worktree has none, so that its row shows the task."""
    truth = Truth(
        RUNNING, times.stamp(), "transcript", "exact", tool=ToolCall("Bash", f"pytest -q tests/part_{number}")
    )
    key = tree.key if number % _TREES else None
    return Agent(f"claude:{number}", "claude", f"claude-{number}", key, None, None, None, None, truth, claim="mine")


class _Lead:
    """What a dashboard reads of the others: their rows in one snapshot."""

    def __init__(self, link: RedisLink, blocking: RedisLink, keys: TeamKeys) -> None:
        self._reader, self._states = PresenceReader(link, blocking, keys), HomeStates("own", "desk")
        self._rows, self._merged_at = TeamRows(every_repository=True), 0.0

    async def follow(self) -> tuple[HomeState, ...]:
        """The homes; the snapshot is made as often as the engine makes one."""
        changed = await self._reader.follow()
        read = {one.ident: PublishedRows(one.description, one.fields, one.age) for one in self._reader.homes.values()}
        homes = self._states.states(read, changed)
        if time.monotonic() - self._merged_at >= _SNAPSHOT_PAUSE:
            self._merged_at = time.monotonic()
            self._rows.merge(Snapshot(1, "", "desk", (), homes=homes))
        return homes


async def _presence(url: str) -> list[Row]:
    """20 homes of 60 rows, a tenth of which changes each second; reader and publishers share the process, and are told apart by
    what a run without the other costs."""
    keys, late, seen, place = TeamKeys("bench"), list[float](), dict[str, int](), dict[str, int]()
    async with _link(url) as link, _link(url) as read_link, _link(url, blocking=True) as blocking:
        homes = [_Home(number, link, keys) for number in range(_HOMES)]

        async def publish(seconds: float) -> float:
            """The share of a core that publishing took, without the making of what changes."""
            began, cpu, making = time.monotonic(), time.process_time(), 0.0
            while time.monotonic() - began < seconds:
                for home in homes:
                    before = time.process_time()
                    home.change()
                    making += time.process_time() - before
                    await home.publish()
                    await asyncio.sleep(1 / _HOMES)
            return (time.process_time() - cpu - making) / (time.monotonic() - began)

        alone = await publish(_SECONDS / 2)
        lead = _Lead(read_link, blocking, keys)
        await lead.follow()
        began = time.monotonic_ns()

        async def follow() -> None:
            while True:
                for home in await lead.follow():
                    if home.label not in place:
                        names = [tree.key.worktree for tree in home.worktrees]
                        place[home.label] = next(at for at, name in enumerate(names) if name.endswith("-000"))
                    claim = home.worktrees[place[home.label]].claim
                    moment = int(((claim and claim.task) or "T-0").removeprefix("T-"))
                    if moment > seen.get(home.label, began):
                        seen[home.label] = moment
                        late.append((time.monotonic_ns() - moment) / 1e6)

        following = asyncio.create_task(follow())
        both = await publish(_SECONDS)
        following.cancel()
    p99 = statistics.quantiles(late, n=100)[98]
    return [
        Row("publisher of one home, 60 rows, 10 % a second", 100 * alone / _HOMES, "%", budget=0.15),
        Row("reader of 20 such homes", 100 * max(0.0, both - alone), "%", budget=2.0),
        Row("a change is read elsewhere, p99", p99, "ms", budget=150.0),
    ]


async def _screen(url: str, folder: Path) -> list[Row]:
    """From a home's change to the bytes on the terminal of a dashboard that follows 20 homes, while they all change."""
    repository = folder / "app"
    process(["git", "init", "-q", str(repository)])
    process(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"],
        cwd=str(repository),
    )
    process(["git", "remote", "add", "origin", "https://github.com/acme/app"], cwd=str(repository))
    env = {"HOME": str(folder), "IMI_REDIS_URL": url, "IMI_HOST": "lead"}
    keys, painted = TeamKeys("default"), list[float]()
    async with _link(url) as link:
        homes = [_Home(number, link, keys) for number in range(_HOMES)]

        async def publish() -> None:
            while True:
                for home in homes:
                    if home is not homes[_MEASURED]:
                        home.change()
                        await home.publish()
                    await asyncio.sleep(1 / _HOMES)

        with Pane([IMI, "monitor"], str(repository), env) as pane:
            publishing = asyncio.create_task(publish())
            await homes[_MEASURED].publish("T-first")
            await asyncio.to_thread(pane.first, b"host-0")
            pane.send(f"/host:host-{_MEASURED:02}\r".encode())
            await asyncio.to_thread(pane.first, b"T-first")
            for number in range(_PAINTED):
                await asyncio.sleep(0.15)
                since, began = len(pane.arrivals), time.perf_counter()
                await homes[_MEASURED].publish(f"T-{1000 + number}")
                found = await asyncio.to_thread(pane.first, f"T-{1000 + number}".encode(), since, 10)
                painted.append((found - began) * 1000)
            publishing.cancel()
    p50, p99 = statistics.median(painted), statistics.quantiles(painted, n=100)[98]
    return [
        Row("a change is on the screen elsewhere, p50", p50, "ms"),
        Row("a change is on the screen elsewhere, p99", p99, "ms", budget=150.0),
    ]


# -- questions, contexts, events ----------------------------------------------------------------------------------------


async def _questions(url: str) -> list[Row]:
    """Asking a home that answers at once, against one bare script: the cost of the protocol without that of the registry."""
    keys = TeamKeys("bench")
    async with (
        _link(url) as link,
        _link(url, blocking=True) as wait,
        _link(url) as other,
        _link(url, blocking=True) as read,
    ):
        asker, home = QuestionChannel(link, wait, keys), QuestionChannel(other, read, keys)
        at = "0-0"

        async def answer() -> None:
            nonlocal at
            while True:
                at, found = await home.read("home", at)
                for question, _ in found:
                    if question is not None:
                        await home.give(question.id, HomeAnswer("granted", 1, 60.0).encode())

        answering = asyncio.create_task(answer())
        asked, bare = list[float](), list[float]()
        for n in range(300):
            began = time.perf_counter()
            await link.script(_BARE, [f"imi:{{bench}}:bare:{n}"], ["x"])
            bare.append((time.perf_counter() - began) * 1000)
            began = time.perf_counter()
            await asker.ask("home", HomeQuestion(f"question-{n}", CLAIM, "home-two", "repo", "feat-x", "a"))
            asked.append((time.perf_counter() - began) * 1000)
        answering.cancel()
    return [ratio("asking another home, p50", statistics.median(asked), statistics.median(bare), "bare script", 10.0)]


async def _contexts(url: str) -> list[Row]:
    """Saving the context of a terminal: a session with its panes, ten milestones and an intent."""
    fields = {"host": "desk", "repo": "app", "worktree": "feat-x", "panes": "x" * 3000, "updated_at": times.stamp()}
    context = SharedContext(
        "desk:tmux:1", fields, tuple(f"milestone {number}" for number in range(10)), "ship it", 86400
    )
    saved, bare = list[float](), list[float]()
    async with _link(url) as link:
        store = ContextStore(link, "")
        for number in range(_CONTEXTS):
            began = time.perf_counter()
            await link.script(_BARE, [f"bare:{number}"], ["x"])
            bare.append((time.perf_counter() - began) * 1000)
            began = time.perf_counter()
            refused = await store.put(replace(context, id=f"desk:tmux:{number}"))
            saved.append((time.perf_counter() - began) * 1000)
            if refused is not None:
                raise RuntimeError(refused)
    p99, floor = (statistics.quantiles(one, n=100)[98] for one in (saved, bare))
    return [Row("a context is saved on the server, p99", p99, "ms", floor, "bare script, p99", budget=10.0)]


async def _relay(url: str, folder: str) -> list[Row]:
    """A backlog to the feed of the team, against the same entries without a registry and its cursor."""
    path, keys = os.path.join(folder, "relay.db"), TeamKeys("relay")

    def fill(connection: db.Connection) -> None:
        for number in range(_EVENTS):
            events.append_row(connection, "worktree.moved", "app", f"feat-{number % 20}", data={"path": "x" * 200})

    with closing(db.connect(path)) as connection:
        db.transact(connection, fill)
        db.transact(connection, sink_cursors.configure, {"redis": None})
    async with _link(url) as link, open_registry(path) as registry:
        relay = Relay(RedisSink(link, keys, "Redis", "names"), registry)
        began = time.perf_counter()
        if not await relay.drain() or relay.delivered != _EVENTS:
            raise RuntimeError(f"{relay.delivered} of {_EVENTS} events: {relay.problem}")
        spent = time.perf_counter() - began
        entries = [fields["event"] for _, fields in await link.newest(keys.feed, _FEED)]
        began = time.perf_counter()
        for _ in range(_EVENTS // len(entries)):
            await link.feed("bare", entries, "bare:mark", presence_keys.MOST_EVENTS)
        bare = time.perf_counter() - began
    name = f"{_EVENTS:,} events to the feed"
    return [Row(name, _EVENTS / spent, "events/s", _EVENTS / bare, "bare feed", bare / spent)]


def _notes(folder: Path) -> Iterator[Row]:
    """What `imi milestone` costs its caller beyond `imi heartbeat`, which writes one row as well."""
    os.environ["HOME"] = str(folder)
    process(["git", "init", "-q", str(folder / "app")])
    app = str(folder / "app")
    process(["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"], cwd=app)
    process([IMI, "claim", "app", "--agent", "a"], cwd=app)
    tmux = shutil.which("tmux")
    if tmux is not None:  # then the panes are recorded as well, by a process that the caller does not wait for
        socket_path = str(folder / "tmux")
        process([tmux, "-S", socket_path, "-f", "/dev/null", "new-session", "-d"], cwd=app)
        told = [tmux, "-S", socket_path, "display-message", "-p", "#{socket_path},#{pid},0 #{pane_id}"]
        os.environ["TMUX"], os.environ["TMUX_PANE"] = subprocess.check_output(told, text=True).split()
    note, beat, _ = interleaved(
        15,
        lambda: process([IMI, "milestone", "done", "--agent", "a"], cwd=app),
        lambda: process([IMI, "heartbeat", "app", "--agent", "a"], cwd=app),
        lambda: time.sleep(0.5),  # until the panes are recorded: the next caller is not behind that process
    )
    if tmux is not None:
        process([tmux, "-S", socket_path, "kill-server"])
    yield Row("imi milestone beyond imi heartbeat", note - beat, "ms", budget=10.0)
