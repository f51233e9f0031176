"""Where each visible panel of the home screen stands, from the terminal's size and the lines each panel needs.

Under 80 columns one panel has the screen. From 80 the list stands beside one other panel and its rows have two lines; from 96 it
has the whole width, with the others below. From 120 they stand beside it, and from 160 below it again: a row has room for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from textual.geometry import NULL_OFFSET, NULL_SPACING, Region, Size
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.widget import Widget

from imi_monitor.fast.frozen_dataclass import dataclass

NARROW, MIDDLE, WIDE = 80, 120, 160  # the columns at which the next shape begins
LEAST_LINES = 3  # of a panel, frame included
_LIST_SHARE = 0.6  # of the lines that the list may take from panels that need them


@dataclass(frozen=True, slots=True)
class Shape:
    """How panels share the screen. `columns` are the shares of the columns of details; none: one panel has the screen."""

    columns: tuple[float, ...] = ()
    list_on_top: bool = True  # False: the list is the first panel of the first column
    tabs_from: int | None = None  # the panels from this column on share the last one, as tabs


ONE_PANEL = Shape()
_LIST_AND_TABS = Shape((11, 9), list_on_top=False, tabs_from=0)
_PAIR = Shape((1, 1), tabs_from=1)
_BELOW = Shape((1, 1))
_BESIDE = Shape((9, 5), list_on_top=False)
_THREE = Shape((4, 3, 3))


def shape_for(size: Size) -> Shape:
    """The shape of the home screen in a terminal of this size."""
    width, height = size
    if width < NARROW:
        return ONE_PANEL
    if width < MIDDLE:
        return _LIST_AND_TABS if width < 96 or height < 24 else _PAIR if height < 36 else _BELOW
    return _BESIDE if width < WIDE or height < 30 else _THREE


class PanelPlace(NamedTuple):
    """What the regions depend on: `lines` gives the lines a panel needs in that many columns, frame included."""

    number: int
    is_list: bool
    column: int | None  # None: where most lines are free
    lines: Callable[[int], int]
    has_more: bool = False  # it could show more than it needs, so it gets the lines that are left


def regions(places: Sequence[PanelPlace], shape: Shape, size: Size) -> dict[int, Region]:
    """The region of each panel; together they cover the size. At exit there are no panels any more."""
    if not places:
        return {}
    above = [place for place in places if place.is_list and shape.list_on_top]
    details = [place for place in places if place not in above]
    if not above or not details:
        return _side_by_side(details or above, shape, size.region)
    need = above[0].lines(size.width)
    rest = max(_lines_of(column, width) for column, width in _columns(details, shape, size))
    lines = _first_lines(size.height, need, rest)
    below = Region(0, lines, size.width, size.height - lines)
    return {above[0].number: Region(0, 0, size.width, lines), **_side_by_side(details, shape, below)}


def _side_by_side(places: Sequence[PanelPlace], shape: Shape, area: Region) -> dict[int, Region]:
    found, x = {}, area.x
    for column, width in _columns(places, shape, area.size):
        y = area.y
        for place, lines in zip(column, _heights(column, width, area.height), strict=True):
            found[place.number] = Region(x, y, width, lines)
            y += lines
        x += width
    return found


def _columns(places: Sequence[PanelPlace], shape: Shape, size: Size) -> list[tuple[list[PanelPlace], int]]:
    """The panels of each column and its width; a column without a panel of its own is left out."""
    last = max(0, len(shape.columns) - 1)
    own = [place for place in places if place.column is not None] or list(places)
    used = sorted({min(place.column or 0, last) for place in own})
    shares = [shape.columns[column] if shape.columns else 1 for column in used]
    edges = [round(size.width * sum(shares[:index]) / sum(shares)) for index in range(len(shares) + 1)]
    widths = [right - left for left, right in pairwise(edges)]
    columns = [[place for place in own if min(place.column or 0, last) == column] for column in used]
    for place in places:
        if place not in own:
            taken = [_lines_of(column, width) for column, width in zip(columns, widths, strict=True)]
            columns[len(taken) - 1 - taken[::-1].index(min(taken))].append(place)
    return list(zip(columns, widths, strict=True))


def _lines_of(column: Sequence[PanelPlace], width: int) -> int:
    return sum(place.lines(width) for place in column)


def _heights(column: Sequence[PanelPlace], width: int, room: int) -> list[int]:
    """Return what each panel needs, and the rest for those that have more, else for the last one.

    In too little room the list comes first, and the others share alike.
    """
    needs = [max(LEAST_LINES, place.lines(width)) for place in column]
    if sum(needs) <= room:
        takers = [index for index, place in enumerate(column) if place.has_more] or [len(column) - 1]
        share, odd = divmod(room - sum(needs), len(takers))
        return [
            need + (share if index in takers else 0) + (odd if index == takers[-1] else 0)
            for index, need in enumerate(needs)
        ]
    if column[0].is_list and len(column) > 1:
        first = _first_lines(room, needs[0], sum(needs[1:]))
        return [first, *_shared(needs[1:], room - first)]
    return _shared(needs, room)


def _first_lines(room: int, need: int, rest: int) -> int:
    """The lines of the list above panels that need `rest` lines."""
    return max(LEAST_LINES, min(need, max(room - rest, int(room * _LIST_SHARE)), room - LEAST_LINES))


def _shared(needs: Sequence[int], room: int) -> list[int]:
    """All of the room: those that need little get it, the others the same each."""
    heights = list(needs)
    left, order = room, sorted(range(len(needs)), key=lambda index: needs[index])
    for position, index in enumerate(order):
        heights[index] = min(needs[index], left // (len(order) - position))
        left -= heights[index]
    heights[-1] += left
    return heights


class PanelRegions(Layout):
    """A layout for Textual that puts each displayed child into the region that was computed for it."""

    name = "panels"

    def __init__(self, find: Callable[[Size], Mapping[Widget, Region]]) -> None:
        self._find = find

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> ArrangeResult:
        parent.pre_layout(self)
        found = self._find(size)
        return [WidgetPlacement(found[child], NULL_OFFSET, NULL_SPACING, child) for child in children if child in found]
