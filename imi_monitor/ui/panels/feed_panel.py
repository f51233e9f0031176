"""The base of panels that list log entries, the newest last, of all worktrees or of one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Generic, TypeVar

from textual.content import Content

from imi_monitor.model.change import Change
from imi_monitor.model.event_text import ShownEvent
from imi_monitor.model.snapshot import Key, Snapshot
from imi_monitor.model.text import safe
from imi_monitor.ui.panels.panel import FRAME, Panel
from imi_monitor.ui.widgets.row_list import ListRow

E = TypeVar("E", Change, ShownEvent)

_MAX_ROWS = 300
_USUAL_ROWS = 8


class FeedPanel(Panel, Generic[E]):
    """Subclasses give the entries of a snapshot and draw one. Rows show clock times, so no age makes them change."""

    follows_end = True
    empty_of_worktree = ""  # what an empty panel says about one worktree
    only: Key | None = None  # show this worktree only
    names = 0  # the width of the column with worktrees

    def entries(self, snapshot: Snapshot) -> Sequence[E]:
        raise NotImplementedError

    def entry_key(self, entry: E) -> str:
        raise NotImplementedError

    def home_of(self, entry: E) -> str | None:
        """The other home that an entry is from; None for this one."""
        return None

    def entry_line(self, entry: E, room: int) -> Content:
        raise NotImplementedError

    def lines_needed(self, snapshot: Snapshot, width: int) -> int:
        """Return a height that does not grow with the entries: the panels would move with every new one."""
        return FRAME + (_USUAL_ROWS if self.entries(snapshot) else self.message_lines(snapshot, width))

    def has_more(self, snapshot: Snapshot) -> bool:
        return len(self.entries(snapshot)) > _USUAL_ROWS

    def name_width(self, entries: Sequence[E], room: int) -> int:
        """The width of the column with worktrees, for panels whose lines have one."""
        return 0

    def row_inputs(self, snapshot: Snapshot, selected: Key | None) -> tuple[object, ...]:
        return (self.entries(snapshot), self.only)

    def subject(self) -> str:
        return safe(self.only.worktree, 30) if self.only else ""

    def rows(self, snapshot: Snapshot, selected: Key | None, now: datetime) -> Sequence[ListRow]:
        entries, only, room = self.entries(snapshot), self.only, self.room
        if only is not None:
            home = None if only.host == snapshot.host else only.host
            entries = [
                entry
                for entry in entries
                if (self.home_of(entry), entry.repo, entry.worktree) == (home, only.repo, only.worktree)
            ]
        entries = entries[-_MAX_ROWS:]
        self.names = self.name_width(entries, room)
        return [
            self.row(self.entry_key(entry), (entry, room, self.names), partial(self._entry_lines, entry, room))
            for entry in entries
        ]

    def _entry_lines(self, entry: E, room: int) -> tuple[Content, ...]:
        return (self.entry_line(entry, room),)

    def empty_text(self, snapshot: Snapshot) -> str:
        return self.empty_of_worktree.format(safe(self.only.worktree)) if self.only else self.empty_message
