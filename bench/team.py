"""Teams on a real Redis: what presence costs, how late a change is read elsewhere, and what asking another home takes."""

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
from contextlib import asynccontextmanager
from pathlib import Path

from bench.common import IMI, Row, interleaved, process, ratio
from imi_monitor.links import redis_url
from imi_monitor.links.presence_keys import TeamKeys
from imi_monitor.links.presence_publisher import PresencePublisher
from imi_monitor.links.presence_reader import PresenceReader
from imi_monitor.links.question_channel import QuestionChannel
from imi_monitor.links.redis_link import RedisLink
from imi_monitor.model.team_question import CLAIM, HomeAnswer, HomeQuestion

_HOMES, _ROWS, _CHANGED, _SECONDS = 20, 60, 6, 10.0
_ROW = '{"repo":"github.com/acme/app","name":"feat-x","n":"%d","pad":"' + "x" * 220 + '"}'
_BARE = "return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'EX', 60)"


def run() -> Iterator[Row]:
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        return
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        free.close()
        argv = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", folder, "--save", ""]
        server = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
        try:
            url = f"redis://127.0.0.1:{port}"
            time.sleep(0.5)
            yield from asyncio.run(_presence(url))
            yield from asyncio.run(_questions(url))
            yield from _notes(Path(folder))
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


async def _presence(url: str) -> list[Row]:
    """20 homes of 60 rows, a tenth of which changes each second; reader and publishers share the process, and are told apart by
    what a run without the other costs."""
    keys, late = TeamKeys("bench"), list[float]()
    async with _link(url) as link, _link(url) as read_link, _link(url, blocking=True) as blocking:
        homes = [PresencePublisher(link, keys, f"home-{n}", "m", lambda: "{}") for n in range(_HOMES)]
        rows = [{f"w:{n}": _ROW % 0 for n in range(_ROWS)} for _ in homes]

        async def publish(seconds: float) -> float:
            began, cpu = time.monotonic(), time.process_time()
            turn = 0
            while time.monotonic() - began < seconds:
                turn += 1
                for home, own in zip(homes, rows, strict=True):
                    for n in range(_CHANGED):
                        own[f"w:{(turn * _CHANGED + n) % _ROWS}"] = _ROW % time.monotonic_ns()
                    await home.publish(own)
                    await asyncio.sleep(1 / _HOMES)
            return (time.process_time() - cpu) / (time.monotonic() - began)

        alone = await publish(_SECONDS / 2)
        reader, seen = PresenceReader(read_link, blocking, keys), dict[str, int]()
        await reader.follow()
        seen = dict.fromkeys(reader.homes, time.monotonic_ns())

        async def follow() -> None:
            while True:
                for ident in await reader.follow():
                    texts = reader.homes[ident].fields.values()
                    newest = max(int(text.split('"n":"')[1].split('"')[0]) for text in texts)
                    if newest > seen.get(ident, 0):  # what changed may be the age alone
                        seen[ident] = newest
                        late.append((time.monotonic_ns() - newest) / 1e6)

        following = asyncio.create_task(follow())
        both = await publish(_SECONDS)
        following.cancel()
    p99 = statistics.quantiles(late, n=100)[98]
    return [
        Row("publisher of one home, 60 rows, 10 % a second", 100 * alone / _HOMES, "%", budget=0.15),
        Row("reader of 20 such homes", 100 * max(0.0, both - alone), "%", budget=2.0),
        Row("a change is read elsewhere, p99", p99, "ms", budget=150.0),
    ]


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
