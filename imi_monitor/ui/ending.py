"""From the first byte to the last: a terminal that is left as it was found, an end that comes, an error told in one sentence."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from imi_monitor.model.errors import ImiError
from imi_monitor.model.text import safe
from imi_monitor.terminal import Kept
from imi_monitor.ui.guarded import GuardedApp
from imi_monitor.ui.runs import Note
from imi_monitor.ui.sentry import Sentry
from imi_monitor.ui.terminal import end_on_signals

Recorded = Callable[[BaseException], ImiError]


def shown(app: GuardedApp, recorded: Recorded) -> int:
    """Show an app, and end it as the terminal deserves, however it ends."""
    terminal, note = Kept(), Note()
    sentry = Sentry(terminal)
    ending = _Ending(app, terminal, sentry, note, recorded)
    app.note, app.last_resort, app.recorded = note, ending.at_once, recorded
    _quiet(recorded)
    note.begin()
    end_on_signals(app, app.hurry)
    try:
        sentry.post()
        app.run()
    except Exception as error:  # noqa: BLE001  what Textual itself lets through is a crash like any other
        app.crash = app.crash or error
    except BaseException:  # a signal before the app could take it
        note.end()
        raise
    finally:
        terminal.restore(leave=app.crash is not None)
        sentry.relieve()
    sentence = ending.note_it()
    if sentence is not None:
        raise sentence
    return app.return_code or 0


class _Ending:
    """The last acts, done once: by the main thread, or by the watchdog when that one is stuck."""

    def __init__(self, app: GuardedApp, terminal: Kept, sentry: Sentry, note: Note, recorded: Recorded) -> None:
        self._app = app
        self._terminal = terminal
        self._sentry = sentry
        self._note = note
        self._recorded = recorded
        self._lock = threading.Lock()
        self._noted = False
        self._sentence: ImiError | None = None

    def note_it(self) -> ImiError | None:
        """The error that ended the app, recorded; None: it ended in order."""
        with self._lock:
            if not self._noted:
                self._noted = True
                self._settle()
            return self._sentence

    def _settle(self) -> None:
        if self._app.crash is None:
            self._note.end()
            return
        self._sentence = self._recorded(self._app.crash)
        self._note.crashed(self._sentence.sentence)

    def at_once(self, status: int) -> None:
        """End the process now: something does not come to its end (a thread, a terminal that takes no more)."""
        told = self._noted
        self._terminal.restore(leave=not told)
        self._sentry.relieve()
        sentence = self.note_it()
        if sentence is not None and not told:
            os.write(2, f"imi: {safe(sentence.sentence, 1000)}\n".encode())
        os._exit(status)


def _quiet(recorded: Recorded) -> None:
    """What threads and the garbage collector have to complain about goes to the log, never over the screen."""
    logging.getLogger("asyncio").addHandler(_ToLog(recorded))
    logging.getLogger("asyncio").propagate = False
    threading.excepthook = lambda raised: _log(recorded, raised.exc_value)
    sys.unraisablehook = lambda raised: _log(recorded, raised.exc_value)


def _log(recorded: Recorded, error: Any) -> None:
    if isinstance(error, BaseException) and not isinstance(error, SystemExit):
        recorded(error)


class _ToLog(logging.Handler):
    def __init__(self, recorded: Recorded) -> None:
        super().__init__(logging.ERROR)
        self._recorded = recorded

    def emit(self, record: logging.LogRecord) -> None:
        _log(self._recorded, record.exc_info[1] if record.exc_info else None)
