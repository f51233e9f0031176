"""Everything the dashboard did, the newest last: result, duration, and the command line that does the same."""

from __future__ import annotations

from datetime import datetime

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from imi_monitor.model import times
from imi_monitor.model.snapshot import Snapshot
from imi_monitor.model.text import count, safe
from imi_monitor.ui import cells, command_log
from imi_monitor.ui.command_log import CommandLogEntry
from imi_monitor.ui.textual_internals import is_alive
from imi_monitor.ui.views.view import View
from imi_monitor.ui.widgets.row_list import ListRow, RowList, message_row

_SIGNS = {
    command_log.RUNNING: ("…", "$accent"),
    command_log.DONE: ("✓", "$success"),
    command_log.REFUSED: ("✗", "$warning"),
    command_log.FAILED: ("✗", "$error"),
    command_log.CANCELLED: ("-", "$warning"),
}


class CommandLogView(View):
    word = "commands"
    opening_key = "at"  # @
    label = "Command log"
    help = "everything this dashboard did, as command lines"
    BINDINGS = [Binding("y", "copy", "Copy the command", tooltip="copy the command line that does the same")]

    def on_mount(self) -> None:
        lines = self.query_one(RowList)
        lines.focus()
        self._draw()
        if lines.rows:
            lines.select(lines.rows[-1].key)
        self.set_interval(1.0, self._draw)  # a running command goes on while snapshots are paused

    def body(self) -> ComposeResult:
        yield RowList(id="commands", follow_end=True)
        with VerticalScroll(id="command-detail", can_focus=False):
            yield Static(id="command-output")

    def show(self, snapshot: Snapshot, now: datetime) -> None:
        self._draw()

    @property
    def _entries(self) -> tuple[CommandLogEntry, ...]:
        return command_log.of(self.app).entries()

    def _draw(self) -> None:
        if not is_alive(self):
            return
        entries = self._entries
        lines = self.query_one(RowList)
        width = max(20, lines.size.width)
        tail = f"  {count(len(entries), 'command')}" if entries else ""
        self.set_title(Content.styled("Command log", "bold").append(Content.styled(tail, cells.MUTED)))
        nothing = message_row("the dashboard has run no command yet")
        lines.show([ListRow(str(one.number), (command_line(one, width),)) for one in entries] or [nothing])
        self._detail()

    @property
    def _chosen(self) -> CommandLogEntry | None:
        cursor = self.query_one(RowList).cursor
        return next((one for one in self._entries if str(one.number) == cursor), None)

    @on(RowList.CursorMoved)
    def _moved(self, event: RowList.CursorMoved) -> None:
        event.stop()
        self._detail()

    def _detail(self) -> None:
        """Show the whole command and its output."""
        one = self._chosen
        box = self.query_one("#command-detail")
        box.display = one is not None
        if one is not None:
            output = [Content(f"  {safe(text, 600)}") for text in one.said]
            head = Content.styled("$ ", cells.MUTED).append(Content.styled(safe(one.command, 4000), "bold"))
            self.query_one("#command-output", Static).update(Content("\n").join([head, *output]))

    def action_copy(self) -> None:
        one = self._chosen
        if one is None:
            self.notify("there is no command to copy yet", severity="warning", markup=False)
            return
        self.app.copy_to_clipboard(one.command)
        self.notify(f"copied: {safe(one.command, 200)}", markup=False)


def command_line(one: CommandLogEntry, width: int) -> Content:
    """`14:02:09 ✓ done 0.3s  imi remove feat-api`."""
    moment = times.parse(one.at)
    clock = moment.astimezone().strftime("%H:%M:%S") if moment else "??:??:??"
    sign, style = _SIGNS[one.state]
    took = "" if one.seconds is None else f"{one.seconds:.1f}s" if one.seconds < 10 else times.age(one.seconds)
    parts = [
        cells.fixed(clock, 9, cells.MUTED),
        cells.fixed(f"{sign} {one.state}", 12, style),
        cells.fixed(took, 6, cells.MUTED, right=True),
        Content(f"  {safe(one.short, 1000)}"),
    ]
    return Content("").join(parts).truncate(width)


VIEW = CommandLogView
