"""What all panels share: a numbered frame around lines, and the habit of drawing only what is new."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content

from imi_monitor.model.snapshot import Key, Snapshot
from imi_monitor.ui.widgets.lines import Lines, Row


class Panel(Container):
    """One panel. Subclasses say what it is called and which rows a snapshot gives."""

    name_shown = ""
    number = 0
    empty = "nothing here"  # why there is nothing, when there is nothing
    follows_end = False

    def __init__(self, number: int) -> None:
        super().__init__(id=f"panel-{number}", classes="panel")
        self.number = number
        self.lines = Lines(follow_end=self.follows_end)

    def compose(self) -> ComposeResult:
        yield self.lines

    def on_mount(self) -> None:
        self.border_title = Content(f"{self.number} {self.name_shown}")

    @property
    def room(self) -> int:
        """Cells a line may take."""
        return max(10, self.lines.size.width)

    def show(self, snapshot: Snapshot, selected: Key | None, now: datetime) -> None:
        """Draw the snapshot, if this panel can be seen at all."""
        if not self.display or not self.lines.size.width:
            return
        rows = self.rows(snapshot, selected, now)
        self.lines.show(
            rows or (Row("", (Content.styled(self.empty_text(snapshot), "$text-muted"),)),), self.height_of_row()
        )

    def rows(self, snapshot: Snapshot, selected: Key | None, now: datetime) -> Sequence[Row]:
        raise NotImplementedError

    def empty_text(self, snapshot: Snapshot) -> str:
        return self.empty

    def height_of_row(self) -> int:
        return 1
