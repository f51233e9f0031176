"""Panel 4: changed files, the newest last."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from imi_monitor.model.change import Change
from imi_monitor.model.snapshot import Snapshot
from imi_monitor.ui import cells
from imi_monitor.ui.panels.feed_panel import FeedPanel


class ChangesPanel(FeedPanel[Change]):
    number = 4
    grid_place = 30
    label = "Changes"
    source = "files"
    empty_message = "no file has changed since the start"
    empty_of_worktree = "no file of {} has changed since the start"

    def entries(self, snapshot: Snapshot) -> Sequence[Change]:
        return snapshot.changes

    def entry_key(self, entry: Change) -> str:
        return f"{entry.at} {entry.worktree} {entry.path} {entry.kind}"

    def entry_line(self, entry: Change, room: int) -> Content:
        return cells.change_line(entry, room)


PANEL = ChangesPanel
