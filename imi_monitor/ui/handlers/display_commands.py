"""Commands about the display as a whole: pause, refresh, zoom, theme, palette, help."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from imi_monitor.model import sink_words, times
from imi_monitor.model.text import count
from imi_monitor.ui.header import troubles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.ui.app import ImiApp
    from imi_monitor.ui.commands import Command
    from imi_monitor.ui.dialogs.menu import Menu
    from imi_monitor.ui.menu_entries import ReasonAgainst
    from imi_monitor.ui.view_keys import ViewKey

INTERVALS = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class DisplayCommands:
    """They need no selection."""

    def __init__(self, app: ImiApp) -> None:
        self._app = app
        self._home = app.home

    def do_only(self) -> None:
        self._home.only_selected = not self._home.only_selected
        self._home.restrict_feeds()
        self._home.draw()
        self._app.layout_changed()

    def do_zoom(self) -> None:
        layout = self._home.panel_layout
        layout.zoom(self._home.focused_panel.number if layout.zoomed is None else None)
        self._app.call_after_refresh(self._home.draw)

    def do_all_panels(self) -> None:
        self._home.show_preset("all_panels")

    def do_list_and_agents(self) -> None:
        self._home.show_preset("list_and_agents")

    def do_agents_only(self) -> None:
        self._home.show_preset("agents_only")

    def do_list_only(self) -> None:
        self._home.show_preset("list_only")

    def do_refresh(self) -> None:
        if self._app.engine is not None:
            self._app.engine.refresh()
            self._app.say("reading everything again")

    def do_pause(self) -> None:
        self._home.paused_at = None if self._home.paused_at else times.now()
        self._app.draw()

    def do_faster(self) -> None:
        self._step_interval(-1)

    def do_slower(self) -> None:
        self._step_interval(1)

    def _step_interval(self, step: int) -> None:
        now = self._app.interval
        nearest = min(range(len(INTERVALS)), key=lambda place: abs(INTERVALS[place] - now))
        self._app.set_refresh_interval(INTERVALS[max(0, min(len(INTERVALS) - 1, nearest + step))])
        self._app.say(f"ages and order refresh every {self._app.interval:g} s; changes still show immediately")
        self._app.layout_changed()

    def do_theme(self) -> None:
        from imi_monitor.ui import menu_entries

        before = self._app.theme

        def preview(name: str) -> None:
            self._app.use_theme(name)

        def choose(name: str | None) -> None:
            self._app.use_theme(name or before)
            self._app.layout_changed()

        self._app.push_screen(menu_entries.theme_menu(before, preview), choose)

    def do_trouble(self) -> None:
        from imi_monitor.ui.dialogs.menu import Menu, MenuEntry

        facts, now = self._home.facts, times.now()
        found = troubles(facts) if facts is not None else []
        entries = [
            MenuEntry(f"{number}", what, f"for {times.age_of(since, now)}: {why}")
            for number, (since, what, why) in enumerate(found)
        ]
        for one in facts.snapshot.sinks if facts is not None else ():
            if sink_words.needs_attention(one, now):
                entries.append(
                    MenuEntry(one.name, f"events to {sink_words.name(one.name)}", sink_words.sentence(one, now))
                )
        if not entries:
            self._app.say("every source can be read, and no event waits")
            return
        title = f"{count(len(entries), 'thing')} that cannot be read or delivered now"
        self._app.push_screen(Menu(title, entries, search=False))

    def do_palette(self) -> None:
        from imi_monitor.ui import menu_entries

        self._open(menu_entries.palette_menu)

    def do_help(self) -> None:
        from imi_monitor.ui import menu_entries

        self._open(menu_entries.keys_menu)

    def _open(self, make: Callable[[Sequence[Command], ReasonAgainst, Sequence[ViewKey]], Menu]) -> None:
        """Open a menu of the commands, and of the open view's keys."""
        from imi_monitor.ui import menu_entries, view_keys

        app = self._app
        keys = [] if app.screen is self._home else view_keys.active_keys(app.screen)
        chosen = {menu_entries.view_key_value(one): one for one in keys}

        def run(value: str | None) -> None:
            if value in chosen:
                app.call_after_refresh(app.run_action, chosen[value].action, chosen[value].node)
            else:
                app.run_chosen(value)

        opened = getattr(app.screen, "word", "")
        others = [command for command in app.commands_here if command.word != opened]
        app.push_screen(make(others, app.why_not, keys), run)

    def do_quit(self) -> None:
        self._app.exit()
