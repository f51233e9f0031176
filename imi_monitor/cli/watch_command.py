"""`imi watch`: the engine's picture as a stream: first everything, then what changes. `imi status --watch`: the same for
people, painted anew when it changes."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine

from imi_monitor.actions.context import Context
from imi_monitor.cli import output
from imi_monitor.cli.front_end import common_dirs_of
from imi_monitor.model.snapshot import Snapshot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.cli.argument_parser import ParsedCommandLine
    from imi_monitor.config import Settings
    from imi_monitor.engine import Engine

_FIRST = 5.0  # seconds that the first picture waits for slow worktrees
_LOOK = 0.2  # how often it is noticed that nobody reads any more


def show(parsed: ParsedCommandLine, *, seconds: float | None = None) -> int:
    """Run until the reader, a signal or the person ends it, or so many seconds are over."""
    with Context(database=parsed.option("db"), repo=parsed.option("repo")) as context:
        names = parsed.request.rest("repo") or ([repo] if (repo := parsed.request.text("repo")) else [])
        common_dirs = common_dirs_of(context, names)
        database = context.database
        settings = context.settings
        context.connection  # noqa: B018  a registry that cannot be used is told before anything starts
    interval = parsed.request.number("interval") or 0.0
    as_stream = parsed.request.verb == "watch" or parsed.flag("json")
    paint = _stream if as_stream else _paint
    once = parsed.request.flag("once")
    return asyncio.run(_run(database, common_dirs, settings, lambda engine: paint(engine, interval, once), seconds))


async def _run(
    database: str,
    common_dirs: list[str] | None,
    settings: Settings,
    paint: Callable[[Engine], Coroutine[object, object, None]],
    seconds: float | None,
) -> int:
    from imi_monitor import engine

    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, over.set)
    async with engine.live(database, common_dirs, settings=settings) as live:
        painting = asyncio.create_task(paint(live))
        ends = [asyncio.create_task(over.wait()), asyncio.create_task(_reader_gone())]
        await asyncio.wait([painting, *ends], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if painting.done():
            painting.result()  # raises what went wrong, if anything did
        for task in (painting, *ends):
            task.cancel()
        await asyncio.gather(painting, *ends, return_exceptions=True)
    return 0


async def _reader_gone() -> None:
    while not output.reader_gone():
        await asyncio.sleep(_LOOK)


async def _pictures(engine: Engine, interval: float) -> AsyncIterator[Snapshot]:
    """The first complete picture (or what there is after a while), then every new one, not oftener than asked."""
    started = time.monotonic()
    ready = False
    async for snapshot in engine.snapshots():
        ready = ready or snapshot.complete or time.monotonic() - started > _FIRST
        if not ready:
            continue
        yield snapshot
        if interval:
            await asyncio.sleep(interval)


async def _stream(engine: Engine, interval: float, once: bool) -> None:
    from imi_monitor.model import snapshot_json

    before: Snapshot | None = None
    async for snapshot in _pictures(engine, interval):
        if before is None:
            output.entry(snapshot_json.snapshot_data(snapshot))
            if once:
                return
        else:
            for entry in snapshot_json.change_data(before, snapshot):
                output.entry(entry)
        before = snapshot


async def _paint(engine: Engine, interval: float, once: bool) -> None:
    from imi_monitor.actions.status.status_action import terminal_width
    from imi_monitor.model import times, worktree_table

    async for snapshot in _pictures(engine, max(interval, 0.2)):
        lines = worktree_table.status_table(worktree_table.statuses_of(snapshot), terminal_width(), times.now())
        output.page([*lines, *worktree_table.snapshot_notes(snapshot)], clear=sys.stdout.isatty())
        if once:
            return
