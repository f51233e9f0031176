"""Sources: modules that each observe one part of the outside world and report readings to the engine.

MODULES is the registry. A new source takes its module with a `make_source`, one line here, and its field of the Snapshot.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.sources.source import Source, SourceContext

# Hints are passed on in this order.
MODULES = (
    "imi_monitor.sources.worktrees_source",
    "imi_monitor.sources.registry_source",
    "imi_monitor.sources.git_status_source",
    "imi_monitor.sources.changes_source",
    "imi_monitor.sources.earlier_changes_source",
    "imi_monitor.sources.collisions_source",
    "imi_monitor.sources.edit_warnings_source",
    "imi_monitor.sources.disk_source",
    "imi_monitor.sources.unread_source",
    "imi_monitor.sources.agents.agents_source",
    "imi_monitor.sources.runs_source",
    "imi_monitor.sources.turn_source",
    "imi_monitor.sources.installation_source",
    "imi_monitor.sources.homes_source",
    "imi_monitor.sources.forge_source",
    "imi_monitor.sources.sinks_source",
    "imi_monitor.sources.commits_source",
    "imi_monitor.auto_claim",  # also an action: it stands above this package
    "imi_monitor.auto_sync",  # likewise
    "imi_monitor.auto_follow",  # likewise
    "imi_monitor.auto_watch",  # likewise
    "imi_monitor.team.duties",  # likewise
)


def make_sources(context: SourceContext) -> list[Source]:
    """Return one of each source that the settings do not turn off. They are imported only now, after the first paint."""
    made = [import_module(name).make_source(context) for name in MODULES]
    return [source for source in made if source is not None]
