"""The home screen: header, numbered panels and key bar, drawn from one snapshot.

It holds what the drawing depends on: the snapshot, the selected and marked worktrees, the filter, the layout of the panels.
It acts on nothing; the commands are in `handlers`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content
from textual.geometry import Size
from textual.reactive import reactive
from textual.widgets import Input, Static

from imi_monitor.model import times
from imi_monitor.model.snapshot import Key, Snapshot, Worktree
from imi_monitor.ui import header
from imi_monitor.ui.filters import WorktreeFilter
from imi_monitor.ui.panel_layout import ALL_PANELS, PRESETS, PanelLayout, width_class
from imi_monitor.ui.panel_regions import PanelRegions
from imi_monitor.ui.panels import DETAIL_NUMBERS, PANELS, Panel
from imi_monitor.ui.panels.agents_panel import AgentsPanel
from imi_monitor.ui.panels.feed_panel import FeedPanel
from imi_monitor.ui.panels.panel import FOREVER
from imi_monitor.ui.panels.worktrees_panel import WorktreesPanel, group_of_row, row_key
from imi_monitor.ui.saved_layout import SavedLayout
from imi_monitor.ui.snapshot_facts import SnapshotFacts
from imi_monitor.ui.textual_internals import FastScreen
from imi_monitor.ui.widgets.filter_line import FilterLine
from imi_monitor.ui.widgets.key_bar import ClickableLine, KeyBar, KeyHint
from imi_monitor.ui.widgets.row_list import RowList
from imi_monitor.ui.worktree_order import GROUPS, SORTS, WorktreeOrder

SMALLEST = (40, 12)  # columns and lines; below that the screen says so instead of showing parts
_FILTER_HINT = "text, !not, @agent, type:feat, is:dirty"


class PanelBody(Container):
    """The panels, which cover all of it."""

    BLANK = True

    def __init__(self, panel_layout: PanelLayout, *panels: Panel) -> None:
        super().__init__(*panels, id="body")
        self.panel_regions = PanelRegions(panel_layout.find_regions)

    @property
    def layout(self) -> PanelRegions:
        return self.panel_regions


class HomeScreen(FastScreen):
    """`snapshot` is the newest one; setting it draws it, unless the screen is paused."""

    AUTO_FOCUS = ""  # else the filter would take the keys typed before the first paint
    BLANK = True  # the panels cover the background
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(f"{panel.number}", f"panel({panel.number})", show=False) for panel in PANELS),
        Binding("tab", "next_panel(1)", show=False, priority=True),
        Binding("shift+tab", "next_panel(-1)", show=False, priority=True),
        Binding("escape", "out", show=False),
        Binding("h,left", "fold(True)", show=False),
        Binding("l,right", "fold(False)", show=False),
    ]

    snapshot: reactive[Snapshot | None] = reactive(None, init=False, always_update=True, repaint=False)

    def __init__(
        self,
        hints: Callable[[], Sequence[KeyHint]],
        badges: Callable[[], header.HeaderBadges],
        layout_changed: Callable[[], None],
        first: Snapshot | None = None,
    ) -> None:
        super().__init__(id="_default")
        self.panels = tuple(panel() for panel in PANELS)
        self.panel_layout = PanelLayout(self, self.panels)
        self.shown: Snapshot | None = None  # the one on the screen; older than `snapshot` while paused
        self.shown_at = FOREVER
        self.facts: SnapshotFacts | None = None
        self.agent = ""  # whose worktrees `is:mine` finds
        self.paused_at: datetime | None = None
        self.selected: Key | None = None
        self.marks: frozenset[Key] = frozenset()
        self.only_selected = False  # changes and events of the selected worktree only
        self.set_reactive(HomeScreen.snapshot, first)
        self._hints = hints
        self._badges = badges
        self._layout_changed = layout_changed
        self._row_to_select: str | None = None  # selected as soon as it is listed
        self._name_to_select: str | None = None
        self._after_selection: Callable[[Key], None] | None = None
        self._filter_line: FilterLine | None = None
        self._laid_out_for: Size | None = None  # the terminal's size
        self._header_since = self._header_until = FOREVER  # the header reads the same between these moments
        self._header_shown = Content("")
        self._trouble_shown = Content("")
        self.engine_trouble: Content | None = None  # why there are no more snapshots

    def compose(self) -> ComposeResult:
        yield ClickableLine(id="header")
        yield ClickableLine(id="trouble")
        yield PanelBody(self.panel_layout, *self.panels)
        yield KeyBar()

    def on_mount(self) -> None:
        if self.snapshot is not None:
            self.panel_layout.arrange(self.snapshot)
        self.panel_layout.apply()
        self.panel(self.panel_layout.reachable[0]).lines.focus()

    def start(self) -> None:
        """Draw what is known and allow the first paint."""
        if self.snapshot is None:
            self._draw_header()
        self._laid_out_for = self.app.size
        self.draw()
        self.release(*self.query(RowList))

    # -- its parts --------------------------------------------------------------------------------------------------

    def panel(self, number: int) -> Panel:
        return next(panel for panel in self.panels if panel.number == number)

    @property
    def worktrees(self) -> WorktreesPanel:
        return next(panel for panel in self.panels if isinstance(panel, WorktreesPanel))

    @property
    def agents_panel(self) -> AgentsPanel:
        return next(panel for panel in self.panels if isinstance(panel, AgentsPanel))

    @property
    def focused_panel(self) -> Panel:
        """The panel with the focus; the list if none has it."""
        return next((panel for panel in self.panels if panel.has_focus_within), self.worktrees)

    @property
    def is_complete(self) -> bool:
        """Whether all parts are mounted: at exit they are removed one by one while the clock still ticks."""
        return {"header", "trouble", "body"} <= {child.id for child in self.children} and self.worktrees.is_attached

    # -- drawing ----------------------------------------------------------------------------------------------------

    def watch_snapshot(self) -> None:
        if self.paused_at is None:
            self.draw()

    def draw(self) -> None:
        """Draw header, panels and key bar; while paused, as of the moment of the pause."""
        snapshot = self.shown if self.paused_at and self.shown else self.snapshot
        if snapshot is None or not self.is_complete:
            return
        now = self.paused_at or times.now()
        if self.facts is None or self.facts.snapshot is not snapshot or self.facts.me != self.agent:
            self.facts = SnapshotFacts(snapshot, now, self.agent)
        else:
            self.facts = self.facts.at(now)
        self.shown, self.shown_at = snapshot, now
        if self.marks:
            self.marks = frozenset(key for key in self.marks if snapshot.worktree(key) is not None)
        if self.selected is None or snapshot.worktree(self.selected) is None:
            self.selected = self._key_under_cursor(snapshot)
        self._draw_header()
        self._draw_panels(snapshot, now)
        self.draw_keys()

    def draw_keys(self) -> None:
        self.query_one(KeyBar).show(self._hints(), self.size.width)

    def is_outdated(self) -> bool:
        """Whether an age or the clock on the screen would read differently now."""
        ends = [self._header_until, *(panel.until for panel in self.panels if panel.display)]
        return not self._header_since <= times.now() < min(ends)

    def _draw_panels(self, snapshot: Snapshot, now: datetime) -> None:
        if self._is_too_small():
            return
        worktrees = self.worktrees
        worktrees.facts, worktrees.marks = self.facts, self.marks
        worktrees.show(snapshot, self.selected, now)
        self.selected = self.selected or self._key_under_cursor(snapshot)
        self._select_wanted_row()
        self.panel_layout.arrange(snapshot)
        for panel in self.panels:
            if panel is not worktrees:
                panel.show(snapshot, self.selected, now)

    def _is_too_small(self) -> bool:
        width, height = self.app.size
        small = width < SMALLEST[0] or height < SMALLEST[1]
        if small != self.has_class("-small"):
            self.set_class(small, "-small")
        if small:
            self._show_size_needed(Content(f"imi needs {SMALLEST[0]}×{SMALLEST[1]}\nthis is {width}×{height}"))
        return small

    def _show_size_needed(self, text: Content) -> None:
        for message in self.query("#small").results(Static):
            message.update(text)
            return
        self.mount(Static(text, id="small"), before="#keybar")

    def _draw_header(self) -> None:
        width = self.app.size.width
        self._header_since = times.now()
        self._header_until = header.lasts_until(self.facts, self._header_since)
        line = header.line(self.facts, self._badges(), width, self._header_since)
        if not line.is_same(self._header_shown):
            self._header_shown = line
            self.query_one("#header", Static).update(line, layout=False)
        if self.facts is not None:
            self.show_trouble(self.engine_trouble or header.trouble_line(self.facts, width))

    def show_trouble(self, line: Content) -> None:
        """Show a line below the header; an empty one hides it."""
        if not line.is_same(self._trouble_shown):
            self._trouble_shown = line
            trouble = self.query_one("#trouble", Static)
            trouble.display = bool(line.plain)
            trouble.update(line)

    def on_resize(self) -> None:
        self.call_after_refresh(self._lay_out)

    def _lay_out(self) -> None:
        if self.is_complete and self._laid_out_for != self.app.size:
            self._laid_out_for = self.app.size
            self.panel_layout.apply()
            self.draw()

    @on(Panel.PanelResized)
    def _panel_resized(self) -> None:
        self.draw()

    # -- selection --------------------------------------------------------------------------------------------------

    @property
    def selected_tree(self) -> Worktree | None:
        return self.shown.worktree(self.selected) if self.shown and self.selected else None

    @property
    def targets(self) -> list[Worktree]:
        """The worktrees an action is about: the marked ones, also those not listed, else the selected one."""
        if self.marks and self.shown is not None:
            return [tree for tree in self.shown.worktrees if tree.key in self.marks]
        return [self.selected_tree] if self.selected_tree is not None else []

    def select(self, key: Key) -> None:
        """Move the cursor to a worktree, now or as soon as it is listed."""
        self.select_row(f"{key.host}\0{key.repo}\0{key.worktree}")

    def select_name(self, name: str | None, then: Callable[[Key], None] | None = None) -> None:
        """Move the cursor to this home's worktree of that name as soon as it is listed, and call `then` with it."""
        self._name_to_select, self._after_selection = name, then
        self.draw()

    def select_row(self, row: str) -> None:
        self._row_to_select = row
        self.draw()

    def _key_under_cursor(self, snapshot: Snapshot) -> Key | None:
        row = self.worktrees.lines.cursor
        return next((tree.key for tree in snapshot.worktrees if row_key(tree) == row), None)

    def _select_wanted_row(self) -> None:
        worktrees = self.worktrees
        if self._name_to_select is not None:
            own = (tree for tree in worktrees.listed if self.facts is None or self.facts.home_of(tree) is None)
            found = next((tree for tree in own if tree.key.worktree == self._name_to_select), None)
            self._row_to_select = self._row_to_select if found is None else row_key(found)
            if found is not None and self._after_selection is not None:
                self.call_after_refresh(self._after_selection, found.key)
                self._after_selection = None
        if self._row_to_select is not None and any(row.key == self._row_to_select for row in worktrees.lines.rows):
            worktrees.lines.select(self._row_to_select)
            self._row_to_select = self._name_to_select = None

    @on(RowList.CursorMoved)
    def _cursor_moved(self, message: RowList.CursorMoved) -> None:
        if self.shown is not None and message.widget is self.worktrees.lines:
            selected = self._key_under_cursor(self.shown)
            if selected != self.selected:
                self.selected = (
                    selected  # None on a heading: no command acts on a worktree that is not under the cursor
                )
                self.restrict_feeds()
                self.draw()

    @on(RowList.CursorMoved)
    @on(events.DescendantFocus)
    def _subject_changed(self) -> None:
        """The available keys depend on the row and the panel."""
        if self.facts is not None and self.is_current and self.is_complete:
            self.draw_keys()

    def restrict_feeds(self) -> None:
        """Let changes and events show the selected worktree only, if that is switched on."""
        only = self.selected if self.only_selected else None
        for feed in self.query(FeedPanel):
            feed.only = only

    # -- panels and filter ------------------------------------------------------------------------------------------

    def action_panel(self, number: int) -> None:
        """Focus a panel, visible or not."""
        self.panel_layout.show(number)
        self.draw()
        self.call_after_refresh(self._focus_panel, number)
        self._layout_changed()

    def _focus_panel(self, number: int) -> None:
        """Only a widget that is laid out can have the focus, and its size decides what is drawn."""
        self.panel(number).lines.focus()
        self.draw()

    def action_next_panel(self, step: int) -> None:
        numbers, now = self.panel_layout.reachable, self.focused_panel.number
        place = numbers.index(now) + step if now in numbers else 0
        self.action_panel(numbers[place % len(numbers)])

    def show_preset(self, preset: str) -> None:
        """Show the panels of a preset; the focus stays in its panel if that is one of them."""
        focused = self.focused_panel.number
        self.panel_layout.use_preset(preset)
        numbers = self.panel_layout.reachable
        self.call_after_refresh(self._focus_panel, focused if self.panel(focused).display else numbers[0])
        self._layout_changed()

    def action_out(self) -> None:
        """One step out: the zoom, then the filter, then the marks, then back to the list."""
        if self.panel_layout.zoomed is not None:
            self.panel_layout.zoom(None)
            self.call_after_refresh(self.draw)
        elif self._filter_line is not None and (self._filter_line.is_open or self._filter_line.box.value):
            self._filter_line.set("")
        elif self.marks:
            self.marks = frozenset()
            self.draw()
        self.worktrees.lines.focus()

    def action_fold(self, fold: bool) -> None:
        """Fold or unfold the group of the row under the cursor."""
        worktrees, tree = self.worktrees, self.selected_tree
        if worktrees.order.group == "none":
            return
        group = group_of_row(worktrees.lines.cursor)
        if group is None and tree is not None:
            group = GROUPS[worktrees.order.group][1](tree)
        if group is not None:
            self.fold(worktrees.folded | {group} if fold else worktrees.folded - {group}, group)

    def fold(self, folded: frozenset[str], selected: str | None = None) -> None:
        """Fold exactly these groups; the cursor goes to the heading of `selected`."""
        self.worktrees.folded = folded
        if selected is not None:
            self._row_to_select = f"group\0{selected}"
        self.draw()
        self._layout_changed()

    def action_narrow(self, text: str) -> None:
        """Filter by this text; clear the filter if it is set already."""
        line = self.filter_line
        line.set("" if line.box.value == text else text)
        self.worktrees.lines.focus()

    def open_filter(self) -> None:
        self.filter_line.open()

    @property
    def filter_line(self) -> FilterLine:
        """The line a filter is typed into; mounted when it is first needed, which keeps its styles out of the start."""
        if self._filter_line is None:
            box = Input(placeholder=_FILTER_HINT, id="filter", compact=True)
            self._filter_line = FilterLine(box)
            self.mount(self._filter_line, before="#body")
        return self._filter_line

    @on(Input.Changed, "#filter")
    def _filter_typed(self, event: Input.Changed) -> None:
        self.worktrees.filter = WorktreeFilter(event.value)
        self.draw()
        self._layout_changed()

    @on(Input.Submitted, "#filter")
    def _filter_entered(self) -> None:
        self.filter_line.keep()
        self.worktrees.lines.focus()

    def set_initial_width(self, width: int) -> None:
        """Set the class of the width before the first layout, which else changes all styles."""
        self.update_classes({f"-{width_class(width)}": True}, update=False)  # the styles are applied later anyway

    # -- saved layout -----------------------------------------------------------------------------------------------

    def layout_to_save(self, *, theme: str, interval: float) -> SavedLayout:
        return SavedLayout(
            sort=self.worktrees.order.sort,
            backwards=self.worktrees.order.backwards,
            group=self.worktrees.order.group,
            folded=tuple(sorted(self.worktrees.folded)),
            theme=theme,
            detail=self.panel_layout.detail,
            preset=self.panel_layout.preset,
            only=self.only_selected,
            interval=interval,
        )

    def restore(self, saved: SavedLayout) -> None:
        """Apply a saved layout before the first drawing; values that no longer exist become the defaults."""
        sort = saved.sort if saved.sort in SORTS else "attention"
        group = saved.group if saved.group in GROUPS else "none"
        self.worktrees.order = WorktreeOrder(sort, saved.backwards, group)
        self.worktrees.folded = frozenset(saved.folded)
        self.panel_layout.detail = saved.detail if saved.detail in DETAIL_NUMBERS else DETAIL_NUMBERS[0]
        self.panel_layout.preset = saved.preset if saved.preset in PRESETS else ALL_PANELS
        self.only_selected = saved.only
