"""Panel 4: what changed on disk, newest last."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from imi_monitor.model.snapshot import Key, Snapshot
from imi_monitor.ui import cells
from imi_monitor.ui.panels.base import Panel
from imi_monitor.ui.widgets.lines import Row

_SHOWN = 300


class ChangesPanel(Panel):
    name_shown = "Changes"
    empty = "no file has changed since the start"
    follows_end = True

    def rows(self, snapshot: Snapshot, selected: Key | None, now: datetime) -> Sequence[Row]:
        lines = snapshot.changes[-_SHOWN:]
        return [
            Row(f"{line.at} {line.worktree} {line.path} {line.kind}", (cells.change(line, now, self.room),))
            for line in lines
        ]
