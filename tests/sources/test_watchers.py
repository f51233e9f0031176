"""Every file watcher delivers all events, and reports what it may have missed."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from imi_monitor import host
from imi_monitor.sources.files.inotify_watcher import InotifyWatcher
from imi_monitor.sources.files.poll_watcher import PollWatcher
from imi_monitor.sources.files.tiered_watcher import TieredWatcher, choose_watcher
from imi_monitor.sources.files.watcher import (
    NO_INSTANCE,
    NO_WATCHES,
    FileEvent,
    FileWatcher,
    WatchPlan,
    WatchRoot,
    WatchSink,
    plan_watches,
)
from imi_monitor.sources.files.watchfiles_watcher import WatchfilesWatcher
from imi_monitor.sources.timers import StallDetector
from tests.helpers import wait_for
from tests.limits import LIMIT
from tests.sources.source_kit import until

INotify = pytest.importorskip("inotify_simple").INotify
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="compares with Linux's inotify")
MAKERS: dict[str, Callable[[], FileWatcher]] = {
    "inotify": InotifyWatcher,
    "watchfiles": WatchfilesWatcher,
    "polling": lambda: PollWatcher(shortest=0.05),
    "tiers": lambda: TieredWatcher(InotifyWatcher()),
}


class Recorder:
    """Keeps what the sinks of all roots receive."""

    def __init__(self) -> None:
        self.paths: set[str] = set()
        self.events: list[FileEvent] = []
        self.losses: list[tuple[str, str]] = []
        self.missing: list[tuple[str, str]] = []
        self.uncertain = 0
        self.modes: dict[str, tuple[str, str | None]] = {}

    def root(
        self, name: str, *folders: Path, deep: bool = False, descend: Callable[[str], bool] = lambda _path: True
    ) -> WatchRoot:
        return WatchRoot(name, tuple(map(str, folders)), RecorderSink(self, name), deep, descend)

    def is_live(self, name: str) -> bool:
        return self.modes.get(name) == ("live", None)

    async def until(self, true: Callable[[], object], seconds: float = LIMIT) -> None:
        try:
            await until(true, seconds)
        except TimeoutError:
            pytest.fail(f"did not happen: {len(self.events)} events, {self.losses}, {self.modes}")

    async def until_polled(self, name: str) -> None:
        """Wait until the files of the root were listed once."""
        await self.until(lambda: (name, "polling begins") in self.losses)


class RecorderSink(WatchSink):
    def __init__(self, recorder: Recorder, name: str) -> None:
        self._recorder, self._name = recorder, name

    def events(self, batch: Sequence[FileEvent]) -> None:
        self._recorder.events.extend(batch)
        self._recorder.paths.update(event.path for event in batch)

    def lost(self, why: str) -> None:
        self._recorder.losses.append((self._name, why))

    def uncertain(self) -> None:
        self._recorder.uncertain += 1

    def gone(self, folder: str) -> None:
        self._recorder.missing.append((self._name, folder))

    def mode_changed(self, mode: str, why: str | None) -> None:
        self._recorder.modes[self._name] = (mode, why)


MakeRoot = Callable[[Recorder], WatchRoot]
Play = Callable[[FileWatcher, Recorder], Awaitable[None]]


def run_watcher(make: Callable[[], FileWatcher], make_root: MakeRoot, play: Play) -> None:
    """Watch one root, and play when the watch is live."""

    async def main() -> None:
        watcher, recorder = make(), Recorder()
        root = make_root(recorder)
        await watcher.start()
        try:
            await watcher.add(root)
            if isinstance(watcher, PollWatcher):
                await recorder.until_polled(root.name)
            else:
                await recorder.until(lambda: recorder.is_live(root.name))
            await play(watcher, recorder)
        finally:
            await watcher.close()

    asyncio.run(main())


@pytest.mark.parametrize("name", MAKERS)
def test_writes_deletions_and_new_files(name: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "old").write_text("x")

    async def play(_: FileWatcher, recorder: Recorder) -> None:
        (root / "sub" / "old").write_text("longer than before")
        (root / "new").write_text("x")
        await recorder.until(lambda: {str(root / "sub" / "old"), str(root / "new")} <= recorder.paths)
        recorder.events.clear()
        (root / "sub" / "old").unlink()
        await recorder.until(lambda: any(e.kind == "deleted" and e.path.endswith("old") for e in recorder.events))

    run_watcher(MAKERS[name], lambda recorder: recorder.root("r", root, deep=True), play)


@pytest.mark.parametrize("name", ["inotify", "watchfiles"])
def test_no_file_is_missed_in_folders_that_are_made_and_filled_at_once(name: str, tmp_path: Path) -> None:  # W1
    root = tmp_path / "root"
    root.mkdir()
    wanted = {str(root / f"n{i}" / "a" / "b" / f"f{k}") for i in range(40) for k in range(5)}

    async def play(_: FileWatcher, recorder: Recorder) -> None:
        script = (
            "import os,sys\nfor p in sys.stdin.read().split():\n"
            " os.makedirs(os.path.dirname(p), exist_ok=True); open(p,'w').close()\n"
        )
        writer = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdin=asyncio.subprocess.PIPE)
        await asyncio.wait_for(writer.communicate("\n".join(sorted(wanted)).encode()), LIMIT)
        await recorder.until(lambda: wanted <= recorder.paths)
        for path in sorted(wanted)[::20]:
            recorder.paths.discard(path)
            Path(path).write_text("later")
        await recorder.until(lambda: wanted <= recorder.paths)

    run_watcher(MAKERS[name], lambda recorder: recorder.root("r", root, deep=True), play)


@pytest.mark.parametrize("name", ["inotify", "watchfiles"])
def test_pruned_folders_are_not_watched(name: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "node_modules" / "x").mkdir(parents=True)
    (root / "src").mkdir()

    async def play(_: FileWatcher, recorder: Recorder) -> None:
        (root / "node_modules" / "x" / "f").write_text("x")
        (root / "later").mkdir()
        for name in ("f", "g"):
            (root / "src" / name).write_text("x")
            await recorder.until(lambda: str(root / "src" / name) in recorder.paths)  # noqa: B023
        assert not {path for path in recorder.paths if "node_modules" in path}

    descend = lambda path: "node_modules" not in path  # noqa: E731
    run_watcher(MAKERS[name], lambda recorder: recorder.root("r", root, deep=True, descend=descend), play)


@pytest.mark.parametrize("name", ["inotify", "watchfiles", "tiers"])
def test_a_folder_that_goes_does_not_end_the_watches_of_the_root(name: str, tmp_path: Path) -> None:
    """The git directories of a repository's worktrees are one root; removing a worktree removes one of them."""
    kept, gone, later = tmp_path / "kept", tmp_path / "gone", tmp_path / "later"
    kept.mkdir()
    gone.mkdir()

    async def play(events: FileWatcher, recorder: Recorder) -> None:
        shutil.rmtree(gone)
        await recorder.until(lambda: ("r", str(gone)) in recorder.missing)
        (kept / "first").touch()
        later.mkdir()
        recorder.modes.clear()
        await events.add(recorder.root("r", kept, later))
        (kept / "second").touch()
        await recorder.until(lambda: {str(kept / "first"), str(kept / "second")} <= recorder.paths)
        await recorder.until(lambda: recorder.modes.get("r", ("",))[0] == "live")
        (later / "third").touch()
        await recorder.until(lambda: str(later / "third") in recorder.paths)

    run_watcher(MAKERS[name], lambda recorder: recorder.root("r", kept, gone), play)


