"""Notifications while the dashboard's window is not focused: bell, desktop, window title, a command, a webhook.

`model.alert` decides which changes are notified; this module decides how often, and with which escape sequences.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress

from imi_monitor import config
from imi_monitor.model.errors import ImiError
from imi_monitor.model.snapshot import Snapshot
from imi_monitor.model.text import safe
from imi_monitor.ui.textual_internals import write_to_terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.model.alert import Alert
    from imi_monitor.ui.app import ImiApp

PAUSE = 10.0  # seconds between two notifications; alerts in between are sent with the next one
_MOST = 200
_TITLE_KEPT, _TITLE_BACK = "\x1b[22;2t", "\x1b[23;2t"
_OSC777 = ("foot", "rxvt", "urxvt")


class Notifier:
    """Compares every snapshot with the one before."""

    def __init__(self, app: ImiApp) -> None:
        self._app = app
        self._before: Snapshot | None = None
        self._waiting: list[Alert] = []
        self._settings: config.Settings | None = None
        self._notifying = False
        self._titled = False
        self._reported: set[str] = set()

    def update(self, snapshot: Snapshot) -> None:
        before, self._before = self._before, snapshot
        if before is None or before is snapshot:
            return
        from imi_monitor.model import alert  # not needed before the second snapshot

        found = alert.find_alerts(before, snapshot)
        if found:
            self._waiting += [one for one in found if one not in self._waiting]
            if not self._notifying:
                self._notifying = True
                self._app.run_worker(self._notify())

    def clear(self) -> None:
        """Drop waiting alerts and restore the window's title: the window is focused."""
        self._waiting.clear()
        if self._titled:
            self._titled = False
            self._app.farewell = ""
            write_to_terminal(self._app, _TITLE_BACK)

    async def _notify(self) -> None:
        try:
            if self._settings is None:
                self._settings = await asyncio.to_thread(_settings)
            while self._waiting:
                wanted = [one for one in self._waiting if self._settings.flag(f"notify.{one.kind}")]
                self._waiting.clear()
                if wanted and self._is_wanted(self._settings):
                    self._send(wanted, self._settings)
                    await asyncio.sleep(PAUSE)
        finally:
            self._notifying = False

    def _is_wanted(self, settings: config.Settings) -> bool:
        when = settings.text("notify.when")
        return when == "always" or (when == "unfocused" and not self._app.app_focus)

    def _send(self, wanted: list[Alert], settings: config.Settings) -> None:
        text = summary(wanted)
        command, webhook = settings.text("notify.command"), settings.text("notify.webhook")
        if command or webhook:
            self._deliver(command, webhook, settings.text("notify.webhook_shape"), wanted)
        if settings.flag("notify.bell"):
            write_to_terminal(self._app, "\a")
        if settings.text("notify.desktop") != "off":
            write_to_terminal(self._app, desktop_sequence(text, settings.text("notify.desktop"), os.environ))
        if settings.flag("notify.title") and not self._app.app_focus:
            write_to_terminal(self._app, ("" if self._titled else _TITLE_KEPT) + f"\x1b]2;imi: {text}\x1b\\")
            self._titled, self._app.farewell = True, _TITLE_BACK

    def _deliver(self, command: str, webhook: str, shape: str, wanted: list[Alert]) -> None:
        from imi_monitor.links import notification_delivery  # imports urllib, which few need

        loop = asyncio.get_running_loop()

        def report(problem: str) -> None:
            with suppress(RuntimeError):  # the dashboard has ended meanwhile
                loop.call_soon_threadsafe(self._report, problem)

        notification_delivery.deliver(command, webhook, shape, wanted, report)

    def _report(self, problem: str) -> None:
        """Show each problem once: it would come back with every notification."""
        if problem not in self._reported:
            self._reported.add(problem)
            self._app.notify(problem, severity="warning", markup=False)


def _settings() -> config.Settings:
    try:
        return config.load()
    except ImiError:  # reported elsewhere; notifications use the defaults
        return config.Settings()


def summary(wanted: list[Alert]) -> str:
    """Return the first alert's text and the number of the others."""
    more = f" (and {len(wanted) - 1} more)" if len(wanted) > 1 else ""
    return safe(wanted[0].text, _MOST)[:_MOST] + more


def desktop_sequence(text: str, how: str, environ: os._Environ[str] | dict[str, str]) -> str:
    """Return a desktop notification as this terminal's escape sequence, wrapped for tmux, which would not forward it."""
    if how == "auto":
        how = "osc777" if environ.get("TERM", "").startswith(_OSC777) else "osc9"
    text = text.replace(";", ",")
    sequence = f"\x1b]777;notify;imi;{text}\x1b\\" if how == "osc777" else f"\x1b]9;imi: {text}\x1b\\"
    return through_tmux(sequence) if environ.get("TMUX") else sequence


def through_tmux(sequence: str) -> str:
    return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"
