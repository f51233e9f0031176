"""The log of one run, read from its output file and followed while the agent runs; `/` narrows it."""

from __future__ import annotations

from datetime import datetime

from textual.app import ComposeResult
from textual.content import Content

from imi_monitor.actions.runs.logs_action import OutputReader
from imi_monitor.model.errors import ImiError, Refused
from imi_monitor.model.snapshot import Key, Snapshot
from imi_monitor.model.text import safe
from imi_monitor.runs import log_text
from imi_monitor.store import db, runs
from imi_monitor.store.runs import RunRow
from imi_monitor.ui import cells, filters
from imi_monitor.ui.background_query import BackgroundQuery, ShouldStop
from imi_monitor.ui.views.filtered_view import FILTER, FilteredView
from imi_monitor.ui.views.view import OpenContextAt
from imi_monitor.ui.widgets.row_list import ListRow, RowList, message_row

_INTERVAL = 0.4  # seconds between two small reads
_MOST_ENTRIES = 3000  # kept; `imi logs -n` shows more
_STYLES = {">": "bold $primary", "$": "$accent", "?": "$agent-asks", "!": "$error", ".": "$success"}
_CLOCK = 8

News = tuple[RunRow, list[list[str]]]


class JobLogView(FilteredView):
    label = "Log of a job"
    BINDINGS = [FILTER]

    def __init__(self, key: Key | None, open_context: OpenContextAt, run: str) -> None:
        super().__init__(key, open_context)
        self.run = run
        self._entries: list[list[str]] = []
        self._row: RunRow | None = None
        self._failed: str | None = None
        self._reader: OutputReader | None = None

    def body(self) -> ComposeResult:
        yield self.filter_box("text, !not")
        yield RowList(id="job-log", follow_end=True)

    def on_mount(self) -> None:
        self._query: BackgroundQuery[News] = BackgroundQuery(self, self._received)
        self.query_one(RowList).focus()
        self._start_read()
        self.set_interval(_INTERVAL, self._start_read)

    def show(self, snapshot: Snapshot, now: datetime) -> None:
        return  # nothing of it is in a snapshot

    def _start_read(self) -> None:
        if not self._query.busy and (self._row is None or self._row.is_open):
            self._query.start(self._read)

    def _read(self, stop: ShouldStop) -> News:
        with self.open_context(None) as context:
            row = db.read(context.connection, runs.by_id, self.run)
        if row is None:
            raise Refused("the registry has no such run any more", code="no-run")
        if self._reader is None:
            self._reader = OutputReader(row)
        return row, [log_text.entry_lines(one) for one in self._reader.read()]

    def _received(self, news: News | ImiError) -> None:
        if isinstance(news, ImiError):
            self._failed = news.sentence
        else:
            self._failed, (self._row, found) = None, news
            self._entries = [*self._entries, *found][-_MOST_ENTRIES:]
        self._draw()

    def filter_changed(self) -> None:
        self._draw()

    def _draw(self) -> None:
        row, words = self._row, self.filter_text
        shown = [one for one in self._entries if _matches(one, words)]
        title = [Content.styled("Log", "bold")]
        if row is not None:
            title.append(Content(f"  {safe(row.agent_id, 40)}  {row.shown_state}"))
            title.append(Content.styled(f"  {row.short}  {len(shown)} of {len(self._entries)} entries", cells.MUTED))
        self.set_title(Content("").join(title))
        width = max(20, self.query_one(RowList).size.width)
        rows = [
            ListRow(f"{number} {place}", (_drawn(line, lines[0]).truncate(width, ellipsis=True),))
            for number, lines in enumerate(shown)
            for place, line in enumerate(lines)
        ]
        if self._failed is not None:
            rows.append(message_row(cells.failure(self._failed)))
        elif row is None:
            rows = [message_row("looking…")]
        self.query_one(RowList).show(rows or [message_row("nothing yet" if not words else "no entry matches")])


def _matches(entry: list[str], words: str) -> bool:
    return filters.matches_words(words, lambda word: any(filters.contains(line, word) for line in entry))


def _drawn(line: str, first: str) -> Content:
    sign = first[_CLOCK + 1 : _CLOCK + 2]
    return Content.styled(line[:_CLOCK], cells.MUTED).append(Content.styled(line[_CLOCK:], _STYLES.get(sign, "")))
