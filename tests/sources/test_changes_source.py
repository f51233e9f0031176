"""Which roots are watched, and the hints that are sent when a watch begins, breaks or begins anew."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from imi_monitor.model.change import Change
from imi_monitor.sources.changes_source import ChangesSource, list_inside
from imi_monitor.sources.files.watcher import FileEvent
from imi_monitor.sources.hints import (
    AllStatusesRead,
    FilesChanged,
    GitDirsUncertain,
    Hint,
    OpenRunsRead,
    RefsChanged,
    RegistryWritten,
    RosterRead,
    WorktreeListChanged,
)
from imi_monitor.sources.source import RosterEntry
from tests.sources.source_kit import FakeWatcher, RecordingReceiver, roster_entry, running, until
from tests.ui import sample_runs


class Scene:
    """A running ChangesSource."""

    def __init__(self, folder: Path, *, slow_start: bool = False) -> None:
        self.watcher, self.receiver = FakeWatcher(slow_start=slow_start), RecordingReceiver()
        self.source = ChangesSource(self.watcher, str(folder / "state" / "registry.db"), lambda _common_dir: None)

    def set_roster(self, *entries: RosterEntry) -> None:
        self.source.handle_hint(RosterRead(entries))

    def take_hints(self) -> list[Hint]:
        hints = list(self.receiver.hints)
        self.receiver.hints.clear()
        return hints


def run(tmp_path: Path, play: Callable[[Scene], Awaitable[None]], *, slow_start: bool = False) -> None:
    async def main() -> None:
        scene = Scene(tmp_path, slow_start=slow_start)
        async with running(scene.source, scene.receiver):
            await play(scene)

    asyncio.run(main())


def test_what_happened_before_a_watch_is_live_is_read_again(tmp_path: Path) -> None:
    async def play(scene: Scene) -> None:
        common, feat = str(tmp_path / "app" / ".git"), roster_entry(tmp_path, "feat")
        scene.set_roster(roster_entry(tmp_path, "app", is_main=True), feat)
        await until(lambda: len(scene.watcher.roots) == 5)
        assert not scene.take_hints()
        for root, hints in (
            ("worktree app feat", [FilesChanged(feat.key, None)]),
            (f"git {common}", [GitDirsUncertain(common), RefsChanged(common), WorktreeListChanged()]),
            (f"refs {common}", [RefsChanged(common)]),
            ("registry", [RegistryWritten()]),
        ):
            sink = scene.watcher.roots[root].sink
            sink.mode_changed("starting", None)
            assert not scene.take_hints()
            sink.mode_changed("live", None)
            assert scene.take_hints() == hints

    run(tmp_path, play)


def test_lost_events_of_each_root_become_hints_to_read_it_again(tmp_path: Path) -> None:
    async def play(scene: Scene) -> None:
        common, feat = str(tmp_path / "app" / ".git"), roster_entry(tmp_path, "feat")
        scene.set_roster(roster_entry(tmp_path, "app", is_main=True), feat)
        await until(lambda: len(scene.watcher.roots) == 5)
        for root, hints in (
            ("worktree app feat", [FilesChanged(feat.key, None), WorktreeListChanged()]),
            (f"git {common}", [GitDirsUncertain(common), RefsChanged(common), WorktreeListChanged()]),
            (f"refs {common}", [RefsChanged(common)]),
            ("registry", [RegistryWritten()]),
        ):
            scene.watcher.roots[root].sink.lost("the queue was full")
            assert scene.take_hints() == hints

    run(tmp_path, play)


def test_removing_a_worktree_keeps_the_watches_of_the_others(tmp_path: Path) -> None:
    """Its git directory is one of several of the same root. Once all of them were removed and added again: a branch that
    was switched elsewhere at that moment was shown as the old one until the next write there."""

    async def play(scene: Scene) -> None:
        common, watcher = str(tmp_path / "app" / ".git"), scene.watcher
        main, feat, done = (roster_entry(tmp_path, name, is_main=name == "app") for name in ("app", "feat", "done"))
        scene.set_roster(main, feat, done)
        await until(lambda: len(watcher.roots) == 6)
        watcher.added.clear()
        watcher.roots[f"git {common}"].sink.gone(done.admin_dir)
        assert scene.take_hints() == [WorktreeListChanged()]
        scene.set_roster(main, feat)
        await until(lambda: f"git {common}" in watcher.added)
        assert watcher.removed == ["worktree app done"]
        assert watcher.added == [f"git {common}"], "roots that did not change are not added again"
        assert done.admin_dir not in watcher.roots[f"git {common}"].folders
        assert feat.admin_dir in watcher.roots[f"git {common}"].folders

    run(tmp_path, play)


def test_the_worktrees_that_are_polled_are_counted(tmp_path: Path) -> None:
    async def play(scene: Scene) -> None:
        main, feat, done = (roster_entry(tmp_path, name, is_main=name == "app") for name in ("app", "feat", "done"))
        scene.set_roster(main, feat, done)
        await until(lambda: len(scene.watcher.roots) == 6)
        sinks = {name: scene.watcher.roots[f"worktree app {name}"].sink for name in ("app", "feat", "done")}
        notes = []
        for name, mode in (("feat", "polling"), ("done", "polling"), ("done", "polling"), ("feat", "live")):
            sinks[name].mode_changed(mode, f"{name} is large" if mode == "polling" else None)
            notes.append(scene.receiver.notes["files"])
        assert notes == [
            "polling 1 of 3 worktrees: feat is large",
            *["polling 2 of 3 worktrees: done is large"] * 2,
            "polling 1 of 3 worktrees: done is large",
        ]
        scene.set_roster(main, feat)
        await until(lambda: "worktree app done" in scene.watcher.removed)
        sinks["done"].mode_changed("polling", "late")
        assert scene.receiver.notes["files"] is None

    run(tmp_path, play)


def test_the_files_of_workspaces_are_changes_by_their_agent(tmp_path: Path) -> None:
    folder, flat = tmp_path / "session_1", tmp_path / "default"
    for parent in (folder / "work_products", folder / "requests", flat):
        parent.mkdir(parents=True)
    alone = replace(sample_runs.DONE, status="alive", folder=str(folder))
    first, second = (
        replace(one, key=None, workspace=str(flat), folder=str(tmp_path / one.id))
        for one in (sample_runs.WORKS, sample_runs.QUEUED)
    )

    def made(scene: Scene, root: Path, *paths: str) -> list[Change]:
        for path in paths:
            (root / path).write_text("x")
        scene.watcher.roots[f"workspace {root}"].sink.events(
            [FileEvent(str(root / path), "modified") for path in paths]
        )
        found = list(scene.receiver.changes)
        scene.receiver.changes.clear()
        return found

    async def play(scene: Scene) -> None:
        scene.set_roster()
        scene.source.handle_hint(OpenRunsRead((alone, first)))
        await until(lambda: len(scene.watcher.roots) == 3)
        [change] = made(scene, folder, "work_products/report.md", "requests/x.json", "run.json")
        assert (change.repo, change.worktree, change.path) == ("~runs", alone.short, "work_products/report.md")
        assert change.by == alone.agent
        [change] = made(scene, flat, "a.md", ".hidden", "workspace_metadata.json")
        assert (change.repo, change.worktree, change.path) == ("~contained", "default", "a.md")
        assert change.by == first.agent
        descend = scene.watcher.roots[f"workspace {folder}"].descend
        assert descend(str(folder / "work_products/deep")) and not descend(str(folder / "requests"))
        scene.source.handle_hint(OpenRunsRead((second, alone, first)))
        await until(lambda: scene.watcher.removed == [f"workspace {flat}"])
        await until(lambda: f"workspace {flat}" in scene.watcher.roots)
        [change] = made(scene, flat, "b.md")
        assert (change.worktree, change.by) == ("default", None), "two share it: which of them is unknown"
        scene.source.handle_hint(OpenRunsRead(()))
        await until(lambda: set(scene.watcher.roots) == {"registry"})

    run(tmp_path, play)


def test_a_replaced_folder_is_watched_anew(tmp_path: Path) -> None:
    """Removed and made again under the same name before the roster was read: the roster is the same, the folder is not."""

    async def play(scene: Scene) -> None:
        entries = (roster_entry(tmp_path, "app", is_main=True), roster_entry(tmp_path, "feat"))
        common, watcher = entries[0].common_dir, scene.watcher
        scene.set_roster(*entries)
        await until(lambda: len(watcher.roots) == 5)
        watcher.roots["worktree app feat"].sink.events([FileEvent(f"{entries[1].path}/file", "deleted")])
        for root, folder in (
            (f"git {common}", entries[1].admin_dir),
            ("worktree app feat", entries[1].path),
            (f"refs {common}", f"{common}/refs"),
            ("registry", str(tmp_path / "state")),
        ):
            watcher.added.clear()
            watcher.roots[root].sink.gone(folder)
            scene.set_roster(*entries)
            await until(lambda: root in watcher.added)  # noqa: B023
            assert watcher.added == [root]
        assert not watcher.removed
        await until(lambda: [change.path for change in scene.receiver.changes] == ["file"])

    run(tmp_path, play)


def test_refs_below_folders_that_do_not_exist_yet_are_watched(tmp_path: Path) -> None:
    """A repository without remotes has no `refs/remotes`; the first fetch makes it."""

    async def play(scene: Scene) -> None:
        main = roster_entry(tmp_path, "app", is_main=True)
        scene.set_roster(main)
        await until(lambda: f"refs {main.common_dir}" in scene.watcher.roots)
        root = scene.watcher.roots[f"refs {main.common_dir}"]
        assert root.folders == (f"{main.common_dir}/refs",)
        assert root.deep
        assert root.descend(f"{main.common_dir}/refs/remotes/origin/feat")
        assert not root.descend(f"{main.common_dir}/refs/bisect")

    run(tmp_path, play)


def test_a_possibly_missed_event_compares_the_stamps_of_git_directories(tmp_path: Path) -> None:
    async def play(scene: Scene) -> None:
        scene.set_roster(roster_entry(tmp_path, "app", is_main=True))
        await until(lambda: len(scene.watcher.roots) == 4)
        for root in scene.watcher.roots.values():
            root.sink.uncertain()
        assert scene.take_hints() == [GitDirsUncertain(str(tmp_path / "app" / ".git"))]

    run(tmp_path, play)


def test_a_watcher_with_a_slow_start_waits_for_the_first_statuses(tmp_path: Path) -> None:
    """The registry is watched at once; of the worktrees, those of the roster at the moment the wait ends."""

    async def play(scene: Scene) -> None:
        main, feat = roster_entry(tmp_path, "app", is_main=True), roster_entry(tmp_path, "feat")
        scene.set_roster(main, roster_entry(tmp_path, "old"))
        scene.set_roster(main, feat)
        await asyncio.sleep(0.05)
        assert scene.watcher.added == ["registry"]
        scene.source.handle_hint(AllStatusesRead())
        await until(lambda: "worktree app feat" in scene.watcher.added)
        assert "worktree app old" not in scene.watcher.added
        assert not scene.take_hints()
        scene.watcher.roots["worktree app feat"].sink.mode_changed("live", None)
        assert scene.take_hints() == [FilesChanged(feat.key, None)]
        scene.set_roster(main, feat, roster_entry(tmp_path, "late"))
        await until(lambda: "worktree app late" in scene.watcher.added)

    run(tmp_path, play, slow_start=True)


def test_the_paths_inside_a_folder_are_found_in_a_sorted_list() -> None:
    paths = sorted(["/w/a", "/w/a/x", "/w/a/x/y", "/w/a b", "/w/a.b/x", "/w/a0", "/w/ab/c", "/w", "/w/a/é"])
    assert list_inside("/w/a", paths) == ["/w/a/x", "/w/a/x/y", "/w/a/é"]
    assert list_inside("/w/a0", paths) == []
