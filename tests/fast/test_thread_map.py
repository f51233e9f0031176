"""The map in threads: the order of its results, and how failures and interruptions end it."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from imi_monitor.fast import thread_map
from tests.limits import LIMIT


@pytest.fixture(autouse=True)
def _four_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)


def test_results_are_in_the_order_of_the_items() -> None:
    threads = set()

    def work(number: int) -> int:
        threads.add(threading.get_ident())
        time.sleep(0.001)
        return number * 2

    assert thread_map.map_in_threads(work, range(40), lambda: None) == [number * 2 for number in range(40)]
    assert len(threads) <= 4
    assert thread_map.map_in_threads(work, [], lambda: None) == []


def test_the_items_run_at_the_same_time() -> None:
    together = threading.Barrier(4, timeout=60)
    assert sorted(thread_map.map_in_threads(lambda _: together.wait(LIMIT), range(4), together.abort)) == [0, 1, 2, 3]


def test_a_failure_stops_the_others_and_is_raised_after_they_ended() -> None:
    stopped, ended = threading.Event(), []

    def work(number: int) -> None:
        if number == 2:
            raise KeyError(number)
        if number > 4:
            raise AssertionError("a new item was begun")
        assert stopped.wait(60)
        ended.append(number)

    with pytest.raises(KeyError):
        thread_map.map_in_threads(work, range(40), stopped.set)
    assert len(ended) <= 4 and stopped.is_set()


def test_without_threads_the_caller_does_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(thread_map, "start_new_thread", refuse)
    assert thread_map.map_in_threads(str, [1, 2, 3], lambda: None) == ["1", "2", "3"]


def test_an_interrupted_caller_waits_until_the_others_were_stopped() -> None:
    begun, returns, stopped, ended = threading.Event(), threading.Event(), threading.Event(), list[int]()
    caller = threading.get_ident()

    def work(number: int) -> None:
        if threading.get_ident() == caller:
            assert begun.wait(60)
            returns.set()
            return
        begun.set()
        assert returns.wait(60)
        time.sleep(0.2)  # the caller waits for this thread by then; if not, it is interrupted in `work`
        signal.pthread_kill(caller, signal.SIGINT)
        assert stopped.wait(60)
        time.sleep(0.05)
        ended.append(number)

    with pytest.raises(KeyboardInterrupt):
        thread_map.map_in_threads(work, range(2), stopped.set)
    assert ended
