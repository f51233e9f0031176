"""View `f`: every file the selected worktree changed, how much, when, by whom, and who else has it in hand."""

from __future__ import annotations

from threading import Event

from textual.binding import Binding
from textual.content import Content

from imi_monitor.actions.status import diff_action as action
from imi_monitor.git import git_diff
from imi_monitor.model import columns, times
from imi_monitor.model.diff import ONLY_COUNTS, Diff
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import count, safe
from imi_monitor.ui import cells, diff_painter, editor
from imi_monitor.ui.cells import MUTED
from imi_monitor.ui.changed_files import FileDetails, FileRow, changed_files
from imi_monitor.ui.views.diff_view import DiffView
from imi_monitor.ui.views.sheet_view import ItemsView

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.git.git_diff import Kind
    from imi_monitor.model.snapshot import Key, Worktree
    from imi_monitor.ui.views.view import Surroundings

_WIDE = 76  # cells from which there are columns for who and for the others


class FilesView(ItemsView[FileDetails, FileRow]):
    word = "files"
    opening_key = "f"
    label = "Files"
    help = "the files the selected worktree changed: lines, age, who, and who else touches them"

    BINDINGS = [Binding("enter", "choose", "Diff"), Binding("e", "edit", "Editor")]

    def __init__(self, key: Key | None, surroundings: Surroundings) -> None:
        super().__init__(key, surroundings)
        self._details: FileDetails | None = None
        self._parts: tuple[object, ...] = ()  # of what the rows were made

    # -- reading ----------------------------------------------------------------------------------------------------

    def ask(self, context: Context, one: Target, tree: Worktree, stop: Event) -> FileDetails:
        uncommitted = action.read(context, one, "all", [], ONLY_COUNTS)
        try:
            committed = action.read(context, one, "trunk", [], ONLY_COUNTS, new_files=False)
        except Refused:  # no trunk, no commit, or nothing in common: then there is no such part
            committed = Diff()
        written = git_diff.written(tree.path, [file.path for file in uncommitted.files])
        return FileDetails(uncommitted, committed, written)

    def arrived(self, found: FileDetails) -> None:
        self._details = found

    # -- drawing ----------------------------------------------------------------------------------------------------

    def listed(self) -> list[FileRow | str]:
        tree = self.worktree
        parts = (
            tree,
            self.snapshot and self.snapshot.collisions,
            self.snapshot and self.snapshot.changes,
            self._details,
        )
        if all(one is other for one, other in zip(parts, self._parts, strict=False)) and self._parts:
            return self.rows  # thousands are not sorted again because something else moved
        self._parts = parts
        found = changed_files(self.snapshot, tree, self._details) if self.snapshot and tree and not tree.missing else []
        own = [row for row in found if not row.committed]
        rest = [row for row in found if row.committed]
        trunk = safe(self._details.committed.base or "the trunk", 60) if self._details else ""
        divider = [f"committed since {trunk}"] if rest else []
        ending = [f"and {count(self._more, 'more uncommitted file')}"] if self._more else []
        return [*own, *ending, *divider, *rest]

    @property
    def _more(self) -> int:
        """Uncommitted files that are only counted."""
        return self._details.uncommitted.omitted if self._details else 0

    def identity(self, thing: FileRow) -> object:
        return thing.path

    def nothing(self) -> Content | None:
        if self._details is None or self.worktree is None or self.worktree.git is None:
            return None
        return Content.styled(" ✓ no file is changed, and no commit is ahead of the trunk", "$success")

    def headline(self) -> Content:
        files = [row for row in self.rows if isinstance(row, FileRow)]
        committed, met = sum(row.committed for row in files), sum(bool(row.overlaps) for row in files)
        open_ = len(files) - committed
        told = f" · {count(open_, 'file')} uncommitted" if open_ else " · nothing uncommitted" if committed else ""
        told += f" and {self._more:,} more" if self._more else ""
        told += f" · {committed} committed" if committed else ""
        head = Content.styled(f"Files {self.called}", "bold").append(self.trouble()).append(Content.styled(told, MUTED))
        return head.append(Content.styled(f" · ⚡ {met} elsewhere too", "$collision")) if met else head

    def line(self, thing: FileRow, width: int) -> Content:
        letters, tail = thing.letters.replace(".", " "), self._tail(thing, width)
        name = safe(thing.path, 1000) + (f" (was {safe(thing.origin, 1000)})" if thing.origin else "")
        room = max(6, width - 4 - tail.cell_length)
        path = Content(columns.pad(diff_painter.shorten_path(name, room), room))
        return Content("").join([Content.styled(f" {letters} ", _style(thing)), path, tail])

    def _tail(self, row: FileRow, width: int) -> Content:
        """Lines, age, who and the others: each in its own column."""
        plus = Content.styled(f"+{row.added:,}" if row.added else "", "$text-success")
        minus = Content.styled(f"−{row.removed:,}" if row.removed else "", "$text-error")
        if row.binary:
            plus, minus = Content.styled("bin", MUTED), Content("")
        age = cells.fixed(times.age_of(row.at, self.now) if row.at else "", 5, MUTED, right=True)
        parts = [_right(plus, 7), _right(minus, 7), age]
        if width >= _WIDE:
            who = cells.fixed(safe(row.by or "", 40), 12, "" if row.by else MUTED)
            met = f"⚡ {', '.join(safe(name, 40) for name in row.overlaps)}" if row.overlaps else ""
            parts += [Content("  "), who, Content(" "), cells.fixed(met, max(14, width // 5), "$collision")]
        else:
            parts.append(cells.fixed(" ⚡" if row.overlaps else "", 3, "$collision"))
        return Content("").join(parts)

    # -- keys -------------------------------------------------------------------------------------------------------

    def choose(self, thing: FileRow) -> None:
        kind: Kind = "trunk" if thing.committed else "all"
        self.open(DiffView(self.key, self.surroundings, kind=kind, path=thing.path))

    def action_edit(self) -> None:
        tree, row = self.worktree, self.chosen
        if tree is not None and not tree.missing and row is not None:
            editor.edit(self.app, tree.path, row.path)


def _style(row: FileRow) -> str:
    if row.committed:
        return MUTED
    letters = row.letters
    if "U" in letters:
        return "$text-error bold"
    return "$text-success" if letters[1] == "." or "?" in letters else "$text-warning"


def _right(content: Content, width: int) -> Content:
    return content.pad_left(max(0, width - content.cell_length))


VIEW = FilesView
