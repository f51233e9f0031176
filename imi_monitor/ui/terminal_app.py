"""The base of imi's screens on a real terminal: the terminal driver, themes, ASCII, and an exit that ends in time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from textual.driver import Driver
from textual.filter import LineFilter

from imi_monitor import paths
from imi_monitor.ui import glyphs, themes
from imi_monitor.ui.preferences import Preferences
from imi_monitor.ui.textual_internals import CrashSafeApp, TerminalDriver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.ui.crash_marker import CrashMarker

EXIT_TIMEOUT = 1.5  # seconds that threads may take to end; what they do survives a kill
_HOME_STYLES = ("app.tcss", "panels.tcss")


class TerminalApp(CrashSafeApp):
    """The attributes below are set by `shutdown.run_app`, which shows the app to a person."""

    TITLE = "imi"
    CSS_PATH = [os.path.join(paths.styles_dir(), name) for name in _HOME_STYLES]
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (80, "-middle"), (120, "-wide")]
    ENABLE_COMMAND_PALETTE = False  # the palette is made from the command table

    force_exit: Callable[[int], object] | None = None  # ends the process if the app does not within EXIT_TIMEOUT
    exit_timer: threading.Timer | None = None
    crash_marker: CrashMarker | None = None
    in_browser = False  # the terminal is a page: no other program can have it

    def __init__(self, preferences: Preferences) -> None:
        super().__init__()
        self.preferences = preferences
        self._ascii = glyphs.AsciiFilter(enabled=preferences.ascii_only)
        self.late_styles = sorted(Path(paths.styles_dir()).glob("*.tcss"))
        for theme in themes.THEMES:
            self.register_theme(theme)

    def get_driver_class(self) -> type[Driver]:
        return TerminalDriver

    def get_line_filters(self) -> Sequence[LineFilter]:
        filters = super().get_line_filters()
        return [*filters, self._ascii] if self._ascii.enabled else filters

    def before_exit(self, status: int) -> None:
        if self.force_exit is not None:
            self.exit_timer = threading.Timer(EXIT_TIMEOUT, self.force_exit, (status,))
            self.exit_timer.daemon = True
            self.exit_timer.start()
            self.force_exit = None

    def after_exit(self) -> None:
        """Called once the terminal is given back."""

    # -- themes -----------------------------------------------------------------------------------------------------

    @property
    def configured_theme(self) -> str:
        return self.preferences.theme or themes.default()

    def start_with_theme(self, name: str) -> None:
        """Set the theme of the first picture."""
        self._register_known_theme(name)
        self.apply_initial_theme(name)

    def use_theme(self, name: str) -> None:
        self._register_known_theme(name)
        self.theme = name

    def _register_known_theme(self, name: str) -> None:
        """Let a theme of Textual have our greys, borders and cursor; made when it is first used."""
        if themes.is_unadapted(self.available_themes.get(name)):
            self.register_theme(themes.adapted(name))
