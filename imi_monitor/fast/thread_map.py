"""A map in threads for a short process: `concurrent.futures` takes 7 ms to import and ends its threads at exit (2 ms more)."""

from __future__ import annotations

import os
from _thread import allocate_lock, start_new_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    Item = TypeVar("Item")
    Result = TypeVar("Result")


_LONGEST_STOP = 5.0  # seconds


def map_in_threads(work: Callable[[Item], Result], items: Sequence[Item], stop: Callable[[], None]) -> list[Result]:
    """Return `work` of each item, in as many threads as there are processors, of which the caller's is one.

    When one fails or the caller is interrupted, `stop` is called, which has to end the others soon; the error is raised
    after all have ended.
    """
    results: dict[int, Result] = {}
    errors: list[BaseException] = []
    numbers = iter(range(len(items)))  # each number goes to one thread

    def run() -> None:
        for number in numbers:
            if errors:
                return
            try:
                results[number] = work(items[number])
            except BaseException as error:  # noqa: BLE001  raised in the caller's thread
                errors.append(error)
                stop()

    def run_and_report(ended: LockType) -> None:
        run()
        ended.release()

    threads = []
    for _ in range(min(len(items), os.cpu_count() or 1) - 1):
        ended = allocate_lock()
        ended.acquire()
        try:
            start_new_thread(run_and_report, (ended,))
        except RuntimeError:  # the system has no thread left: the others do the work
            break
        threads.append(ended)
    try:
        run()
        _join(threads)
    except BaseException as error:  # interrupted outside of `work`
        errors.append(error)
        stop()
        _join(threads, _LONGEST_STOP)
        raise
    if errors:
        raise errors[0]
    return [results[number] for number in range(len(items))]


def _join(threads: list[LockType], seconds: float = -1) -> None:
    """Wait for the rest of the threads, each at most `seconds`; -1 is without limit."""
    while threads:
        threads[-1].acquire(timeout=seconds)
        threads.pop()
