"""View `f`: every file the selected worktree changed, how much, when, by whom, and who else has it in hand."""

from __future__ import annotations

from datetime import datetime
from threading import Event
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content

from imi_monitor.actions import diff as action
from imi_monitor.git import untracked
from imi_monitor.model import columns, times
from imi_monitor.model.diff import ONLY_COUNTS, Diff
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import count, safe
from imi_monitor.ui import cells, diff_paint, editor
from imi_monitor.ui.diff_paint import MUTED
from imi_monitor.ui.file_rows import Details, FileRow, rows
from imi_monitor.ui.views.diff import DiffView
from imi_monitor.ui.views.reading import ReadingView
from imi_monitor.ui.widgets.sheet import Sheet

if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.target import Target
    from imi_monitor.git.diff import Kind
    from imi_monitor.model.snapshot import Key, Snapshot, Worktree
    from imi_monitor.ui.views.base import Surroundings

_WIDE = 76  # cells from which there are columns for who and for the others


class FilesView(ReadingView[Details]):
    word = "files"
    key_shown = "f"
    label = "Files"
    help = "the files the selected worktree changed: lines, age, who, and which other worktree touches them"

    BINDINGS = [
        Binding("enter", "choose", "Diff"),
        Binding("e", "edit", "Editor"),
        Binding("f", "stay", show=False),
    ]

    def __init__(self, key: Key | None, surroundings: Surroundings) -> None:
        super().__init__(key, surroundings)
        self._details: Details | None = None
        self._rows: list[FileRow | str] = []  # a text stands between two parts
        self._now = times.now()

    def body(self) -> ComposeResult:
        yield Sheet(id="files-rows")

    def on_mount(self) -> None:
        self.sheet.focus()

    @property
    def sheet(self) -> Sheet:
        return self.query_one(Sheet)

    @property
    def chosen(self) -> FileRow | None:
        row = self._rows[self.sheet.cursor] if self.sheet.cursor < len(self._rows) else None
        return row if isinstance(row, FileRow) else None

    # -- reading ----------------------------------------------------------------------------------------------------

    def ask(self, context: Context, one: Target, tree: Worktree, stop: Event) -> Details:
        uncommitted = action.read(context, one, "all", [], ONLY_COUNTS)
        try:
            committed = action.read(context, one, "trunk", [], ONLY_COUNTS, new_files=False)
        except Refused:  # no trunk, no commit, or nothing in common: then there is no such part
            committed = Diff()
        written = untracked.written(tree.path, [file.path for file in uncommitted.files])
        return Details(uncommitted, committed, written)

    def arrived(self, found: Details) -> None:
        self._details = found

    # -- drawing ----------------------------------------------------------------------------------------------------

    def show(self, snapshot: Snapshot, now: datetime) -> None:
        self._now = now
        super().show(snapshot, now)

    def redraw(self) -> None:
        tree, before = self.worktree, self.chosen
        found = rows(self.snapshot, tree, self._details) if self.snapshot and tree and not tree.missing else []
        own = [row for row in found if not row.committed]
        rest = [row for row in found if row.committed]
        trunk = safe(self._details.committed.base or "the trunk", 60) if self._details else ""
        divider = [f"committed since {trunk}"] if rest else []
        more = self._details.uncommitted.omitted if self._details else 0
        ending = [f"and {count(more, 'more uncommitted file')}"] if more else []
        self._rows = [*own, *ending, *divider, *rest]
        at = next((index for index, row in enumerate(self._rows)
                   if before and isinstance(row, FileRow) and row.path == before.path), None)  # fmt: skip
        if self._rows:
            self.sheet.show(len(self._rows), self._draw, cursor=at)
        else:
            self.sheet.show(1, lambda _row, _width: self._empty(tree))
        self.set_title(self._headline(own, rest))

    def _empty(self, tree: Worktree | None) -> Content:
        if self.problem:
            return Content.styled(f" ? {safe(self.problem, 400)}", "$error")
        if tree is None or tree.git is None:
            return Content.styled(" asking git…", MUTED)
        return Content.styled(" ✓ no file is changed, and no commit is ahead of the trunk", "$success")

    def _headline(self, own: list[FileRow], rest: list[FileRow]) -> Content:
        head = Content.styled(f"Files {self.called}", "bold").append(self.trouble())
        more = self._details.uncommitted.omitted if self._details else 0
        told = f" · {count(len(own), 'file')} uncommitted" + (f" and {more:,} more" if more else "")
        told += f" · {len(rest)} committed" if rest else ""
        head = head.append(Content.styled(told, MUTED))
        met = sum(bool(row.meets) for row in [*own, *rest])
        if met:
            head = head.append(Content.styled(f" · ⚡ {met} touched elsewhere too", "$error"))
        return head

    def _draw(self, index: int, width: int) -> Content:
        row = self._rows[index]
        if isinstance(row, str):
            return Content.styled(f"── {row} ".ljust(width, "─"), MUTED)
        letters = row.letters.replace(".", " ")
        parts = [Content.styled(f" {letters} ", _style(row))]
        tail = self._tail(row, width)
        name = safe(row.path, 1000) + (f" (was {safe(row.origin, 1000)})" if row.origin else "")
        room = max(6, width - 4 - tail.cell_length)
        parts.append(Content(columns.pad(diff_paint.shortened(name, room), room)))
        return Content("").join([*parts, tail])

    def _tail(self, row: FileRow, width: int) -> Content:
        """Lines, age, who and the others: each in its own column."""
        plus = Content.styled(f"+{row.added:,}" if row.added else "", "$text-success")
        minus = Content.styled(f"−{row.removed:,}" if row.removed else "", "$text-error")
        if row.binary:
            plus, minus = Content.styled("bin", MUTED), Content("")
        age = cells.text(times.age_of(row.at, self._now) if row.at else "", 5, MUTED, right=True)
        parts = [_right(plus, 7), _right(minus, 7), age]
        if width >= _WIDE:
            who = cells.text(safe(row.by or "", 40), 12, "" if row.by else MUTED)
            met = f"⚡ {', '.join(safe(name, 40) for name in row.meets)}" if row.meets else ""
            parts += [Content("  "), who, Content(" "), cells.text(met, max(14, width // 5), "$error")]
        elif row.meets:
            parts.append(Content.styled(" ⚡", "$error"))
        else:
            parts.append(Content("  "))
        return Content("").join(parts)

    # -- keys -------------------------------------------------------------------------------------------------------

    @on(Sheet.Chosen)
    def action_choose(self) -> None:
        row = self.chosen
        if row is not None:
            kind: Kind = "trunk" if row.committed else "all"
            self.open(DiffView(self.key, self.surroundings, kind=kind, path=row.path))

    def action_edit(self) -> None:
        tree, row = self.worktree, self.chosen
        if tree is not None and not tree.missing and row is not None:
            editor.edit(self.app, tree.path, row.path)

    def action_stay(self) -> None:
        """The view is open already."""


def _style(row: FileRow) -> str:
    if row.committed:
        return MUTED
    letters = row.letters
    if "U" in letters:
        return "$text-error bold"
    return "$text-success" if letters[1] == "." or "?" in letters else "$text-warning"


def _right(content: Content, width: int) -> Content:
    return content.pad_left(max(0, width - content.cell_length))
