"""The way to the terminal and back: Textual's driver for a terminal that may vanish, stall or be taken over by a shell.

Textual alone hangs when the pane is closed (its writer dies, its queue fills, its reader spins), freezes a pane for good on
ctrl-z where no shell could continue it, and takes a SIGCONT nobody asked for as the first start.
"""

from __future__ import annotations

import codecs
import os
import select
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import IO, Any, cast

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

from imi_monitor.terminal import MODES_OFF

TYPE_CHECKING = False
if TYPE_CHECKING:
    from textual.app import App


_HALF_A_KEY = 0.02  # seconds between two looks whether the rest of a sequence still comes


class DroppingStream:
    """A stream to a terminal that may go away: from then on everything written is dropped, and `gone` was called once."""

    def __init__(self, stream: IO[str], gone: Callable[[], None]) -> None:
        self._stream = stream
        self._call = gone
        self._gone = False

    def write(self, text: str) -> int:
        return self._try(lambda: self._stream.write(text))

    def flush(self) -> None:
        self._try(self._stream.flush)

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    def _try(self, act: Callable[[], int | None]) -> int:
        try:
            return 0 if self._gone else act() or 0
        except (OSError, ValueError):
            self._gone = True
            self._call()
            return 0


class TerminalDriver(LinuxDriver):
    """Textual's driver, with the ends it does not know of."""

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._file = cast("Any", DroppingStream(cast("IO[str]", self._file), self._vanished))
        self._attributes: list[Any] | None = None
        self._shown = False
        self._ended = threading.Event()
        self._enough: tuple[int, int] | None = None  # the two ends of what tells the reader to stop

    def _get_terminal_size(self) -> tuple[int, int]:
        """Its own word first: COLUMNS and LINES may be those of another terminal, exported by whoever started us."""
        for fd in (self.fileno, 2, 1):
            with suppress(OSError):
                width, height = os.get_terminal_size(fd)
                if width and height:
                    return width, height
        return super()._get_terminal_size()

    # -- on and off -------------------------------------------------------------------------------------------------

    def start_application_mode(self) -> None:
        self._close_pipe()
        self._enough = os.pipe()
        super().start_application_mode()  # type: ignore[no-untyped-call]
        self._shown = self._writer_thread is not None
        if self._attributes is None:
            self._attributes = self.attrs_before
            threading.Thread(target=self._watch, name="imi-terminal", daemon=True).start()
        self.attrs_before = self._attributes  # those of the first start: a later one may find its own

    def stop_application_mode(self) -> None:
        if not self._shown:
            return
        self._shown = False
        # also the modes that Textual switches on and forgets
        self.write(MODES_OFF + getattr(self._app, "farewell", ""))
        super().stop_application_mode()
        self._close_pipe()

    def _close_pipe(self) -> None:
        ends, self._enough = self._enough or (), None
        for fd in ends:
            os.close(fd)

    def close(self) -> None:
        super().close()
        if self._app._exit:
            self._ended.set()

    # -- a shell's stop and go --------------------------------------------------------------------------------------

    def _sigtstp_application(self, *_: object) -> None:
        ours = self._auto_restart and self._shown
        if ours:
            self.suspend_application_mode()
            self._must_signal_resume = True
        signal.signal(signal.SIGCONT, _nothing)  # what continues us now is told by going on here
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        # not SIGSTOP: where no shell could continue us (a pane of our own) the kernel lets this one pass
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGCONT, self._sigcont_application)
        if ours:
            self._resume()
        signal.signal(signal.SIGTSTP, self._sigtstp_application)

    def _sigcont_application(self, *_: object) -> None:
        if self._auto_restart and self._shown:  # stopped without warning: the shell has changed the terminal meanwhile
            self.suspend_application_mode()
            self._resume()

    def _resume(self) -> None:
        if not self._app._exit:
            self.resume_application_mode()
            self._app.call_later(self._app.refresh, layout=True)

    # -- the terminal goes away -------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Wait until the other end is closed. Textual's reader would take the endless end of file for no input."""
        poller = select.poll()
        poller.register(self.fileno, 0)  # a hang-up is told without being asked for
        while not self._ended.is_set():
            if poller.poll(60_000):
                self._vanished()
                return

    def _vanished(self) -> None:
        self._ended.set()
        exit_from_signal(self._app, signal.SIGHUP)

    # -- what is typed ----------------------------------------------------------------------------------------------

    def _run_input_thread(self) -> None:
        try:
            self.run_input_thread()
        except (OSError, ValueError):
            self._vanished()

    def run_input_thread(self) -> None:
        """Hand on what comes, until told that it is enough. Textual's own looks ten times a second whether it is, which at
        rest costs more than all the rest of the dashboard."""
        assert self._enough is not None
        enough, decode = self._enough[0], codecs.getincrementaldecoder("utf-8")("replace").decode
        parser = XTermParser(self._debug)
        while True:
            # half a sequence may be all that comes, as when escape alone is pressed
            patience = _HALF_A_KEY if parser._timeout_time is not None else None
            ready = select.select((self.fileno, enough), (), (), patience)[0]
            if enough in ready:
                return
            if ready:
                data = os.read(self.fileno, 4096)
                if not data:
                    return  # nothing will ever come; whether the terminal is gone, `_watch` tells
                for event in parser.feed(decode(data)):
                    self.process_message(event)
            for event in parser.tick():
                self.process_message(event)

    def disable_input(self) -> None:
        if self._enough is not None:
            os.write(self._enough[1], b".")
        super().disable_input()


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """A signal that only wakes."""


def exit_from_signal(app: App[Any], number: int) -> bool:
    """Let the app end from any thread or signal handler; the status is the one a shell gives for that signal."""
    loop = app._loop
    if loop is None or loop.is_closed():
        return False
    loop.call_soon_threadsafe(lambda: app.exit(return_code=128 + number))
    return True


def handle_signals(app: App[Any], hurry: Callable[[int], None]) -> None:
    """Ended from outside: as tidy as by a key. `hurry(status)` sees to it that it does not take long."""

    def told(number: int, _frame: FrameType | None) -> None:
        hurry(128 + number)
        if not exit_from_signal(app, number):
            raise SystemExit(128 + number)  # it does not run yet, or no more

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, told)
