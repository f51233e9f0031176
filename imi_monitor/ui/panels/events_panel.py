"""Panel 5: the registry's events, the newest last."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from imi_monitor.model.snapshot import Key, Snapshot
from imi_monitor.model.text import safe
from imi_monitor.ui import cells
from imi_monitor.ui.panels.panel import Panel
from imi_monitor.ui.widgets.row_list import ListRow

_SHOWN = 300


class EventsPanel(Panel):
    number = 5
    grid_place = 50
    label = "Events"
    empty_message = "no events yet"
    source = "registry"
    follows_end = True
    only: Key | None = None  # show this worktree only

    def row_inputs(self, snapshot: Snapshot, selected: Key | None) -> tuple[object, ...]:
        """Rows show clock times, not ages: they change only with the events."""
        return (snapshot.events, self.only)

    def subject(self) -> str:
        return safe(self.only.worktree, 30) if self.only else ""

    def rows(self, snapshot: Snapshot, selected: Key | None, now: datetime) -> Sequence[ListRow]:
        lines = snapshot.events
        if self.only is not None:
            lines = tuple(e for e in lines if (e.repo, e.worktree) == (self.only.repo, self.only.worktree))
        room = self.room
        return [
            self.row(str(line.seq), (line, room), lambda line=line: (cells.event_line(line, room),))  # type: ignore[misc]
            for line in lines[-_SHOWN:]
        ]

    def empty_text(self, snapshot: Snapshot) -> str:
        return f"no events of {safe(self.only.worktree)} yet" if self.only else self.empty_message


PANEL = EventsPanel
