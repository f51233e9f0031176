"""The child process of the watchfiles watcher: replacing its watchers loses no event, and the old ones are closed."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from imi_monitor.sources.files.watchfiles_process import FolderWatcher, WatchfilesProcess
from tests.limits import LIMIT


class Messages:
    """What a WatchfilesProcess sends to its parent."""

    def __init__(self) -> None:
        self.all: list[tuple[Any, ...]] = []
        self.process = WatchfilesProcess(self.all.append)

    @property
    def paths(self) -> set[str]:
        return {path for message in self.all if message[0] == "events" for _, path in message[1]}


@pytest.fixture
def messages() -> Iterator[Messages]:
    made = Messages()
    yield made
    made.process.close()


def until(true: Callable[[], object], seconds: float = LIMIT) -> bool:
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.01)
    return bool(true())


@pytest.mark.parametrize("wait", [0.0, 0.004, 0.012])
def test_events_just_before_a_rebuild_are_delivered(messages: Messages, tmp_path: Path, wait: float) -> None:
    process = messages.process
    threading.Thread(target=process.poll_forever, daemon=True).start()
    process.add({"root": ([str(tmp_path)], [])})
    written = set()
    for number in range(20):
        path = tmp_path / f"file{number}"
        path.write_text("x")
        written.add(str(path))
        time.sleep(wait)
        process.rebuild()
    assert until(lambda: messages.paths >= written), f"lost: {sorted(written - messages.paths)}"
    assert until(lambda: process.watchers == (1, 0)), "the old watchers are closed"


def test_each_event_is_taken_once_and_taking_does_not_block(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    watcher = FolderWatcher([str(tmp_path)], True)
    found: set[tuple[int, str]] = set()

    def take(path: Path) -> bool:
        found.update(watcher.take_events())
        return (1, str(path)) in found

    try:
        assert watcher.take_events() == set()
        for number in range(20):
            path = tmp_path / f"file{number}"
            path.touch()
            assert until(lambda: take(path))  # noqa: B023
            time.sleep(0.01)
            watcher.take_events()
            assert [watcher.take_events() for _ in range(50)] == [set()] * 50
    finally:
        watcher.close()


def test_a_broken_watcher_is_reported_once_and_closed(messages: Messages, tmp_path: Path) -> None:
    process = messages.process
    process.add({"root": ([str(tmp_path)], [])})
    with open(os.path.join(os.fsencode(tmp_path), b"caf\xe9"), "w"):
        pass
    assert until(lambda: process.poll() or process.watchers == (0, 0))
    process.poll()
    assert [message[0] for message in messages.all] == ["ready", "broken"]
    process.rebuild()
    (tmp_path / "afterwards").touch()
    assert until(lambda: process.poll() or messages.all[-1] == ("events", [(1, str(tmp_path / "afterwards"))]))


def test_more_events_than_the_kernel_keeps_are_reported_as_a_loss(messages: Messages, tmp_path: Path) -> None:
    messages.process.add({"root": ([str(tmp_path)], [])})

    def overflows() -> bool:
        for number in range(40):
            (tmp_path / f"{number}").write_text("x")
        time.sleep(0.02)
        messages.process.poll(most=10)
        return ("lost", "the kernel's event queue may have been full") in messages.all

    assert until(overflows)
