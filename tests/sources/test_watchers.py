"""The ways of following files: nothing that happens is missed, and what may have been missed is said."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from imi_monitor.sources.files import watchfiles_watcher
from imi_monitor.sources.files.inotify_watcher import InotifyWatcher
from imi_monitor.sources.files.polling_watcher import PollingWatcher
from imi_monitor.sources.files.tiered_watcher import TieredWatcher, choose_watcher
from imi_monitor.sources.files.watcher import FileEvent, FileWatcher, WatchPlan, WatchRoot, plan_watches
from imi_monitor.sources.files.watchfiles_watcher import WatchfilesWatcher

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="compares with Linux's inotify")
MAKERS: dict[str, Callable[[], FileWatcher]] = {
    "inotify": InotifyWatcher,
    "watchfiles": WatchfilesWatcher,
    "polling": lambda: PollingWatcher(shortest=0.05),
    "tiers": lambda: TieredWatcher(InotifyWatcher()),
}


class Ear:
    """A sink that remembers."""

    def __init__(self) -> None:
        self.paths: set[str] = set()
        self.seen: list[FileEvent] = []
        self.losses: list[tuple[str | None, str]] = []
        self.missing: list[tuple[str, str]] = []
        self.doubts = 0
        self.modes: dict[str, tuple[str, str | None]] = {}

    def touched(self, root: str, batch: Sequence[FileEvent]) -> None:
        self.seen.extend(batch)
        self.paths.update(event.path for event in batch)

    def lost(self, root: str | None, why: str) -> None:
        self.losses.append((root, why))

    def doubt(self) -> None:
        self.doubts += 1

    def gone(self, root: str, folder: str) -> None:
        self.missing.append((root, folder))

    def mode(self, root: str, how: str, why: str | None) -> None:
        self.modes[root] = (how, why)

    async def until(self, true: Callable[[], object], seconds: float = 8) -> None:
        try:
            async with asyncio.timeout(seconds):
                while not true():
                    await asyncio.sleep(0.01)
        except TimeoutError:
            pytest.fail(f"did not happen: {len(self.seen)} events, {self.losses}, {self.modes}")


def following(
    make: Callable[[], FileWatcher], root: WatchRoot, play: Callable[[FileWatcher, Ear], Awaitable[None]]
) -> Ear:
    ear = Ear()

    async def main() -> None:
        events = make()
        await events.start(ear)
        try:
            await events.add(root)
            if not isinstance(events, PollingWatcher):
                await ear.until(lambda: ear.modes.get(root.name, ("",))[0] == "live")
            else:
                await asyncio.sleep(0.3)
            await play(events, ear)
        finally:
            await events.close()

    asyncio.run(main())
    return ear


@pytest.mark.parametrize("name", MAKERS)
def test_writes_deletions_and_new_files(name: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "old").write_text("x")

    async def play(_: FileWatcher, ear: Ear) -> None:
        (root / "sub" / "old").write_text("longer than before")
        (root / "new").write_text("x")
        await ear.until(lambda: {str(root / "sub" / "old"), str(root / "new")} <= ear.paths)
        ear.seen.clear()
        (root / "sub" / "old").unlink()
        await ear.until(lambda: any(e.kind == "deleted" and e.path.endswith("old") for e in ear.seen))

    following(MAKERS[name], WatchRoot("r", (str(root),), deep=True), play)


@pytest.mark.parametrize("name", ["inotify", "watchfiles"])
def test_folders_filled_at_once_lose_nothing(name: str, tmp_path: Path) -> None:  # W1
    root = tmp_path / "root"
    root.mkdir()
    wanted = {str(root / f"n{i}" / "a" / "b" / f"f{k}") for i in range(40) for k in range(5)}

    async def play(_: FileWatcher, ear: Ear) -> None:
        script = (
            "import os,sys\nfor p in sys.stdin.read().split():\n"
            " os.makedirs(os.path.dirname(p), exist_ok=True); open(p,'w').close()\n"
        )
        writer = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdin=asyncio.subprocess.PIPE)
        await writer.communicate("\n".join(sorted(wanted)).encode())
        await ear.until(lambda: wanted <= ear.paths)
        for path in sorted(wanted)[::20]:
            ear.paths.discard(path)
            Path(path).write_text("later")
        await ear.until(lambda: wanted <= ear.paths)

    following(MAKERS[name], WatchRoot("r", (str(root),), deep=True), play)


@pytest.mark.parametrize("name", ["inotify", "watchfiles"])
def test_pruned_folders_are_not_followed(name: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "node_modules" / "x").mkdir(parents=True)
    (root / "src").mkdir()

    async def play(_: FileWatcher, ear: Ear) -> None:
        (root / "node_modules" / "x" / "f").write_text("x")
        (root / "later").mkdir()
        (root / "src" / "f").write_text("x")
        await ear.until(lambda: str(root / "src" / "f") in ear.paths)
        await asyncio.sleep(0.2)
        assert not {path for path in ear.paths if "node_modules" in path}

    descend = lambda path: "node_modules" not in path  # noqa: E731
    following(MAKERS[name], WatchRoot("r", (str(root),), deep=True, descend=descend), play)


@pytest.mark.parametrize("name", ["inotify", "watchfiles", "tiers"])
def test_one_folder_that_goes_takes_nothing_of_the_others(name: str, tmp_path: Path) -> None:
    """The git folders of a repository's worktrees are one root: each removal of a worktree takes one away."""
    kept, gone, later = tmp_path / "kept", tmp_path / "gone", tmp_path / "later"
    kept.mkdir()
    gone.mkdir()

    async def play(events: FileWatcher, ear: Ear) -> None:
        shutil.rmtree(gone)
        await ear.until(lambda: ("r", str(gone)) in ear.missing)
        (kept / "first").touch()
        later.mkdir()
        ear.modes.clear()
        await events.add(WatchRoot("r", (str(kept), str(later))))
        (kept / "second").touch()
        await ear.until(lambda: {str(kept / "first"), str(kept / "second")} <= ear.paths)
        await ear.until(lambda: ear.modes.get("r", ("",))[0] == "live")
        (later / "third").touch()
        await ear.until(lambda: str(later / "third") in ear.paths)

    following(MAKERS[name], WatchRoot("r", (str(kept), str(gone))), play)


