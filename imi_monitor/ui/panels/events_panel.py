"""Panel 5: the registry's events, the newest last."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from imi_monitor.model.snapshot import RegistryEvent, Snapshot
from imi_monitor.ui import cells
from imi_monitor.ui.panels.feed_panel import FeedPanel


class EventsPanel(FeedPanel[RegistryEvent]):
    number = 5
    column = None
    label = "Events"
    source = "registry"
    empty_message = "no events yet"
    empty_of_worktree = "no events of {} yet"

    def entries(self, snapshot: Snapshot) -> Sequence[RegistryEvent]:
        return snapshot.events

    def entry_key(self, entry: RegistryEvent) -> str:
        return str(entry.seq)

    def entry_line(self, entry: RegistryEvent, room: int) -> Content:
        return cells.event_line(entry, room)


PANEL = EventsPanel
