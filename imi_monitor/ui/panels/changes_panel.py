"""Panel 4: changed files, the newest last."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from imi_monitor.model.snapshot import Key, Snapshot
from imi_monitor.model.text import safe
from imi_monitor.ui import cells
from imi_monitor.ui.panels.panel import Panel
from imi_monitor.ui.widgets.row_list import ListRow

_SHOWN = 300


class ChangesPanel(Panel):
    number = 4
    grid_place = 30
    label = "Changes"
    empty_message = "no file has changed since the start"
    source = "files"
    follows_end = True
    only: Key | None = None  # show this worktree only

    def row_inputs(self, snapshot: Snapshot, selected: Key | None) -> tuple[object, ...]:
        """Rows show clock times, not ages: they change only with the changes."""
        return (snapshot.changes, self.only)

    def subject(self) -> str:
        return safe(self.only.worktree, 30) if self.only else ""

    def rows(self, snapshot: Snapshot, selected: Key | None, now: datetime) -> Sequence[ListRow]:
        lines = snapshot.changes
        if self.only is not None:
            lines = tuple(c for c in lines if (c.repo, c.worktree) == (self.only.repo, self.only.worktree))
        room = self.room
        return [
            self.row(
                f"{line.at} {line.worktree} {line.path} {line.kind}",
                (line, room),
                lambda line=line: (cells.change_line(line, room),),  # type: ignore[misc]
            )
            for line in lines[-_SHOWN:]
        ]

    def empty_text(self, snapshot: Snapshot) -> str:
        return f"no file of {safe(self.only.worktree)} has changed since the start" if self.only else self.empty_message


PANEL = ChangesPanel
