"""The watchfiles child: exchanging its watchers loses nothing, and the old ones end."""

from __future__ import annotations

import io
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from imi_monitor.sources.files import watchfiles_child


class Heard(watchfiles_child.Child):
    def __init__(self) -> None:
        super().__init__(io.BytesIO())
        self.paths: set[str] = set()

    def tell(self, message: tuple[Any, ...]) -> None:
        if message[0] == "events":
            self.paths.update(path for _, path in message[1])


def lookers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if "_look" in thread.name]


def until(true: Any, seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.01)
    return bool(true())


@pytest.mark.parametrize("wait", [0.0, 0.004, 0.012])
def test_what_was_seen_just_before_an_exchange_is_told(tmp_path: Path, wait: float) -> None:
    child = Heard()
    child.add({"root": ([str(tmp_path)], [])})
    written = []
    for number in range(20):
        path = tmp_path / f"file{number}"
        path.write_text("x")
        written.append(str(path))
        time.sleep(wait)
        child.rebuild()
    try:
        assert until(lambda: child.paths >= set(written)), f"lost: {sorted(set(written) - child.paths)}"
        assert until(lambda: len(lookers()) == 1), "the old watchers did not end"
    finally:
        for watcher in child._watchers:
            watcher.retire()
        assert until(lambda: not lookers())
