"""Views: whole screens about one thing (a diff, the collisions, the queue). One file each, listed in VIEWS.

The list gives them their key, their palette entry and their line in the help.
"""

from __future__ import annotations

from imi_monitor.ui.views.agents_view import AgentsView
from imi_monitor.ui.views.claim_history_view import ClaimHistoryView
from imi_monitor.ui.views.collisions_view import CollisionsView
from imi_monitor.ui.views.command_log_view import CommandLogView
from imi_monitor.ui.views.diff_view import DiffView
from imi_monitor.ui.views.events_view import EventsView
from imi_monitor.ui.views.explain_view import ExplainView
from imi_monitor.ui.views.files_view import FilesView
from imi_monitor.ui.views.log_view import LogView
from imi_monitor.ui.views.queue_view import QueueView
from imi_monitor.ui.views.view import Surroundings, View

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
    CommandLogView,
)
