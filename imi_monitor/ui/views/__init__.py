"""Views: whole screens about one thing (a diff, the collisions, the queue). One file each, listed in VIEWS.

The list gives them their key, their palette entry and their line in the help.
"""

from __future__ import annotations

from imi_monitor.ui.views.base import Surroundings, View
from imi_monitor.ui.views.diff import DiffView
from imi_monitor.ui.views.files import FilesView
from imi_monitor.ui.views.log import LogView

__all__ = ["VIEWS", "Surroundings", "View"]

VIEWS: tuple[type[View], ...] = (
    DiffView,
    FilesView,
    LogView,
)