def test_watchfiles_is_doubted_after_it_told_something(tmp_path: Path) -> None:
    async def play(_: FileWatcher, ear: Ear) -> None:
        doubts = ear.doubts
        (tmp_path / "file").touch()
        await ear.until(lambda: ear.doubts > doubts)
        doubts = ear.doubts
        await asyncio.sleep(1.0)
        assert ear.doubts == doubts, "nothing happened, so nothing is doubted"

    following(WatchfilesWatcher, WatchRoot("r", (str(tmp_path),), deep=True), play)


def test_what_is_polled_is_looked_at_when_the_first_picture_of_it_was_taken(tmp_path: Path) -> None:
    async def play(_: FileWatcher, ear: Ear) -> None:
        await ear.until(lambda: ear.losses == [("r", "it is polled from now on")])
        (tmp_path / "file").touch()
        await ear.until(lambda: str(tmp_path / "file") in ear.paths)
        assert len(ear.losses) == 1

    following(MAKERS["polling"], WatchRoot("r", (str(tmp_path),), deep=True), play)


@pytest.mark.parametrize("name", ["inotify", "watchfiles"])
def test_a_root_that_goes_is_told(name: str, tmp_path: Path) -> None:  # W1
    root = tmp_path / "root"
    root.mkdir()

    async def play(_: FileWatcher, ear: Ear) -> None:
        shutil.rmtree(root)
        await ear.until(lambda: ("r", str(root)) in ear.missing)

    following(MAKERS[name], WatchRoot("r", (str(root),), deep=True), play)