def test_watchfiles_reports_possible_losses_after_events(tmp_path: Path) -> None:
    async def play(_: FileWatcher, recorder: Recorder) -> None:
        doubts = recorder.uncertain
        (tmp_path / "file").touch()
        await recorder.until(lambda: recorder.uncertain > doubts)
        doubts = recorder.uncertain
        await asyncio.sleep(1.0)
        assert recorder.uncertain == doubts, "nothing happened"

    run_watcher(WatchfilesWatcher, lambda recorder: recorder.root("r", tmp_path, deep=True), play)


def test_the_first_poll_of_a_root_is_reported_as_a_loss(tmp_path: Path) -> None:
    async def play(_: FileWatcher, recorder: Recorder) -> None:
        await recorder.until(lambda: recorder.losses == [("r", "polling begins")])
        (tmp_path / "file").touch()
        await recorder.until(lambda: str(tmp_path / "file") in recorder.paths)
        assert len(recorder.losses) == 1

    run_watcher(MAKERS["polling"], lambda recorder: recorder.root("r", tmp_path, deep=True), play)


@pytest.mark.parametrize("name", ["inotify", "watchfiles"])
def test_a_removed_root_folder_is_reported(name: str, tmp_path: Path) -> None:  # W1
    root = tmp_path / "root"
    root.mkdir()

    async def play(_: FileWatcher, recorder: Recorder) -> None:
        shutil.rmtree(root)
        await recorder.until(lambda: ("r", str(root)) in recorder.missing)

    run_watcher(MAKERS[name], lambda recorder: recorder.root("r", root, deep=True), play)


