"""The events of the repositories shown, as sentences: the list follows its end, scrolling up loads older ones, `/` filters.

Of each session only the newest event is a row; `enter` shows what is recorded of an event and of its session. Filter words
are `type:claimed`, `@agent`, `in:feat-api` and plain text; `!` negates a word. See `ui/filters.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content

from imi_monitor.actions import time_format
from imi_monitor.actions.history import events_action as log
from imi_monitor.model import event_text, repository_names
from imi_monitor.model.contained_names import HOMES
from imi_monitor.model.errors import ImiError
from imi_monitor.model.repository_names import RepositoryNames
from imi_monitor.model.snapshot import RegistryEvent, Snapshot
from imi_monitor.model.text import count, safe
from imi_monitor.store.events import Event, to_model
from imi_monitor.ui import cells, filters
from imi_monitor.ui.background_query import BackgroundQuery, ShouldStop
from imi_monitor.ui.dialogs.menu import Menu, MenuEntry
from imi_monitor.ui.views.filtered_view import FILTER, FilteredView
from imi_monitor.ui.widgets.row_list import ListRow, RowList, message_row

_MOST_EARLIER = 50  # events of a session that are listed with one of them


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event as it is recorded, as it is shown, and the text that a filter searches."""

    row: Event
    event: RegistryEvent
    text: str


@dataclass(frozen=True, slots=True)
class EventsPage:
    """The events behind the newest known one and before the oldest."""

    newer: list[LoggedEvent]
    older: list[LoggedEvent]
    asked_older: bool


class EventsView(FilteredView):
    word = "events"
    opening_key = "t"
    label = "Events"
    help = "what happened in the repositories shown, with a filter"
    BINDINGS = [
        Binding("enter", "show_data", "Details", key_display="⏎", tooltip="show all that is recorded of the event"),
        FILTER,
        Binding("f", "only_this", "Only the selected", tooltip="show the events of the selected worktree only, or all"),
    ]
    page_size = 300  # events read at once
    max_events = 6000  # events kept; `imi events --since` shows older ones

    def on_mount(self) -> None:
        self._query: BackgroundQuery[EventsPage] = BackgroundQuery(self, self._received)
        self._events: list[LoggedEvent] = []
        self._has_read = False
        self._exhausted = False  # nothing older exists, or no more is kept
        self._failed: str | None = None
        self._source: tuple[object, ...] | None = None  # the registry and the repositories that the events are from
        self._drawn: object = None  # the inputs of the rows on the screen
        lines = self.query_one(RowList)
        lines.focus()
        self.watch(lines, "scroll_y", self._scrolled, init=False)

    def body(self) -> ComposeResult:
        yield self.filter_box("text, !not, @agent, type:claimed, in:feat-api")
        yield RowList(id="events", follow_end=True)

    # -- reading ----------------------------------------------------------------------------------------------------

    def show(self, snapshot: Snapshot, now: datetime) -> None:
        source = (snapshot.registry.replaced, snapshot.repositories)
        if self._source is not None and self._source != source:
            self._events, self._exhausted = [], False
            self._has_read = False
            self._query.cancel()
        self._source = source
        shown = (one.seq for one in reversed(snapshot.events) if event_text.concerns(one, snapshot.repositories))
        newest = next(shown, 0)
        known = self._events[-1].row.seq if self._events else 0
        if not self._has_read or newest > known or self._failed:
            self._start_read(older=False)
        self._draw()

    def _start_read(self, *, older: bool) -> None:
        if self._query.busy and not older:
            return  # the next snapshot starts another read
        first = self._events[0].row.seq if self._events else None
        last = self._events[-1].row.seq if self._events else 0
        repositories, names = (*(self.snapshot.repositories if self.snapshot else ()), *HOMES), self._names

        def question(stop: ShouldStop) -> EventsPage:
            with self.open_context(None) as context:
                newer = log.page(context, behind=last, limit=self.page_size, repositories=repositories)
                before = (
                    log.page(context, before=first, limit=self.page_size, repositories=repositories)
                    if older and first is not None
                    else []
                )
            return EventsPage([_logged(one, names) for one in newer], [_logged(one, names) for one in before], older)

        self._query.start(question)

    @property
    def _names(self) -> RepositoryNames:
        return repository_names.of_snapshot(self.snapshot) if self.snapshot is not None else RepositoryNames()

    def _received(self, page: EventsPage | ImiError) -> None:
        if isinstance(page, ImiError):
            self._failed = page.sentence
            self._draw()
            return
        self._failed = None
        had_read, self._has_read = self._has_read, True
        lines = self.query_one(RowList)
        before, at = len(lines.rows), lines.scroll_offset.y
        follows = not had_read or bool(lines.rows and lines.cursor == lines.rows[-1].key)
        self._exhausted = (
            self._exhausted
            or (page.asked_older and len(page.older) < self.page_size)
            or len(self._events) > self.max_events
        )
        self._events = [*page.older, *self._events, *page.newer]
        self._draw()
        if page.older:  # keep the visible rows in their place
            lines.scroll_to(y=at + max(0, len(lines.rows) - before), animate=False, immediate=True)
        elif follows and lines.rows:
            lines.select(lines.rows[-1].key)
        self._fill()

    def _fill(self) -> None:
        """Load older events while the filter leaves too few to fill the screen."""
        lines = self.query_one(RowList)
        if self._has_read and not self._exhausted and len(lines.rows) <= lines.size.height:
            self._start_read(older=True)

    def _scrolled(self, _before: float, now: float) -> None:
        if now <= 0 and self._has_read and not self._exhausted and not self._query.busy and self._events:
            self._start_read(older=True)

    # -- drawing ----------------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        words, width = self.filter_text, max(20, self.query_one(RowList).size.width)
        ends = (self._events[0].row.seq, self._events[-1].row.seq) if self._events else None
        inputs = (words, width, ends, self._has_read, self._exhausted, self._failed)
        if inputs == self._drawn:
            return
        self._drawn = inputs
        shown = event_text.fold([one.event for one in self._events if event_matches(one, words)])
        parts = [Content.styled("Events", "bold")]
        if words:
            found = sum(1 + one.earlier for one in shown)
            parts.append(Content.styled(f"  {safe(words, 60)}: {found} of {len(self._events)}", "$accent"))
        elif self._has_read:
            more = "" if self._exhausted else ", older ones as you scroll up"
            parts.append(Content.styled(f"  {count(len(self._events), 'event')}{more}", cells.MUTED))
        self.set_title(Content("").join(parts))
        rows = [ListRow(str(one.event.seq), partial(self._lines, one, width)) for one in shown]
        self.query_one(RowList).show(rows or self._why_empty(words))

    def _why_empty(self, words: str) -> Sequence[ListRow]:
        if self._failed is not None:
            return [message_row(cells.failure(self._failed))]
        if not self._has_read:
            return [message_row("looking…")]
        why = f"no event matches {safe(words, 80)}: esc clears the filter" if words else "no events yet"
        return [message_row(why)]

    def _lines(self, one: event_text.ShownEvent, width: int) -> tuple[Content, ...]:
        repository = self._names.prefix(one.event.repo)
        return (cells.event_line(one, width, repository=repository, moment=time_format.clock(one.event.at)),)

    # -- one event --------------------------------------------------------------------------------------------------

    @on(RowList.RowChosen)
    def _chosen(self, event: RowList.RowChosen) -> None:
        event.stop()
        self.action_show_data()

    def action_show_data(self) -> None:
        """Show what is recorded of the event under the cursor, and of the earlier ones of its session."""
        at = self.query_one(RowList).cursor
        chosen = next((one for one in self._events if str(one.row.seq) == at), None)
        if chosen is None:
            return
        session = event_text.session_of(chosen.event)
        before = [one for one in self._events if session and event_text.session_of(one.event) == session]
        entries = list(_recorded(chosen.row))
        entries += [MenuEntry("", "events of this session")] if len(before) > 1 else []
        entries += [_short_entry(one.row) for one in before[: -_MOST_EARLIER - 1 : -1] if one is not chosen]
        self.app.push_screen(Menu(safe(str(event_text.sentence(chosen.event)), 100), entries, search=False))

    # -- the filter -------------------------------------------------------------------------------------------------

    def action_only_this(self) -> None:
        """Show only the events of the selected worktree, or all again."""
        word = f"in:{self.key.worktree}" if self.key else ""
        self.set_filter("" if self.filter_text == word else word)

    def filter_changed(self) -> None:
        self._draw()
        self._fill()