def test_a_queue_that_overflows_is_told(tmp_path: Path) -> None:  # W1
    root = tmp_path / "root"
    root.mkdir()
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())

    async def play(_: FileWatcher, ear: Ear) -> None:
        # the loop does not come round while more happens than the kernel keeps
        for number in range(most // 2 + 1000):
            (root / f"{number}").touch()
        await ear.until(lambda: ear.losses)
        (root / "afterwards").touch()
        await ear.until(lambda: str(root / "afterwards") in ear.paths)

    following(InotifyWatcher, WatchRoot("r", (str(root),), deep=True), play)


def test_being_stopped_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from imi_monitor import host
    from imi_monitor.sources import timers

    monkeypatch.setattr(timers, "_EVERY", 0.05)
    ahead = 0.0
    real = host.uptime
    monkeypatch.setattr(host, "uptime", lambda: real() + ahead)

    async def play(_: FileWatcher, ear: Ear) -> None:
        nonlocal ahead
        await asyncio.sleep(0.2)
        assert not ear.losses
        ahead = 60.0  # suspended for a minute
        await ear.until(lambda: any("did not run" in why for _, why in ear.losses))

    following(InotifyWatcher, WatchRoot("r", (str(tmp_path),)), play)


def test_more_folders_than_allowed_are_polled_and_said_so(tmp_path: Path) -> None:
    for name in ("a", "b"):
        for number in range(12):
            (tmp_path / name / f"d{number}").mkdir(parents=True)
    ear = Ear()

    async def main() -> None:
        tiers = TieredWatcher(InotifyWatcher(), PollingWatcher(shortest=0.05), limit=40)  # 20 of them are ours
        await tiers.start(ear)
        for name in ("a", "b"):
            await tiers.add(WatchRoot(name, (str(tmp_path / name),), deep=True))
        assert ear.modes["a"] == ("live", None)
        assert ear.modes["b"][0] == "polling" and "more folders" in (ear.modes["b"][1] or "")
        await asyncio.sleep(0.3)
        (tmp_path / "b" / "d1" / "f").write_text("x")
        await ear.until(lambda: str(tmp_path / "b" / "d1" / "f") in ear.paths)
        await ear.until(lambda: ear.modes["b"][0] == "live" and ear.modes["a"][0] == "polling")
        await tiers.close()

    asyncio.run(main())


def test_the_kernels_limit_is_said_and_the_root_polled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # W1
    for number in range(30):
        (tmp_path / "r" / f"d{number}").mkdir(parents=True)
    ear = Ear()

    async def main() -> None:
        live = InotifyWatcher()
        real, used = live._queue.add_watch, 0

        def limited(path: str, mask: int) -> int:
            nonlocal used
            used += 1
            if used > 10:
                raise OSError(errno.ENOSPC, "no watches left")
            return int(real(path, mask))

        monkeypatch.setattr(live._queue, "add_watch", limited, raising=False)
        tiers = TieredWatcher(live, PollingWatcher(shortest=0.05))
        await tiers.start(ear)
        await tiers.add(WatchRoot("r", (str(tmp_path / "r"),), deep=True))
        await ear.until(lambda: ear.modes.get("r", ("",))[0] == "polling")
        await asyncio.sleep(0.3)
        (tmp_path / "r" / "d29" / "f").write_text("x")
        await ear.until(lambda: str(tmp_path / "r" / "d29" / "f") in ear.paths)
        await tiers.close()

    asyncio.run(main())


def test_a_name_that_is_no_text_does_not_blind_watchfiles(tmp_path: Path) -> None:
    async def play(_: FileWatcher, ear: Ear) -> None:
        with open(os.path.join(os.fsencode(tmp_path), b"caf\xe9"), "w"):
            pass
        await asyncio.sleep(0.5)
        (tmp_path / "afterwards").write_text("x")
        await ear.until(lambda: str(tmp_path / "afterwards") in ear.paths)

    following(WatchfilesWatcher, WatchRoot("r", (str(tmp_path),), deep=True), play)


def test_a_watcher_that_dies_comes_back(tmp_path: Path) -> None:
    async def play(events: FileWatcher, ear: Ear) -> None:
        assert isinstance(events, WatchfilesWatcher) and events._process is not None
        events._process.kill()
        await ear.until(lambda: ear.losses)
        await ear.until(lambda: ear.modes["r"][0] == "live")
        (tmp_path / "afterwards").write_text("x")
        await ear.until(lambda: str(tmp_path / "afterwards") in ear.paths)

    following(WatchfilesWatcher, WatchRoot("r", (str(tmp_path),), deep=True), play)


def test_nothing_is_left_behind(tmp_path: Path) -> None:  # W2
    for number in range(20):
        (tmp_path / "r" / f"d{number}").mkdir(parents=True)

    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    async def once(make: Callable[[], FileWatcher]) -> None:
        events = make()
        await events.start(Ear())
        for turn in range(5):
            await events.add(WatchRoot(f"r{turn % 2}", (str(tmp_path / "r"),), deep=True))
            events.remove(f"r{turn % 2}")
        await events.close()

    for make in (InotifyWatcher, WatchfilesWatcher, MAKERS["tiers"]):
        asyncio.run(once(make))
    before = descriptors()
    for make in (InotifyWatcher, WatchfilesWatcher, MAKERS["tiers"]):
        asyncio.run(once(make))
    time.sleep(0.1)
    assert descriptors() <= before + 2


def test_what_is_followed_as_a_whole(tmp_path: Path) -> None:
    base = tmp_path / "r"
    for name in ("src/a/b", "node_modules/x", "docs", "lib/deep/node_modules", "lib/deep/own", "lib/other"):
        (base / name).mkdir(parents=True)
    root = WatchRoot("r", (str(base),), deep=True, descend=lambda path: not path.endswith("node_modules"))
    found = plan_watches(root, 9)
    assert found is not None and found.folders == 9
    assert {os.path.relpath(path, base) for path in found.deep} == {"docs", "src", "lib/other", "lib/deep/own"}
    assert {os.path.relpath(path, base) for path in found.flat} == {".", "lib", "lib/deep"}
    assert plan_watches(root, 8) is None, "it has more than that"
    assert plan_watches(WatchRoot("r", (str(base / "docs"), str(base / "gone"))), 9) == WatchPlan(
        [], [str(base / "docs")], 2
    )


def test_folders_below_a_thousand_others_are_walked(tmp_path: Path) -> None:
    base = path = str(tmp_path / "base")
    os.mkdir(base)
    for _ in range(1200):
        path += "/d"
        os.mkdir(path)
    try:
        found = plan_watches(WatchRoot("r", (base,), deep=True, descend=lambda one: one != path), 5000)
        assert found is not None and (found.folders, found.deep, len(found.flat)) == (1200, [], 1200)
    finally:
        subprocess.run(["rm", "-rf", base], check=True)  # Python's own way of deleting recurses


def test_a_folder_that_appears_while_watchfiles_is_being_started_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a pruned one, where its parent is followed alone."""
    monkeypatch.setattr(watchfiles_watcher, "_GATHER", 0.3)
    (tmp_path / "node_modules").mkdir()
    root = WatchRoot("r", (str(tmp_path),), deep=True, descend=lambda path: not path.endswith("node_modules"))
    early, late = tmp_path / "new" / "below" / "early", tmp_path / "new" / "below" / "late"

    class Slow(WatchfilesWatcher):
        async def add(self, root: WatchRoot) -> None:
            await super().add(root)
            early.parent.mkdir(parents=True)
            early.write_text("x")

    async def play(_: FileWatcher, ear: Ear) -> None:
        await ear.until(lambda: str(early) in ear.paths)
        await asyncio.sleep(1.2)  # until nothing lists the folder any more because it is new
        late.write_text("x")
        await ear.until(lambda: str(late) in ear.paths)

    following(Slow, root, play)


def test_roots_that_are_added_one_after_the_other_are_sent_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each addition builds watchers, which cost as much each time as all before them when they are merged."""
    sent: list[str] = []

    class Told(WatchfilesWatcher):
        def _send(self, message: tuple[object, ...]) -> None:
            sent.append(str(message[0]))
            super()._send(message)

    async def play(events: FileWatcher, ear: Ear) -> None:
        assert isinstance(events, Told)
        monkeypatch.setattr(watchfiles_watcher, "_GATHER", 3600.0)  # from here on the test says when it is over
        sent.clear()
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            await events.add(WatchRoot(name, (str(tmp_path / name),)))
        events._send_pending()
        assert not sent, "while one comes after the other, there may be more"
        events._send_pending()
        await ear.until(lambda: ear.modes["a"][0] == ear.modes["b"][0] == "live")
        monkeypatch.setattr(watchfiles_watcher, "_MOST_GATHERED", 0.0)
        for name in ("c", "d"):
            (tmp_path / name).mkdir()
            await events.add(WatchRoot(name, (str(tmp_path / name),)))
        events._send_pending()  # but it does not go on for ever
        await ear.until(lambda: ear.modes["c"][0] == ear.modes["d"][0] == "live")
        assert sent == ["add", "add"]

    following(Told, WatchRoot("first", (str(tmp_path),)), play)


def test_the_back_end_is_chosen_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from imi_monitor.model.errors import UsageError

    assert choose_watcher("polling").name == "polling"
    monkeypatch.setenv("IMI_WATCHER", "telepathy")
    with pytest.raises(UsageError, match="IMI_WATCHER must be one of"):
        choose_watcher()


@pytest.mark.parametrize("name", ["inotify", "watchfiles", "tiers", "tiers of watchfiles"])
def test_a_root_told_anew_is_followed_without_a_gap(name: str, tmp_path: Path) -> None:
    """As git's folders are, whenever a worktree comes or goes."""
    makers = {**MAKERS, "tiers of watchfiles": lambda: TieredWatcher(WatchfilesWatcher())}
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    written: set[str] = set()

    async def write() -> None:
        for number in range(150):
            path = first / f"file{number}"
            path.write_text("x")
            written.add(str(path))
            await asyncio.sleep(0.002)

    async def play(back_end: FileWatcher, ear: Ear) -> None:
        writing = asyncio.create_task(write())
        turn = 0
        while not writing.done():
            turn += 1
            both = (str(first), str(second)) if turn % 2 else (str(first),)
            await back_end.add(WatchRoot("root", both))
            await asyncio.sleep(0.001)
        await back_end.add(WatchRoot("root", (str(first), str(second))))
        await ear.until(lambda: ear.modes.get("root", ("", None))[0] == "live")
        await asyncio.sleep(0.2)
        (second / "late").write_text("x")
        await ear.until(lambda: str(second / "late") in ear.paths)
        await ear.until(lambda: ear.paths >= written)

    following(makers[name], WatchRoot("root", (str(first),)), play)
