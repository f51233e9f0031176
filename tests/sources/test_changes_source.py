"""Who is followed, and what is looked at when following begins, breaks or begins anew."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from imi_monitor.model.change import Change
from imi_monitor.model.snapshot import Key
from imi_monitor.sources.changes_source import ChangesSource, Listeners
from imi_monitor.sources.files.watcher import FileEvent, WatchRoot, WatchSink
from imi_monitor.sources.source import RosterEntry


class Followed:
    """A back end that only remembers whom it follows; the test says when that begins and what happens."""

    name = "made"

    def __init__(self) -> None:
        self.roots: dict[str, WatchRoot] = {}
        self.added: list[str] = []
        self.removed: list[str] = []

    async def start(self, sink: WatchSink) -> None:
        self.sink = sink

    async def close(self) -> None:
        pass

    async def add(self, root: WatchRoot) -> None:
        self.roots[root.name] = root
        self.added.append(root.name)

    def remove(self, name: str) -> None:
        self.roots.pop(name, None)
        self.removed.append(name)


class Board:
    """As much of one as this source speaks to."""

    def __init__(self) -> None:
        self.lines: list[Change] = []

    def changes(self, changes: Sequence[Change]) -> None:
        self.lines.extend(changes)

    def watched(self, key: Key, how: str, why: str | None) -> None:
        pass

    def well(self, source: str, note: str | None = None) -> None:
        pass


Play = Callable[[ChangesSource, Followed, list[tuple[Any, ...]], Board], Awaitable[None]]


def played(tmp_path: Path, play: Play, first: Callable[[], Awaitable[None]] | None = None) -> None:
    async def main() -> None:
        told: list[tuple[Any, ...]] = []
        listeners = Listeners(
            touched=lambda key, paths: told.append(("touched", key.worktree, paths)),
            git_dir=lambda folder: told.append(("git dir", folder)),
            refs=lambda common: told.append(("refs", common)),
            glance=lambda common: told.append(("glance", common)),
            roster=lambda: told.append(("roster",)),
            registry=lambda: told.append(("registry",)),
        )  # fmt: skip
        events, board = Followed(), Board()
        source = ChangesSource(events, listeners, str(tmp_path / "state" / "registry.db"), first=first)
        running = asyncio.ensure_future(source.run(board))  # type: ignore[arg-type]
        try:
            await play(source, events, told, board)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(main())


def entry(home: Path, name: str, is_main: bool = False) -> RosterEntry:
    path, common = home / name, home / "app" / ".git"
    admin = common if is_main else common / "worktrees" / name
    path.mkdir(exist_ok=True)
    admin.mkdir(parents=True, exist_ok=True)
    return RosterEntry(
        key=Key("here", "app", name), path=str(path), admin_dir=str(admin), common_dir=str(common), type="feat",
        branch=name, head=None, is_main=is_main, missing=False, locked=None, pr=None, trusted=False,
    )  # fmt: skip


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not true():
            await asyncio.sleep(0.005)


def test_when_following_begins_everything_there_is_looked_at(tmp_path: Path) -> None:
    async def play(source: ChangesSource, events: Followed, told: list[tuple[Any, ...]], _: Board) -> None:
        common = str(tmp_path / "app" / ".git")
        source.follow((entry(tmp_path, "app", is_main=True), entry(tmp_path, "feat")))
        await until(lambda: len(events.roots) == 5)
        assert not told, "a watch that is only asked for sees nothing yet"
        for root, what in (
            ("worktree app feat", [("touched", "feat", None)]),
            (f"git {common}", [("glance", common), ("roster",)]),
            (f"refs {common}", [("refs", common)]),
            ("registry", [("registry",)]),
        ):
            events.sink.mode(root, "starting", None)
            assert told == []
            events.sink.mode(root, "live", None)
            assert told == what
            told.clear()

    played(tmp_path, play)


def test_a_worktree_that_is_removed_takes_nothing_of_the_others(tmp_path: Path) -> None:
    """Its git folder is one of many of the same root. Letting go of all of them lost what happened meanwhile: a branch
    that was switched elsewhere at that moment was shown as the old one until somebody wrote there again."""

    async def play(source: ChangesSource, events: Followed, told: list[tuple[Any, ...]], _: Board) -> None:
        common = str(tmp_path / "app" / ".git")
        main, feat, done = entry(tmp_path, "app", is_main=True), entry(tmp_path, "feat"), entry(tmp_path, "done")
        source.follow((main, feat, done))
        await until(lambda: len(events.roots) == 6)
        events.added.clear()
        events.sink.gone(f"git {common}", done.admin_dir)
        assert told == [("roster",)]
        source.follow((main, feat))
        await until(lambda: f"git {common}" in events.added)
        assert events.removed == ["worktree app done"]
        assert events.added == [f"git {common}"], "what did not change is not followed anew"
        assert done.admin_dir not in events.roots[f"git {common}"].folders
        assert feat.admin_dir in events.roots[f"git {common}"].folders

    played(tmp_path, play)


def test_a_worktree_that_was_replaced_is_followed_anew(tmp_path: Path) -> None:
    """Removed and made again under the same name before anybody looked: the roster is the same, the folder is not."""

    async def play(source: ChangesSource, events: Followed, told: list[tuple[Any, ...]], board: Board) -> None:
        entries = (entry(tmp_path, "app", is_main=True), entry(tmp_path, "feat"))
        common = entries[0].common_dir
        source.follow(entries)
        await until(lambda: len(events.roots) == 5)
        events.sink.touched("worktree app feat", [FileEvent(f"{entries[1].path}/file", "deleted")])
        for root, folder in (
            (f"git {common}", entries[1].admin_dir), ("worktree app feat", entries[1].path),
            (f"refs {common}", f"{common}/refs"), ("registry", str(tmp_path / "state")),
        ):  # fmt: skip
            events.added.clear()
            events.sink.gone(root, folder)
            source.follow(entries)
            await until(lambda: root in events.added)  # noqa: B023
            assert events.added == [root]
        assert not events.removed
        await until(lambda: [change.path for change in board.lines] == ["file"])

    played(tmp_path, play)


def test_new_branches_below_a_folder_that_was_not_there_are_followed(tmp_path: Path) -> None:
    """A repository without remotes has no `refs/remotes`; the first fetch makes it."""

    async def play(source: ChangesSource, events: Followed, _told: list[tuple[Any, ...]], _board: Board) -> None:
        main = entry(tmp_path, "app", is_main=True)
        source.follow((main,))
        await until(lambda: f"refs {main.common_dir}" in events.roots)
        root = events.roots[f"refs {main.common_dir}"]
        assert root.folders == (f"{main.common_dir}/refs",)
        assert root.deep
        assert root.descend(f"{main.common_dir}/refs/remotes/origin/feat")
        assert not root.descend(f"{main.common_dir}/refs/bisect")

    played(tmp_path, play)


def test_what_may_have_been_missed_is_glanced_at(tmp_path: Path) -> None:
    async def play(_source: ChangesSource, events: Followed, told: list[tuple[Any, ...]], _: Board) -> None:
        await until(lambda: events.roots)
        events.sink.doubt()
        assert told == [("glance", None)]

    played(tmp_path, play)


def test_worktrees_are_followed_after_the_first_picture_where_that_is_asked_for(tmp_path: Path) -> None:
    """The registry at once; of the worktrees the roster that counts is the one of the moment when following begins."""
    waits = 0

    async def first() -> None:
        nonlocal waits
        waits += 1
        await done.wait()

    async def play(source: ChangesSource, events: Followed, told: list[tuple[Any, ...]], _: Board) -> None:
        source.follow((entry(tmp_path, "app", is_main=True), entry(tmp_path, "old")))
        await until(lambda: waits)
        source.follow((entry(tmp_path, "app", is_main=True), entry(tmp_path, "feat")))
        await asyncio.sleep(0.05)
        assert events.added == ["registry"]
        done.set()
        await until(lambda: "worktree app feat" in events.added)
        assert "worktree app old" not in events.added
        assert not told
        events.sink.mode("worktree app feat", "live", None)
        assert told == [("touched", "feat", None)], "what happened before it was followed is looked at"
        source.follow((entry(tmp_path, "app", is_main=True), entry(tmp_path, "feat"), entry(tmp_path, "late")))
        await until(lambda: "worktree app late" in events.added)
        assert waits == 1

    done = asyncio.Event()
    played(tmp_path, play, first)
