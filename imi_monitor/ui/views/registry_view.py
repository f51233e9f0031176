"""The base of views that list what an action reads from the registry (queue, claim history)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from textual.app import ComposeResult
from textual.content import Content

from imi_monitor.model import times
from imi_monitor.model.errors import ImiError
from imi_monitor.model.snapshot import Key, Snapshot
from imi_monitor.ui import cells
from imi_monitor.ui.background_query import BackgroundQuery, ShouldStop
from imi_monitor.ui.views.view import OpenContextAt, View
from imi_monitor.ui.widgets.row_list import ListRow, RowList, message_row

NARROW = 80  # cells below which a row has two lines


class RegistryView(View):
    """Subclasses read in a thread when the version changes, and make title and rows from the result."""

    wanted_row = ""  # the row that gets the cursor as soon as it is there

    def __init__(self, key: Key | None, open_context: OpenContextAt) -> None:
        super().__init__(key, open_context)
        self._version: object = None
        self._data: dict[str, Any] | None = None
        self._failed: str | None = None

    def version(self, snapshot: Snapshot) -> object:
        """A value that differs when there is something new to read."""
        raise NotImplementedError

    def read(self, stop: ShouldStop) -> dict[str, Any]:
        raise NotImplementedError

    def title_text(self, data: dict[str, Any] | None) -> tuple[str, str]:
        """The title and what stands behind it; None until the first result."""
        raise NotImplementedError

    def rows(self, data: dict[str, Any], now: datetime, width: int) -> Sequence[ListRow]:
        raise NotImplementedError

    def body(self) -> ComposeResult:
        yield RowList(id=self.word)

    def on_mount(self) -> None:
        self._query: BackgroundQuery[dict[str, Any]] = BackgroundQuery(self, self._received)
        self.query_one(RowList).focus()

    def show(self, snapshot: Snapshot, now: datetime) -> None:
        version = self.version(snapshot)
        if version != self._version:
            self._version = version
            self._query.start(self.read)
        self._draw(now)

    def _received(self, result: dict[str, Any] | ImiError) -> None:
        if isinstance(result, ImiError):
            self._failed, self._version = result.sentence, None  # read again with the next snapshot
        else:
            self._failed, self._data = None, result
        self._draw(times.now())

    def _draw(self, now: datetime) -> None:
        title, behind = self.title_text(self._data)
        tail = Content.styled(f"  {behind}" if behind else "", cells.MUTED)
        self.set_title(Content.styled(title, "bold").append(tail))
        lines = self.query_one(RowList)
        width = max(20, lines.size.width)
        rows = self._rows(now, width)
        lines.show(rows, 2 if width < NARROW else 1)
        if self.wanted_row and any(row.key == self.wanted_row for row in rows):
            lines.select(self.wanted_row)
            self.wanted_row = ""

    def _rows(self, now: datetime, width: int) -> Sequence[ListRow]:
        if self._failed is not None:
            return [message_row(cells.failure(self._failed))]
        return [message_row("looking…")] if self._data is None else self.rows(self._data, now, width)
