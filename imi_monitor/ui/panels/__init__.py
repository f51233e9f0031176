"""The dashboard's panels. A panel is one file here, one line in PANELS, and a block in styles/panels.tcss."""

from __future__ import annotations

from imi_monitor.ui.panels.agents_panel import AgentsPanel
from imi_monitor.ui.panels.changes_panel import ChangesPanel
from imi_monitor.ui.panels.events_panel import EventsPanel
from imi_monitor.ui.panels.git_panel import GitPanel
from imi_monitor.ui.panels.panel import Panel
from imi_monitor.ui.panels.worktrees_panel import WorktreesPanel

PANELS: tuple[type[Panel], ...] = (WorktreesPanel, GitPanel, AgentsPanel, ChangesPanel, EventsPanel)
"""In the order of their numbers: 1 is the first."""

__all__ = ["PANELS", "Panel"]
