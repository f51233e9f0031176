"""The priority files and task definitions of a worktree with the items that each makes; `enter` starts one as a batch."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from textual import on
from textual.binding import Binding
from textual.content import Content

from imi_monitor.actions.board import batch_files
from imi_monitor.actions.board.batch_files import BatchFile
from imi_monitor.model import times
from imi_monitor.model.snapshot import Snapshot
from imi_monitor.model.text import count, safe
from imi_monitor.ui import cells
from imi_monitor.ui.background_query import ShouldStop
from imi_monitor.ui.views.registry_view import NARROW, RegistryView
from imi_monitor.ui.widgets.row_list import ListRow, RowList, message_row

if TYPE_CHECKING:
    from imi_monitor.ui.app import ImiApp

_NAME, _COUNT = 44, 12
_SECONDS = 3  # between two looks at the folders


class BatchFilesView(RegistryView):
    word = "batch-files"
    label = "Files of batches"
    BINDINGS = [Binding("enter", "start", "Start", key_display="⏎", tooltip="start an agent on each item of the file")]

    def version(self, snapshot: Snapshot) -> object:
        return int(times.now().timestamp()) // _SECONDS

    def read(self, stop: ShouldStop) -> dict[str, Any]:
        with self.open_context(None) as context:
            return {"files": batch_files.list_files(batch_files.top_of(context)[1])}

    def title_text(self, data: dict[str, Any] | None) -> tuple[str, str]:
        return "Files", f"{count(len(data['files']), 'file')} of reports/ and tasks/" if data and data["files"] else ""

    def rows(self, data: dict[str, Any], now: datetime, width: int) -> Sequence[ListRow]:
        rows = [ListRow(one.name, _lines(one, width)) for one in data["files"]]
        return rows or [message_row("no files: `imi item template` writes reports/priorities-YYYY-MM-DD.md to fill in")]

    @on(RowList.RowChosen)
    def action_start(self) -> None:
        """Open the dialog that starts the file under the cursor as a batch, in the background."""
        name = self.query_one(RowList).cursor
        found = next((one for one in (self._data or {"files": ()})["files"] if one.name == name), None)
        if found is not None:
            values: dict[str, object] = {"file": found.path, "detach": True}
            cast("ImiApp", self.app).action_commands.open(
                "batch", [], values=values, done=lambda _: self.action_leave()
            )


def _lines(one: BatchFile, width: int) -> tuple[Content, ...]:
    found = one.found
    bad = Content.styled(safe(found.problem or "", 100), "$error")
    number = count(len(found.items), "item") + (f", {found.done} ticked" if found.done else "")
    titles = Content.styled("; ".join(safe(item.title, 60) for item in found.items[:9]), cells.MUTED)
    name = cells.fixed_name(safe(one.name, 120), min(_NAME, width), "bold")
    if width < NARROW:
        below = bad if found.problem else Content(f"  {number}  ").append(titles)
        return name.truncate(width), below.truncate(width, ellipsis=True)
    behind = bad if found.problem else cells.fixed(number, _COUNT + 8).append(titles)
    return (name.append("  ").append(behind).truncate(width, ellipsis=True),)
