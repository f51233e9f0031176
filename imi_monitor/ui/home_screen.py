"""The home screen's state: what is shown, selected, marked and filtered, and how the panels lie at this width.

>= 120 columns: five panels. 80-119: the list and one detail, with tabs. Under 80: the list, or one panel instead of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, cast

from textual import events, on
from textual.actions import SkipAction
from textual.containers import Container
from textual.content import Content
from textual.geometry import Size
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Input

from imi_monitor.model.snapshot import Key, Snapshot, Worktree
from imi_monitor.ui.commands import Command
from imi_monitor.ui.compositor import ChangedCellsCompositor
from imi_monitor.ui.filters import WorktreeFilter
from imi_monitor.ui.guarded import GuardedApp
from imi_monitor.ui.panels import DETAIL_NUMBERS, PANELS, Panel
from imi_monitor.ui.panels.agents_panel import AgentsPanel
from imi_monitor.ui.panels.changes_panel import ChangesPanel
from imi_monitor.ui.panels.events_panel import EventsPanel
from imi_monitor.ui.panels.panel import FOREVER, LIST
from imi_monitor.ui.panels.worktrees_panel import WorktreesPanel, group_of_row, row_key
from imi_monitor.ui.saved_layout import SavedLayout
from imi_monitor.ui.snapshot_facts import SnapshotFacts
from imi_monitor.ui.widgets.row_list import RowList
from imi_monitor.ui.worktree_order import GROUPS, SORTS, WorktreeOrder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.engine import Engine


PAINTS = 200  # a second, at most


class HomeScreen(Screen[None]):
    """Shows nothing until it is told to: how much there is room for is known only once all is laid out, and what is drawn
    then would be painted a second time."""

    AUTO_FOCUS = (
        ""  # the first that can have it would be the filter, which then took the keys typed before all is there
    )
    BLANK = True  # the panels cover all of it: what is behind them need not be drawn line by line
    _held = True
    _drawn = False
    _pace: Timer | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._compositor = ChangedCellsCompositor()

    @property
    def _update_timer(self) -> Timer:
        """Paints what has changed, at most so often. Textual's own leaves up to 17 ms between a key or a file and the paint."""
        if self._pace is None:
            self._pace = self.set_interval(1 / PAINTS, self._on_timer_update, name="home_update", pause=True)
        return self._pace

    def release(self) -> None:
        """All is drawn: paint it as soon as the panels have said so, without waiting for the regular moments to paint."""
        self._drawn = True
        for lines in self.query(RowList):
            lines._refresh_scrollbars()  # what is longer than its panel gets one before all is laid out again, not after

    async def _on_idle(self, event: events.Idle) -> None:
        if self._held and self._drawn:
            self._held = False
            # the one paints everything, the other would do so once more
            self._layout_required, self._repaint_required = True, False
            self._on_timer_update()

    def _refresh_layout(self, size: Size | None = None, scroll: bool = False) -> None:
        """Once, before anything is drawn, is enough: so often as something is mounted, it would be for nothing."""
        if not self._held or self._drawn or not self.app._dom_ready:
            super()._refresh_layout(size, scroll)

    def _compositor_refresh(self) -> None:
        if not self._held:
            super()._compositor_refresh()

    def _on_screen_resume(self, event: events.ScreenResume) -> None:
        if self._held:  # what was styled a moment ago need not be styled again; what else is to do, the base class does
            event.refresh_styles = False


class Body(Container):
    """What holds the panels, and is covered by them."""

    BLANK = True


