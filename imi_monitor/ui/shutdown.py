"""From the first byte to the last: a terminal that is left as it was found, an end that comes, an error told in one sentence.

Who restores the terminal when nothing of ours can: after SIGKILL, a crash of the interpreter, `os._exit`.

A small shell in a session of its own holds one end of a pipe and the terminal. The kernel closes our end however we die; a
word before that tells it that all is in order. Line settings are only touched while they still are those of the dead
program (keys that send signals are off): by then the person's shell may have made its own.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

from imi_monitor.model.errors import ImiError
from imi_monitor.model.text import safe
from imi_monitor.terminal import LEAVE, Kept
from imi_monitor.ui.crash_marker import CrashMarker
from imi_monitor.ui.guarded import GuardedApp
from imi_monitor.ui.terminal_driver import handle_signals

RecordError = Callable[[BaseException], ImiError]


def run_app(app: GuardedApp, recorded: RecordError) -> int:
    """Show an app, and end it as the terminal deserves, however it ends."""
    terminal, note = Kept(), CrashMarker()
    guard = TerminalGuard(terminal)
    ending = _Shutdown(app, terminal, guard, note, recorded)
    app.note, app.last_resort, app.recorded = note, ending.at_once, recorded
    _silence_stderr(recorded)
    note.begin()
    handle_signals(app, app.hurry)
    try:
        guard.post()
        app.run()
    except Exception as error:  # noqa: BLE001  what Textual itself lets through is a crash like any other
        app.crash = app.crash or error
    except BaseException:  # a signal before the app could take it
        note.end()
        raise
    finally:
        terminal.restore(leave=app.crash is not None)
        guard.relieve()
    sentence = ending.note_it()
    if sentence is not None:
        raise sentence
    return app.return_code or 0


class _Shutdown:
    """The last acts, done once: by the main thread, or by the watchdog when that one is stuck."""

    def __init__(
        self, app: GuardedApp, terminal: Kept, guard: TerminalGuard, note: CrashMarker, recorded: RecordError
    ) -> None:
        self._app = app
        self._terminal = terminal
        self._guard = guard
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
        self._guard.relieve()
        sentence = self.note_it()
        if sentence is not None and not told:
            os.write(2, f"imi: {safe(sentence.sentence, 1000)}\n".encode())
        os._exit(status)


def _silence_stderr(recorded: RecordError) -> None:
    """What threads and the garbage collector have to complain about goes to the log, never over the screen."""
    logging.getLogger("asyncio").addHandler(_RecordHandler(recorded))
    logging.getLogger("asyncio").propagate = False
    threading.excepthook = lambda raised: _record(recorded, raised.exc_value)
    sys.unraisablehook = lambda raised: _record(recorded, raised.exc_value)


def _record(recorded: RecordError, error: Any) -> None:
    if isinstance(error, BaseException) and not isinstance(error, SystemExit):
        recorded(error)


class _RecordHandler(logging.Handler):
    def __init__(self, recorded: RecordError) -> None:
        super().__init__(logging.ERROR)
        self._recorded = recorded

    def emit(self, record: logging.LogRecord) -> None:
        _record(self._recorded, record.exc_info[1] if record.exc_info else None)


AFTER = 0.3  # seconds: the first picture does not wait for it
_IN_ORDER = b"in order\n"
_SCRIPT = """
trap '' HUP INT TERM QUIT TSTP TTOU TTIN
read -r word && exit
exec <&1
case "$(stty -a)" in *-isig*) stty $0 ;; esac
printf %b "$1"
"""


class TerminalGuard:
    """`post` it when the terminal is taken over, `relieve` it when that was given back."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._timer = threading.Timer(AFTER, self._start)
        self._timer.daemon = True
        self._lock = threading.Lock()
        self._over = False
        self._posted: subprocess.Popen[bytes] | None = None

    def post(self) -> None:
        if self._kept.fd is not None and self._kept.attributes is not None:
            self._timer.start()

    def relieve(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._over = True
            posted, self._posted = self._posted, None
        if posted is not None and posted.stdin is not None:
            with contextlib.suppress(OSError):
                posted.stdin.write(_IN_ORDER)
                posted.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                posted.wait(1)

    def _start(self) -> None:
        """Without it we run all the same: the terminal can then be reset by hand."""
        kept = self._kept
        with self._lock, contextlib.suppress(OSError):
            if self._over or kept.fd is None or kept.attributes is None:
                return
            screen = os.open(os.ttyname(kept.fd), os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
            try:
                self._posted = subprocess.Popen(
                    ["sh", "-c", _SCRIPT, _for_stty(kept.attributes), LEAVE.replace("\x1b", "\\0033")],
                    stdin=subprocess.PIPE,
                    stdout=screen,
                    stderr=subprocess.DEVNULL,
                    bufsize=0,
                    cwd="/",
                    start_new_session=True,
                )
            finally:
                os.close(screen)


def _for_stty(attributes: list[Any]) -> str:
    """As `stty -g` writes it, where that is the same everywhere; else what suits anybody."""
    if not sys.platform.startswith("linux"):
        return "sane"
    iflag, oflag, cflag, lflag, _, _, characters = attributes
    codes = [one if isinstance(one, int) else one[0] for one in characters]
    return ":".join(f"{value:x}" for value in (iflag, oflag, cflag, lflag, *codes))
