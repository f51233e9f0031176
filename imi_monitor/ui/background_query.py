"""Queries that take time (git, disk, registry) in a thread: one at a time per widget, only the newest answer is delivered."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from textual.widget import Widget

from imi_monitor.model.errors import ImiError
from imi_monitor.model.text import safe
from imi_monitor.ui.textual_internals import is_alive, log_error

T = TypeVar("T")
ShouldStop = Callable[[], bool]
Query = Callable[[ShouldStop], T]


class BackgroundQuery(Generic[T]):
    """Runs queries for a widget; `on_answer` is called on the event loop, with an ImiError if the query failed.

    A new query makes the running one stop as soon as it can, and its answer is dropped. The same happens when the widget is
    removed.
    """

    def __init__(self, owner: Widget, on_answer: Callable[[T | ImiError], None], *, pause: float = 0.0) -> None:
        self._owner = owner
        self._on_answer = on_answer
        self._pause = pause  # seconds without a new query before one starts: each key typed is a query
        self._next: Query[T] | None = None
        self._stop = threading.Event()
        self._running = False

    @property
    def busy(self) -> bool:
        """Whether an answer will still be delivered."""
        return self._running

    def start(self, query: Query[T]) -> None:
        """Run this query next, instead of the current one."""
        self._next = query
        self._stop.set()
        if not self._running:
            self._running = True
            self._owner.run_worker(self._run(), group="background query")

    def cancel(self) -> None:
        """Stop the current query and drop its answer."""
        self._next = None
        self._stop.set()

    async def _run(self) -> None:
        stop = self._stop
        try:
            while self._next is not None:
                await self._wait_for_pause()
                query = self._take_next()
                if query is None:
                    return
                stop = self._stop = threading.Event()
                answer = await asyncio.to_thread(run_query, query, stop.is_set)
                if not stop.is_set() and is_alive(self._owner):
                    self._on_answer(answer)
        finally:
            stop.set()  # also when the widget was removed and this task is cancelled: the thread checks it
            self._running = False

    def _take_next(self) -> Query[T] | None:
        query, self._next = self._next, None
        return query

    async def _wait_for_pause(self) -> None:
        newest = None
        while newest is not self._next:
            newest = self._next
            await asyncio.sleep(self._pause)


def run_query(query: Query[T], stop: ShouldStop) -> T | ImiError:
    """Return the answer, or the error as a value: no error of the outside world ends the dashboard."""
    try:
        return query(stop)
    except ImiError as error:
        return error
    except Exception as error:  # noqa: BLE001  shown on the screen as a sentence
        return unexpected_error(error)


def unexpected_error(error: Exception) -> ImiError:
    """Write an exception without a sentence of its own to the log and return it as an ImiError."""
    log_error(error)
    return ImiError(f"{type(error).__name__}: {safe(str(error), 300)}", code="unexpected")