def test_an_overflow_of_the_inotify_queue_is_reported(tmp_path: Path) -> None:  # W1
    root = tmp_path / "root"
    root.mkdir()
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())

    async def play(_: FileWatcher, recorder: Recorder) -> None:
        # the loop does not come round while more happens than the kernel keeps
        for number in range(most // 2 + 1000):
            (root / f"{number}").touch()
        await recorder.until(lambda: recorder.losses)
        (root / "afterwards").touch()
        await recorder.until(lambda: str(root / "afterwards") in recorder.paths)

    run_watcher(InotifyWatcher, lambda recorder: recorder.root("r", root, deep=True), play)


def test_events_are_reported_as_lost_after_the_machine_was_suspended(tmp_path: Path) -> None:
    suspended, asked = 0.0, 0

    def clock() -> float:
        nonlocal asked
        asked += 1
        return host.uptime() + suspended

    stall = StallDetector(clock, interval=0.05)

    async def play(_: FileWatcher, recorder: Recorder) -> None:
        nonlocal suspended
        before = asked
        await recorder.until(lambda: asked > before + 2)
        assert not recorder.losses
        suspended = 60.0
        await recorder.until(lambda: any("was paused" in why for _, why in recorder.losses))

    run_watcher(lambda: InotifyWatcher(stall), lambda recorder: recorder.root("r", tmp_path), play)


def test_roots_beyond_the_limit_are_polled_until_they_are_active(tmp_path: Path) -> None:
    for name in ("a", "b"):
        for number in range(12):
            (tmp_path / name / f"d{number}").mkdir(parents=True)
    recorder = Recorder()

    async def main() -> None:
        tiers = TieredWatcher(InotifyWatcher(), PollWatcher(shortest=0.05), limit=40)  # half of it is used
        await tiers.start()
        for name in ("a", "b"):
            await tiers.add(recorder.root(name, tmp_path / name, deep=True))
        assert recorder.modes["a"] == ("live", None)
        assert recorder.modes["b"][0] == "polling" and "limit of watches" in (recorder.modes["b"][1] or "")
        await recorder.until_polled("b")
        (tmp_path / "b" / "d1" / "f").write_text("x")
        await recorder.until(lambda: str(tmp_path / "b" / "d1" / "f") in recorder.paths)
        await recorder.until(lambda: recorder.modes["b"][0] == "live" and recorder.modes["a"][0] == "polling")
        tiers.remove("b")
        for _ in range(3):  # each watch counts once, however often its root is added
            await tiers.add(recorder.root("a", tmp_path / "a", deep=True))
            assert recorder.modes["a"] == ("live", None)
        await tiers.add(recorder.root("b", tmp_path / "b", deep=True))
        assert recorder.modes["b"][0] == "polling"
        tiers.remove("a")
        await tiers.add(recorder.root("b", tmp_path / "b", deep=True))
        assert recorder.modes["b"] == ("live", None)
        await tiers.close()

    asyncio.run(main())


class LimitedQueue(INotify):  # type: ignore[misc]
    """An inotify instance of a user who has ten watches left."""

    def __init__(self) -> None:
        super().__init__(nonblocking=True)
        self.used = 0

    def add_watch(self, path: str, mask: int) -> int:
        self.used += 1
        if self.used > 10:
            raise OSError(errno.ENOSPC, "no watches left")
        return int(super().add_watch(path, mask))


def test_a_root_is_polled_when_the_kernels_limit_is_reached_early(tmp_path: Path) -> None:  # W1
    for number in range(30):
        (tmp_path / "r" / f"d{number}").mkdir(parents=True)
    recorder = Recorder()

    async def main() -> None:
        tiers = TieredWatcher(InotifyWatcher(queue=LimitedQueue()), PollWatcher(shortest=0.05))
        await tiers.start()
        await tiers.add(recorder.root("r", tmp_path / "r", deep=True))
        await recorder.until(lambda: recorder.modes.get("r", ("",))[0] == "polling")
        await recorder.until_polled("r")
        (tmp_path / "r" / "d29" / "f").write_text("x")
        await recorder.until(lambda: str(tmp_path / "r" / "d29" / "f") in recorder.paths)
        await tiers.close()

    asyncio.run(main())


def test_a_refusal_of_the_kernel_is_remembered(tmp_path: Path) -> None:
    """Else each change of a polled root would cost an attempt to watch it."""
    for number in range(30):
        (tmp_path / "r" / f"d{number}").mkdir(parents=True)
    recorder, queue = Recorder(), LimitedQueue()

    async def main() -> None:
        tiers = TieredWatcher(InotifyWatcher(queue=queue), PollWatcher(shortest=0.05))
        await tiers.start()
        await tiers.add(recorder.root("r", tmp_path / "r", deep=True))
        await recorder.until(lambda: recorder.modes.get("r", ("",))[0] == "polling")
        attempts = queue.used
        await recorder.until_polled("r")
        for number in range(3):
            (tmp_path / "r" / "d29" / f"f{number}").write_text("x")
            await recorder.until(lambda: str(tmp_path / "r" / "d29" / f"f{number}") in recorder.paths)  # noqa: B023
        assert (queue.used, recorder.modes["r"]) == (attempts, ("polling", NO_WATCHES))
        await tiers.close()

    asyncio.run(main())


def test_polling_is_reported_with_its_reason(tmp_path: Path) -> None:
    recorder = Recorder()

    async def main() -> None:
        for watcher, why in (
            (PollWatcher(NO_INSTANCE), NO_INSTANCE),
            (choose_watcher("polling"), "IMI_WATCHER=polling"),
        ):
            await watcher.start()
            await watcher.add(recorder.root("r", tmp_path))
            assert recorder.modes == {"r": ("polling", why)}
            await watcher.close()

    asyncio.run(main())


def test_roots_are_polled_while_the_watcher_process_cannot_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder()
    monkeypatch.setattr(sys, "executable", "/no/python")

    async def main() -> None:
        tiers = TieredWatcher(WatchfilesWatcher(), PollWatcher(shortest=0.05))
        await tiers.start()
        await tiers.add(recorder.root("r", tmp_path, deep=True))
        await recorder.until(lambda: recorder.modes["r"][0] == "polling")
        assert "cannot be started" in (recorder.modes["r"][1] or "")
        await recorder.until_polled("r")
        (tmp_path / "f").write_text("x")
        await recorder.until(lambda: str(tmp_path / "f") in recorder.paths)
        await tiers.close()

    asyncio.run(main())


def test_watchfiles_survives_a_file_name_that_is_not_utf_8(tmp_path: Path) -> None:
    async def play(_: FileWatcher, recorder: Recorder) -> None:
        with open(os.path.join(os.fsencode(tmp_path), b"caf\xe9"), "w"):
            pass
        await asyncio.sleep(0.5)
        (tmp_path / "afterwards").write_text("x")
        await recorder.until(lambda: str(tmp_path / "afterwards") in recorder.paths)

    run_watcher(WatchfilesWatcher, lambda recorder: recorder.root("r", tmp_path, deep=True), play)


def test_watchfiles_restarts_its_process_and_reports_a_loss(tmp_path: Path) -> None:
    async def play(events: FileWatcher, recorder: Recorder) -> None:
        assert isinstance(events, WatchfilesWatcher) and events.pid is not None
        os.kill(events.pid, signal.SIGKILL)
        await recorder.until(lambda: recorder.losses)
        await recorder.until(lambda: recorder.modes["r"][0] == "live")
        (tmp_path / "afterwards").write_text("x")
        await recorder.until(lambda: str(tmp_path / "afterwards") in recorder.paths)

    run_watcher(WatchfilesWatcher, lambda recorder: recorder.root("r", tmp_path, deep=True), play)


def test_closed_watchers_leave_no_file_descriptors(tmp_path: Path) -> None:  # W2
    for number in range(20):
        (tmp_path / "r" / f"d{number}").mkdir(parents=True)

    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    async def once(make: Callable[[], FileWatcher]) -> None:
        events = make()
        await events.start()
        for turn in range(5):
            await events.add(Recorder().root(f"r{turn % 2}", tmp_path / "r", deep=True))
            events.remove(f"r{turn % 2}")
        await events.close()

    for make in (InotifyWatcher, WatchfilesWatcher, MAKERS["tiers"]):
        asyncio.run(once(make))
    before = descriptors()
    for make in (InotifyWatcher, WatchfilesWatcher, MAKERS["tiers"]):
        asyncio.run(once(make))
    wait_for(lambda: descriptors() <= before + 2)


def test_a_plan_watches_unpruned_folders_recursively(tmp_path: Path) -> None:
    base = tmp_path / "r"
    for name in ("src/a/b", "node_modules/x", "docs", "lib/deep/node_modules", "lib/deep/own", "lib/other"):
        (base / name).mkdir(parents=True)
    root = Recorder().root("r", base, deep=True, descend=lambda path: not path.endswith("node_modules"))
    found = plan_watches(root, 9)
    assert found is not None and found.folders == 9
    assert {os.path.relpath(path, base) for path in found.deep} == {"docs", "src", "lib/other", "lib/deep/own"}
    assert {os.path.relpath(path, base) for path in found.flat} == {".", "lib", "lib/deep"}
    assert plan_watches(root, 8) is None, "it has more than that"
    assert plan_watches(Recorder().root("r", base / "docs", base / "gone"), 9) == WatchPlan([], [str(base / "docs")], 2)


def test_a_plan_of_deeply_nested_folders_does_not_recurse(tmp_path: Path) -> None:
    base = path = str(tmp_path / "base")
    os.mkdir(base)
    for _ in range(1200):
        path += "/d"
        os.mkdir(path)
    try:
        found = plan_watches(Recorder().root("r", base, deep=True, descend=lambda one: one != path), 5000)
        assert found is not None and (found.folders, found.deep, len(found.flat)) == (1200, [], 1200)
    finally:
        subprocess.run(["rm", "-rf", base], check=True)  # Python's own way of deleting recurses


def test_watchfiles_watches_a_folder_that_appears_during_its_start(tmp_path: Path) -> None:
    """Beside a pruned folder, where its parent is watched without subfolders."""
    (tmp_path / "node_modules").mkdir()
    early, late = tmp_path / "new" / "below" / "early", tmp_path / "new" / "below" / "late"

    class SlowStart(WatchfilesWatcher):
        async def add(self, root: WatchRoot) -> None:
            await super().add(root)
            early.parent.mkdir(parents=True)
            early.write_text("x")

    async def play(_: FileWatcher, recorder: Recorder) -> None:
        await recorder.until(lambda: str(early) in recorder.paths)
        await asyncio.sleep(1.2)  # until the folder is not listed any more because it is new
        late.write_text("x")
        await recorder.until(lambda: str(late) in recorder.paths)

    def make_root(recorder: Recorder) -> WatchRoot:
        return recorder.root("r", tmp_path, deep=True, descend=lambda path: not path.endswith("node_modules"))

    run_watcher(lambda: SlowStart(batch_pause=0.3), make_root, play)


class CountingWatcher(WatchfilesWatcher):
    """Counts the additions it sends to the child process."""

    additions = 0

    def _send(self, message: tuple[object, ...]) -> None:
        self.additions += message[0] == "add"
        super()._send(message)


def test_watchfiles_sends_roots_together_that_are_added_in_quick_succession(tmp_path: Path) -> None:
    """Each addition builds watchers, which costs as much each time as all before them when they are merged."""

    async def play(watcher: FileWatcher, recorder: Recorder) -> None:
        assert isinstance(watcher, CountingWatcher)
        before = watcher.additions
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            await watcher.add(recorder.root(name, tmp_path / name))
        await recorder.until(lambda: recorder.is_live("a") and recorder.is_live("b"))
        assert watcher.additions == before + 1

    run_watcher(lambda: CountingWatcher(batch_pause=0.5), lambda recorder: recorder.root("first", tmp_path), play)


def test_watchfiles_does_not_collect_roots_for_ever(tmp_path: Path) -> None:
    async def play(watcher: FileWatcher, recorder: Recorder) -> None:
        (tmp_path / "a").mkdir()
        await watcher.add(recorder.root("a", tmp_path / "a"))
        number = 0
        while not recorder.is_live("a"):
            (tmp_path / f"n{number}").mkdir()
            await watcher.add(recorder.root(f"n{number}", tmp_path / f"n{number}"))
            await asyncio.sleep(0.1)
            number += 1
            assert number < 100

    make = lambda: WatchfilesWatcher(batch_pause=0.3, longest_batch=0.6)  # noqa: E731
    run_watcher(make, lambda recorder: recorder.root("first", tmp_path), play)


def test_the_watcher_is_chosen_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from imi_monitor.model.errors import UsageError

    assert choose_watcher("polling").name == "polling"
    monkeypatch.setenv("IMI_WATCHER", "telepathy")
    with pytest.raises(UsageError, match="IMI_WATCHER must be one of"):
        choose_watcher()


@pytest.mark.parametrize("name", ["inotify", "watchfiles", "tiers", "tiers of watchfiles"])
def test_a_root_is_replaced_without_missing_an_event(name: str, tmp_path: Path) -> None:
    """As the git directories are, whenever a worktree is added or removed."""
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

    async def play(back_end: FileWatcher, recorder: Recorder) -> None:
        writing = asyncio.create_task(write())
        turn = 0
        while not writing.done():
            turn += 1
            folders = (first, second) if turn % 2 else (first,)
            await back_end.add(recorder.root("root", *folders))
            await asyncio.sleep(0.001)
        await back_end.add(recorder.root("root", first, second))
        await recorder.until(lambda: recorder.modes.get("root", ("", None))[0] == "live")
        (second / "late").write_text("x")
        await recorder.until(lambda: str(second / "late") in recorder.paths)
        await recorder.until(lambda: recorder.paths >= written)

    run_watcher(makers[name], lambda recorder: recorder.root("root", first), play)
