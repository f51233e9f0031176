"""The diff of the selected worktree, file by file. The cursor stays on its line when the diff changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from threading import Event
from typing import cast

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.content import Content

from imi_monitor.actions.files import review_diff
from imi_monitor.actions.notes import placed_notes
from imi_monitor.actions.status import diff_action as action
from imi_monitor.model import amounts, diff_identity, diff_text, note_place, review_progress
from imi_monitor.model.diff import Diff
from imi_monitor.model.review_progress import ReviewProgress
from imi_monitor.model.text import count, safe
from imi_monitor.ui import diff_painter, diff_rows, editor, file_commands
from imi_monitor.ui.cells import MUTED
from imi_monitor.ui.diff_painter import DiffPainter
from imi_monitor.ui.diff_rows import DiffRows
from imi_monitor.ui.views.sheet_view import SheetView
from imi_monitor.ui.widgets.sheet import Sheet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Outcome
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.git.git_diff import Kind
    from imi_monitor.model.review_progress import ReadPart
    from imi_monitor.model.snapshot import Key, Snapshot, Worktree
    from imi_monitor.store.notes import NoteRow
    from imi_monitor.ui.app import ImiApp
    from imi_monitor.ui.views.view import OpenContextAt

KINDS: tuple[tuple[Kind, str, str, str], ...] = (
    ("all", "a", "all uncommitted changes", "no uncommitted changes: t compares with the trunk"),
    ("unstaged", "u", "the changes that are not staged", "no unstaged changes"),
    ("staged", "s", "the staged changes", "no staged changes"),
    ("trunk", "t", "the differences from the trunk", "no differences from the trunk"),
    (
        "turn",
        "r",
        "what changed since the agent's last turn began",
        "nothing changed since the agent's last turn began",
    ),
)
"""Kind, its key, what it shows, what an empty diff means."""
_ROOMY = 100  # cells from which the files stand beside the diff


@dataclass(frozen=True, slots=True)
class ShownCommit:
    """A commit whose diff is shown instead of the worktree's."""

    sha: str
    subject: str
    author: str = ""


