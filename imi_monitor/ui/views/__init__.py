"""Views: whole screens about one thing (a diff, the collisions, the queue). One file each, listed in VIEWS.

The list gives them their key, their palette entry and their line in the help.
"""

from __future__ import annotations

from imi_monitor.ui.views.agents import AgentsView
from imi_monitor.ui.views.base import Surroundings, View
from imi_monitor.ui.views.claim_history import ClaimHistoryView
from imi_monitor.ui.views.collisions import CollisionsView
from imi_monitor.ui.views.commands import CommandsView
from imi_monitor.ui.views.diff import DiffView
from imi_monitor.ui.views.events import EventsView
from imi_monitor.ui.views.explain import ExplainView
from imi_monitor.ui.views.files import FilesView
from imi_monitor.ui.views.log import LogView
from imi_monitor.ui.views.queue import QueueView

__all__ = ["VIEWS", "Surroundings", "View"]

VIEWS: tuple[type[View], ...] = (
    AgentsView,
    ExplainView,
    DiffView,
    FilesView,
    LogView,
    CollisionsView,
    ClaimHistoryView,
    QueueView,
    EventsView,
    CommandsView,
)
