"""The log of everything that happened: it follows its end, older entries come while one scrolls up, `/` filters.

A filter is words that all must fit: `type:claimed`, `@agent`, `in:feat-api`, plain text; `!` turns a word round. Capitals count
only if the word has any.
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
from imi_monitor.ui.widgets.row_list import ListRow, RowList

PAGE = 300
MOST = 6000  # entries held; who wants to go further back asks `imi events --since`
NARROW = 80


@dataclass(frozen=True, slots=True)
class EventsPage:
    """What one reading gave: entries behind the newest and in front of the oldest that are known."""

    newer: list[Event]
    older: list[Event]
    asked_older: bool


class EventsView(FilteredView):
    word = "events"
    opening_key = "t"
    label = "Events"
    help = "the log of everything that happened, with a filter"
    BINDINGS = [FILTER, Binding("f", "only_this", "Only the selected")]

    def on_mount(self) -> None:
        self._asking: BackgroundQuery[EventsPage] = BackgroundQuery(self, self._read)
        self._events: list[Event] = []
        self._begun = False
        self._exhausted = False  # there is nothing older, or no more is held
        self._failed: str | None = None
        self._drawn: object = None  # what the screen shows now
        lines = self.query_one(RowList)
        lines.focus()
        self.watch(lines, "scroll_y", self._scrolled, init=False)

    def body(self) -> ComposeResult:
        yield self.filter_box("text, !not, @agent, type:claimed, in:feat-api")
        yield RowList(id="events", follow_end=True)

    # -- reading ----------------------------------------------------------------------------------------------------

    def show(self, snapshot: Snapshot, now: datetime) -> None:
        newest = snapshot.events[-1].seq if snapshot.events else 0
        known = self._events[-1].seq if self._events else 0
        if not self._begun or newest > known or self._failed:
            self._ask(older=False)
        self._draw()

    def _ask(self, *, older: bool) -> None:
        if self._asking.busy and not older:
            return  # the next snapshot asks again
        first = self._events[0].seq if self._events else None
        last = self._events[-1].seq if self._events else 0

        def question(stop: ShouldStop) -> EventsPage:
            with self.open_context(None) as context:
                newer = log.page(context, behind=last, limit=PAGE)
                before = log.page(context, before=first, limit=PAGE) if older and first is not None else []
                return EventsPage(newer, before, older)

        self._asking.ask(question)

    def _read(self, page: EventsPage | ImiError) -> None:
        if isinstance(page, ImiError):
            self._failed = page.sentence
            self._draw()
            return
        self._failed = None
        begun, self._begun = self._begun, True
        lines = self.query_one(RowList)
        before, at = len(lines.rows), lines.scroll_offset.y
        follows = not begun or bool(lines.rows and lines.cursor == lines.rows[-1].key)
        self._exhausted = self._exhausted or (page.asked_older and len(page.older) < PAGE) or len(self._events) > MOST
        self._events = [*page.older, *self._events, *page.newer]
        self._draw()
        if page.older:  # what was on the screen stays where it was
            lines.scroll_to(y=at + max(0, len(lines.rows) - before), animate=False, immediate=True)
        elif follows and lines.rows:
            lines.select(lines.rows[-1].key)
        self._fill()

    def _fill(self) -> None:
        """A filter may leave so little of what is known that the screen is not full: go on back."""
        lines = self.query_one(RowList)
        if self._begun and not self._exhausted and len(lines.rows) <= lines.size.height:
            self._ask(older=True)

    def _scrolled(self, _before: float, now: float) -> None:
        if now <= 0 and self._begun and not self._exhausted and not self._asking.busy and self._events:
            self._ask(older=True)

    # -- drawing ----------------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        wanted, width = self.wanted, max(20, self.query_one(RowList).size.width)
        ends = (self._events[0].seq, self._events[-1].seq) if self._events else None
        mark = (wanted, width, ends, self._begun, self._exhausted, self._failed)
        if mark == self._drawn:
            return  # a log does not change by itself, and it may be long
        self._drawn = mark
        shown = [event for event in self._events if event_matches(event, wanted)]
        parts = [Content.styled("Events", "bold")]
        if wanted:
            parts.append(Content.styled(f"  {safe(wanted, 60)}: {len(shown)} of {len(self._events)}", "$accent"))
        elif self._begun:
            more = "" if self._exhausted else ", older ones as you scroll up"
            parts.append(Content.styled(f"  {count(len(shown), 'entry', 'entries')}{more}", cells.MUTED))
        self.set_title(Content("").join(parts))
        rows = [ListRow(str(event.seq), (event_line(event, width),)) for event in shown]
        self.query_one(RowList).show(rows or self._nothing(wanted))

    def _nothing(self, wanted: str) -> Sequence[ListRow]:
        if self._failed is not None:
            return [ListRow("", (Content.styled(f"? {safe(self._failed, 400)}", "$error"),))]
        if not self._begun:
            return [ListRow("", (Content.styled("looking…", cells.MUTED),))]
        why = f"nothing fits {safe(wanted, 80)}: esc clears the filter" if wanted else "nothing has happened yet"
        return [ListRow("", (Content.styled(why, cells.MUTED),))]

    # -- the filter -------------------------------------------------------------------------------------------------

    def action_only_this(self) -> None:
        """Only what happened in the selected worktree, and back."""
        word = f"in:{self.key.worktree}" if self.key else ""
        self.want("" if self.wanted == word else word)

    def filtered(self) -> None:
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
