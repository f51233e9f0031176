"""The board: all items in columns by status, live; items are moved, started and opened from here."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.css.query import NoMatches

from imi_monitor.actions.action import Request
from imi_monitor.actions.board.board_action import read_board
from imi_monitor.model import board, times
from imi_monitor.model.agent import Agent
from imi_monitor.model.errors import ImiError
from imi_monitor.model.snapshot import Snapshot
from imi_monitor.model.text import count, safe
from imi_monitor.ui import board_card, cells, filters
from imi_monitor.ui.background_query import BackgroundQuery, ShouldStop
from imi_monitor.ui.views.batch_files_view import BatchFilesView
from imi_monitor.ui.views.filtered_view import FILTER, FilteredView
from imi_monitor.ui.views.item_view import ItemView
from imi_monitor.ui.views.view import View
from imi_monitor.ui.widgets.row_list import ListRow, RowList, message_row

if TYPE_CHECKING:
    from imi_monitor.actions.action import Outcome
    from imi_monitor.ui.app import ImiApp

_WIDE = 120  # cells from which all columns are shown
_LAST = len(board.COLUMNS) - 1
_OPEN = 3  # columns of what is not over; the board opens on the first of them that holds something
_SECONDS = 2  # between two reads while an agent works on an item and nothing is recorded
_SHORT = ("pending", "in progress", "blocked", "completed", "failed")
_EMPTY = ("nothing waits", "nothing is under way", "nothing is blocked", "nothing is completed", "nothing failed")


class BoardView(FilteredView):
    word = "board"
    opening_key = "B"
    key_bar = 42
    label = "Board"
    help = "everything that is to be done, in columns by status: move it, start agents on it"
    BINDINGS = [
        Binding("enter", "details", "Details", key_display="⏎", tooltip="show the item with attempts, files and log"),
        Binding("n", "new", "New", tooltip="add an item"),
        Binding("s", "act('item start')", "Start", tooltip="start an agent on the item, in a worktree of its own"),
        Binding("less_than_sign", "shift(-1)", "Back", key_display="<", tooltip="move the item one column back"),
        Binding("greater_than_sign", "shift(1)", "On", key_display=">", tooltip="move the item one column on"),
        Binding("f", "files", "Files", tooltip="list the files of reports/ and tasks/, and start one as a batch"),
        Binding("S", "start_batch", "Start batch", show=False, tooltip="start an agent on each item of this batch"),
        FILTER,
        Binding("h,left", "column(-1)", "Left", show=False, tooltip="one column to the left"),
        Binding("l,right", "column(1)", "Right", show=False, tooltip="one column to the right"),
        Binding("e", "act('item edit')", "Edit", show=False, tooltip="change title, text, priority or team"),
        Binding("a", "act('item assign')", "Assign", show=False, tooltip="give the item to an agent or person"),
        Binding("b", "act('item block')", "Block", show=False, tooltip="mark it as blocked, with the reason"),
        Binding("x", "act('item cancel')", "Cancel it", show=False, tooltip="mark it as not to be done any more"),
        Binding("T", "act('item retry')", "Retry", show=False, tooltip="set an item that is over back to pending"),
    ]

    def on_mount(self) -> None:
        self._query: BackgroundQuery[dict[str, Any]] = BackgroundQuery(self, self._received)
        self._version: object = None
        self._data: dict[str, Any] | None = None
        self._failed: str | None = None
        self._column = 0
        self._wanted: str | None = None  # an item that was moved: the cursor follows it
        self._is_placed = False  # on the first column that holds something
        self._columns_made: tuple[tuple[object, str, object] | None, list[list[board_card.Item]]] = (None, [])
        self._shape()
        self._lists[0].focus()
        if self.snapshot is None:
            self.snapshot = cast("ImiApp", self.app).home.shown
        self._query.start(self._read)  # with the snapshot, so that the columns' first picture has the items

    def body(self) -> ComposeResult:
        yield self.filter_box("text, !not, @agent, is:blocked, batch:name, team:name")
        with Horizontal(id="board"):
            for number in range(len(board.COLUMNS)):
                with Vertical(classes="panel board-column"):
                    yield RowList(id=f"column-{number}")

    # -- reading ----------------------------------------------------------------------------------------------------

    def show(self, snapshot: Snapshot, now: datetime) -> None:
        last = snapshot.events[-1].seq if snapshot.events else None
        works = any(one["run_state"] for column in self._held() for one in column)
        version = (last, int(now.timestamp()) // _SECONDS if works else 0)
        if version != self._version:
            if self._version is not None or self._failed is not None:
                self._query.start(self._read)
            self._version = version
        self._draw(now)

    def _read(self, stop: ShouldStop) -> dict[str, Any]:
        with self.open_context(None) as context:
            context.cancelled, context.needs_registry = stop, True
            data: dict[str, Any] = read_board(context, Request("board", {"all": True}))[1]
        return data

    def _received(self, result: dict[str, Any] | ImiError) -> None:
        if isinstance(result, ImiError):
            self._failed, self._version = result.sentence, None
        else:
            self._failed, self._data = None, result
        self._draw(times.now())
        self.paint()

    @property
    def is_complete(self) -> bool:
        return self._data is not None or self._failed is not None

    def read_again(self, _outcome: Outcome | None = None) -> None:
        """Read the board now, because something was done."""
        self._query.start(self._read)

    # -- drawing ----------------------------------------------------------------------------------------------------

    @property
    def _lists(self) -> list[RowList]:
        return [self.query_one(f"#column-{number}", RowList) for number in range(len(board.COLUMNS))]

    @property
    def _is_wide(self) -> bool:
        return self.app.size.width >= _WIDE

    def on_resize(self) -> None:
        super().on_resize()
        self._shape()
        self.call_after_refresh(lambda: self._draw(times.now()))

    def _shape(self) -> None:
        """Show all columns, or the one with the cursor."""
        for number, column in enumerate(self.query(".board-column")):
            column.display = self._is_wide or number == self._column
        self.query_one("#board").set_class(not self._is_wide, "-single")

    def _draw(self, now: datetime) -> None:
        if self.snapshot is None:
            return  # it says whose items are shown, and comes with the first picture
        held = self._held()
        if self._data is not None and not self._is_placed:
            self._is_placed = True
            first = next((number for number, column in enumerate(held[:_OPEN]) if column), 0)
            if self._column == 0 != first:
                self._column = first
                self._shape()
                self._lists[first].focus()
        self.set_title(self._title(held))
        height = board_card.CARD if self._is_wide else board_card.LINE
        agents = {one.name: one for one in self.snapshot.agents if not one.truth.ended}
        for number, (lines, column) in enumerate(zip(self._lists, held, strict=True)):
            parent = cast(Vertical, lines.parent)
            parent.border_title = Content(f"{board.COLUMNS[number][0]} ").append(
                Content.styled(str(len(column)), "bold" if column else cells.MUTED)
            )
            width = max(16, lines.room - 1)
            lines.show(self._rows(number, column, width, height, agents, now), height)
        if self._wanted is not None:
            self._follow(self._wanted)

    def _rows(
        self,
        number: int,
        column: Sequence[board_card.Item],
        width: int,
        height: int,
        agents: dict[str, Agent],
        now: datetime,
    ) -> list[ListRow]:
        if self._failed is not None:  # the title has the reason where the columns are narrow
            return [] if self._is_wide else [message_row(cells.failure(self._failed))]
        if self._data is None:
            return [message_row("looking…")]
        rows = []
        for one in column:
            agent = agents.get(one["agent_id"])
            rows.append(ListRow(one["id"], partial(board_card.lines, one, width, height, agent, now)))
        return rows or [message_row(self._why_empty(number))]

    def _why_empty(self, number: int) -> str:
        if self.filter_text:
            return "no match"
        if number == 0 and not any(self._held()):
            return "n adds something to be done"
        return _EMPTY[number]

    def _held(self) -> list[list[board_card.Item]]:
        """The items of each column that fit the filter; sorted again only when they were read again, or it changed."""
        repositories = self.snapshot.repositories if self.snapshot is not None else ()
        made_of, held = self._columns_made
        if made_of is None or made_of[0] is not self._data or made_of[1:] != (self.filter_text, repositories):
            items = self._data["items"] if self._data else ()
            found = [one for one in items if one["repo_name"] in (*repositories, None)]
            held = board_card.in_columns([one for one in found if self._fits(one)] if self.filter_text else found)
            self._columns_made = ((self._data, self.filter_text, repositories), held)
        return held

    def _fits(self, item: board_card.Item) -> bool:
        return filters.matches_words(self.filter_text, lambda word: board_card.matches(item, word))

    def filter_changed(self) -> None:
        self._draw(times.now())

    def _title(self, held: Sequence[Sequence[board_card.Item]]) -> Content:
        if self._is_wide and self._failed is not None:
            return Content.styled("Board  ", "bold").append(cells.failure(self._failed))
        if self._is_wide:
            total = sum(map(len, held))
            done = len(held[board.column_of(board.COMPLETED)])
            behind = f"  {count(total, 'item')}, {done} completed" if total else ""
            return Content.styled("Board", "bold").append(Content.styled(behind, cells.MUTED))
        full = Content("  ").join([self._tab(number, len(column)) for number, column in enumerate(held)])
        if full.cell_length <= self.app.size.width - 2:
            return full
        return Content(" ").join(
            [self._tab(number, len(column) if number == self._column else None) for number, column in enumerate(held)]
        )

    def _tab(self, number: int, many: int | None) -> Content:
        """`pending 3`, of the column on the screen reversed."""
        name = _SHORT[number] if many is None else f"{_SHORT[number]} {many}"
        return Content.styled(name, "$accent bold reverse" if number == self._column else cells.MUTED)

    # -- the cursor -------------------------------------------------------------------------------------------------

    @on(events.DescendantFocus)
    def _column_entered(self) -> None:
        focused = self.focused
        if isinstance(focused, RowList) and focused in self._lists:
            self._column = self._lists.index(focused)

    def action_column(self, by: int) -> None:
        self._go_to(max(0, min(_LAST, self._column + by)))

    def _go_to(self, column: int) -> None:
        self._column = column
        self._shape()
        self._lists[column].focus()
        self._draw(times.now())

    def _follow(self, item: str) -> None:
        """Put the cursor on an item that was moved, as soon as it is in its new column."""
        for number, lines in enumerate(self._lists):
            if number == self._column and any(row.key == item for row in lines.rows):
                self._wanted = None
                lines.select(item)

    @property
    def chosen(self) -> dict[str, Any] | None:
        """The item under the cursor."""
        try:
            cursor = self._lists[self._column].cursor
        except NoMatches:
            return None
        found = self._data["items"] if self._data else ()
        return next((one for one in found if one["id"] == cursor), None)

    # -- acts -------------------------------------------------------------------------------------------------------

    def action_act(self, verb: str) -> None:
        """Open the dialog of an action for the item under the cursor."""
        item = self.chosen
        if item is not None:
            values = {"id": item["id"]}
            cast("ImiApp", self.app).action_commands.open(verb, [], values=values, done=self.read_again)

    def action_new(self) -> None:
        cast("ImiApp", self.app).action_commands.open("item add", [], values={}, done=self.read_again)

    def action_files(self) -> None:
        self.open_view(BatchFilesView(self.key, self.open_context))

    def action_start_batch(self) -> None:
        """Open the dialog that starts the whole batch of the item under the cursor, in the background."""
        app, item = cast("ImiApp", self.app), self.chosen
        if item is not None and item["batch"] is None:
            app.say("this item belongs to no batch: s starts it alone, f lists the files of batches")
        elif item is not None:
            values: dict[str, object] = {"file": item["batch"], "detach": True}
            app.action_commands.open("batch", [], values=values, done=self.read_again)

    def action_shift(self, by: int) -> None:
        """Move the item under the cursor to the column beside it."""
        app, item = cast("ImiApp", self.app), self.chosen
        column = self._column + by
        if item is None or not 0 <= column <= _LAST:
            return
        if app.read_only:
            app.say(app.read_only_reason, bad=True)
            return

        def ended(result: Outcome | ImiError) -> None:
            if isinstance(result, ImiError):
                app.say(safe(result.sentence, 300), bad=True)
                return
            self._wanted = item["id"]
            self._go_to(column)
            self.read_again()

        values = {"id": item["id"], "status": board.COLUMNS[column][1][0]}
        app.action_commands.run_now("item move", None, values, ended)

    @on(RowList.RowChosen)
    def action_details(self) -> None:
        item = self.chosen
        if item is not None:
            self.open_view(ItemView(self.key, self.open_context, item["id"]))

    def open_view(self, view: View) -> None:
        """Open another view on top of this one, with the same snapshot."""
        self.app.push_screen(view)
        if self.snapshot is not None:
            self.call_after_refresh(view.show_snapshot, self.snapshot, times.now())

    def action_leave(self) -> None:
        """Clear the filter, else leave."""
        if self._line.is_open:
            self.set_filter("")
            self._lists[self._column].focus()
        else:
            View.action_leave(self)


VIEW = BoardView
