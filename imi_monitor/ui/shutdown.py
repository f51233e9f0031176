"""Runs the app so that the terminal is left as it was found, the process ends in time, and an error is one sentence.

Three layers restore the terminal: the app itself; `_Shutdown.force_exit`, when a thread or a stalled terminal keeps the app
from ending; `TerminalGuard`, a small shell, when the process is killed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from imi_monitor import programs
from imi_monitor.model.errors import ImiError
from imi_monitor.model.text import safe
from imi_monitor.terminal import LEAVE, TerminalState
from imi_monitor.ui.crash_marker import CrashMarker
from imi_monitor.ui.terminal_app import TerminalApp
from imi_monitor.ui.textual_internals import exit_from_signal

RecordError = Callable[[BaseException], ImiError]


def run_app(app: TerminalApp, record_error: RecordError) -> int:
    """Run the app and return its exit status; raise the ImiError that describes a crash."""
    terminal, marker = TerminalState(), CrashMarker()
    guard = TerminalGuard(terminal)
    shutdown = _Shutdown(app, terminal, guard, marker, record_error)
    app.crash_marker, app.force_exit, app.record_error = marker, shutdown.force_exit, record_error
    _log_stray_errors(record_error)
    marker.begin()
    _handle_signals(app)
    try:
        guard.start()
        app.run()  # returns when its threads have ended
    except Exception as error:  # noqa: BLE001  what Textual lets through is a crash like any other
        app.crash = app.crash or error
    except BaseException:  # a signal before the app handled signals
        marker.end()
        raise
    finally:
        if app.exit_timer is not None:
            app.exit_timer.cancel()  # what the caller cleans up has its own time
        terminal.restore(leave=app.crash is not None)
        guard.stop()
    app.after_exit()
    sentence = shutdown.record()
    if sentence is not None:
        raise sentence
    return app.return_code or 0


class _Shutdown:
    """Records the end once: from the main thread, or from the timer thread when the main thread is stuck."""

    def __init__(
        self,
        app: TerminalApp,
        terminal: TerminalState,
        guard: TerminalGuard,
        marker: CrashMarker,
        record_error: RecordError,
    ) -> None:
        self._app = app
        self._terminal = terminal
        self._guard = guard
        self._marker = marker
        self._record_error = record_error
        self._lock = threading.Lock()
        self._recorded = False
        self._sentence: ImiError | None = None

    def record(self) -> ImiError | None:
        """Return the error that ended the app, written to the log; None if it ended in order."""
        with self._lock:
            if not self._recorded:
                self._recorded = True
                if self._app.crash is None:
                    self._marker.end()
                else:
                    self._sentence = self._record_error(self._app.crash)
                    self._marker.crashed(self._sentence.sentence)
            return self._sentence

    def force_exit(self, status: int) -> None:
        """End the process now: a thread does not finish, or the terminal accepts no more output."""
        reported = self._recorded
        self._terminal.restore(leave=not reported)
        self._guard.stop()
        sentence = self.record()
        if sentence is not None and not reported:
            os.write(2, f"imi: {safe(sentence.sentence, 1000)}\n".encode())
        os._exit(status)


def _handle_signals(app: TerminalApp) -> None:
    """End the app on SIGTERM, SIGHUP and SIGINT as a command would."""

    def handle(number: int, _frame: FrameType | None) -> None:
        app.before_exit(128 + number)
        if not exit_from_signal(app, number):
            raise SystemExit(128 + number)  # not running yet, or no longer

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, handle)


def _log_stray_errors(record_error: RecordError) -> None:
    """Write errors of threads and of the garbage collector to the log, never over the screen."""
    logging.getLogger("asyncio").addHandler(_LogHandler(record_error))
    logging.getLogger("asyncio").propagate = False
    threading.excepthook = lambda raised: _log(record_error, raised.exc_value)
    sys.unraisablehook = lambda raised: _log(record_error, raised.exc_value)


def _log(record_error: RecordError, error: Any) -> None:
    if isinstance(error, BaseException) and not isinstance(error, SystemExit):
        record_error(error)


class _LogHandler(logging.Handler):
    def __init__(self, record_error: RecordError) -> None:
        super().__init__(logging.ERROR)
        self._record_error = record_error

    def emit(self, record: logging.LogRecord) -> None:
        _log(self._record_error, record.exc_info[1] if record.exc_info else None)


# -- after SIGKILL ------------------------------------------------------------------------------------------------------

GUARD_DELAY = 0.3  # seconds, so that starting the shell does not delay the first paint
_IN_ORDER = b"in order\n"
_GUARD_SCRIPT = """
trap '' HUP INT TERM QUIT TSTP TTOU TTIN
read -r word && exit
exec <&1
case "$(stty -a)" in *-isig*) stty $0 ;; esac
printf %b "$1"
"""


class TerminalGuard:
    """Restores the terminal after SIGKILL, a crash of the interpreter or `os._exit`.

    A small shell in a session of its own holds the terminal and one end of a pipe. The kernel closes the other end however
    the process dies; a word written before that means that all is in order. The line settings are only changed while they
    are still those of the dashboard (keys that send signals are off): the user's shell may have set its own meanwhile.
    """

    def __init__(self, state: TerminalState) -> None:
        self._state = state
        self._timer = threading.Timer(GUARD_DELAY, self._start_shell)
        self._timer.daemon = True
        self._lock = threading.Lock()
        self._stopped = False
        self._shell: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self._state.fd is not None and self._state.attributes is not None:
            self._timer.start()

    def stop(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._stopped = True
            shell, self._shell = self._shell, None
        if shell is not None and shell.stdin is not None:
            with contextlib.suppress(OSError):
                shell.stdin.write(_IN_ORDER)
                shell.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                shell.wait(1)

    def _start_shell(self) -> None:
        """Start the shell; if that fails the dashboard runs without it, and `imi reset-terminal` does its work."""
        state = self._state
        with self._lock, contextlib.suppress(OSError):
            if self._stopped or state.fd is None or state.attributes is None:
                return
            screen = os.open(os.ttyname(state.fd), os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
            try:
                self._shell = subprocess.Popen(
                    [
                        "/bin/sh",
                        "-c",
                        _GUARD_SCRIPT,
                        _stty_arguments(state.attributes),
                        LEAVE.replace("\x1b", "\\0033"),
                    ],
                    stdin=subprocess.PIPE,
                    stdout=screen,
                    stderr=subprocess.DEVNULL,
                    bufsize=0,
                    cwd="/",
                    env=programs.environment(),
                    start_new_session=True,
                )
            finally:
                os.close(screen)


def _stty_arguments(attributes: list[Any]) -> str:
    """Return what `stty -g` prints on Linux; elsewhere, where the format differs, `sane`."""
    if not sys.platform.startswith("linux"):
        return "sane"
    iflag, oflag, cflag, lflag, _, _, characters = attributes
    codes = [one if isinstance(one, int) else one[0] for one in characters]
    return ":".join(f"{value:x}" for value in (iflag, oflag, cflag, lflag, *codes))
