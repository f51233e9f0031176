"""The dashboard's panels. A panel is one file here, one line in PANELS, and a block in styles/panels.tcss."""

from __future__ import annotations

from imi_monitor.ui.panels.agents import AgentsPanel
from imi_monitor.ui.panels.base import Panel
from imi_monitor.ui.panels.changes import ChangesPanel
from imi_monitor.ui.panels.events import EventsPanel
from imi_monitor.ui.panels.git import GitPanel
from imi_monitor.ui.panels.worktrees import WorktreesPanel

PANELS: tuple[type[Panel], ...] = (WorktreesPanel, GitPanel, AgentsPanel, ChangesPanel, EventsPanel)
"""In the order of their numbers: 1 is the first."""

__all__ = ["PANELS", "Panel"]
