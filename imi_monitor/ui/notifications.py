"""Calls a person back who looks elsewhere: by the bell, the desktop and the window's title. Never while they look.

What is worth it is decided in `model.alert`; how often, and in which words for which terminal, here.
"""

from __future__ import annotations

import asyncio
import os

from imi_monitor import config
from imi_monitor.model.errors import ImiError
from imi_monitor.model.snapshot import Snapshot
from imi_monitor.model.text import safe
from imi_monitor.ui.textual_internals import write_to_terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.model.alert import Alert
    from imi_monitor.ui.app import ImiApp

PAUSE = 10.0  # seconds between two calls: what comes meanwhile goes with the next one
_MOST = 200
_TITLE_KEPT, _TITLE_BACK = "\x1b[22;2t", "\x1b[23;2t"
_OSC777 = ("foot", "rxvt", "urxvt")


class Notifier:
    """Fed with every snapshot; calls when the app is not in focus."""

    def __init__(self, app: ImiApp) -> None:
        self._app = app
        self._before: Snapshot | None = None
        self._waiting: list[Alert] = []
        self._settings: config.Settings | None = None
        self._calling = False
        self._titled = False

    def update(self, snapshot: Snapshot) -> None:
        before, self._before = self._before, snapshot
        if before is None or before is snapshot:
            return
        from imi_monitor.model import alert  # not before there are two pictures to compare

        found = alert.find_alerts(before, snapshot)
        if found:
            self._waiting += [one for one in found if one not in self._waiting]
            if not self._calling:
                self._calling = True
                self._app.run_worker(self._call(), exit_on_error=False)

    def clear(self) -> None:
        """The person is back: the title is theirs again."""
        self._waiting.clear()
        if self._titled:
            self._titled = False
            self._app.farewell = ""
            write_to_terminal(self._app, _TITLE_BACK)

    async def _call(self) -> None:
        try:
            if self._settings is None:
                self._settings = await asyncio.to_thread(_settings)
            while self._waiting:
                wanted = [one for one in self._waiting if self._settings.flag(f"notify.{one.kind}")]
                self._waiting.clear()
                if wanted and self._away(self._settings):
                    self._tell(wanted, self._settings)
                    await asyncio.sleep(PAUSE)
        finally:
            self._calling = False

    def _away(self, settings: config.Settings) -> bool:
        when = settings.text("notify.when")
        return when == "always" or (when == "unfocused" and not self._app.app_focus)

    def _tell(self, wanted: list[Alert], settings: config.Settings) -> None:
        text = summary(wanted)
        if settings.flag("notify.bell"):
            write_to_terminal(self._app, "\a")
        if settings.text("notify.desktop") != "off":
            write_to_terminal(self._app, desktop_sequence(text, settings.text("notify.desktop"), os.environ))
        if settings.flag("notify.title") and not self._app.app_focus:
            write_to_terminal(self._app, ("" if self._titled else _TITLE_KEPT) + f"\x1b]2;imi: {text}\x1b\\")
            self._titled, self._app.farewell = True, _TITLE_BACK


def _settings() -> config.Settings:
    try:
        return config.load()
    except ImiError:  # told where it matters; notices go by their defaults
        return config.Settings()


def summary(wanted: list[Alert]) -> str:
    """Several things in one line, the first in full."""
    more = f" (and {len(wanted) - 1} more)" if len(wanted) > 1 else ""
    return safe(wanted[0].text, _MOST) + more


def desktop_sequence(text: str, how: str, environ: os._Environ[str] | dict[str, str]) -> str:
    """A desktop notification in the form that the terminal knows; through tmux, which would keep it to itself."""
    if how == "auto":
        how = "osc777" if environ.get("TERM", "").startswith(_OSC777) else "osc9"
    text = text.replace(";", ",")
    sequence = f"\x1b]777;notify;imi;{text}\x1b\\" if how == "osc777" else f"\x1b]9;imi: {text}\x1b\\"
    return through_tmux(sequence) if environ.get("TMUX") else sequence


def through_tmux(sequence: str) -> str:
    return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"
