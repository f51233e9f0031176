"""The events of the registry: the list follows its end, scrolling up loads older ones, `/` filters.

Filter words are `type:claimed`, `@agent`, `in:feat-api` and plain text; `!` negates a word. See `ui/filters.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content

from imi_monitor.actions.history import events_action as log
from imi_monitor.model import columns
from imi_monitor.model.errors import ImiError
from imi_monitor.model.snapshot import Snapshot
from imi_monitor.model.text import count, safe
from imi_monitor.store.events import Event
from imi_monitor.ui import cells, filters
from imi_monitor.ui.background_query import BackgroundQuery, ShouldStop
from imi_monitor.ui.views.filtered_view import FILTER, FilteredView
from imi_monitor.ui.widgets.row_list import ListRow, RowList, message_row

NARROW = 80


@dataclass(frozen=True, slots=True)
class EventsPage:
    """The events behind the newest known one and before the oldest."""

    newer: list[Event]
    older: list[Event]
    asked_older: bool


class EventsView(FilteredView):
    word = "events"
    opening_key = "t"
    label = "Events"
    help = "the registry's events, with a filter"
    BINDINGS = [FILTER, Binding("f", "only_this", "Only the selected")]
    page_size = 300  # events read at once
    max_events = 6000  # events kept; `imi events --since` shows older ones

    def on_mount(self) -> None:
        self._query: BackgroundQuery[EventsPage] = BackgroundQuery(self, self._received)
        self._events: list[Event] = []
        self._has_read = False
        self._exhausted = False  # nothing older exists, or no more is kept
        self._failed: str | None = None
        self._replaced: int | None = None  # the snapshot's number of the registry that the events are from
        self._drawn: object = None  # the inputs of the rows on the screen
        lines = self.query_one(RowList)
        lines.focus()
        self.watch(lines, "scroll_y", self._scrolled, init=False)

    def body(self) -> ComposeResult:
        yield self.filter_box("text, !not, @agent, type:claimed, in:feat-api")
        yield RowList(id="events", follow_end=True)

    # -- reading ----------------------------------------------------------------------------------------------------

    def show(self, snapshot: Snapshot, now: datetime) -> None:
        if self._replaced is not None and self._replaced != snapshot.registry.replaced:
            self._events, self._exhausted = [], False  # of another registry
            self._has_read = False
            self._query.cancel()
        self._replaced = snapshot.registry.replaced
        newest = snapshot.events[-1].seq if snapshot.events else 0
        known = self._events[-1].seq if self._events else 0
        if not self._has_read or newest > known or self._failed:
            self._start_read(older=False)
        self._draw()

    def _start_read(self, *, older: bool) -> None:
        if self._query.busy and not older:
            return  # the next snapshot starts another read
        first = self._events[0].seq if self._events else None
        last = self._events[-1].seq if self._events else 0

        def question(stop: ShouldStop) -> EventsPage:
            with self.open_context(None) as context:
                newer = log.page(context, behind=last, limit=self.page_size)
                before = log.page(context, before=first, limit=self.page_size) if older and first is not None else []
                return EventsPage(newer, before, older)

        self._query.start(question)

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
        ends = (self._events[0].seq, self._events[-1].seq) if self._events else None
        inputs = (words, width, ends, self._has_read, self._exhausted, self._failed)
        if inputs == self._drawn:
            return
        self._drawn = inputs
        shown = [event for event in self._events if event_matches(event, words)]
        parts = [Content.styled("Events", "bold")]
        if words:
            parts.append(Content.styled(f"  {safe(words, 60)}: {len(shown)} of {len(self._events)}", "$accent"))
        elif self._has_read:
            more = "" if self._exhausted else ", older ones as you scroll up"
            parts.append(Content.styled(f"  {count(len(shown), 'entry', 'entries')}{more}", cells.MUTED))
        self.set_title(Content("").join(parts))
        rows = [ListRow(str(event.seq), (event_line(event, width),)) for event in shown]
        self.query_one(RowList).show(rows or self._why_empty(words))

    def _why_empty(self, words: str) -> Sequence[ListRow]:
        if self._failed is not None:
            return [message_row(cells.failure(self._failed))]
        if not self._has_read:
            return [message_row("looking…")]
        why = f"no event matches {safe(words, 80)}: esc clears the filter" if words else "no events yet"
        return [message_row(why)]

    # -- the filter -------------------------------------------------------------------------------------------------

    def action_only_this(self) -> None:
        """Show only the events of the selected worktree, or all again."""
        word = f"in:{self.key.worktree}" if self.key else ""
        self.set_filter("" if self.filter_text == word else word)

    def filter_changed(self) -> None:
        self._draw()
        self._fill()


def event_line(event: Event, width: int) -> Content:
    """`14:02:09 worktree.claimed  feat-api  by claude-1  task=T-7`."""
    style = cells.event_style(event.type)
    where = safe(event.worktree_name or event.repo_name or "")
    clock = log.clock(event)
    parts = [cells.fixed(clock, 9 if len(clock) < 9 else 20, cells.MUTED)]
    if width < NARROW:
        parts += [cells.fixed(safe(event.type.rpartition(".")[2]), 10, style), Content(where)]
    else:
        parts += [cells.fixed(safe(event.type), 20, style), Content(" "), cells.fixed(where, 22, "bold"), Content(" ")]
    agent = safe(event.agent_id or "", 40)
    if width >= NARROW:
        parts.append(Content(f"{columns.pad(agent, 12)}  "))
    elif agent:
        parts.append(Content(f" by {agent}"))
    parts.append(Content.styled(" ".join(log.details(event)) if width >= NARROW else "", cells.MUTED))
    return Content("").join(parts).truncate(width)


def event_matches(event: Event, wanted: str) -> bool:
    return filters.matches_words(wanted, lambda word: _event_has(event, word))


def _event_has(event: Event, word: str) -> bool:
    if word.startswith("@"):
        return filters.contains(event.agent_id or "", word[1:])
    if word.startswith("type:"):
        return filters.contains(event.type, word[5:])
    if word.startswith("in:"):
        return (event.worktree_name or "") == word[3:]
    fields = (event.type, event.repo_name or "", event.worktree_name or "", event.agent_id or "", *log.details(event))
    return filters.contains(" ".join(fields), word)


VIEW = EventsView
