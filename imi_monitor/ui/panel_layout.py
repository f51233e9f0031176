"""Which panels of the home screen are visible.

>= 120 columns: all of them. 80-119: the list and one detail, with tabs. Under 80: the list, or one panel instead of it.
A zoomed panel is alone at every width. Hidden panels do no work.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.screen import Screen

from imi_monitor.ui.panels import DETAIL_NUMBERS, Panel
from imi_monitor.ui.panels.panel import LIST

WIDE, MIDDLE = 120, 80


def width_class(width: int) -> str:
    """Return `wide`, `middle` or `narrow`."""
    return "wide" if width >= WIDE else "middle" if width >= MIDDLE else "narrow"


class PanelLayout:
    """Shows and hides panels; `detail` is the panel beside the list, `zoomed` the one that is alone."""

    def __init__(self, screen: Screen[None], panels: Sequence[Panel]) -> None:
        self._screen = screen
        self._panels = panels
        self.detail = DETAIL_NUMBERS[0]
        self.zoomed: int | None = None

    @property
    def width_class(self) -> str:
        return width_class(self._screen.app.size.width)

    def apply(self) -> None:
        """Show the panels there is space for."""
        width = self.width_class
        if self.zoomed is not None:
            visible = {self.zoomed}
        elif width == "wide":
            visible = {panel.number for panel in self._panels}
        else:
            visible = {panel.number for panel in self._panels if panel.slot == LIST}
            visible |= {self.detail} if width == "middle" else set()
        tabs = tuple((panel.number, panel.label) for panel in self._panels if panel.number in DETAIL_NUMBERS)
        for panel in self._panels:
            panel.display = panel.number in visible
            panel.tabs = tabs if width == "middle" and panel.number in DETAIL_NUMBERS and self.zoomed is None else ()
        self._screen.set_class(self.zoomed is not None, "-zoomed")

    def arrange(self, worktrees: int) -> None:
        """Order the panels in the wide grid, which is filled row by row: few worktrees leave space below the list."""
        few = worktrees + 5 < self._screen.app.size.height // 2
        if few != self._screen.has_class("-few"):
            self._screen.set_class(few, "-few")
            ranks = {panel.id: panel.rank_in_grid(few=few) for panel in self._panels}
            self._screen.query_one("#body").sort_children(key=lambda child: ranks.get(child.id, 0))

    def show(self, number: int) -> None:
        """Make a panel visible: where it does not fit beside the list, it takes the place of another one."""
        if number in DETAIL_NUMBERS:
            self.detail = number
        if self.zoomed is not None or self.width_class == "narrow":
            self.zoomed = number if number in DETAIL_NUMBERS or self.zoomed not in (None, *DETAIL_NUMBERS) else None
        self.apply()

    def zoom(self, number: int | None) -> None:
        """Show this panel alone; None: show all that fit."""
        self.zoomed = number
        self.apply()
