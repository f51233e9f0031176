"""Regions of panels: they cover the screen, and each has what it needs while there is room."""

from __future__ import annotations

from functools import partial

import pytest
from textual.geometry import Size

from imi_monitor.ui import panel_regions
from imi_monitor.ui.panel_regions import PanelPlace, shape_for
from imi_monitor.ui.panels import PANELS
from imi_monitor.ui.panels.panel import LIST


def _need(lines: int, width: int) -> int:
    return lines


def places(**needs: int) -> list[PanelPlace]:
    """All panels; a panel without a number given needs ten lines."""
    return [
        PanelPlace(panel.number, panel.slot == LIST, panel.column, partial(_need, needs.get(f"p{panel.number}", 10)))
        for panel in PANELS
    ]


@pytest.mark.parametrize(
    "size", [Size(97, 36), Size(119, 60), Size(120, 12), Size(140, 38), Size(160, 28), Size(237, 70)]
)
@pytest.mark.parametrize("needs", [{}, {"p1": 300}, {"p1": 4, "p3": 80}, {"p1": 40, "p2": 40, "p3": 40, "p4": 40}])
def test_panels_cover_all_of_the_screen_and_nothing_twice(size: Size, needs: dict[str, int]) -> None:
    found = panel_regions.regions(places(**needs), shape_for(size), size)
    assert set(found) == {panel.number for panel in PANELS}
    assert sum(region.area for region in found.values()) == size.area
    assert all(size.region.contains_region(region) and region.height >= 2 for region in found.values())
    listed = list(found.values())
    assert not any(one.overlaps(two) for one in listed for two in listed if one is not two)


@pytest.mark.parametrize("width", [100, 140, 200])
def test_each_panel_has_the_lines_it_needs_while_there_is_room(width: int) -> None:
    needs = {"p1": 15, "p2": 9, "p3": 5, "p4": 7, "p5": 6}
    found = panel_regions.regions(places(**needs), shape_for(Size(width, 50)), Size(width, 48))
    assert all(found[int(name[1])].height >= need for name, need in needs.items()), found
    assert found[1].height == 15, "what the list does not need is given away"


def test_the_list_comes_first_in_too_little_room() -> None:
    for width in (100, 140, 200):
        found = panel_regions.regions(places(p1=23, p3=42), shape_for(Size(width, 40)), Size(width, 38))
        assert found[1].height >= 22 and found[3].height >= 5


def test_the_last_panel_goes_where_lines_are_free() -> None:
    shape, size = shape_for(Size(140, 40)), Size(140, 38)
    crowded_right = panel_regions.regions(places(p1=8, p3=3, p2=20, p4=10), shape, size)
    crowded_left = panel_regions.regions(places(p1=20, p3=15, p2=8, p4=3), shape, size)
    assert crowded_right[5].x == 0 and crowded_left[5].x > 0


def test_a_hundred_columns_show_the_list_in_the_whole_width() -> None:
    for height in (24, 30, 50):
        size = Size(100, height)
        found = panel_regions.regions(places(), shape_for(size), size)
        assert found[1].width == 100 and found[3].width == 50


def test_what_is_left_goes_to_a_panel_that_has_more() -> None:
    shape, size = shape_for(Size(140, 40)), Size(140, 38)
    listed = places(p1=20, p2=6, p3=10, p4=10, p5=3)
    more = [one._replace(has_more=one.number == 4) for one in listed]
    before, after = (panel_regions.regions(found, shape, size) for found in (listed, more))
    assert before[4].height == 10 and after[4].height == 38 - 6 - 3 and after[5].height == 3
