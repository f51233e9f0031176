"""The engine's snapshots as a stream: JSON objects for `imi watch`, a repainted table for `imi status --watch`."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from functools import partial

from imi_monitor.actions.context import Context
from imi_monitor.cli import output
from imi_monitor.cli.front_end import common_dirs_of
from imi_monitor.fast import quick_process
from imi_monitor.model.snapshot import Snapshot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.cli.argument_parser import ParsedCommandLine
    from imi_monitor.config import Settings
    from imi_monitor.engine import Engine

_FIRST_SECONDS = 5.0  # the longest wait for slow worktrees before the first snapshot is shown
_READER_CHECK_SECONDS = 0.2
_START_SECONDS = 5.0  # a process that is still there after them goes on
_SHORTEST_REPAINT = 0.2


def run(parsed: ParsedCommandLine, *, seconds: float | None = None) -> int:
    """Stream until the reader goes away, a signal arrives, or so many seconds are over; return the exit status."""
    with Context(database=parsed.option("db"), repo=parsed.option("repo")) as context:
        context.needs_registry = False
        names = parsed.request.rest("repo") or ([repo] if (repo := parsed.request.text("repo")) else [])
        common_dirs = common_dirs_of(context, names)
        database = context.database
        settings = context.settings
        if common_dirs is None and context.registry_problem is not None:  # only the registry lists any repository
            raise context.registry_problem
    interval = parsed.request.number("interval") or 0.0
    as_stream = parsed.request.verb == "watch" or parsed.flag("json")
    show = _print_json if as_stream else partial(_paint_table, all_hosts=parsed.request.flag("all-hosts"))
    once = parsed.request.flag("once")
    read_only = parsed.flag("read-only")
    return asyncio.run(
        run_engine(database, common_dirs, settings, lambda engine: show(engine, interval, once), seconds, read_only)
    )


async def run_engine(
    database: str,
    common_dirs: list[str] | None,
    settings: Settings,
    show: Callable[[Engine], Coroutine[object, object, None]],
    seconds: float | None,
    read_only: bool,
) -> int:
    """Run an engine until `show` is done, the reader of the output goes away, or a signal arrives."""
    from imi_monitor import engine

    signalled = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, signalled.set)
    loop.call_later(_START_SECONDS, quick_process.resume_garbage_collection)
    async with engine.open_engine(database, common_dirs, settings=settings, read_only=read_only) as live:
        showing = asyncio.create_task(show(live))
        ends = [asyncio.create_task(signalled.wait()), asyncio.create_task(_reader_gone())]
        await asyncio.wait([showing, *ends], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if showing.done():
            showing.result()  # raises the error that ended it, if one did
        for task in (showing, *ends):
            task.cancel()
        await asyncio.gather(showing, *ends, return_exceptions=True)
    return 0


async def _reader_gone() -> None:
    while not output.reader_gone():
        await asyncio.sleep(_READER_CHECK_SECONDS)


async def snapshots(engine: Engine, interval: float, *, watched: bool = False) -> AsyncIterator[Snapshot]:
    """The first complete snapshot (or, after _FIRST_SECONDS, an incomplete one), then every new one, `interval` apart.

    With `watched` the files of all worktrees are followed by then: each write after the first snapshot is a change.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(_FIRST_SECONDS):
            async for snapshot in engine.snapshots():
                if snapshot.complete and not (watched and _starts_watching(snapshot)):
                    break
    async for snapshot in engine.snapshots():
        yield snapshot
        if interval:
            await asyncio.sleep(interval)


def _starts_watching(snapshot: Snapshot) -> bool:
    return any(tree.watched == "starting" and not tree.missing for tree in snapshot.worktrees)


async def _print_json(engine: Engine, interval: float, once: bool) -> None:
    from imi_monitor.model import snapshot_json

    before: Snapshot | None = None
    async for snapshot in snapshots(engine, interval, watched=not once):
        if before is None:
            output.entry(snapshot_json.snapshot_data(snapshot))
            if once:
                return
        else:
            for entry in snapshot_json.change_data(before, snapshot):
                output.entry(entry)
        before = snapshot


async def _paint_table(engine: Engine, interval: float, once: bool, *, all_hosts: bool) -> None:
    from imi_monitor.actions.status.status_action import terminal_width
    from imi_monitor.model import times, worktree_table

    async for snapshot in snapshots(engine, max(interval, _SHORTEST_REPAINT)):
        shown = worktree_table.statuses_of(snapshot)
        for home in snapshot.homes if all_hosts else ():
            shown += worktree_table.statuses_of_home(home)
        lines = worktree_table.status_table(shown, terminal_width(), times.now())
        output.page([*lines, *worktree_table.snapshot_notes(snapshot)], clear=sys.stdout.isatty())
        if once:
            return
