"""The dashboard's composition root: the engine's snapshots go to the home screen and the views, keys go to the commands.

It computes no fact and changes none: snapshots come from the engine, actions change the world, and the screen follows when
the sources report the change.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import cached_property
from typing import Any

from textual import events, on, work
from textual.binding import Binding
from textual.content import Content
from textual.notifications import SeverityLevel
from textual.screen import Screen

from imi_monitor import installation
from imi_monitor.actions.action import Request
from imi_monitor.model.agent import Agent
from imi_monitor.model.errors import ImiError
from imi_monitor.model.run_rows import RunRows
from imi_monitor.model.snapshot import Key, Snapshot
from imi_monitor.model.team_rows import TeamRows
from imi_monitor.model.text import safe
from imi_monitor.ui import command_conditions, commands, key_hints
from imi_monitor.ui.commands import Command
from imi_monitor.ui.handlers.action_commands import ActionCommands
from imi_monitor.ui.handlers.agent_commands import AgentCommands
from imi_monitor.ui.handlers.command_panes import CommandPanes
from imi_monitor.ui.handlers.display_commands import DisplayCommands
from imi_monitor.ui.handlers.list_commands import ListCommands
from imi_monitor.ui.handlers.worktree_commands import WorktreeCommands
from imi_monitor.ui.header import HeaderBadges
from imi_monitor.ui.home_screen import HomeScreen
from imi_monitor.ui.panels.worktrees_panel import group_of_row
from imi_monitor.ui.preferences import Preferences
from imi_monitor.ui.saved_layout import LayoutFile, SavedLayout
from imi_monitor.ui.terminal_app import TerminalApp
from imi_monitor.ui.textual_internals import log_error
from imi_monitor.ui.typed_keys import TypedKeys
from imi_monitor.ui.widgets.key_bar import KeyHint
from imi_monitor.ui.widgets.row_list import RowList

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.engine import Engine
    from imi_monitor.ui.crash_marker import CrashMarker
    from imi_monitor.ui.notifications import Notifier
    from imi_monitor.ui.tab_signs import TabSigns
    from imi_monitor.ui.views import View


class ImiApp(TerminalApp):
    """`connect` runs the engine; `open_context` gives actions their registry; `first` is known before the engine runs."""

    BINDINGS = [
        Binding("ctrl+p", "do('palette')", show=False, priority=True),
        Binding("ctrl+c", "quit", "Quit", show=False),
        Binding("ctrl+z", "suspend_process", "To the shell", show=False),
    ]

    on_first_paint: Callable[[], object] | None = None  # set by `dashboard.run`
    farewell = ""  # escape sequence written when the terminal is given back, to the shell or for good

    def __init__(
        self,
        connect: Callable[[], AbstractAsyncContextManager[Engine]],
        open_context: Callable[[str | None], Context],
        *,
        read_only: bool = False,
        in_browser: bool = False,
        preferences: Preferences | None = None,
        first: Snapshot | None = None,
        every_repository: bool = False,
    ) -> None:
        super().__init__(preferences or Preferences())
        self._team_rows = TeamRows(every_repository=every_repository)
        self._run_rows = RunRows()
        self.commands = commands.table(
            self.preferences.keymap, own=self.preferences.own_commands, read_only=read_only, in_browser=in_browser
        )
        key_hints.use(self.commands)
        self.open_context = open_context
        self.engine: Engine | None = None
        self.home = HomeScreen(self._hints, self._badges, self.layout_changed, first)
        self.agent_commands = AgentCommands(self)
        self.worktree_commands = WorktreeCommands(self)
        self.action_commands = ActionCommands(self)
        self.command_panes = CommandPanes(self)
        self._list_commands = ListCommands(self)
        self._handlers = (
            self.agent_commands,
            self.worktree_commands,
            self.command_panes,
            self._list_commands,
            DisplayCommands(self),
        )
        self.layout_file = LayoutFile(self, self.preferences.state_file, self._layout)
        self._connect = connect
        self.typed_keys = TypedKeys(self, super().on_event)
        self.read_only = read_only
        self.in_browser = in_browser
        self._next_tick: asyncio.TimerHandle | None = None
        self._drawn_at = 0.0  # when a snapshot was drawn last
        saved = self.layout_file.load()
        self.interval = saved.interval if 0.2 <= saved.interval <= 60 else self.preferences.interval
        self.home.restore(saved)
        self._displaced_keys = saved.displaced_keys
        self.start_with_theme(saved.theme if saved.theme in self.available_themes else self.configured_theme)
        self._bind_commands()

    def _bind_commands(self) -> None:
        for command in self.commands:
            if command.key and command.key != "enter":  # enter is bound by the list, which knows the row
                self.bind(
                    command.key,
                    f"do('{command.word}')",
                    description=command.label,
                    show=command.word in ("help", "quit"),
                    key_display=command.key_label,
                )

    def get_default_screen(self) -> Screen[None]:
        self.home.set_initial_width(self.size.width)
        return self.home

    # -- start and end ----------------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        keymap = self.preferences.keymap or {}
        self.set_keymap(
            {command.word: command.key for command in self.commands if command.key and command.word in keymap}
        )
        self._report_displaced_keys()
        self.set_refresh_interval(self.interval)
        if self.crash_marker is not None:
            self.run_worker(self._report_last_crash(self.crash_marker))

    def _report_displaced_keys(self) -> None:
        """Show once which commands lost their default key to `[ui.keymap]`."""
        displaced = commands.displaced_keys_text(self.commands)
        if displaced == self._displaced_keys:
            return
        self._displaced_keys = displaced
        self.layout_changed()
        if displaced:
            self.say(displaced, bad=True)

    async def _report_last_crash(self, marker: CrashMarker) -> None:
        for sentence in await asyncio.to_thread(marker.take_reports):
            self.notify(sentence, title="Last time", severity="warning", timeout=20, markup=False)

    def on_ready(self, _event: events.Ready) -> None:
        self.home.start()
        self.call_after_refresh(self._after_first_paint)

    def _after_first_paint(self) -> None:
        self.keeps_running = True
        self._follow_engine()
        self._start_contexts()
        if self.on_first_paint is not None:
            self.on_first_paint()

    def _start_contexts(self) -> None:
        from imi_monitor.ui.terminal_contexts import TerminalContexts

        TerminalContexts(self).start()

    def before_exit(self, status: int) -> None:
        self.action_commands.leave_lines()
        super().before_exit(status)

    def after_exit(self) -> None:
        if self.tab_signs is not None:
            self.tab_signs.restore()

    def exit(self, *args: Any, **options: Any) -> None:
        self.layout_file.flush()
        super().exit(*args, **options)

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, (events.Key, events.Paste)) and not event.is_forwarded:
            await self.typed_keys.deliver_in_order(event)
        else:
            await super().on_event(event)

    # -- snapshots --------------------------------------------------------------------------------------------------

    @work
    async def _follow_engine(self) -> None:
        """Show every snapshot until the end; an error of the engine is shown and does not end the dashboard."""
        self._find_agent_name()
        try:
            async with self._connect() as engine:
                self.engine = engine
                self.follow_order()
                async for own_snapshot in engine.snapshots():
                    snapshot = self._run_rows.merge(self._team_rows.merge(own_snapshot))
                    self.attempt(self.notifier.update, snapshot)
                    if self.tab_signs is not None:
                        self.attempt(self.tab_signs.update, snapshot)
                    self.attempt(setattr, self.home, "snapshot", snapshot)
                    if self.home.paused_at is None:
                        self._draw_views()
                        self._drawn_at = time.monotonic()
        except Exception as error:  # noqa: BLE001  the dashboard stays open with what it has
            log_error(error)
            sentence = str(installation.problem() or getattr(error, "sentence", f"{type(error).__name__}: {error}"))
            self.home.engine_trouble = Content.styled(f" ? nothing is read any more: {safe(sentence, 300)}", "$error")
            self.home.draw()
            self.home.show_trouble(self.home.engine_trouble)

    def follow_order(self) -> None:
        """Let the engine measure what the list is ordered by."""
        if self.engine is not None:
            order = self.home.worktrees.order
            self.engine.measure(disk_use=order.measure == "disk", unread=order.measure == "unread")

    @work
    async def _find_agent_name(self) -> None:
        self.home.agent = await asyncio.to_thread(self._read_agent_name)
        self.draw()

    def _read_agent_name(self) -> str:
        """Return the name this dashboard claims under; empty if it cannot be found out."""
        try:
            with self.open_context(None) as context:
                return context.agent(Request("claim", {}))
        except ImiError:
            return ""

    @cached_property
    def notifier(self) -> Notifier:
        from imi_monitor.ui.notifications import Notifier  # after the first paint

        return Notifier(self)

    @cached_property
    def tab_signs(self) -> TabSigns | None:
        """None outside of a multiplexer."""
        from imi_monitor.mux import multiplexer

        around = multiplexer.current()
        if not around or not self.preferences.tab_states:
            return None
        from imi_monitor.mux.tab_states import tab_states
        from imi_monitor.ui.tab_signs import TabSigns

        return TabSigns(self, tab_states(around))

    def on_app_focus(self) -> None:
        self.notifier.clear()

    def draw(self) -> None:
        """Draw the home screen and all open views."""
        self.home.draw()
        self._draw_views()

    def _draw_views(self) -> None:
        if len(self.screen_stack) == 1 or self.home.shown is None:
            return
        from imi_monitor.ui.views import View

        for screen in self.screen_stack:
            if isinstance(screen, View):
                self.attempt(screen.show_snapshot, self.home.shown, self.home.shown_at)

    def set_refresh_interval(self, seconds: float) -> None:
        """Redraw ages and order every so many seconds."""
        self.interval = seconds
        self._start_clock()
        self.home.draw()

    def _start_clock(self) -> None:
        """Start a clock that ticks together with the sources: at rest, each wake-up costs."""
        from imi_monitor.sources.timers import aligned_deadline

        self.stop_clock()
        loop = asyncio.get_running_loop()
        self._next_tick = loop.call_at(aligned_deadline(loop.time(), self.interval), self._clock_due)

    def _clock_due(self) -> None:
        if self.is_running:
            self._start_clock()
            if self._is_outdated:
                self.call_later(self.clock_ticked)

    def stop_clock(self) -> None:
        if self._next_tick is not None:
            self._next_tick.cancel()

    def clock_ticked(self) -> None:
        if time.monotonic() - self._drawn_at > 0.9 * self.interval:  # else a snapshot has just redrawn everything
            self.tick()

    def tick(self) -> None:
        """Redraw if an age or the clock reads differently now."""
        if self._is_outdated:
            self.draw()

    @property
    def _is_outdated(self) -> bool:
        """Whether something on the screen may read differently now."""
        if self.home.snapshot is None or self.home.paused_at is not None:
            return False
        return len(self.screen_stack) > 1 or self.home.is_outdated()

    # -- commands ---------------------------------------------------------------------------------------------------

    def command(self, word: str) -> Command | None:
        return next((command for command in self.commands if command.word == word), None)

    @property
    def commands_here(self) -> list[Command]:
        return [command for command in self.commands if self._applies_here(command)]

    def _applies_here(self, command: Command) -> bool:
        """Commands of the home screen do not run behind a view, and none runs behind a dialog."""
        return self.screen is self.home or (command.everywhere and not self.screen.is_modal)

    def why_not(self, command: Command) -> str:
        """Return why the command cannot be carried out now; empty if it can."""
        agent = self.agent_commands.chosen if command_conditions.about_agent(command) else None
        if agent is not None:
            return command_conditions.reason_against_agent(self.home.facts, agent)
        facts, tree = self.home.facts, self.home.selected_tree
        marked = self.home.targets if self.home.marks else ()
        return key_hints.in_keys(command_conditions.reason_against(command, facts, tree, marked))

    def action_do(self, word: str) -> None:
        """Carry out a command, from a key, a click, the palette or the help; or say why it cannot be done now."""
        command = self.command(word)
        if command is None or not self._applies_here(command):
            return
        why = self.why_not(command)
        if why:
            self.say(why, bad=True)
        elif command.kind == "action":
            self.action_commands.open(word)
        elif command.kind == "view":
            self.action_view(word)
        elif command.kind == "own":
            self.command_panes.run(word)
        else:
            self._handler(word)()

    def _handler(self, word: str) -> Callable[[], None]:
        """Return the method `do_<word>` of the one handler that has it."""
        handler: Callable[[], None] = next(
            getattr(one, f"do_{word}") for one in self._handlers if hasattr(one, f"do_{word}")
        )
        return handler

    @property
    def read_only_reason(self) -> str:
        return commands.READ_ONLY_IN_BROWSER if self.in_browser else commands.READ_ONLY

    def run_chosen(self, word: str | None) -> None:
        """Carry out what was chosen from the palette, the help or the menu of a row."""
        if word is None:
            return
        if word.startswith("is:"):
            self.home.action_narrow(word)
        else:
            self.call_after_refresh(self.action_do, word)

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """Show a toast; one without a title takes the place of the last such one of its severity."""
        if not title:
            self.remove_toasts(severity)
        super().notify(message, title=title, severity=severity, timeout=timeout, markup=markup)

    def say(self, text: str, *, bad: bool = False) -> None:
        self.notify(key_hints.in_keys(text), severity="warning" if bad else "information", markup=False)

    @work(group="say")
    async def run_and_say(self, job: Callable[[], str], *, opens_tab: bool = False) -> None:
        """Run something slow in a thread and show the sentence it returns."""
        try:
            self.say(await asyncio.to_thread(job))
        except ImiError as error:
            self.say(error.sentence, bad=True)
        if opens_tab and self.tab_signs is not None:
            self.tab_signs.show_again()

    def shown_key(self, label: str) -> str:
        """A key's label in the bottom line: `enter` where the terminal has no sign for it."""
        return label.replace("⏎", "enter") if self._ascii.enabled else label

    def _hints(self) -> list[KeyHint]:
        """Return the key bar's entries, most important first; `next` leads while an agent asks, `help` is last."""

        def weight(command: Command) -> int:
            return 100 if command.word == "next" and self.agent_commands.any_asks else command.key_bar

        shown = [command for command in self.commands if command.key_bar and command.key]
        return [
            KeyHint(
                self.shown_key(command.key_label),
                command.label.split(" ")[0].rstrip("…"),
                f"app.do('{command.word}')",
                not self.why_not(command),
            )
            for command in sorted(shown, key=lambda one: (one.word == "help", -weight(one)))
        ]

    @on(RowList.RowChosen)
    def _row_chosen(self, message: RowList.RowChosen) -> None:
        if message.widget is self.home.worktrees.lines:
            self.worktree_commands.choose_row(message.key)
        elif message.widget is self.home.agents_panel.lines:
            self.agent_commands.choose_row(message.key)

    @on(RowList.MenuRequested)
    def _menu_requested(self, message: RowList.MenuRequested) -> None:
        if message.widget is self.home.worktrees.lines and group_of_row(message.key) is None:
            self.call_after_refresh(self.action_do, "menu")

    def action_sort_by(self, order: str) -> None:
        self._list_commands.sort_by_column(order)

    # -- views ------------------------------------------------------------------------------------------------------

    def action_view(self, word: str) -> None:
        """Open a view; its own key within itself does nothing."""
        from imi_monitor.ui.views import view_class

        view = view_class(word)
        agent = self.agent_commands.chosen
        if view.needs_worktree and self.home.selected is None and agent is None:
            self.say("select a worktree first", bad=True)
        elif type(self.screen) is not view:
            self.open_view(view(self.home.selected, self.open_context), agent)

    def open_worktree_view(self, word: str, key: Key) -> None:
        """Open a view of this worktree, whichever is selected."""
        from imi_monitor.ui.views import view_class

        self.open_view(view_class(word)(key, self.open_context), None)

    def open_view(self, view: View, agent: Agent | None) -> None:
        """Show a view about an agent or the selected worktree."""
        view.agent_id = agent.id if agent is not None else None
        self.push_screen(view, lambda _: self.agent_commands.view_closed(view))
        view.call_later(self._draw_views)

    def action_go_to_chosen(self) -> None:
        self.agent_commands.go_to_chosen()

    def action_answer_chosen(self) -> None:
        self.agent_commands.answer_chosen()

    def action_peek_at_chosen(self) -> None:
        self.agent_commands.do_peek()

    # -- saved layout -----------------------------------------------------------------------------------------------

    def layout_changed(self) -> None:
        self.layout_file.schedule()

    def _layout(self) -> SavedLayout:
        layout = self.home.layout_to_save(
            theme="" if self.theme == self.configured_theme else self.theme,
            interval=0.0 if self.interval == self.preferences.interval else self.interval,
        )
        return replace(layout, displaced_keys=self._displaced_keys)

    def _badges(self) -> HeaderBadges:
        return HeaderBadges(
            paused=self.home.paused_at is not None,
            read_only=self.read_only,
            interval=self.interval,
            marked=len(self.home.marks),
            default_interval=self.preferences.interval,
        )
