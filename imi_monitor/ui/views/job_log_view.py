"""The log of one run, followed while the agent runs; `/` narrows it.

That of a run that imi started is read from its output file; that of another program's is its own log, in a watched workspace.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from textual.app import ComposeResult
from textual.content import Content

from imi_monitor.actions.board.workspace_files import LogTail
from imi_monitor.actions.runs import foreign_log
from imi_monitor.actions.runs.logs_action import OutputReader
from imi_monitor.model.errors import ImiError, Refused
from imi_monitor.model.run import Run
from imi_monitor.model.snapshot import Key, Snapshot
from imi_monitor.model.text import safe
from imi_monitor.runs import log_text
from imi_monitor.store import db, runs
from imi_monitor.ui import cells, filters
from imi_monitor.ui.background_query import BackgroundQuery, ShouldStop
from imi_monitor.ui.views.filtered_view import FILTER, FilteredView
from imi_monitor.ui.views.view import OpenContextAt
from imi_monitor.ui.widgets.row_list import ListRow, RowList, message_row

_INTERVAL = 0.4  # seconds between two small reads
_MOST_ENTRIES = 3000  # kept; `imi logs -n` shows more
_LONGEST_LINE = 4000
_STYLES = {">": "bold $primary", "$": "$accent", "?": "$agent-asks", "!": "$error", ".": "$success"}
_CLOCK = 8


class LoggedRun(NamedTuple):
    """Whose log it is. `grows`: there may be more of it."""

    agent: str
    state: str
    name: str
    grows: bool


class NewEntries(NamedTuple):
    """What a read has found."""

    run: LoggedRun
    entries: Sequence[Sequence[str]]  # the lines of each


class RunLogView(FilteredView):
    """Subclasses read what is new, in a thread, and draw one line."""

    BINDINGS = [FILTER]

    def __init__(self, key: Key | None, open_context: OpenContextAt) -> None:
        super().__init__(key, open_context)
        self._entries: list[Sequence[str]] = []
        self._logged: LoggedRun | None = None
        self._failed: str | None = None

    def read(self, stop: ShouldStop) -> NewEntries:
        raise NotImplementedError

    def drawn(self, line: str, first: str) -> Content:
        """A line of an entry, whose first line is `first`."""
        raise NotImplementedError

    def body(self) -> ComposeResult:
        yield self.filter_box("text, !not")
        yield RowList(id="job-log", follow_end=True)

    def on_mount(self) -> None:
        self._query: BackgroundQuery[NewEntries] = BackgroundQuery(self, self._received)
        self.query_one(RowList).focus()
        self._start_read()
        self.set_interval(_INTERVAL, self._start_read)

    def show(self, snapshot: Snapshot, now: datetime) -> None:
        return  # nothing of it is in a snapshot

    def _start_read(self) -> None:
        if not self._query.busy and (self._logged is None or self._logged.grows):
            self._query.start(self.read)

    def _received(self, news: NewEntries | ImiError) -> None:
        before = (self._failed, self._logged)
        if isinstance(news, ImiError):
            self._failed = news.sentence
        else:
            self._failed, self._logged = None, news.run
            self._entries = [*self._entries, *news.entries][-_MOST_ENTRIES:]
        if (self._failed, self._logged) != before or (isinstance(news, NewEntries) and news.entries):
            self._draw()

    def filter_changed(self) -> None:
        self._draw()

    def _draw(self) -> None:
        logged, words = self._logged, self.filter_text
        shown = [one for one in self._entries if _matches(one, words)]
        title = [Content.styled("Log", "bold")]
        if logged is not None:
            title.append(Content(f"  {safe(logged.agent, 40)}  {logged.state}"))
            counted = f"{len(shown)} of {len(self._entries)} entries"
            title.append(Content.styled(f"  {safe(logged.name, 80)}  {counted}", cells.MUTED))
        self.set_title(Content("").join(title))
        width = max(20, self.query_one(RowList).size.width)
        rows = [
            ListRow(f"{number} {place}", (self.drawn(line, lines[0]).truncate(width, ellipsis=True),))
            for number, lines in enumerate(shown)
            for place, line in enumerate(lines)
        ]
        if self._failed is not None:
            rows.append(message_row(cells.failure(self._failed)))
        elif logged is None:
            rows = [message_row("looking…")]
        self.query_one(RowList).show(rows or [message_row("nothing yet" if not words else "no entry matches")])


class JobLogView(RunLogView):
    """What an agent of imi said and did."""

    label = "Log of a job"

    def __init__(self, key: Key | None, open_context: OpenContextAt, run: str) -> None:
        super().__init__(key, open_context)
        self._run_id = run
        self._reader: OutputReader | None = None

    def read(self, stop: ShouldStop) -> NewEntries:
        with self.open_context(None) as context:
            row = db.read(context.connection, runs.by_id, self._run_id)
        if row is None:
            raise Refused("the registry has no such run any more", code="no-run")
        if self._reader is None:
            self._reader = OutputReader(row)
        logged = LoggedRun(row.agent_id, row.shown_state, row.short, row.is_open)
        return NewEntries(logged, [log_text.entry_lines(one) for one in self._reader.read()])

    def drawn(self, line: str, first: str) -> Content:
        sign = first[_CLOCK + 1 : _CLOCK + 2]
        return Content.styled(line[:_CLOCK], cells.MUTED).append(Content.styled(line[_CLOCK:], _STYLES.get(sign, "")))


class WatchedLogView(RunLogView):
    """The log of a run of another program: its last lines, and those that follow."""

    label = "Log of a watched run"

    def __init__(self, key: Key | None, open_context: OpenContextAt, run: Run) -> None:
        super().__init__(key, open_context)
        self._run = run
        self._tail: LogTail | None = None

    def show(self, snapshot: Snapshot, now: datetime) -> None:
        self._run = next((one for one in snapshot.watched if one.id == self._run.id), self._run)

    def read(self, stop: ShouldStop) -> NewEntries:
        one = self._run
        if one.log is None:
            raise Refused(f"{safe(one.short, 80)} has no log", code="missing")
        if self._tail is None:
            self._tail = foreign_log.open_tail(one.log)
        try:
            lines = self._tail.read()[-_MOST_ENTRIES:]
        except OSError as error:
            raise Refused(f"the log {safe(one.log, 300)} is gone", code="missing") from error
        logged = LoggedRun(one.agent, one.shown, one.short, grows=True)
        return NewEntries(logged, [(safe(line, _LONGEST_LINE),) for line in lines])

    def drawn(self, line: str, first: str) -> Content:
        return Content.styled(line, "$error" if line.startswith("[STDERR]") else "")


def _matches(entry: Sequence[str], words: str) -> bool:
    return filters.matches_words(words, lambda word: any(filters.contains(line, word) for line in entry))
