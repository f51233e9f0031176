"""When the dashboard of a test is idle: its event loop has nothing left to run, its keys have had their effect, and
the functions in its threads are done.

Textual's pilot takes a process that uses little processor time for an idle one. On a busy machine a process that has a lot
to do uses little as well, and the test goes on too early.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from textual._context import active_app

from imi_monitor.ui.app import ImiApp

SOON = 0.02  # seconds; the screen is updated 60 times in a second, and a later timer belongs to a clock
_MOST_TIMERS = 10  # a timer that always returns soon does not count as work
_THREADS = 0.5  # seconds; a thread that takes longer waits for something outside


async def wait_for_idle(min_sleep: float = 0, max_sleep: float = 1, *, soon: float = SOON) -> None:
    """Take the place of `textual._wait.wait_for_idle`. `max_sleep` is in seconds of processor time; a timer that is due
    within `soon` seconds is waited for."""
    loop: Any = asyncio.get_running_loop()
    started, busy_until, timers = time.process_time(), loop.time() + _THREADS, 0
    await asyncio.sleep(min_sleep)
    while time.process_time() - started < max_sleep:
        await asyncio.sleep(0)
        if loop._ready:
            continue
        if keys_are_handled():
            await asyncio.sleep(0.001)
            continue
        if threads_work(loop) and loop.time() < busy_until:
            await asyncio.sleep(0.001)
        elif (delay := next_timer(loop, soon)) is not None and timers < _MOST_TIMERS:
            timers += 1
            await asyncio.sleep(delay)
        else:
            return


def keys_are_handled() -> bool:
    """Whether the dashboard has not done yet what the keys so far do."""
    app = active_app.get(None)
    return isinstance(app, ImiApp) and app.typed_keys.busy


def threads_work(loop: Any) -> bool:
    """Whether a function runs in a thread of the loop, or is queued for one."""
    pool: ThreadPoolExecutor | None = loop._default_executor
    return pool is not None and (pool._work_queue.qsize() > 0 or pool._idle_semaphore._value < len(pool._threads))


def next_timer(loop: Any, soon: float) -> float | None:
    """The seconds until the next timer, None if none is due within `soon`."""
    due = min((handle.when() for handle in loop._scheduled if not handle.cancelled()), default=loop.time() + 1)
    delay = due - loop.time()
    return max(delay, 0) if delay < soon else None
