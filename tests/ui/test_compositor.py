"""Painting a few changes: what is written is what the whole screen would show there, and nothing else is written or drawn."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from rich.cells import cell_len
from rich.segment import Segment
from textual._compositor import ChopsUpdate
from textual.geometry import Region
from textual.pilot import Pilot

from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.textual_internals import ChangedCells, ChangedCellsCompositor
from tests.ui import sample_snapshots
from tests.ui.snapshot_kit import no_context

Play = Callable[[ImiApp, ChangedCellsCompositor], None]


def painted(size: tuple[int, int], play: Play) -> None:
    async def main() -> None:
        app = ImiApp(sample_snapshots.live(sample_snapshots.busy()), no_context)
        async with app.run_test(size=size) as pilot:
            await pilot.pause(0.3)
            compositor = app.home._compositor
            assert isinstance(compositor, ChangedCellsCompositor)
            play(app, compositor)

    asyncio.run(main())


def update(compositor: ChangedCellsCompositor, changed: set[Region]) -> ChangedCells | ChopsUpdate:
    compositor._dirty_regions = set(changed)
    made = compositor.render_partial_update()
    assert made is not None and compositor.render_partial_update() is None, "nothing is left to paint"
    return made


def cells(segments: Iterable[Segment]) -> list[tuple[str, object]]:
    """One entry a cell; a wide character is blank twice, as half of it is when the edge goes through."""
    return [
        (char if cell_len(char) == 1 else " ", segment.style)
        for segment in segments
        for char in segment.text
        for _ in range(cell_len(char))
    ]


@pytest.mark.parametrize("size", [(140, 40), (100, 30), (60, 20)], ids=str)
def test_partial_update_writes_the_same_cells_as_a_full_render(size: tuple[int, int]) -> None:
    dice = random.Random(7)

    def within(region: Region) -> Region:
        x, y = dice.randrange(region.width), dice.randrange(region.height)
        return Region(region.x + x, region.y + y, dice.randint(1, region.width - x), dice.randint(1, region.height - y))

    def play(app: ImiApp, compositor: ChangedCellsCompositor) -> None:
        whole = [cells(strip) for strip in compositor.render_strips()]
        shown = [panel.lines.region for panel in app.home.panels if panel.display]
        for number in range(60):
            changed = {within(dice.choice(shown)) for _ in range(1 + number % 12)}
            made = update(compositor, changed)
            assert isinstance(made, ChangedCells)
            written = set()
            for x, y, strip in made.runs:
                assert cells(strip) == whole[y][x : x + strip.cell_length], (x, y)
                written |= {(x + cell, y) for cell in range(strip.cell_length)}
            assert written == {(x, y) for one in changed for x in range(*one.column_span) for y in one.line_range}
            text = made.render_segments(app.console)
            assert text.startswith(f"\x1b[{made.runs[0].y + 1};{made.runs[0].x + 1}H") and "\n" not in text

    painted(size, play)


def test_changes_across_widget_edges_are_left_to_textual() -> None:
    def play(app: ImiApp, compositor: ChangedCellsCompositor) -> None:
        edge = app.home.panel(1).region.right
        over = Region(edge - 5, 5, 10, 2)
        assert isinstance(update(compositor, {over}), ChopsUpdate)
        assert isinstance(update(compositor, {over, Region(0, 0, 10, 1)}), ChopsUpdate)
        assert isinstance(update(compositor, {Region(0, 0, 10, 1)}), ChangedCells)

    painted((140, 40), play)


def test_regions_within_a_repainted_region_are_not_painted_twice() -> None:
    def play(app: ImiApp, compositor: ChangedCellsCompositor) -> None:
        lines = app.home.panel(1).lines.region
        made = update(compositor, {lines, Region(lines.x + 3, lines.y + 1, 4, 1)})
        assert isinstance(made, ChangedCells) and len(made.runs) == lines.height

    painted((140, 40), play)


def test_partial_update_renders_only_the_changed_lines_of_changed_widgets(monkeypatch: pytest.MonkeyPatch) -> None:
    def play(app: ImiApp, compositor: ChangedCellsCompositor) -> None:
        asked: list[tuple[str, Region]] = []

        def ask(real: Callable[[Region], Any], name: str, crop: Region) -> Any:
            asked.append((name, crop))
            return real(crop)

        for panel in app.home.panels:
            real, name = panel.lines.render_lines, panel.label
            monkeypatch.setattr(panel.lines, "render_lines", lambda crop, real=real, name=name: ask(real, name, crop))
        top, bottom = app.home.panel(1).lines.region, app.home.panel(3).lines.region
        changed = {Region(0, 0, 140, 1), Region(top.x, top.y, 20, 1), Region(bottom.x, bottom.bottom - 1, 20, 1)}
        update(compositor, changed)
        assert sorted(asked) == [
            ("Agents", Region(0, bottom.height - 1, 20, 1)), ("Worktrees", Region(0, 0, 20, 1)),
        ]  # fmt: skip

    painted((140, 40), play)


def test_a_changed_age_repaints_at_most_five_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a second of nothing but time writes: the ages, not their lines."""
    from datetime import timedelta

    from imi_monitor.model import times

    async def play(app: ImiApp, pilot: Pilot[Any]) -> None:
        app.stop_clock()
        now = times.now()
        monkeypatch.setattr(times, "now", lambda: now + timedelta(days=100))
        app.tick()
        await pilot.pause(0.3)  # also paints what the layout at start left over
        monkeypatch.setattr(times, "now", lambda: now + timedelta(days=200))
        written: list[ChangedCells] = []
        real = ChangedCellsCompositor.render_partial_update
        monkeypatch.setattr(
            ChangedCellsCompositor, "render_partial_update", lambda self: written.append(real(self)) or written[-1]
        )
        app.tick()
        await pilot.pause(0.3)
        pieces = [piece for one in written if one is not None for piece in one.runs]
        worktrees = app.home.worktrees.lines.region
        ours = [one for one in pieces if one.y in worktrees.line_range and one.x in range(*worktrees.column_span)]
        assert ours and all(one.strip.cell_length <= 5 for one in ours), ours

    async def main() -> None:
        app = ImiApp(sample_snapshots.live(sample_snapshots.busy()), no_context)
        async with app.run_test(size=(140, 40)) as pilot:
            await pilot.pause(0.3)
            await play(app, pilot)

    asyncio.run(main())
