"""Panel 5: the registry's log, newest last."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from imi_monitor.model.snapshot import Key, Snapshot
from imi_monitor.ui import cells
from imi_monitor.ui.panels.base import Panel
from imi_monitor.ui.widgets.lines import Row

_SHOWN = 300


class EventsPanel(Panel):
    name_shown = "Events"
    empty = "no events yet"
    follows_end = True

    def rows(self, snapshot: Snapshot, selected: Key | None, now: datetime) -> Sequence[Row]:
        return [Row(str(line.seq), (cells.event(line, self.room),)) for line in snapshot.events[-_SHOWN:]]
