"""One back end, two listeners: each hears its own, both hear what concerns all, and it ends with the last of them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from imi_monitor.sources.files.inotify_watcher import InotifyWatcher
from imi_monitor.sources.files.shared import Shared
from imi_monitor.sources.files.watcher import WatchRoot
from tests.sources.test_watchers import Ear


def test_each_hears_its_own(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()

    async def play() -> None:
        inotify = InotifyWatcher()
        shared = Shared(inotify)
        left, right, first, second = shared.part("left"), shared.part("right"), Ear(), Ear()
        await left.start(first)
        await right.start(second)
        await left.add(WatchRoot("same name", (str(tmp_path / "a"),)))
        await right.add(WatchRoot("same name", (str(tmp_path / "b"),)))
        (tmp_path / "a" / "x").touch()
        (tmp_path / "b" / "y").touch()
        await first.until(lambda: first.paths == {str(tmp_path / "a" / "x")})
        await second.until(lambda: second.paths == {str(tmp_path / "b" / "y")})
        assert first.modes == second.modes == {"same name": ("live", None)}
        shared.lost(None, "the queue was full")
        assert first.losses == second.losses == [(None, "the queue was full")]
        await left.close()
        assert inotify.watches == 1, "what the one followed is let go"
        (tmp_path / "b" / "z").touch()
        await second.until(lambda: str(tmp_path / "b" / "z") in second.paths)
        await right.close()

    asyncio.run(play())


def test_a_root_that_is_gone_is_told_to_its_owner(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()

    async def play() -> None:
        shared = Shared(InotifyWatcher())
        left, right, first, second = shared.part("left"), shared.part("right"), Ear(), Ear()
        await left.start(first)
        await right.start(second)
        await left.add(WatchRoot("one", (str(tmp_path / "a"),)))
        (tmp_path / "a").rmdir()
        await first.until(lambda: first.missing)
        assert first.missing == [("one", str(tmp_path / "a"))]
        assert not second.missing
        await left.close()
        await right.close()

    asyncio.run(play())
