"""The first picture: painted once, whole, with what is known before the engine runs; and how that comes to be known."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from textual.containers import Container
from textual.geometry import Region
from textual.pilot import Pilot

from imi_monitor import engine, paths
from imi_monitor.engine import Engine
from imi_monitor.model import times
from imi_monitor.model.snapshot import Snapshot
from imi_monitor.sources import first_snapshot
from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.home_screen import HomeScreen
from imi_monitor.ui.preload import Preload
from imi_monitor.ui.widgets.row_list import RowList
from tests.helpers import Repo, imi, set_clock
from tests.limits import wait_pid
from tests.ui import sample_snapshots, snapshot_builder
from tests.ui.pilot_kit import screen_text, wait_until
from tests.ui.snapshot_kit import no_context

SIZES = [(140, 40), (100, 30), (60, 20), (40, 12)]


class Silent:
    """An engine that has nothing to say yet."""

    def measure(self, *, disk_use: bool, unread: bool) -> None: ...

    async def snapshots(self) -> AsyncIterator[Snapshot]:
        await asyncio.Event().wait()
        yield sample_snapshots.busy()


@asynccontextmanager
async def silent() -> AsyncIterator[Engine]:
    yield cast(Engine, Silent())


def painted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was on the screen at each paint."""
    found: list[str] = []
    real = HomeScreen._compositor_refresh

    def paint(self: HomeScreen) -> None:
        if self.is_painted:
            found.append(screen_text(cast(ImiApp, self.app)))
        real(self)

    monkeypatch.setattr(HomeScreen, "_compositor_refresh", paint)
    return found


async def painted_and_idle(app: ImiApp, pilot: Pilot[Any]) -> None:
    await wait_until(pilot, lambda: app.home.is_painted)
    await pilot.pause()


def without_clock(text: str) -> str:
    """A picture without the time in the header: a minute may end between two pictures."""
    header, _, rest = text.partition("\n")
    return re.sub(r"\d\d:\d\d", "", header) + rest


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_first_paint_shows_the_first_snapshot_completely(
    monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    pictures = painted(monkeypatch)

    async def main() -> None:
        app = ImiApp(silent, no_context, first=sample_snapshots.busy())
        async with app.run_test(size=size) as pilot:
            await painted_and_idle(app, pilot)
            assert without_clock(screen_text(app)) == without_clock(pictures[0]), "nothing was left for a second paint"
            named = next(tree.key.worktree for tree in app.home.worktrees.listed)
            assert named in pictures[0]
            if size[0] >= 120:
                assert f"2 Git · {named}" in pictures[0], "the details of the selected one too"

    asyncio.run(main())


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_first_paint_without_a_snapshot_says_looking(monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]) -> None:
    pictures = painted(monkeypatch)

    async def main() -> None:
        app = ImiApp(silent, no_context)
        async with app.run_test(size=size) as pilot:
            await painted_and_idle(app, pilot)

    asyncio.run(main())
    assert "looking…" in pictures[0]


def test_first_paint_is_reported_once() -> None:
    told: list[int] = []

    async def main() -> None:
        app = ImiApp(sample_snapshots.live(sample_snapshots.busy()), no_context)
        app.on_first_paint = lambda: told.append(1)
        async with app.run_test(size=(140, 40)) as pilot:
            await painted_and_idle(app, pilot)

    asyncio.run(main())
    assert told == [1]


def test_clock_redraws_only_changed_ages_and_only_without_a_recent_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    later = times.now() + timedelta(minutes=2)

    async def main() -> None:
        app = ImiApp(sample_snapshots.live(sample_snapshots.busy()), no_context)
        async with app.run_test(size=(140, 40)) as pilot:
            await painted_and_idle(app, pilot)
            app.stop_clock()
            drawn: list[int] = []
            app.draw = lambda: drawn.append(1)  # type: ignore[method-assign]
            set_clock(monkeypatch, lambda: later)
            app.interval = 3600
            app.clock_ticked()
            assert drawn == [], "a snapshot was drawn within the interval"
            app.interval = 0
            app.clock_ticked()
            assert drawn == [1]
            monkeypatch.undo()
            app.clock_ticked()
            assert drawn == [1], "every age reads the same"

    asyncio.run(main())


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_panel_frame_lines_equal_textuals_own_rendering(size: tuple[int, int]) -> None:
    async def main() -> None:
        app = ImiApp(sample_snapshots.live(sample_snapshots.busy()), no_context)
        async with app.run_test(size=size) as pilot:
            await painted_and_idle(app, pilot)
            for panel in app.home.panels:
                width, height = panel.outer_size
                for crop in (
                    Region(0, 0, width, height),
                    Region(0, 1, width, height - 1),
                    Region(2, 0, width - 3, height - 1),
                    Region(0, 2, width, 3),
                    Region(0, height - 2, width, 2),
                ):
                    if panel.display and height > 4:
                        assert panel.render_lines(crop) == Container.render_lines(panel, crop), (panel.number, crop)

    asyncio.run(main())


def test_feed_scrolls_to_a_new_line_in_the_same_frame() -> None:
    async def main() -> None:
        app = ImiApp(sample_snapshots.live(sample_snapshots.busy()), no_context)
        async with app.run_test(size=(140, 40)) as pilot:
            await painted_and_idle(app, pilot)
            feed = app.home.panel(5).query_one(RowList)
            rows = [
                *feed.rows,
                *app.home.panel(2).lines.rows,
                *app.home.panel(1).lines.rows,
                *app.home.panel(4).lines.rows,
            ]
            shown = [replace_key(row, number) for number, row in enumerate(rows * 3)]
            feed.show(shown)
            assert round(feed.scroll_offset.y) == len(shown) - feed.size.height > 0

    asyncio.run(main())


