"""The files the selected worktree changed: lines, age, owner, and other worktrees that changed them too."""

from __future__ import annotations

from threading import Event

from textual.binding import Binding
from textual.content import Content

from imi_monitor.actions.status import diff_action as action
from imi_monitor.git import git_diff
from imi_monitor.model import amounts, columns, diff_identity, times
from imi_monitor.model.diff import COUNTS_ONLY, Diff
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import count, safe
from imi_monitor.ui import cells, diff_painter, editor, file_commands
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
    from imi_monitor.ui.views.view import OpenContextAt

_WIDE = 76  # cells from which there are columns for owner and overlaps


class FilesView(ItemsView[FileDetails, FileRow]):
    word = "files"
    opening_key = "f"
    label = "Files"
    help = "the files the selected worktree changed: lines, age, owner and overlaps"

    BINDINGS = [
        Binding("enter", "choose", "Diff", tooltip="show the file's diff"),
        Binding("plus", "act('stage')", "Stage", key_display="+", tooltip="stage the file"),
        Binding("minus", "act('unstage')", "Unstage", key_display="-", show=False, tooltip="unstage the file"),
        Binding("x", "act('discard')", "Discard", tooltip="discard the file's changes, after a dialog"),
        Binding("C", "commit", "Commit", show=False, tooltip="commit what is staged, with a message from your editor"),
        Binding("P", "push", "Push", show=False, tooltip="push the branch to its upstream, after a dialog"),
        Binding("e", "edit", "Editor", tooltip="open the file in the editor"),
    ]

    def __init__(self, key: Key | None, open_context: OpenContextAt) -> None:
        super().__init__(key, open_context)
        self._details: FileDetails | None = None
        self._inputs: tuple[object, ...] = ()  # what the rows were made from

    # -- reading ----------------------------------------------------------------------------------------------------

    def read(self, context: Context, target: Target, tree: Worktree, stop: Event) -> FileDetails:
        uncommitted = action.read(context, target, "all", [], COUNTS_ONLY)
        try:
            committed = action.read(context, target, "trunk", [], COUNTS_ONLY, new_files=False)
        except Refused:  # no trunk, no commit, or no common ancestor
            committed = Diff()
        written = git_diff.written(tree.path, [file.path for file in uncommitted.files])
        return FileDetails(uncommitted, committed, written)

    def received(self, result: FileDetails) -> None:
        self._details = result

    # -- drawing ----------------------------------------------------------------------------------------------------

    def items(self) -> list[FileRow | str]:
        tree = self.worktree
        inputs = (
            tree,
            self.snapshot and self.snapshot.collisions,
            self.snapshot and self.snapshot.changes,
            self._details,
        )
        if all(one is other for one, other in zip(inputs, self._inputs, strict=False)) and self._inputs:
            return self.rows
        self._inputs = inputs
        found = changed_files(self.snapshot, tree, self._details) if self.snapshot and tree and not tree.missing else []
        own = [row for row in found if not row.committed]
        rest = [row for row in found if row.committed]
        trunk = safe(self._details.committed.base or "the trunk", 60) if self._details else ""
        divider = [f"committed since {trunk}"] if rest else []
        ending = [f"and {count(self._unlisted, 'more uncommitted file')}"] if self._unlisted else []
        return [*own, *ending, *divider, *rest]

    @property
    def _unlisted(self) -> int:
        """How many uncommitted files are counted but not listed."""
        return self._details.uncommitted.omitted if self._details else 0

    def identity(self, item: FileRow) -> object:
        return item.path

    def empty_text(self) -> Content | None:
        if self._details is None or self.worktree is None or self.worktree.git is None:
            return None
        return Content.styled(" ✓ no file is changed, and no commit is ahead of the trunk", "$success")

    def title_text(self) -> Content:
        files = [row for row in self.rows if isinstance(row, FileRow)]
        committed, met = sum(row.committed for row in files), sum(bool(row.overlaps) for row in files)
        open_ = len(files) - committed
        text = f" · {count(open_, 'file')} uncommitted" if open_ else " · nothing uncommitted" if committed else ""
        text += f" and {amounts.count(self._unlisted)} more" if self._unlisted else ""
        text += f" · {committed} committed" if committed else ""
        head = Content.styled(f"Files {self.worktree_name}", "bold").append(self.problem_text())
        head = head.append(Content.styled(text, MUTED))
        return head.append(Content.styled(f" · ⚡ {count(met, 'overlap')}", "$collision")) if met else head

    def item_line(self, item: FileRow, width: int) -> Content:
        letters, tail = item.letters.replace(".", " "), self._tail(item, width)
        name = safe(item.path, 1000) + (f" (was {safe(item.origin, 1000)})" if item.origin else "")
        room = max(6, width - 4 - tail.cell_length)
        path = Content(columns.pad(diff_painter.shorten_path(name, room), room))
        return Content("").join([Content.styled(f" {letters} ", _style(item)), path, tail])

    def _tail(self, row: FileRow, width: int) -> Content:
        """Changed lines, age, owner and overlaps, each in its column."""
        plus = Content.styled(f"+{row.added:,}" if row.added else "", "$text-success")
        minus = Content.styled(f"−{row.removed:,}" if row.removed else "", "$text-error")
        if row.binary:
            plus, minus = Content.styled("bin", MUTED), Content("")
        age = cells.fixed(times.age_of(row.at, self.now) if row.at else "", 5, MUTED, right=True)
        parts = [_right(plus, 7), _right(minus, 7), age]
        if width >= _WIDE:
            owner = cells.fixed(safe(row.by or "", 40), 12, "" if row.by else MUTED)
            met = f"⚡ {', '.join(safe(name, 40) for name in row.overlaps)}" if row.overlaps else ""
            parts += [Content("  "), owner, Content(" "), cells.fixed(met, max(14, width // 5), "$collision")]
        else:
            parts.append(cells.fixed(" ⚡" if row.overlaps else "", 3, "$collision"))
        return Content("").join(parts)

    # -- keys -------------------------------------------------------------------------------------------------------

    def open_item(self, item: FileRow) -> None:
        kind: Kind = "trunk" if item.committed else "all"
        self.open_view(DiffView(self.key, self.open_context, kind=kind, path=item.path))

    def action_act(self, verb: str) -> None:
        """Stage, unstage or discard the file under the cursor, with what is staged of it."""
        tree, row, details = self.worktree, self.chosen, self._details
        if tree is None or tree.missing or row is None or details is None:
            return
        file = next((file for file in details.uncommitted.files if file.path == row.path), None)
        if row.committed or file is None:
            self.notify(f"{safe(row.path, 200)} has nothing uncommitted that was read", markup=False)
            return
        values: dict[str, object] = {"path": [row.path], "shown": diff_identity.file_id(file)}
        if verb == "discard":
            values["staged"] = True
        file_commands.act(self, tree, verb, values, self.read_now)

    def action_commit(self) -> None:
        if self.worktree is not None and not self.worktree.missing:
            file_commands.commit(self, self.worktree, self.read_now)

    def action_push(self) -> None:
        if self.worktree is not None and not self.worktree.missing:
            file_commands.open_dialog(self, self.worktree, "push", {}, lambda _: self.read_now())

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
