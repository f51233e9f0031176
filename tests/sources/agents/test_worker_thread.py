"""One thread for the looks: what comes of a job, and of one that nobody waits for any more."""

from __future__ import annotations

import asyncio
import threading

import pytest

from imi_monitor.sources.agents.agents_source import WorkerThread


def test_a_job_runs_in_the_same_thread_each_time_and_tells_what_came_of_it() -> None:
    async def play() -> None:
        worker = WorkerThread("looks")
        first = await worker.run(threading.get_ident)
        assert first == await worker.run(threading.get_ident) != threading.get_ident()
        with pytest.raises(ValueError, match="invalid literal"):
            await worker.run(int, "x")
        assert await worker.run(int, "12", base=8) == 10, "it goes on after one that broke"
        worker.close()

    asyncio.run(play())


def test_one_that_nobody_waits_for_ends_by_itself() -> None:
    async def play() -> None:
        worker, go = WorkerThread("looks"), threading.Event()
        waiting = asyncio.create_task(worker.run(go.wait))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        go.set()
        assert await worker.run(int, "1") == 1
        worker.close()

    asyncio.run(play())
