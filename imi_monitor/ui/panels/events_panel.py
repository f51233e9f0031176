"""Panel 5: the registry's events and those of other homes, the newest last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from textual.content import Content

from imi_monitor.model import event_text, repository_names
from imi_monitor.model.event_text import ShownEvent
from imi_monitor.model.repository_names import RepositoryNames
from imi_monitor.model.snapshot import Snapshot
from imi_monitor.ui import cells
from imi_monitor.ui.panels.feed_panel import FeedPanel


class EventsPanel(FeedPanel[ShownEvent]):
    number = 5
    column = None
    label = "Events"
    source = "registry"
    empty_message = "no events yet"
    empty_of_worktree = "no events of {} yet"

    _names = RepositoryNames()
    _folded: tuple[object, Sequence[ShownEvent]] = (None, ())

    def entries(self, snapshot: Snapshot) -> Sequence[ShownEvent]:
        """The events of the repositories shown, those of a session folded."""
        inputs = (snapshot.events, snapshot.repositories, snapshot.team_events)
        if self._folded[0] != inputs:
            self._names = repository_names.of_snapshot(snapshot)
            own = [one for one in snapshot.events if event_text.concerns(one, snapshot.repositories)]
            others = [replace(one, restorable=False) for one in event_text.fold(snapshot.team_events)]
            self._folded = (inputs, event_text.with_other_homes(event_text.fold(own), others))
        return self._folded[1]

    def entry_key(self, entry: ShownEvent) -> str:
        return f"{entry.event.host or ''} {entry.event.seq}"

    def home_of(self, entry: ShownEvent) -> str | None:
        return entry.event.host

    def entry_line(self, entry: ShownEvent, room: int) -> Content:
        return cells.event_line(entry, room, repository=self._names.prefix(entry.event.repo))


PANEL = EventsPanel
