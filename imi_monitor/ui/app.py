"""The dashboard: one pane that shows every worktree live and acts on the selected one.

It never computes a fact and never edits one: snapshots come from the engine, acts go through actions, and the screen changes
when the sources say that the world did. Here they meet: the engine, the panels, the keys. What a key does is in `doing`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from textual import events, on, work
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.filter import LineFilter
from textual.screen import Screen
from textual.widgets import Input, Static

from imi_monitor import paths
from imi_monitor.actions.action import Request
from imi_monitor.model import times
from imi_monitor.model.errors import ImiError
from imi_monitor.model.snapshot import Snapshot
from imi_monitor.model.text import safe
from imi_monitor.ui import commands, glyphs, header, saved_layout, themes
from imi_monitor.ui.doing import Doing
from imi_monitor.ui.home_screen import Body, HomeScreen
from imi_monitor.ui.panels import PANELS, Panel, in_grid_order
from imi_monitor.ui.panels.worktrees_panel import WorktreesPanel, row_key
from imi_monitor.ui.preferences import Preferences
from imi_monitor.ui.snapshot_facts import SnapshotFacts
from imi_monitor.ui.widgets.key_bar import ClickableLine, KeyBar, KeyHint
from imi_monitor.ui.widgets.row_list import RowList

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.engine import Engine

    Live = Callable[[], AbstractAsyncContextManager[Engine]]

LEAST = (40, 12)
STYLES = ("app.tcss", "panels.tcss")  # of the home screen; the others are read with the first screen on top of it


class ImiApp(Doing):
    """Composition root: engine in, panels and keys out."""

    TITLE = "imi"
    CSS_PATH = [os.path.join(paths.styles_dir(), name) for name in STYLES]
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (80, "-middle"), (120, "-wide")]
    ENABLE_COMMAND_PALETTE = False  # ours is made from the same table as the help
    BINDINGS = [
        *(Binding(f"{panel.number}", f"panel({panel.number})", show=False) for panel in PANELS),
        Binding("tab", "next_panel(1)", show=False, priority=True),
        Binding("shift+tab", "next_panel(-1)", show=False, priority=True),
        Binding("ctrl+p", "do('palette')", show=False, priority=True),
        Binding("escape", "out", show=False),
        Binding("h,left", "fold(True)", show=False),
        Binding("l,right", "fold(False)", show=False),
    ]

    _is_dressed = False

    def __init__(
        self,
        live: Live,
        surroundings: Callable[[str | None], Context],
        *,
        read_only: bool = False,
        preferences: Preferences | None = None,
        first: Snapshot | None = None,
    ) -> None:
        super().__init__(commands.table(preferences.keymap if preferences else None, read_only=read_only))
        self._live = live
        self._snapshot = first  # known before the engine runs
        self._surroundings = surroundings
        self._read_only = read_only
        self._preferences = preferences or Preferences()
        others = self._preferences.keymap or {}
        self._keymap = {one.word: one.key for one in self.commands if one.key and one.word in others}
        self._interval = self._preferences.interval
        self._plain = glyphs.AsciiFilter(enabled=self._preferences.ascii_only)
        self._dress(self._preferences.theme or themes.default())
        for command in self.commands:
            if command.key and command.key != "enter":  # enter is the list's own: it says which row was meant
                shown = command.word in ("help", "quit")
                self.bind(
                    command.key,
                    f"do('{command.word}')",
                    description=command.label,
                    show=shown,
                    key_display=command.key_label,
                )

    def _dress(self, theme: str) -> None:
        """Put a theme on before anything is styled; as a change of theme it would parse and apply all styles twice."""
        for one in themes.THEMES:
            self.register_theme(one)
        self._is_dressed = True
        self.set_reactive(App.theme, theme)
        self.stylesheet.set_variables(self.get_css_variables())
        dark = self.current_theme.dark
        self.update_classes({f"-theme-{theme}": True, "-dark-mode": dark, "-light-mode": not dark}, update=False)
        self._refresh_truecolor_filter(self.ansi_theme)

    def get_css_variables(self) -> dict[str, str]:
        """The theme's variables and the tokens of states; empty until a theme is set, because Textual asks before that."""
        if not self._is_dressed:
            return {}
        variables = super().get_css_variables()  # the dict that `theme_variables` is, too
        variables.update(themes.state_tokens(variables))
        return variables

    def _load_screen_css(self, screen: Screen[Any]) -> None:
        if not isinstance(screen, HomeScreen):
            screen.css_path += sorted(Path(paths.styles_dir()).glob("*.tcss"))
        super()._load_screen_css(screen)

    def compose(self) -> ComposeResult:
        yield ClickableLine(id="header")
        yield ClickableLine(id="trouble")
        with Body(id="body"):
            yield from in_grid_order(self._panels, few=False)
        yield KeyBar()

    def get_line_filters(self) -> Sequence[LineFilter]:
        filters = super().get_line_filters()
        return [*filters, self._plain] if self._plain.enabled else filters

    def on_mount(self) -> None:
        self._recall()
        self.worktrees.lines.focus()
        self._timer = self.set_interval(self._interval, self._beat)

    def on_ready(self, _event: events.Ready) -> None:
        """Laid out for the first time: with what is known already, this is the first picture."""
        if self._snapshot is None:
            self._header()
        self._draw()
        self.home.release()
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        self._follow()
        if self.painted is not None:
            self.painted()

    # -- the engine -------------------------------------------------------------------------------------------------

    @work(exit_on_error=False)
    async def _follow(self) -> None:
        """Show what the engine publishes, until the end; what goes wrong is said and not fatal."""
        try:
            self._learn_who()  # beside it: the first worktrees do not wait for a name
            async with self._live() as engine:
                self._engine = engine
                async for snapshot in engine.snapshots():
                    self.notices.saw(snapshot)
                    self._snapshot = snapshot
                    if not self._paused:
                        self._draw()
                        self._news_at = time.monotonic()
        except Exception as error:  # noqa: BLE001  whatever happened out there, the pane must stay and say it
            sentence = getattr(error, "sentence", f"{type(error).__name__}: {error}")
            self._say_trouble(Content.styled(f" ? {safe(sentence, 300)}", "$error"))

    @work(exit_on_error=False)
    async def _learn_who(self) -> None:
        self._me = await asyncio.to_thread(self._ask_who)
        self._facts = None  # which worktrees are mine follows from it
        self._draw()

    def _ask_who(self) -> str:
        """For whom this dashboard claims; nobody, when that cannot be told."""
        try:
            with self._surroundings(None) as context:
                return context.agent(Request("claim", {}))
        except ImiError:
            return ""

    def _stands(self) -> bool:
        """Whether all parts of the home screen are there: at the end they are taken down one by one, while ticks go on."""
        there = {child.id for child in self.home.children}
        return {"header", "trouble", "body"} <= there and self.worktrees.is_attached

    def _draw(self) -> None:
        """Show what is known, on every screen that is open. While paused, the world is the one of that moment."""
        snapshot = self._shown if self._paused and self._shown else self._snapshot
        if snapshot is None or not self._stands():
            return  # nothing is known yet, or the screen is being taken down
        now = self._held_at if self._paused and self._held_at else times.now()
        if self._facts is None or self._facts.snapshot is not snapshot:
            self._facts = SnapshotFacts(snapshot, now, self._me)
        else:
            self._facts = self._facts.at(now)
        self._shown = snapshot
        self._marks = (
            frozenset(key for key in self._marks if snapshot.worktree(key) is not None) if self._marks else self._marks
        )
        if self._selected is None or snapshot.worktree(self._selected) is None:
            self._selected = self._under_cursor(snapshot)
        self._header()
        self._draw_panels(snapshot, now)
        self._draw_keys()
        if len(self.screen_stack) > 1:
            self._draw_views(snapshot, now)

    def _is_due(self) -> bool:
        """Whether something reads otherwise by now though nothing happened; views on top are asked each time."""
        now, shown = times.now(), (panel.until for panel in self.panels if panel.display)
        return len(self.screen_stack) > 1 or not self._headed_at <= now < min((self._head_lasts, *shown))

    def _draw_views(self, snapshot: Snapshot, now: datetime) -> None:
        from imi_monitor.ui.views import View

        for screen in self.screen_stack:
            if isinstance(screen, View):
                screen.take(snapshot, now)

    def _draw_panels(self, snapshot: Snapshot, now: datetime) -> None:
        if self._too_small():
            return
        worktrees = self.worktrees
        worktrees.facts, worktrees.marks = self._facts, self._marks
        worktrees.show(snapshot, self._selected, now)
        self._selected = self._selected or self._under_cursor(snapshot)
        self._go_where_wanted(worktrees)
        self._fill_grid()
        for panel in self.panels:
            if panel is not worktrees:
                panel.show(snapshot, self._selected, now)

    def _go_where_wanted(self, worktrees: WorktreesPanel) -> None:
        if self._wanted_name is not None:
            named = (row_key(tree) for tree in worktrees.listed if tree.key.worktree == self._wanted_name)
            self._wanted_row = next(named, self._wanted_row)
        if self._wanted_row is not None and any(row.key == self._wanted_row for row in worktrees.lines.rows):
            worktrees.lines.select(self._wanted_row)
            self._wanted_row = self._wanted_name = None

    def _too_small(self) -> bool:
        """Below what can be read it says what it needs, instead of showing halves."""
        width, height = self.size
        small = width < LEAST[0] or height < LEAST[1]
        if small != self.home.has_class("-small"):
            self.home.set_class(small, "-small")
        if small:
            self._say_small(Content(f"imi needs {LEAST[0]}×{LEAST[1]}\nthis is {width}×{height}"))
        return small

    def _say_small(self, wanted: Content) -> None:
        for said in self.home.query("#small").results(Static):
            said.update(wanted)
            return
        self.home.mount(Static(wanted, id="small"), before="#keybar")

    def _header(self) -> None:
        width = self.size.width
        badges = header.HeaderBadges(
            paused=self._paused,
            read_only=self._read_only,
            interval=self._interval,
            marked=len(self._marks),
            plain_interval=self._preferences.interval,
        )
        self._headed_at = times.now()
        line = header.line(self._facts, badges, width, self._headed_at)
        self._head_lasts = header.lasts_until(self._facts, self._headed_at)
        if not line.is_same(self._head_shown):
            self._head_shown = line
            self.home.query_one("#header", Static).update(line, layout=False)
        if self._facts is not None:
            self._say_trouble(header.trouble_line(self._facts, width))

    def _say_trouble(self, line: Content) -> None:
        if not line.is_same(self._trouble_shown):
            self._trouble_shown = line
            trouble = self.home.query_one("#trouble", Static)
            trouble.display = bool(line.plain)
            trouble.update(line)

    def _draw_keys(self) -> None:
        hints = [
            KeyHint(
                "enter" if self._plain.enabled and one.key == "enter" else one.key_label,
                one.label.split(" ")[0].rstrip("…"),
                f"app.do('{one.word}')",
                not self.why_not(one),
            )
            for one in sorted(self.commands, key=lambda one: (one.word == "help", -self.weight(one)))
            if one.key_bar and one.key
        ]
        self.home.query_one(KeyBar).show(hints, self.size.width)

    @on(RowList.Moved)
    @on(events.DescendantFocus)
    def _about_another(self) -> None:
        """What the keys are about may be somebody else now."""
        if self._facts is not None and self.screen is self.home and self._stands():
            self._draw_keys()

    def on_resize(self) -> None:
        self.call_after_refresh(self._relaid)

    def _relaid(self) -> None:
        self._lay_out()
        self._draw()

    @on(Panel.OtherRoom)
    def _has_other_room(self) -> None:
        self._draw()

    # -- what is remembered -------------------------------------------------------------------------------------------

    def _recall(self) -> None:
        if self._preferences.state_file:
            self._restore(saved_layout.load(self._preferences.state_file))
        self._lay_out()

    def _remember(self) -> None:
        """Write down how things are, in a while and in a thread: keys come in bursts."""
        if self._preferences.state_file:
            self._pending = self._pending or self.set_timer(0.5, self._write_down)

    @work(exit_on_error=False)
    async def _write_down(self) -> None:
        self._pending = None
        try:
            await asyncio.to_thread(saved_layout.save, self._preferences.state_file, self._state())
        except OSError as error:
            if not self._complained:
                self._complained = True
                self.notify(f"how you left the dashboard cannot be remembered: {error.strerror}", markup=False)

    def _state(self) -> saved_layout.SavedLayout:
        panel = self.worktrees
        theme = "" if self.theme == (self._preferences.theme or themes.default()) else self.theme
        interval = 0.0 if self._interval == self._preferences.interval else self._interval
        return saved_layout.SavedLayout(
            sort=panel.order.sort,
            backwards=panel.order.backwards,
            group=panel.order.group,
            folded=tuple(sorted(panel.folded)),
            filter=panel.filter.text,
            theme=theme,
            detail=self._detail,
            only=self._only,
            interval=interval,
        )

    @on(Input.Changed, "#filter")
    def _filtered(self, event: Input.Changed) -> None:
        self._set_filter(event.value)

    @on(Input.Submitted, "#filter")
    def _filter_done(self) -> None:
        self.filter_box.set_class(bool(self.filter_box.value), "-open")
        self.worktrees.lines.focus()

    def exit(self, *args: Any, **options: Any) -> None:
        """Leave with everything written down that was not yet."""
        if self._pending is not None and self._preferences.state_file:
            self._pending.stop()
            self._pending = None
            try:
                saved_layout.save(self._preferences.state_file, replace(self._state()))
            except OSError:
                self.log("the state could not be written")
        super().exit(*args, **options)
