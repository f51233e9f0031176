"""Painting a few changes: what is written is the same as if every widget had been asked."""

from __future__ import annotations

import asyncio
import random

import pytest
from textual._compositor import Compositor
from textual.geometry import Region

from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.compositor import ChangedOnly
from tests.ui import worlds
from tests.ui.snapshot_kit import no_surroundings


@pytest.mark.parametrize("size", [(140, 40), (100, 30), (60, 20)], ids=str)
def test_what_is_written_is_what_changed_whoever_is_asked(size: tuple[int, int]) -> None:
    dice = random.Random(7)

    def somewhere() -> Region:
        x, y = dice.randrange(size[0]), dice.randrange(size[1])
        return Region(x, y, dice.randint(1, size[0] - x), dice.randint(1, size[1] - y))

    async def main() -> None:
        app = ImiApp(worlds.live(worlds.busy()), no_surroundings)
        async with app.run_test(size=size) as pilot:
            await pilot.pause(0.3)
            compositor = app.home._compositor
            assert isinstance(compositor, ChangedOnly)
            for number in range(60):
                changed = {somewhere() for _ in range(1 + number % 30)}
                written = []
                for paint in (compositor.render_partial_update, lambda: Compositor.render_partial_update(compositor)):
                    compositor._dirty_regions = set(changed)
                    update = paint()
                    assert update is not None
                    written.append(update.render_segments(app.console))
                assert written[0] == written[1], changed
            assert compositor.render_partial_update() is None, "nothing is left to paint"

    asyncio.run(main())


def test_only_who_changed_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        app = ImiApp(worlds.live(worlds.busy()), no_surroundings)
        async with app.run_test(size=(140, 40)) as pilot:
            await pilot.pause(0.3)
            asked: list[str] = []
            for panel in app.panels:
                real = panel.lines.render_lines
                monkeypatch.setattr(
                    panel.lines,
                    "render_lines",
                    lambda crop, real=real, name=panel.name_shown: asked.append(name) or real(crop),
                )
            top, bottom = app.panel(1).lines.region, app.panel(3).lines.region
            app.home._compositor._dirty_regions = {
                Region(0, 0, 140, 1), Region(top.x, top.y, 20, 1), Region(bottom.x, bottom.bottom - 1, 20, 1),
            }  # fmt: skip
            app.home._compositor.render_update()
            assert sorted(asked) == ["Agents", "Worktrees"]

    asyncio.run(main())
