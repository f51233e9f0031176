"""The history: everything that was archived, newest first. `/` searches as you type; enter goes to what a row is about.

All words must occur, the last may be the beginning of one. `@agent`, `in:worktree`, `type:removed` and `on:yesterday`,
`since:2h` narrow the search. Scrolling down loads older rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content

from imi_monitor.actions import time_format
from imi_monitor.actions.history import history_query
from imi_monitor.actions.history.history_query import HistoryAnswer
from imi_monitor.model import event_text, history_words, repository_names, sink_words, times
from imi_monitor.model.errors import ImiError, UsageError
from imi_monitor.model.snapshot import Key, RegistryEvent, Snapshot
from imi_monitor.model.text import count, safe
from imi_monitor.store.history_search import HistoryHit, HistoryQuery
from imi_monitor.ui import cells
from imi_monitor.ui.background_query import BackgroundQuery, ShouldStop
from imi_monitor.ui.dialogs.menu import Menu, MenuEntry
from imi_monitor.ui.views.diff_view import DiffView, ShownCommit
from imi_monitor.ui.views.filtered_view import FILTER, FilteredView
from imi_monitor.ui.views.registry_view import NARROW
from imi_monitor.ui.views.session_view import SessionView
from imi_monitor.ui.views.trash_view import TrashView
from imi_monitor.ui.widgets.row_list import ListRow, RowList, message_row

if TYPE_CHECKING:
    from imi_monitor.ui.app import ImiApp

_PAUSE = 0.12  # seconds without a key before a search begins
_EXCERPT = 160
_WHOLE = 1000  # columns: an event's sentence is cut later


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """An answer to the words that were typed; `older`: it continues the rows on the screen."""

    words: str
    answer: HistoryAnswer | None
    older: bool


class HistoryView(FilteredView):
    word = "past"
    opening_key = "u"
    label = "History"
    help = "search everything that happened, also long ago: claims, commits, prompts, removals"
    BINDINGS = [
        Binding("enter", "go_there", "Go there", key_display="⏎", tooltip="go to its worktree, commit, or trash entry"),
        FILTER,
        Binding("d", "show_data", "Details", tooltip="show all that is recorded of it"),
        Binding(
            "f", "only_this", "Only the selected", tooltip="show the history of the selected worktree only, or all"
        ),
        Binding("Y", "yesterday", "Yesterday", tooltip="show what happened yesterday, or all"),
    ]
    page_size = 200

    def on_mount(self) -> None:
        self._query: BackgroundQuery[HistoryPage] = BackgroundQuery(self, self._received, pause=_PAUSE)
        self._hits: list[HistoryHit] = []
        self._searched: str | None = None  # the words that the rows answer
        self._answer: HistoryAnswer | None = None
        self._exhausted = False
        self._failed: str | None = None
        self._newest: object = None  # what the archive had when it was searched
        self._drawn: object = None
        lines = self.query_one(RowList)
        lines.focus()
        self.watch(lines, "scroll_y", self._scrolled, init=False)

    def body(self) -> ComposeResult:
        yield self.filter_box("words, @agent, in:feat-api, type:removed, on:yesterday, since:2d")
        yield RowList(id="past")

    # -- searching --------------------------------------------------------------------------------------------------

    def show(self, snapshot: Snapshot, now: datetime) -> None:
        archived = next((one.sent_at for one in snapshot.sinks if one.name == "history"), None)
        at_top = self.query_one(RowList).scroll_offset.y == 0
        if self._searched is None or (archived != self._newest and at_top and not self._query.busy):
            self._newest = archived
            self._search()
        self._draw()

    def filter_changed(self) -> None:
        self._search()

    def _search(self, *, older: bool = False) -> None:
        words = self.filter_text
        before = self._hits[-1].seq if older and self._hits else None

        def question(stop: ShouldStop) -> HistoryPage:
            with self.open_context(None) as context:
                database = context.database
            answer = history_query.search(database, parse_query(words, times.now(), before), self.page_size)
            return HistoryPage(words, answer, older)

        self._query.start(question)

    def _received(self, page: HistoryPage | ImiError) -> None:
        if isinstance(page, ImiError):
            self._failed, self._searched = page.sentence, self.filter_text
            self._draw()
            return
        hits = page.answer.hits if page.answer is not None else []
        self._failed, self._searched, self._answer = None, page.words, page.answer
        self._exhausted = len(hits) < self.page_size
        self._hits = [*self._hits, *hits] if page.older else hits
        self._draw()

    def _scrolled(self, _before: float, now: float) -> None:
        lines = self.query_one(RowList)
        near_end = now + 2 * lines.size.height >= lines.virtual_size.height
        if near_end and self._hits and not self._exhausted and not self._query.busy and not self._failed:
            self._search(older=True)

    # -- drawing ----------------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        lines = self.query_one(RowList)
        width = max(20, lines.room)
        inputs = (self._searched, width, len(self._hits), self._hits[:1], self._failed, self._answer)
        if inputs == self._drawn:
            return
        self._drawn = inputs
        self.set_title(self._title())
        rows = [ListRow(hit.id, partial(self._lines, hit, width)) for hit in self._hits]
        lines.show(rows or [self._why_empty()], 2 if width < NARROW else 1)

    def _title(self) -> Content:
        parts = [Content.styled("History", "bold")]
        if self._searched:
            more = "" if self._exhausted else " and more"
            parts.append(Content.styled(f"  {safe(self._searched, 60)}: {len(self._hits)} found{more}", "$accent"))
        elif self._answer is not None:
            parts.append(Content.styled(f"  {count(self._answer.total, 'entry', 'entries')}", cells.MUTED))
        if self._answer is not None and not self._answer.indexed:
            parts.append(Content.styled(f"  {history_query.WITHOUT_INDEX}", "$warning"))
        sink = next((one for one in self.snapshot.sinks if one.name == "history"), None) if self.snapshot else None
        if sink is not None and sink_words.needs_attention(sink, times.now()):
            parts.append(Content.styled(f"  {sink_words.sentence(sink, times.now())}", "$warning"))
        return Content("").join(parts)

    def _why_empty(self) -> ListRow:
        if self._failed is not None:
            return message_row(cells.failure(self._failed))
        if self._searched is None:
            return message_row("looking…")
        if self._answer is None:
            return message_row("nothing is archived yet: the first events come within seconds")
        return message_row(f"nothing matches {safe(self._searched, 80)}: esc clears the search")

    def _lines(self, hit: HistoryHit, width: int) -> tuple[Content, ...]:
        names = repository_names.of_snapshot(self.snapshot) if self.snapshot is not None else None
        repository = names.prefix(hit.repo_name) if names is not None else ""
        moment = time_format.clock(hit.at)
        words = tuple(word for word in (self._searched or "").split() if ":" not in word and not word.startswith("@"))
        found = history_query.excerpt(hit, words, _EXCERPT) if words else ""
        excerpt = Content.styled(f" · {safe(found, _EXCERPT + 2)}" if found else "", cells.MUTED)
        if hit.type != "session.prompt":
            event = RegistryEvent(hit.seq, hit.type, hit.at, hit.repo_name, hit.worktree_name, hit.agent_id, hit.data)
            line = cells.event_line(event_text.ShownEvent(event), _WHOLE, repository=repository, moment=moment)
        else:
            said = safe(history_words.sentence(hit.words), 300)
            line = Content.styled(f"{moment} ", cells.MUTED).append(Content(said))
        line = line.append(excerpt)
        if width < NARROW:
            first, rest = _split(line, width)
            return first, Content("  ").append(rest).truncate(width, ellipsis=True)
        return (line.truncate(width, ellipsis=True),)

    # -- one entry --------------------------------------------------------------------------------------------------

    @property
    def _chosen(self) -> HistoryHit | None:
        at = self.query_one(RowList).cursor
        return next((hit for hit in self._hits if hit.id == at), None)

    @on(RowList.RowChosen)
    def _row_chosen(self, event: RowList.RowChosen) -> None:
        event.stop()
        self.action_go_there()

    def action_go_there(self) -> None:
        """Go to the trash entry, commit, session or worktree that the entry is about; else show what is recorded."""
        hit = self._chosen
        if hit is None:
            return
        app = cast("ImiApp", self.app)
        data = history_query.data_of(hit)
        tree = self._tree_of(hit)
        if hit.type == "worktree.removed" and data.get("trash_id"):
            trash = TrashView(self.key, self.open_context)
            trash.wanted_row = str(data["trash_id"])
            app.open_view(trash, None)
        elif hit.type == "worktree.commit" and tree is not None and data.get("commit"):
            shown = ShownCommit(str(data["commit"]), str(data.get("subject") or ""), hit.agent_id or "")
            app.open_view(DiffView(tree, self.open_context, commit=shown), None)
        elif hit.type.startswith("session.") and data.get("session"):
            session = SessionView(self.key, self.open_context)
            app.open_view(session, None)
            session.agent_id = str(data["session"])
        elif tree is not None and not hit.type.startswith("session."):
            self.dismiss(None)
            app.home.select(tree)
        else:
            self.action_show_data()

    def _tree_of(self, hit: HistoryHit) -> Key | None:
        trees = self.snapshot.worktrees if self.snapshot is not None else ()
        wanted = (hit.repo_name, hit.worktree_name)
        return next((tree.key for tree in trees if (tree.key.repo, tree.key.worktree) == wanted), None)

    def action_show_data(self) -> None:
        """Show what is recorded of the entry under the cursor, with its texts."""
        hit = self._chosen
        if hit is None:
            return
        fields = history_query.data(hit)
        data = fields.pop("data")
        for name in ("seq", "sentence"):  # the one is a number of this file, the other the title
            del fields[name]
        parts = {f"data.{name}": value for name, value in data.items()} if isinstance(data, dict) else {}
        texts = str(fields.pop("text")).split("\n")
        entries = [
            MenuEntry(safe(name, 60), safe(name, 60), safe(str(value), 2000) if value is not None else "–")
            for name, value in {**fields, **parts}.items()
        ]
        entries += [MenuEntry(f"text {number}", "text", safe(line, 2000)) for number, line in enumerate(texts) if line]
        self.app.push_screen(Menu(safe(history_words.sentence(hit.words), 100), entries, search=False))

    # -- the search -------------------------------------------------------------------------------------------------

    def action_only_this(self) -> None:
        """Show only the history of the selected worktree, or all again."""
        self._toggle(f"in:{self.key.worktree}" if self.key else "")

    def action_yesterday(self) -> None:
        """Show only what happened yesterday, or all again."""
        self._toggle("on:yesterday")

    def _toggle(self, word: str) -> None:
        words = self.filter_text.split()
        kept = [one for one in words if one != word]
        self.set_filter(" ".join(kept if word in words else filter(None, (*kept, word))))


def _split(line: Content, width: int) -> tuple[Content, Content]:
    """The line in two parts, between words where one ends within the width."""
    if line.cell_length <= width:
        return line, Content("")
    place = len(line.truncate(width).plain.rstrip())
    if not line.plain[place : place + 1].isspace():
        place = max(line.plain.rfind(" ", width // 2, place), 0) or place
    return line[:place], line[place + line.plain[place:].startswith(" ") :]


def parse_query(words: str, now: datetime, before: int | None = None) -> HistoryQuery:
    """The words of the filter as a query; a time that cannot be read is looked for as a word."""
    plain: list[str] = []
    given: dict[str, str] = {}
    types: list[str] = []
    since = until = None
    for word in words.split():
        kind, _, value = word.partition(":")
        if word.startswith("@") and len(word) > 1:
            given["agent"] = word[1:]
        elif kind in ("in", "repo") and value:
            given["worktree_name" if kind == "in" else "repo_name"] = value
        elif kind == "type" and value:
            types.append(value if "." in value else f"{value}.*")
        elif kind in ("on", "since") and (found := _times(kind, value, now)) is not None:
            since, until = found
        else:
            plain.append(word)
    return HistoryQuery(tuple(plain), since, until, types=tuple(types), before=before, **given)


def _times(kind: str, value: str, now: datetime) -> tuple[str, str | None] | None:
    if kind == "since":
        try:
            moment = time_format.since(value)
        except UsageError:
            return None
        return (moment, None) if moment is not None else None
    today = now.astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    days = {"today": today, "yesterday": today - timedelta(days=1)}
    try:
        day = days.get(value) or datetime.fromisoformat(value).astimezone()
    except ValueError:
        return None
    return times.stamp(day), times.stamp(day + timedelta(days=1))


VIEW = HistoryView
