"""Which panels of the home screen are visible, and where: the shape for the terminal's size, filled as the panels need it.

A zoomed panel is alone at every width. Hidden panels do no work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from textual.geometry import Region, Size
from textual.screen import Screen
from textual.widget import Widget

from imi_monitor.model.snapshot import Snapshot
from imi_monitor.ui import panel_regions
from imi_monitor.ui.panel_regions import MIDDLE, NARROW, ONE_PANEL, PanelPlace, Shape
from imi_monitor.ui.panels import DETAIL_NUMBERS, PANELS, Panel
from imi_monitor.ui.panels.panel import LIST

ALL_PANELS = "all_panels"
PRESETS = (ALL_PANELS, *dict.fromkeys(preset for panel in PANELS for preset in panel.presets))


def width_class(width: int) -> str:
    """Return `wide`, `middle` or `narrow`."""
    return "wide" if width >= MIDDLE else "middle" if width >= NARROW else "narrow"


class PanelLayout:
    """Shows and hides panels; `detail` is the panel that has the place with tabs, `zoomed` the one that is alone."""

    def __init__(self, screen: Screen[None], panels: Sequence[Panel]) -> None:
        self._screen = screen
        self._panels = panels
        self._snapshot: Snapshot | None = None  # the one that the regions are made for
        self._regions: dict[int, Region] = {}
        self._size = Size(0, 0)  # of the body
        self.detail = DETAIL_NUMBERS[0]
        self.preset = ALL_PANELS
        self.zoomed: int | None = None

    @property
    def reachable(self) -> list[int]:
        """The panels of the preset, visible or not."""
        every = self.preset == ALL_PANELS
        return [panel.number for panel in self._panels if every or self.preset in panel.presets]

    @property
    def shape(self) -> Shape:
        return panel_regions.shape_for(self._screen.app.size)

    def apply(self) -> None:
        """Show the panels there is space for."""
        visible, sharing = self._visible, self._sharing
        tabs = tuple((panel.number, panel.label) for panel in self._panels if panel.number in sharing)
        for panel in self._panels:
            panel.display = panel.number in visible
            panel.tabs = tabs if self.zoomed is None and panel.number in sharing else ()
        self._screen.set_class(self.zoomed is not None, "-zoomed")
        self._update_regions()

    @property
    def _sharing(self) -> tuple[int, ...]:
        """The panels that share the place with tabs."""
        first = self.shape.tabs_from
        if first is None:
            return ()
        details = [panel for panel in self._panels if panel.slot != LIST and panel.number in self.reachable]
        return tuple(panel.number for panel in details if panel.column is None or panel.column >= first)

    @property
    def _visible(self) -> set[int]:
        if self.zoomed is not None:
            return {self.zoomed}
        reachable, sharing = self.reachable, self._sharing
        if self.shape == ONE_PANEL:
            return set(reachable[:1])
        shown = self.detail if self.detail in sharing else sharing[0] if sharing else None
        return set(reachable) - {number for number in sharing if number != shown}

    def arrange(self, snapshot: Snapshot) -> None:
        """Give each panel the lines that it needs for this snapshot."""
        self._snapshot = snapshot
        self._update_regions()

    def find_regions(self, size: Size) -> Mapping[Widget, Region]:
        """The regions of the visible panels in a body of this size."""
        self._size = size
        self._regions = self._compute()
        return {panel: self._regions[panel.number] for panel in self._panels if panel.number in self._regions}

    def _update_regions(self) -> None:
        if self._size and self._compute() != self._regions:
            self._screen.query_one("#body").refresh(layout=True)

    def _compute(self) -> dict[int, Region]:
        shape = self.shape
        last = len(shape.columns) - 1
        places = [
            PanelPlace(
                panel.number,
                panel.slot == LIST,
                last if panel.tabs else panel.column,
                partial(_lines_needed, panel, self._snapshot),
                self._snapshot is not None and panel.has_more(self._snapshot),
            )
            for panel in self._panels
            if panel.display
        ]
        return panel_regions.regions(places, shape, self._size)

    def show(self, number: int) -> None:
        """Make a panel visible: where it does not fit beside the list, it takes the place of another one.

        A panel that the preset does not have brings all panels back.
        """
        if number not in self.reachable:
            self.preset = ALL_PANELS
        if number in DETAIL_NUMBERS:
            self.detail = number
        if self.zoomed is not None or self.shape == ONE_PANEL:
            self.zoomed = number if number in DETAIL_NUMBERS or self.zoomed not in (None, *DETAIL_NUMBERS) else None
        self.apply()

    def use_preset(self, preset: str) -> None:
        """Show the panels of this preset."""
        self.preset, self.zoomed = preset, None
        self.apply()

    def zoom(self, number: int | None) -> None:
        """Show this panel alone; None: show all that fit."""
        self.zoomed = number
        self.apply()


def _lines_needed(panel: Panel, snapshot: Snapshot | None, width: int) -> int:
    return panel_regions.LEAST_LINES if snapshot is None else panel.lines_needed(snapshot, width)
