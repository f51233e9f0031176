"""One thread of its own for what must not hold up the loop, for as long as it is wanted: a hop costs half of what one to
a pool of threads does, and what it works on stays where it is warm."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Worker:
    """`await worker.run(function, …)`, one after the other; `close` when nothing more is to come."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        # a look at a disk that hangs must not keep the program from ending
        threading.Thread(target=self._work, name=name, daemon=True).start()

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Cancelled, it ends by itself and nobody hears of it."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def job() -> None:
            try:
                result = function(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001  whoever asked is told, whatever it is
                _tell(loop, done, error=error)
            else:
                _tell(loop, done, result)

        self._jobs.put(job)
        return await done

    def close(self) -> None:
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            del job  # what it holds is not kept until the next one comes


def _tell(
    loop: asyncio.AbstractEventLoop,
    done: asyncio.Future[T],
    result: T | None = None,
    error: BaseException | None = None,
) -> None:
    try:
        loop.call_soon_threadsafe(_settle, done, result, error)
    except RuntimeError:
        return  # the loop was closed: nobody waits any more


def _settle(done: asyncio.Future[T], result: Any, error: BaseException | None) -> None:
    if done.cancelled():
        return
    if error is not None:
        done.set_exception(error)
    else:
        done.set_result(result)
