"""Views: full screens about one thing (a diff, the collisions, the queue), one module each.

MODULES is the registry. A new view takes its module and one line here; `make docs` then writes the command table, from
which its key, its palette entry and its line in the help are made without importing it.
"""

from __future__ import annotations

from imi_monitor import command_table
from imi_monitor.ui.views.view import OpenContextAt, View

__all__ = ["MODULES", "OpenContextAt", "View", "load", "view_class"]

MODULES = (
    "imi_monitor.ui.views.agents_view",
    "imi_monitor.ui.views.explain_view",
    "imi_monitor.ui.views.session_view",
    "imi_monitor.ui.views.diff_view",
    "imi_monitor.ui.views.files_view",
    "imi_monitor.ui.views.log_view",
    "imi_monitor.ui.views.collisions_view",
    "imi_monitor.ui.views.claim_history_view",
    "imi_monitor.ui.views.queue_view",
    "imi_monitor.ui.views.trash_view",
    "imi_monitor.ui.views.board_view",
    "imi_monitor.ui.views.jobs_view",
    "imi_monitor.ui.views.compare_view",
    "imi_monitor.ui.views.hosts_view",
    "imi_monitor.ui.views.milestones_view",
    "imi_monitor.ui.views.events_view",
    "imi_monitor.ui.views.history_view",
    "imi_monitor.ui.views.command_log_view",
)
"""The modules of the views, in the order of the help. Each ends with `VIEW`, its class."""


def view_class(word: str) -> type[View]:
    """The view with this word; KeyError when there is none."""
    return load(next(row["module"] for row in command_table.VIEWS if row["word"] == word))


def load(module: str) -> type[View]:
    """The view that a module declares."""
    view: type[View] = __import__(module, fromlist=["VIEW"]).VIEW
    return view
