"""The panels of the home screen.

A panel is one file here, one entry in PANELS and a block in styles/panels.tcss. Its class declares its number (the key that goes
to it), its slot and its place in the grid.
"""

from __future__ import annotations

from collections.abc import Iterable

from imi_monitor.ui.panels.agents_panel import AgentsPanel
from imi_monitor.ui.panels.changes_panel import ChangesPanel
from imi_monitor.ui.panels.events_panel import EventsPanel
from imi_monitor.ui.panels.git_panel import GitPanel
from imi_monitor.ui.panels.panel import DETAIL, Panel
from imi_monitor.ui.panels.worktrees_panel import WorktreesPanel

_CLASSES: tuple[type[Panel], ...] = (WorktreesPanel, GitPanel, AgentsPanel, ChangesPanel, EventsPanel)

PANELS = tuple(sorted(_CLASSES, key=lambda panel: panel.number))
DETAIL_NUMBERS = tuple(panel.number for panel in PANELS if panel.slot == DETAIL)

__all__ = ["DETAIL_NUMBERS", "PANELS", "Panel", "in_grid_order"]


def in_grid_order(panels: Iterable[Panel], *, few: bool) -> list[Panel]:
    """The panels in the order in which the wide grid is filled; `few` when the list needs little height."""
    return sorted(panels, key=lambda panel: panel.rank_in_grid(few=few))
