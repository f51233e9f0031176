"""The watchfiles child: exchanging its watchers loses nothing, and the old ones end."""

from __future__ import annotations

import io
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from imi_monitor.sources.files import watchfiles_process


class Heard(watchfiles_process.WatchfilesProcess):
    def __init__(self) -> None:
        super().__init__(io.BytesIO())
        self.paths: set[str] = set()

    def tell(self, message: tuple[Any, ...]) -> None:
        if message[0] == "events":
            self.paths.update(path for _, path in message[1])


def until(true: Any, seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.01)
    return bool(true())


@pytest.mark.parametrize("wait", [0.0, 0.004, 0.012])
def test_what_was_seen_just_before_an_exchange_is_told(tmp_path: Path, wait: float) -> None:
    child = Heard()
    threading.Thread(target=child.look, daemon=True).start()
    child.add({"root": ([str(tmp_path)], [])})
    written = []
    for number in range(20):
        path = tmp_path / f"file{number}"
        path.write_text("x")
        written.append(str(path))
        time.sleep(wait)
        child.rebuild()
    assert until(lambda: child.paths >= set(written)), f"lost: {sorted(set(written) - child.paths)}"
    assert until(lambda: not child._retired), "the old watchers did not end"
    assert len(child._watchers) == 1


def test_a_look_takes_what_was_seen_and_leaves_the_rest(tmp_path: Path) -> None:
    """It waits for nothing, and is told of everything once, whatever came between the looks before."""
    (tmp_path / "file").write_text("x")
    watcher = watchfiles_process.FolderWatcher([str(tmp_path)], True)
    try:
        assert watcher.seen() == set()
        for number in range(20):
            path = tmp_path / f"file{number}"
            path.touch()
            found: set[tuple[int, str]] = set()
            assert until(lambda: found.update(watcher.seen()) or (1, str(path)) in found)  # type: ignore[func-returns-value]  # noqa: B023
            time.sleep(0.01)
            watcher.seen()
            assert [watcher.seen() for _ in range(50)] == [set()] * 50
    finally:
        watcher.close()


def test_a_watcher_that_breaks_is_told_once_and_let_go(tmp_path: Path) -> None:
    child, told = Heard(), []
    child.tell = told.append  # type: ignore[method-assign]
    child.add({"root": ([str(tmp_path)], [])})
    with open(os.path.join(os.fsencode(tmp_path), b"caf\xe9"), "w"):
        pass
    assert until(lambda: child.look_once() or not child._watchers)
    child.look_once()
    assert [message[0] for message in told] == ["ready", "broken"]
    child.rebuild()
    (tmp_path / "afterwards").touch()
    assert until(lambda: child.look_once() or told[-1] == ("events", [(1, str(tmp_path / "afterwards"))]))
    for watcher in child._watchers:
        watcher.close()


def test_more_at_once_than_can_be_believed_is_told_as_a_loss(tmp_path: Path) -> None:
    child, told = Heard(), []
    child.tell = told.append  # type: ignore[method-assign]
    child.add({"root": ([str(tmp_path)], [])})

    def stormed() -> bool:
        for number in range(40):
            (tmp_path / f"{number}").write_text("x")
        time.sleep(0.02)
        child.look_once(most=10)
        return ("lost", "more happened at once than is kept") in told

    assert until(stormed)
    for watcher in child._watchers:
        watcher.close()
