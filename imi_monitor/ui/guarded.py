"""What an app owes its terminal: every way it can end is orderly, prompt, and shows nobody a traceback.

Textual prints one with the values of all variables, which may be secrets. Here the error is kept for whoever started the app.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import cached_property
from typing import Any

from textual.app import App
from textual.binding import Binding
from textual.driver import Driver

from imi_monitor.ui import crash_marker
from imi_monitor.ui.terminal_driver import TerminalDriver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.ui.notifications import Notifier

PATIENCE = 1.5  # seconds that threads may take to end; what they do survives a kill, so no more is owed to them


class GuardedApp(App[None]):
    """`crash` is the error that ended it. The attributes below it are given by whoever shows the app to a person."""

    BINDINGS = [
        Binding("ctrl+c", "quit", "Quit", show=False),
        Binding("ctrl+z", "suspend_process", "To the shell", show=False),
    ]

    crash: BaseException | None = None
    last_resort: Callable[[int], object] | None = None  # ends the process, if the app does not manage to by itself
    recorded: Callable[[BaseException], object] | None = None  # puts an error into the log
    note: crash_marker.CrashMarker | None = None
    painted: Callable[[], object] | None = None  # called once, after the first picture
    farewell = ""  # written when the terminal is given back, to the shell or for good

    @cached_property
    def notices(self) -> Notifier:
        from imi_monitor.ui.notifications import Notifier  # not before there is something to notice

        return Notifier(self)

    def on_app_focus(self) -> None:
        self.notices.seen()

    def get_driver_class(self) -> type[Driver]:
        return TerminalDriver

    def on_mount(self) -> None:
        if self.note is not None:
            self.run_worker(self._tell_last_time(self.note), exit_on_error=False)

    async def _tell_last_time(self, note: crash_marker.CrashMarker) -> None:
        for said in await asyncio.to_thread(note.ended_badly):
            self.notify(said, title="Last time", severity="warning", timeout=20, markup=False)

    # -- ends -------------------------------------------------------------------------------------------------------

    def exit(self, result: None = None, return_code: int = 0, message: Any = None) -> None:
        self.hurry(return_code)
        super().exit(result, return_code, message)

    def _handle_exception(self, error: Exception) -> None:
        if self._exit and self.recorded is not None:  # half of the app is gone already: worth a look, not a complaint
            self.recorded(error)
            self._fatal_error()
            return
        self.crash = self.crash or error
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        self.hurry(1)
        self._close_messages_no_wait()

    def panic(self, *_renderables: object) -> None:
        self._fatal_error()

    def _print_error_renderables(self) -> None:
        self._exit_renderables.clear()

    def hurry(self, status: int) -> None:
        """It is to end now: see to it that it does."""
        if self.last_resort is not None:
            timer = threading.Timer(PATIENCE, self.last_resort, (status,))
            timer.daemon = True
            timer.start()
            self.last_resort = None
