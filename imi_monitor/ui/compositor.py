"""What is painted of the screen when little of it has changed: the changed rectangles, each asked of the widget it lies in.

Textual asks every widget below the rectangle around all changes for all its lines, cuts them at every edge of the screen and
puts them together again, and writes up to the next edge: a few cells that changed cost more than twenty times what they need.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from rich.console import Console
from textual._compositor import ChopsUpdate, Compositor, CompositorUpdate
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget


class _ChangedRun(NamedTuple):
    """Some cells of one line, and where they go."""

    x: int
    y: int
    strip: Strip


class ChangedCells(CompositorUpdate):
    """An update of nothing but what has changed."""

    def __init__(self, pieces: list[_ChangedRun]) -> None:
        self.pieces = pieces

    def render_segments(self, console: Console) -> str:
        return "".join([f"\x1b[{y + 1};{x + 1}H{strip.render(console)}" for x, y, strip in self.pieces])


class _WidgetPlace(NamedTuple):
    """Where a widget is, and which part of it can be seen."""

    widget: Widget
    x: int
    y: int
    left: int
    top: int
    right: int
    bottom: int


class ChangedCellsCompositor(Compositor):
    """Leaves it to Textual where a change reaches over an edge, as when something was laid out anew."""

    _laid_out: Mapping[Widget, tuple[Region, Region]] | None = None
    _places: tuple[_WidgetPlace, ...] = ()

    def render_partial_update(self) -> ChangedCells | ChopsUpdate | None:  # type: ignore[override]  # both are updates
        pieces = self._pieces(_outermost(self._dirty_regions)) if self._dirty_regions else []
        if not pieces:
            return super().render_partial_update()
        self._dirty_regions.clear()
        return ChangedCells(pieces)

    def _pieces(self, changed: Sequence[Region]) -> list[_ChangedRun]:
        """None at all, if one of these rectangles does not lie in one widget alone."""
        places = [place for place in map(self._below, changed) if place is not None]
        if len(places) < len(changed):
            return []
        pieces: list[_ChangedRun] = []
        for (x, y, width, height), place in zip(changed, places, strict=True):
            strips = place.widget.render_lines(Region(x - place.x, y - place.y, width, height))
            pieces += [_ChangedRun(x, line, strip) for line, strip in enumerate(strips, y)]
        return pieces

    def _below(self, region: Region) -> _WidgetPlace | None:
        """The widget in front, if the whole rectangle is its own."""
        x, y, right, bottom = region.corners
        for place in self._in_front():
            if place.left < right and x < place.right and place.top < bottom and y < place.bottom:
                inside = place.left <= x and right <= place.right and place.top <= y and bottom <= place.bottom
                return place if inside else None
        return None

    def _in_front(self) -> tuple[_WidgetPlace, ...]:
        """All widgets that can be seen, the foremost first."""
        if self._laid_out is not self.visible_widgets:
            self._laid_out = self.visible_widgets
            self._places = tuple(
                _WidgetPlace(widget, region.x, region.y, *region.intersection(clip).corners)
                for widget, (region, clip) in self._laid_out.items()
            )
        return self._places


def _outermost(regions: Collection[Region]) -> list[Region]:
    """Without those that lie within others: a line of a list all of which is painted anew."""
    tall = [region for region in regions if region.height > 1]
    return [region for region in regions if not any(one is not region and one.contains_region(region) for one in tall)]