class Home(GuardedApp):
    """What the keys change and the drawing reads."""

    def __init__(self, table: Sequence[Command]) -> None:
        super().__init__()
        self.commands = tuple(table)
        self._panels = [panel() for panel in PANELS]
        self._surroundings: Callable[[str | None], Context]
        self._engine: Engine | None = None
        self._snapshot: Snapshot | None = None  # the newest there is
        self._shown: Snapshot | None = None  # the one on the screen: while paused an older one
        self._facts: SnapshotFacts | None = None
        self._me = ""
        self._paused = False
        self._held_at: datetime | None = None
        self._selected: Key | None = None
        self._marks: frozenset[Key] = frozenset()
        self._wanted_row: str | None = None  # a row to select as soon as it is there
        self._wanted_name: str | None = None  # or the row of the worktree that is called so
        self._detail = DETAIL_NUMBERS[0]
        self._zoomed: int | None = None
        self._only = False
        self._interval = 1.0
        self._timer: Timer | None = None
        self._news_at = 0.0  # when a snapshot was drawn
        self._filter_box: Input | None = None
        self._pending: Timer | None = None
        self._complained = False
        self._head_shown = Content("")
        self._headed_at = self._head_lasts = FOREVER  # between these moments the top line reads the same
        self._trouble_shown = Content("")

    def get_default_screen(self) -> Screen[None]:
        return HomeScreen(id="_default", classes=f"-{self.width_class}")  # else all styles change once it is laid out

    def _draw(self) -> None:
        raise NotImplementedError

    def _beat(self) -> None:
        """Once in each interval: ages move on, unless a snapshot has just moved them."""
        if time.monotonic() - self._news_at > 0.9 * self._interval:
            self._tick()

    def _tick(self) -> None:
        """An age goes on, or the clock: before the first of them does, there is nothing to draw."""
        if self._snapshot is not None and not self._paused and self._is_due():
            self._draw()

    def _is_due(self) -> bool:
        raise NotImplementedError

    def _remember(self) -> None:
        raise NotImplementedError

    @property
    def home(self) -> HomeScreen:
        """The screen with the panels, whatever lies on top of it."""
        return cast("HomeScreen", self.screen_stack[0])

    @property
    def panels(self) -> list[Panel]:
        """Those that are there: all of them, until they are taken down at the end."""
        return [panel for panel in self._panels if panel.is_attached]

    def panel(self, number: int) -> Panel:
        return next(panel for panel in self._panels if panel.number == number)

    @property
    def worktrees(self) -> WorktreesPanel:
        return next(panel for panel in self._panels if isinstance(panel, WorktreesPanel))

    @property
    def agents_panel(self) -> AgentsPanel:
        return next(panel for panel in self._panels if isinstance(panel, AgentsPanel))

    @property
    def selected_tree(self) -> Worktree | None:
        """The selected worktree, as it is on the screen."""
        return self._shown.worktree(self._selected) if self._shown and self._selected else None

    @property
    def targets(self) -> list[Worktree]:
        """What an act is about: all that are marked, hidden ones too, else the selected one."""
        if self._marks and self._shown is not None:
            return [tree for tree in self._shown.worktrees if tree.key in self._marks]
        return [self.selected_tree] if self.selected_tree is not None else []

    # -- layout -----------------------------------------------------------------------------------------------------

    @property
    def width_class(self) -> str:
        width = self.size.width
        return "wide" if width >= 120 else "middle" if width >= 80 else "narrow"

    def _lay_out(self) -> None:
        """Show the panels there is room for; the others do no work."""
        width = self.width_class
        if self._zoomed is not None:
            shown = {self._zoomed}
        elif width == "wide":
            shown = {panel.number for panel in self.panels}
        else:
            shown = {panel.number for panel in self.panels if panel.slot == LIST}
            shown |= {self._detail} if width == "middle" else set()
        tabs = tuple((number, self.panel(number).name_shown) for number in DETAIL_NUMBERS)
        for panel in self.panels:
            panel.display = panel.number in shown
            panel.tabs = tabs if width == "middle" and panel.number in DETAIL_NUMBERS and self._zoomed is None else ()
        self.home.set_class(self._zoomed is not None, "-zoomed")
        self._fill_grid()

    def _fill_grid(self) -> None:
        """Order the panels in the grid, which is filled row by row: few worktrees leave room below the list."""
        few = self._shown is not None and len(self._shown.worktrees) + 5 < self.size.height // 2
        if few != self.home.has_class("-few"):
            self.home.set_class(few, "-few")
            places = {panel.id: panel.rank_in_grid(few=few) for panel in self.panels}
            self.home.query_one("#body").sort_children(key=lambda child: places.get(child.id, 0))

    def action_panel(self, number: int) -> None:
        """Go to a panel: where it cannot be seen beside the list, it takes the place of one that can."""
        if self.screen is not self.home:
            return
        if number in DETAIL_NUMBERS:
            self._detail = number
        if self._zoomed is not None or self.width_class == "narrow":
            self._zoomed = number if number in DETAIL_NUMBERS or self._zoomed not in (None, *DETAIL_NUMBERS) else None
        self._lay_out()
        self._draw()
        self.call_after_refresh(self._enter, number)
        self._remember()

    def _enter(self, number: int) -> None:
        """Only what is laid out can have the focus, and only then it is known how much it can show."""
        self.panel(number).lines.focus()
        self._draw()

    def action_next_panel(self, step: int) -> None:
        if self.screen is not self.home:
            raise SkipAction  # in a dialog or a view the key is theirs
        here = next((panel.number for panel in self.panels if panel.has_focus_within), 1)
        self.action_panel((here - 1 + step) % len(self.panels) + 1)

    def do_zoom(self) -> None:
        focused = next((panel.number for panel in self.panels if panel.has_focus_within), 1)
        self._zoomed = None if self._zoomed is not None else focused
        self._lay_out()
        self.call_after_refresh(self._draw)

    def action_out(self) -> None:
        """One step out: the zoom, then the filter, then the marks, then back to the list."""
        box = self._filter_box
        if self._zoomed is not None:
            self._zoomed = None
            self._lay_out()
            self.call_after_refresh(self._draw)
        elif box is not None and (box.has_class("-open") or box.value):
            box.remove_class("-open")
            box.value = ""
        elif self._marks:
            self._marks = frozenset()
            self._draw()
        self.worktrees.lines.focus()

    # -- selection --------------------------------------------------------------------------------------------------

    def _under_cursor(self, snapshot: Snapshot) -> Key | None:
        at = self.worktrees.lines.cursor
        return next((tree.key for tree in snapshot.worktrees if row_key(tree) == at), None)

    def select(self, key: Key) -> None:
        """Put the cursor on a worktree, now or as soon as it is listed."""
        self._wanted_row = f"{key.host}\0{key.repo}\0{key.worktree}"
        self._draw()

    @on(RowList.Moved)
    def _moved(self, message: RowList.Moved) -> None:
        if self._shown is not None and message.lines is self.worktrees.lines:
            under = self._under_cursor(self._shown)
            if under != self._selected:
                self._selected = under  # none on a heading: nothing is acted on that is not under the cursor
                self._aim()
                self._draw()

    def _aim(self) -> None:
        """The feeds show the selected worktree only, if that is wanted."""
        only = self._selected if self._only else None
        self.home.query_one(ChangesPanel).only = self.home.query_one(EventsPanel).only = only

    def action_fold(self, fold: bool) -> None:
        """Fold or unfold the group of the row under the cursor."""
        panel = self.worktrees
        if panel.order.group == "none" or self.screen is not self.home:
            return
        heading = group_of_row(panel.lines.cursor)
        tree = self.selected_tree
        group = heading if heading is not None else GROUPS[panel.order.group][1](tree) if tree is not None else None
        if group is not None:
            self._fold(panel.folded | {group} if fold else panel.folded - {group}, group)

    def _fold(self, folded: frozenset[str], at: str | None = None) -> None:
        self.worktrees.folded = folded
        if at is not None:
            self._wanted_row = f"group\0{at}"
        self._draw()
        self._remember()

    # -- filter and order -------------------------------------------------------------------------------------------

    @property
    def filter_box(self) -> Input:
        """Where a filter is typed. Made when it is wanted: until then its styles need not be read at every start."""
        if self._filter_box is None:
            hint = "text, !not, @agent, type:feat, is:dirty · ⏎ keeps it, esc clears it"
            self._filter_box = Input(placeholder=hint, id="filter", compact=True)
            self.home.mount(self._filter_box, before="#body")
        return self._filter_box

    def _set_filter(self, text: str) -> None:
        self.worktrees.filter = WorktreeFilter(text)
        self._draw()
        self._remember()

    def _set_order(self, order: WorktreeOrder) -> None:
        self.worktrees.order = order
        self._draw()
        self._remember()

    def _restore(self, known: SavedLayout) -> None:
        """As the person left it; what is not known any more is as if new."""
        sort = known.sort if known.sort in SORTS else "attention"
        group = known.group if known.group in GROUPS else "none"
        panel = self.worktrees
        panel.order = WorktreeOrder(sort, known.backwards, group)
        panel.folded = frozenset(known.folded)
        self._detail = known.detail if known.detail in DETAIL_NUMBERS else DETAIL_NUMBERS[0]
        self._only = known.only
        if known.theme in self.available_themes:
            self.theme = known.theme
        if 0.2 <= known.interval <= 60:
            self._interval = known.interval
        if known.filter:
            self.filter_box.value = known.filter
            self.filter_box.add_class("-open")