def _recorded(row: Event) -> Iterator[MenuEntry]:
    """The fields of the event, those of its data each by itself."""
    fields = log.entry(row)
    data = fields.pop("data")
    parts = {f"data.{name}": value for name, value in data.items()} if isinstance(data, dict) else {"data": data}
    for name, value in {**fields, **parts}.items():
        yield MenuEntry(safe(name, 60), safe(name, 60), safe(str(value), 2000) if value is not None else "–")


def _short_entry(row: Event) -> MenuEntry:
    return MenuEntry(f"event {row.seq}", log.clock(row), f"{safe(row.type)} {' '.join(log.details(row))}")


def _logged(row: Event, names: RepositoryNames) -> LoggedEvent:
    event = to_model(row)
    said = str(event_text.sentence(event, repository=names.prefix(event.repo)))
    fields = (said, row.type, row.repo_name or "", row.worktree_name or "", row.agent_id or "", *log.details(row))
    return LoggedEvent(row, event, " ".join(fields))


def event_matches(one: LoggedEvent, wanted: str) -> bool:
    return filters.matches_words(wanted, lambda word: _event_has(one, word))


def _event_has(one: LoggedEvent, word: str) -> bool:
    if word.startswith("@"):
        return filters.contains(one.row.agent_id or "", word[1:])
    if word.startswith("type:"):
        return filters.contains(one.row.type, word[5:])
    if word.startswith("in:"):
        return (one.row.worktree_name or "") == word[3:]
    return filters.contains(one.text, word)


VIEW = EventsView