def replace_key(row: Any, number: int) -> Any:
    return type(row)(str(number), row.lines)


def test_a_changed_age_repaints_at_most_five_cells_of_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        app = ImiApp(sample_snapshots.live(sample_snapshots.busy()), no_context)
        async with app.run_test(size=(140, 40)) as pilot:
            await painted_and_idle(app, pilot)
            app.stop_clock()
            later = times.now() + timedelta(days=100)
            set_clock(monkeypatch, lambda: later)
            repainted: list[Region] = []
            app.home.worktrees.lines.refresh = lambda *regions, **_: repainted.extend(regions)  # type: ignore[method-assign, assignment]
            app.tick()
            assert repainted and all(region.width <= 5 for region in repainted)

    asyncio.run(main())


def test_start_imports_no_dialog_view_or_action() -> None:
    """Every module imported before the first paint delays it; what only a key needs is imported when it is pressed."""
    code = "import sys, imi_monitor.ui.dashboard, imi_monitor.ui.app; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    late = (
        "ui.dialogs.",
        "ui.views.",
        "ui.menu_entries",
        "actions.claims",
        "mux.",
        "engine",
        "sources.",
        "model.fuzzy",
        "git.",
    )
    assert [
        name for name in done.stdout.split() if name.startswith(tuple(f"imi_monitor.{part}" for part in late))
    ] == []


# -- how it comes to be known -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("work", "args", "given"),
    [
        ("twice", ("caf\udce9", 300_000), "caf\udce9" * 300_000),
        ("nothing", (), None),
        ("broken", (), None),
        ("late", (), None),
        ("cut_short", (), None),
        ("unheard of", (), None),
    ],
)
def test_preload_returns_a_result_in_time_and_leaves_no_process(
    work: str, args: tuple[object, ...], given: object
) -> None:
    asked: Preload[object] = Preload("tests.ui.preload_jobs", work, *args)
    assert asked.result(0.3 if work == "late" else 20) == given
    with pytest.raises(ChildProcessError):
        wait_pid(asked.pid)


def test_preload_without_an_interpreter_has_no_result() -> None:
    for other in ("/nowhere/python", ""):
        assert Preload("tests.ui.preload_jobs", "nothing", interpreter=other).result(20) is None


def test_first_snapshot_needs_no_installed_packages(repo: Repo) -> None:
    """It is read by a process that looks for no installed packages, so as to be there in time."""
    repo.worktree("feat-a")
    asked: Preload[Snapshot] = Preload(
        "imi_monitor.sources.first_snapshot", "read_first_snapshot", paths.default_database(), [str(repo.path / ".git")]
    )
    found = asked.result(20)
    assert found is not None
    assert {tree.key.worktree for tree in found.worktrees} == {repo.path.name, "feat-a"}


def test_engine_starts_from_the_first_snapshot(repo: Repo) -> None:
    repo.worktree("feat-a")
    assert imi("claim", "feat-a", "--agent", "claude-1", cwd=repo.path).code == 0
    first = first_snapshot.read_first_snapshot(paths.default_database(), [str(repo.path / ".git")])
    assert first is not None
    assert {tree.key.worktree: tree.claim.agent if tree.claim else None for tree in first.worktrees} == {
        repo.path.name: None,
        "feat-a": "claude-1",
    }
    assert not first.complete
    assert all(tree.git is None for tree in first.worktrees), "git was not asked"

    async def main() -> None:
        async with engine.open_engine(paths.default_database(), [str(repo.path / ".git")], first=first) as live:
            async for snapshot in live.snapshots():
                assert {tree.key for tree in snapshot.worktrees} == {tree.key for tree in first.worktrees}
                assert [tree.claim for tree in snapshot.worktrees] == [tree.claim for tree in first.worktrees]
                if snapshot.complete:
                    return

    asyncio.run(asyncio.wait_for(main(), 20))


def test_engine_drops_worktrees_that_are_gone_since_the_first_snapshot(repo: Repo) -> None:
    repo.worktree("feat-a")
    first = first_snapshot.read_first_snapshot(paths.default_database(), [str(repo.path / ".git")])
    assert first is not None
    ghost = snapshot_builder.tree("feat-ghost", repo=first.worktrees[0].key.repo)

    async def main() -> None:
        begun = replace(first, worktrees=(*first.worktrees, ghost))
        async with engine.open_engine(paths.default_database(), [str(repo.path / ".git")], first=begun) as live:
            async for snapshot in live.snapshots():
                if snapshot.health and "feat-ghost" not in {tree.key.worktree for tree in snapshot.worktrees}:
                    return

    asyncio.run(asyncio.wait_for(main(), 20))


def test_first_snapshot_of_an_unreadable_registry_has_unknown_claims(repo: Repo, tmp_path: Path) -> None:  # M4
    broken = tmp_path / "iMi.db"
    broken.write_bytes(b"this is no database" * 100)
    first = first_snapshot.read_first_snapshot(str(broken), [str(repo.path / ".git")])
    assert first is not None and "is damaged" in (first.registry.problem or "")
    assert [(tree.key.worktree, tree.claim and tree.claim.state) for tree in first.worktrees] == [("app", "unknown")]