class DiffView(SheetView[Diff]):
    word = "diff"
    opening_key = "d"
    key_bar = 43
    label = "Diff"
    help = "what the selected worktree changed: uncommitted, against the trunk, or in the agent's last turn"

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (_ROOMY, "-roomy")]
    BINDINGS = [
        *(
            Binding(key, f"kind('{kind}')", kind.capitalize(), show=False, tooltip=f"show {what}")
            for kind, key, what, _ in KINDS
        ),
        Binding("tab", "next_kind(1)", "Next kind", show=False, tooltip="show the next kind of diff"),
        Binding("shift+tab", "next_kind(-1)", "Previous kind", show=False, tooltip="show the previous kind of diff"),
        Binding("plus", "act('stage')", "Stage", key_display="+", tooltip="stage the hunk, or the file on its heading"),
        Binding("x", "act('discard')", "Discard", tooltip="discard the hunk or the file, after a dialog"),
        Binding("m", "read", "Mark read", tooltip="mark the hunk or file as read, or a note as done"),
        Binding("c", "note", "Note", tooltip="add a note on the line for the agent; on a note: answer it"),
        # from here on in the key bar where it is wider than 60 cells
        Binding("C", "commit", "Commit", tooltip="commit what is staged, with a message from your editor"),
        Binding("P", "push", "Push", tooltip="push the branch to its upstream, after a dialog"),
        Binding(
            "exclamation_mark",
            "own_commands",
            "Commands",
            key_display="!",
            id="own_commands",
            tooltip="run one of your commands, such as the tests, in this worktree",
        ),
        Binding("o", "only_unread", "Only unread", tooltip="show only what is unread, or everything"),
        Binding("S", "send", "Send notes", tooltip="send the notes that were not sent yet to the agent"),
        Binding("minus", "act('unstage')", "Unstage", key_display="-", tooltip="unstage the hunk, or the file"),
        Binding("n", "jump('file', 1)", "Next file", show=False, tooltip="go to the next file"),
        Binding("N", "jump('file', -1)", "Previous file", show=False, tooltip="go to the previous file"),
        Binding(
            "right_square_bracket",
            "jump('hunk', 1)",
            "Next hunk",
            key_display="]",
            show=False,
            tooltip="go to the next hunk",
        ),
        Binding(
            "left_square_bracket",
            "jump('hunk', -1)",
            "Previous hunk",
            key_display="[",
            show=False,
            tooltip="go to the previous hunk",
        ),
        Binding("e", "edit", "Editor", show=False, tooltip="open the file in the editor, at this line"),
    ]

    def __init__(
        self,
        key: Key | None,
        open_context: OpenContextAt,
        *,
        kind: Kind | None = None,
        path: str | None = None,
        commit: ShownCommit | None = None,
    ) -> None:
        super().__init__(key, open_context)
        self.kind: Kind = kind or "all"
        self._kind_is_open = kind is None and commit is None  # the first snapshot decides
        self.commit = commit
        self.follows_changes = commit is None
        self._path = path  # the file to start with
        self.diff: Diff | None = None
        self._kept: frozenset[ReadPart] = frozenset()  # what was read of the worktree
        self._notes: tuple[NoteRow, ...] = ()
        self._note_states: object = ()  # of the notes that are shown
        self._shown_kept = self._kept
        self._progress = ReviewProgress(0, 0)
        self._only_unread = False
        self.rows = DiffRows(Diff())
        self._painter = DiffPainter(self.rows, "")

    def body(self) -> ComposeResult:
        with Horizontal(id="diff-body"):
            yield Sheet(id="diff-files")
            yield Sheet(id="rows", steady=True)

    def on_mount(self) -> None:
        self.files.can_focus = False

    def on_resize(self) -> None:
        super().on_resize()
        self.redraw()

    @property
    def files(self) -> Sheet:
        return self.query_one("#diff-files", Sheet)

    def show(self, snapshot: Snapshot, now: datetime) -> None:
        if self._kind_is_open:
            self._kind_is_open, tree = False, snapshot.worktree(self.key) if self.key else None
            if tree is not None and tree.type == "review":  # uncommitted changes are not part of the pull request
                self.kind = "trunk"
        super().show(snapshot, now)

    # -- reading ----------------------------------------------------------------------------------------------------

    def read(self, context: Context, target: Target, tree: Worktree, stop: Event) -> Diff:
        on_part = self._part_callback(stop) if self.diff is None else None
        if self.commit is not None:
            return action.of_commit(context, target, self.commit.sha, on_part)
        self._kept = review_diff.kept_parts(context, target)
        self._notes = placed_notes.open_notes(context, target)
        return action.read(context, target, self.kind, [], on_part=on_part, find_turn=self.diff is None)

    def _part_callback(self, stop: Event) -> Callable[[Diff], None]:
        """A function for the reading thread that shows a part of the diff while nothing is shown yet."""
        loop, kind = self._loop, self.kind

        def show(part: Diff) -> None:
            if kind == self.kind and self.is_awaited(stop):
                self.received(part)
                self.redraw()

        def show_from_thread(part: Diff) -> None:
            loop.call_soon_threadsafe(show, part)

        return show_from_thread

    def schedule_read(self, pause: float = 0.0) -> None:
        self._loop = asyncio.get_running_loop()
        super().schedule_read(pause)

    def received(self, result: Diff) -> None:
        states = [(one.seq, one.state, one.answer) for one in self._notes]
        if result == self.diff and self._kept == self._shown_kept and states == self._note_states:
            return
        self._note_states = states
        anchor = self.rows.anchor(self.sheet.cursor) if self.diff is not None else None
        self.diff, self._shown_kept = result, self._kept
        self._make_rows(result)
        self._show_from(anchor)

    def _make_rows(self, diff: Diff) -> None:
        files = review_progress.reviewed(diff, self._kept) if self.commit is None else ()
        self._progress = review_progress.progress(diff, files)
        if self._only_unread and files:
            files = tuple(one for file in files if (one := file.only_unread()) is not None)
            diff = replace(diff, files=tuple(one.file for one in files))
        self.rows = DiffRows(diff, files, self._notes)
        self._painter = DiffPainter(self.rows, f"imi diff {self.worktree_name} {self._option()}--file")

    def _show_from(self, anchor: diff_rows.DiffAnchor | None) -> None:
        row = self.rows.find(anchor) if anchor is not None else 0
        self.sheet.show(len(self.rows), self._draw, cursor=row)
        at = self.rows.file_at(row)
        self.files.show(len(self.rows.diff.files), self._file, cursor=at)
        self.files.reveal(at)
        paths = [file.path for file in self.rows.diff.files]
        if self._path in paths:
            self.sheet.show_at_top(self.rows.heads[paths.index(self._path)])
            self._path = None

    def _option(self) -> str:
        return "" if self.kind == "all" else f"--{self.kind} "

    # -- drawing ----------------------------------------------------------------------------------------------------

    def draw_rows(self) -> None:
        if not len(self.rows):
            self.show_rows(0, self._draw)
            self.files.show(0, self._file)

    def _draw(self, row: int, width: int) -> Content:
        return self._painter.draw(row, width)

    def empty_text(self) -> Content | None:
        if self.diff is None:
            return None
        if self.commit is not None:
            return Content.styled(" this commit changes no file", MUTED)
        if self._only_unread and self.diff.files:
            return Content.styled(" ✓ everything here was read: o shows it all", "$success")
        empty = next(meaning for kind, _, _, meaning in KINDS if kind == self.kind)
        return Content.styled(f" ✓ {empty}", "$success")

    def _file(self, index: int, width: int) -> Content:
        file = self.rows.diff.files[index]
        tail = diff_painter.line_counts(file)
        room = max(4, width - tail.cell_length - 4)
        name = diff_painter.shorten_path(diff_text.file_title(file), room)
        line = Content.styled(f"{file.state} ", diff_painter.STATES.get(file.state, "$text-warning")).append(name)
        return line.pad_right(max(1, width - line.cell_length - tail.cell_length - 1)).append(tail)

    def title_text(self) -> Content:
        """Return the title: with all kinds where there is room, else with the shown one, so that the unread count fits."""
        whole = self._made_title(KINDS)
        if self.commit is not None or whole.cell_length < self.size.width - 1:
            return whole
        if self.size.width >= _ROOMY:
            return self._made_title(KINDS, short=True)
        shown = [one for one in KINDS if one[0] == self.kind]
        narrow = self._made_title(shown)
        return narrow if narrow.cell_length < self.size.width - 1 else self._made_title(shown, base=False)

    def _made_title(
        self, kinds: Sequence[tuple[Kind, str, str, str]], *, short: bool = False, base: bool = True
    ) -> Content:
        if self.commit is not None:
            head = Content.styled(f"Commit {self.commit.sha[:8]} ", "bold").append(safe(self.commit.subject, 200))
            head = head.append(Content.styled(f" · {safe(self.commit.author, 60)}", MUTED))
        else:
            head = Content.styled(f"Diff {self.worktree_name} ", "bold").append(self.problem_text())
            head = head.append(self._kinds(kinds)).append(self._unread_words())
        head = head.append(self._amounts(short, base))
        if self.reading and self.diff is None:
            head = head.append(Content.styled(" reading…", MUTED))
        return head

    def _amounts(self, short: bool, with_base: bool) -> Content:
        """` · 2 files +4 −2 against origin/main`, the last two words `with_base`; `short` leaves out whose turn it was."""
        diff = self.diff
        if diff is None or not diff.files:
            return Content("")
        files, lines = count(len(diff.files) + diff.omitted, "file"), (diff.added, diff.removed)
        found = Content.styled(" · {} +{} −{}".format(files, *map(amounts.count, lines)), MUTED)
        if diff.base and with_base and self.commit is None:
            base = "the last turn began" if short and self.kind == "turn" else safe(diff.base, 90)
            found = found.append(Content.styled(f" {'since' if self.kind == 'turn' else 'against'} {base}", MUTED))
        return found

    def _unread_words(self) -> Content:
        if self.diff is None or not self.diff.files:
            return Content("")
        if self._progress.unread == self._progress.total and not self._only_unread:
            return Content("")
        only = "only " if self._only_unread else ""
        return Content.styled(f" · {only}{self._progress.words}", "$text-warning")

    def _kinds(self, kinds: Sequence[tuple[Kind, str, str, str]]) -> Content:
        """The kinds: the shown one in reverse, each with its key underlined."""
        words = []
        for kind, key, _, _ in kinds:
            word, at = Content.styled(f" {kind} ", "reverse" if kind == self.kind else MUTED), 1 + kind.index(key)
            words.append(word.stylize("underline", at, at + 1))
        return Content("").join(words)

    # -- keys -------------------------------------------------------------------------------------------------------

    @on(Sheet.CursorMoved, "#rows")
    def _moved(self) -> None:
        self.files.select(self.rows.file_at(self.sheet.cursor))

    @on(Sheet.CursorMoved, "#diff-files")
    @on(Sheet.RowChosen, "#diff-files")
    def _picked(self) -> None:
        """A click on a file goes to it; nothing happens when the list of files only follows the cursor."""
        index = self.files.cursor
        if index < len(self.rows.heads) and index != self.rows.file_at(self.sheet.cursor):
            self.sheet.show_at_top(self.rows.heads[index])

    @on(Sheet.SidewaysRequested)
    def _sideways(self, message: Sheet.SidewaysRequested) -> None:
        self._painter.shift = max(0, self._painter.shift + message.by)
        self.show_rows(len(self.rows), self._draw)

    def action_kind(self, kind: Kind) -> None:
        """Show another kind of diff. A commit has only one: there the keys do nothing."""
        if self.commit is None and kind != self.kind:
            self.kind = kind
            self.diff, self.problem, self.rows = None, None, DiffRows(Diff())
            self.sheet.show(0, self._draw, cursor=0)
            self._loop = asyncio.get_running_loop()
            self.read_now()
            self.redraw()

    def action_next_kind(self, step: int) -> None:
        names = [kind for kind, *_ in KINDS]
        self.action_kind(names[(names.index(self.kind) + step) % len(names)])

    def action_jump(self, kind: str, step: int) -> None:
        row = self.rows.next(self.sheet.cursor, kind, step)
        if row is not None:
            self.sheet.show_at_top(row)

    def action_act(self, verb: str) -> None:
        """Stage, unstage or discard the hunk under the cursor, or the file on its heading."""
        tree, diff = self.worktree, self.rows.diff
        if tree is None or tree.missing or not diff.files:
            return
        if self.commit is not None or self.kind in ("trunk", "turn"):
            self.notify("this diff shows commits too: a, u and s show what can be staged or discarded", markup=False)
            return
        row = self.rows.rows[self.sheet.cursor]
        file = diff.files[row.file]
        values: dict[str, object] = {"path": [file.path]}
        if row.kind in (diff_rows.HUNK, diff_rows.LINE):
            values["hunk"] = diff_identity.hunk_ids(file)[row.hunk]
        else:
            values["shown"] = diff_identity.file_id(file)
        if verb == "discard":
            values["staged"] = self.kind != "unstaged"
        file_commands.act(self, tree, verb, values, self.read_now)

    def action_read(self) -> None:
        """Mark the hunk under the cursor as read, or the file on its heading; what was read becomes unread again."""
        tree, rows = self.worktree, self.rows
        if tree is None or not rows.reviewed:
            return
        row = rows.rows[self.sheet.cursor]
        note = rows.note_at(self.sheet.cursor)
        if note is not None:
            file_commands.act(self, tree, "notes done", {"id": [str(note.seq)]}, self.read_now)
            return
        one = rows.reviewed[row.file]
        parts = (one.parts[row.hunk],) if row.kind in (diff_rows.HUNK, diff_rows.LINE) else one.parts
        values: dict[str, object] = {
            "path": [one.file.path],
            "hunk": ",".join(parts),
            "undo": one.read.issuperset(parts),
        }
        file_commands.act(self, tree, "read", values, self.read_now)

    def action_note(self) -> None:
        """Open the dialog for a note on the line under the cursor, or for the answer to the note there."""
        tree, note = self.worktree, self.rows.note_at(self.sheet.cursor)
        line = self.rows.line_at(self.sheet.cursor) if len(self.rows) else None
        if tree is None or tree.missing or self.commit is not None or (line is None and note is None):
            return
        if note is not None:
            file_commands.open_dialog(self, tree, "notes answer", {"id": str(note.seq)}, lambda _: self.read_now())
        elif line is not None:
            side = note_place.side_of(line)
            path = self.rows.diff.files[self.rows.file_at(self.sheet.cursor)].path
            place = f"{path}:{note_place.number_of(line, side)}"
            values: dict[str, object] = {"place": place, "old": side == note_place.OLD}
            file_commands.open_dialog(self, tree, "notes add", values, lambda _: self.read_now())

    def action_send(self) -> None:
        """Open the dialog that sends the notes; a round that no agent of imi takes is copied."""
        tree = self.worktree
        if tree is not None:
            file_commands.open_dialog(self, tree, "notes send", {}, self._sent)

    def _sent(self, outcome: Outcome) -> None:
        if outcome.data.get("sent_to") is None:
            self.app.copy_to_clipboard(str(outcome.data["text"]))
            self.notify("the round is copied: paste it where the agent runs", markup=False)
        self.read_now()

    def action_only_unread(self) -> None:
        self._only_unread = not self._only_unread
        if self.diff is not None:
            anchor = self.rows.anchor(self.sheet.cursor)
            self._make_rows(self.diff)
            self._show_from(anchor)
            self.redraw()

    def action_commit(self) -> None:
        if self.worktree is not None and not self.worktree.missing:
            file_commands.commit(self, self.worktree, self.read_now)

    def action_push(self) -> None:
        if self.worktree is not None and not self.worktree.missing:
            file_commands.open_dialog(self, self.worktree, "push", {}, lambda _: self.read_now())

    def action_own_commands(self) -> None:
        if self.worktree is not None and not self.worktree.missing:
            cast("ImiApp", self.app).command_panes.offer([self.worktree])

    def action_edit(self) -> None:
        tree = self.worktree
        if tree is None or tree.missing or not self.rows.diff.files:
            return
        line = self.rows.line_at(self.sheet.cursor)
        path = self.rows.diff.files[self.rows.file_at(self.sheet.cursor)].path
        editor.edit(self.app, tree.path, path, line.new or line.old if line else None)


VIEW = DiffView
