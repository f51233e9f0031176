"""The panels of the home screen.

MODULES is the registry. A new panel takes its module, one line here and a block in styles/panels.tcss. Its class declares its
number (the key that goes to it), its slot, its column and the lines it needs.
"""

from __future__ import annotations

from imi_monitor.ui.panels.panel import DETAIL, Panel

__all__ = ["DETAIL_NUMBERS", "MODULES", "PANELS", "Panel"]

MODULES = (
    "imi_monitor.ui.panels.worktrees_panel",
    "imi_monitor.ui.panels.git_panel",
    "imi_monitor.ui.panels.agents_panel",
    "imi_monitor.ui.panels.changes_panel",
    "imi_monitor.ui.panels.events_panel",
)
"""The modules of the panels. Each ends with `PANEL`, its class."""


def _load(module: str) -> type[Panel]:
    panel: type[Panel] = __import__(module, fromlist=["PANEL"]).PANEL
    return panel


PANELS = tuple(sorted(map(_load, MODULES), key=lambda panel: panel.number))
DETAIL_NUMBERS = tuple(panel.number for panel in PANELS if panel.slot == DETAIL)
