"""Questions that take time (git, disk, registry), asked in a thread: one at a time, and only the newest one waits.

Whoever asks again before there is an answer makes the running question stop as soon as it can; its answer is dropped.
When the widget goes, the question is told to stop too. What fails is an answer as well: an ImiError with a sentence.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from textual.widget import Widget

from imi_monitor.model.errors import ImiError
from imi_monitor.model.text import safe
from imi_monitor.ui.textual_internals import is_alive

T = TypeVar("T")
ShouldStop = Callable[[], bool]
Query = Callable[[ShouldStop], T]


class BackgroundQuery(Generic[T]):
    """`asked` is called on the event loop with the answer to the newest question."""

    def __init__(self, owner: Widget, answered: Callable[[T | ImiError], None], *, pause: float = 0.0) -> None:
        self._owner = owner
        self._answered = answered
        self._pause = pause
        self._next: Query[T] | None = None
        self._stop = threading.Event()
        self._running = False

    @property
    def busy(self) -> bool:
        """A question is on its way whose answer counts."""
        return self._running

    def ask(self, question: Query[T]) -> None:
        self._next = question
        self._stop.set()
        if not self._running:
            self._running = True
            self._owner.run_worker(self._work(), exit_on_error=False, group="asking")

    def drop(self) -> None:
        """Nobody wants to know any more."""
        self._next = None
        self._stop.set()

    async def _work(self) -> None:
        stop = self._stop
        try:
            while self._next is not None:
                await self._calm()
                question = self._take()
                if question is None:
                    return
                stop = self._stop = threading.Event()
                answer = await asyncio.to_thread(run_query, question, stop.is_set)
                if not stop.is_set() and is_alive(self._owner):
                    self._answered(answer)
        finally:
            stop.set()  # also when the widget is gone and this is cancelled: the thread looks at it
            self._running = False

    def _take(self) -> Query[T] | None:
        question, self._next = self._next, None
        return question

    async def _calm(self) -> None:
        """Wait until nobody has asked anew for a moment: each key typed is a new question."""
        asked = None
        while asked is not self._next:
            asked = self._next
            await asyncio.sleep(self._pause)


def run_query(question: Query[T], stop: ShouldStop) -> T | ImiError:
    """The answer, or what went wrong as a value: nothing of the outside world ends the dashboard."""
    try:
        return question(stop)
    except ImiError as error:
        return error
    except Exception as error:  # noqa: BLE001  it becomes a sentence on the screen
        return unexpected_error(error)


def unexpected_error(error: Exception) -> ImiError:
    """What nobody foresaw, as a sentence."""
    return ImiError(f"{type(error).__name__}: {safe(str(error), 300)}", code="unexpected")
