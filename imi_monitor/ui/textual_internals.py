"""Everything that overrides or reads private members of Textual (8.2.8, pinned), in one place.

`PRIVATE_MEMBERS` lists those members; tests/ui/test_textual_internals.py fails with the name of the first one that a new
version of Textual no longer has. Each class states what it gains over Textual's own behaviour.
"""

from __future__ import annotations

import codecs
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import IO, Any, TypeVar, cast

from textual import _ansi_sequences, _callback, events
from textual._context import active_app, active_message_pump
from textual._styles_cache import StylesCache
from textual._xterm_parser import XTermParser
from textual.actions import SkipAction
from textual.app import App
from textual.await_complete import AwaitComplete
from textual.color import Color
from textual.drivers.linux_driver import LinuxDriver
from textual.geometry import Region, Size
from textual.message_pump import MessagePump
from textual.screen import Screen
from textual.strip import Strip
from textual.style import Style
from textual.timer import Timer
from textual.widget import Widget
from textual.worker import WorkerFailed

from imi_monitor.model.text import safe
from imi_monitor.terminal import MODES_OFF
from imi_monitor.ui import themes

PRIVATE_MEMBERS: Mapping[type, str] = {
    App: "_close_messages_no_wait _dom_ready _driver _exit _exit_renderables _fatal_error _handle_exception _load_screen_css"
    " _loop _notifications _print_error_renderables _refresh_truecolor_filter _unnotify",
    Screen: "_compositor_refresh _dirty_widgets _layout_required _on_idle _on_screen_resume _on_timer_update _refresh_layout"
    " _repaint_required _update_timer",
    Widget: "_get_style _is_mounted _pruning _refresh_scrollbars",
    LinuxDriver: "_app _auto_restart _debug _file _get_terminal_size _must_signal_resume _run_input_thread"
    " _sigcont_application _sigtstp_application _writer_thread attrs_before run_input_thread",
    StylesCache: "get_inner_outer",
    XTermParser: "_timeout_time",
}
PRIVATE_FUNCTIONS: Mapping[str, str] = {"textual._callback": "_invoke"}
R = TypeVar("R")  # the result of a screen
ALT_ENTER = "\x1b\r"
_PAINTS_PER_SECOND = 200
_SAME_ERROR_PAUSE = 10.0  # seconds until the same error is logged and shown again
_MOST_ERRORS_KEPT = 200
_LEAST_DELAY = 0.001  # seconds
_KEY_TIMEOUT = 0.02  # seconds to wait for the rest of an escape sequence


class _AltEnter:
    """The key of alt+enter in terminals without an enhanced protocol; Textual reads it as `^` and enter, which submits."""

    value = "alt+enter"


_ansi_sequences.ANSI_SEQUENCES_KEYS[ALT_ENTER] = (_AltEnter,)  # type: ignore[index]


def is_alive(widget: Widget) -> bool:
    """Return whether the widget can still be drawn into: attached and not being removed."""
    return widget.is_attached and not widget._pruning


def style_resolver(widget: Widget) -> Callable[[Style | str], Style]:
    """Return the function that turns a style's text, such as `bold $warning`, into the style it has in this widget."""
    return widget._get_style


def write_to_terminal(app: App[Any], sequence: str) -> None:
    """Write an escape sequence as it is; without a terminal do nothing."""
    if app._driver is not None and not app.is_headless:
        app._driver.write(sequence)


def exit_from_signal(app: App[Any], number: int) -> bool:
    """Let the app exit, from any thread or signal handler, with a shell's status for that signal; False if it does not run."""
    loop = app._loop
    if loop is None or loop.is_closed():
        return False
    loop.call_soon_threadsafe(lambda: app.exit(return_code=128 + number))
    return True


# -- the app ------------------------------------------------------------------------------------------------------------


class CrashSafeApp(App[None]):
    """An app that outlives an exception in a handler, and never prints a traceback.

    Textual ends the app and prints one with the values of all local variables, which may be secrets. Here the exception goes
    to the log and becomes a toast. It still ends the app before `keeps_running` is set, and where `record_error` is not: in a
    test that expects no error. Then `crash` is that exception.
    """

    crash: BaseException | None = None
    record_error: Callable[[BaseException], object] | None = None  # writes an error to the log; called in any thread
    keeps_running = False  # set when there is a screen to return to

    late_styles: Sequence[Path] = ()  # of dialogs and views

    _themed = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._reported: dict[tuple[str, str], float] = {}  # type and text of an error -> when it happened last

    def before_exit(self, status: int) -> None:
        """Called when the app begins to exit, by command or by an exception."""

    def apply_initial_theme(self, name: str) -> None:
        """Set the theme before the style sheets are parsed; a later change parses and applies them a second time (5 ms)."""
        self._themed = True
        self.set_reactive(App.theme, name)
        self.stylesheet.set_variables(self.get_css_variables())
        dark = self.current_theme.dark
        self.update_classes({f"-theme-{name}": True, "-dark-mode": dark, "-light-mode": not dark}, update=False)
        self._refresh_truecolor_filter(self.ansi_theme)

    def get_css_variables(self) -> dict[str, str]:
        """Return the theme's variables and the tokens of states; none before `apply_initial_theme`, where Textual asks for
        those of its default theme."""
        if not self._themed:
            return {}
        variables = super().get_css_variables()  # the same dict as `theme_variables`
        variables.update(themes.state_tokens(variables))
        return variables

    def _load_screen_css(self, screen: Screen[Any]) -> None:
        """Read all style sheets with the first screen above the home screen; reading them at start costs 6 ms."""
        if not isinstance(screen, FastScreen):
            screen.css_path += self.late_styles
        super()._load_screen_css(screen)

    def exit(self, result: None = None, return_code: int = 0, message: Any = None) -> None:
        self.before_exit(return_code)
        super().exit(result, return_code, message)

    def panic(self, *_renderables: object) -> None:
        self._fatal_error()

    def _handle_exception(self, error: Exception) -> None:
        if self._exit and self.record_error is not None:  # the app is half removed: log the error, exit as planned
            self.record_error(error)
            self._fatal_error()
        elif self.survives_errors:
            self.report_error(error)
        else:
            self.crash = self.crash or error
            super()._handle_exception(error)

    @property
    def survives_errors(self) -> bool:
        return self.keeps_running and self.record_error is not None and not self._exit

    def report_error(self, error: Exception) -> None:
        """Write an unexpected error to the log and show it, once in a while for the same one; close a screen that is only
        half made by it."""
        error = error.error if isinstance(error, WorkerFailed) and isinstance(error.error, Exception) else error
        pump = active_message_pump.get(None)
        if isinstance(pump, Widget) and not pump._is_mounted and pump.is_attached:
            self.call_later(self._close_screen, pump.screen)
        if self._is_new_error(error) and self.record_error is not None:
            described = self.record_error(error)
            sentence = getattr(described, "sentence", f"{type(error).__name__}: {error}")
            self.notify(safe(sentence, 400), severity="error", markup=False)

    def _is_new_error(self, error: Exception) -> bool:
        """Whether the same error did not happen just now: a failing drawing fails with every frame."""
        what, now = (type(error).__name__, safe(str(error), 200)), time.monotonic()
        before = self._reported.get(what)
        if len(self._reported) > _MOST_ERRORS_KEPT:
            self._reported.clear()
        self._reported[what] = now
        return before is None or now - before > _SAME_ERROR_PAUSE

    def remove_toasts(self, severity: str) -> None:
        """Remove the toasts of this severity that have no title."""
        for shown in [one for one in self._notifications if one.severity == severity and not one.title]:
            self._unnotify(shown)

    def _close_screen(self, screen: Screen[Any]) -> None:
        while screen in self.screen_stack[1:]:
            self.pop_screen()

    def attempt(self, call: Callable[..., object], *args: object) -> None:
        """Call it; an error is reported, and what comes after is not affected."""
        try:
            call(*args)
        except Exception as error:
            if not self.survives_errors:
                raise
            self.report_error(error)

    async def on_event(self, event: events.Event) -> None:
        try:
            await super().on_event(event)
        except Exception as error:
            if not self.survives_errors:
                raise
            self.report_error(error)

    def _fatal_error(self) -> None:
        self.before_exit(1)
        self._close_messages_no_wait()

    def _print_error_renderables(self) -> None:
        self._exit_renderables.clear()


def surviving_app() -> CrashSafeApp | None:
    """Return the app this code runs in, also in a thread it started, if it outlives unexpected errors."""
    app = active_app.get(None)
    return app if isinstance(app, CrashSafeApp) and app.survives_errors else None


def log_error(error: BaseException) -> None:
    """Write an unexpected error to the app's log; the caller shows it."""
    app = surviving_app()
    if app is not None and app.record_error is not None:
        app.record_error(error)


_textual_invoke = _callback._invoke
_textual_render_lines = Widget.render_lines


async def _invoke_or_report(callback: Callable[..., Any], *params: object) -> Any:
    """Textual calls every handler, action, timer and callback through this function. Without it an exception also ends the
    message loop of the widget, and the handlers of its base classes are not called."""
    try:
        return await _textual_invoke(callback, *params)
    except SkipAction:
        raise
    except Exception as error:
        app = surviving_app()
        if app is None:
            raise
        app.report_error(error)
        return None


def _render_lines_or_report(widget: Widget, crop: Region) -> list[Strip]:
    """A widget that cannot be drawn is blank; the others, and the toast about it, are drawn."""
    try:
        return _textual_render_lines(widget, crop)
    except Exception as error:
        app = surviving_app()
        if app is None:
            raise
        app.report_error(error)
        return [Strip.blank(crop.width)] * crop.height


_callback._invoke = _invoke_or_report
Widget.render_lines = _render_lines_or_report  # type: ignore[method-assign,assignment]


# -- timers -------------------------------------------------------------------------------------------------------------

_textual_set_timer = MessagePump.set_timer


def _set_timer_in_the_future(pump: MessagePump, delay: float, *args: Any, **options: Any) -> Timer:
    """Textual's timer loops for ever without awaiting anything if its delay is negative.

    Textual sets such a timer itself for a toast that expires between the moment it is made and the moment it is mounted: on
    a busy machine, or when the machine wakes from sleep.
    """
    return _textual_set_timer(pump, max(delay, _LEAST_DELAY), *args, **options)


MessagePump.set_timer = _set_timer_in_the_future  # type: ignore[method-assign,assignment]


# -- memory -------------------------------------------------------------------------------------------------------------

_textual_inner_outer = StylesCache.get_inner_outer.__wrapped__


@lru_cache(1024)
def _inner_outer(base_background: Color, background: Color) -> tuple[Style, Style]:
    """Textual caches this per widget's cache of painted lines, so that 1024 of these live on after their widgets: 30 MB.

    The result depends on the colours alone.
    """
    styles: tuple[Style, Style] = _textual_inner_outer(StylesCache, base_background, background)
    return styles


StylesCache.get_inner_outer = staticmethod(_inner_outer)  # type: ignore[method-assign,assignment]


# -- the screen ---------------------------------------------------------------------------------------------------------


class DismissedOnce(Screen[R]):
    """A screen that is dismissed once. A second key pressed before it is gone does nothing; Textual calls the callback again
    and closes the screen below.

    A modal screen names ModalScreen first: Textual takes the names for style rules from the first base alone.
    """

    def dismiss(self, result: R | None = None) -> AwaitComplete:
        return super().dismiss(result) if self.app.screen is self else AwaitComplete()


class ReadyScreen(Screen[R]):
    """A screen that is painted first when it is ready: before, the terminal shows the screen below.

    Textual paints a new screen after each step: empty, with its widgets, with their sizes, with their contents. For a board of
    140 x 40 cells these are seven paints and 100 ms instead of two and 40 ms.
    """

    _is_ready = False

    def _compositor_refresh(self) -> None:
        if self._is_ready:
            super()._compositor_refresh()
        else:
            self._dirty_widgets.clear()

    def paint(self) -> None:
        """Paint the screen now, and from now on after each change."""
        if not self._is_ready:
            self._is_ready = True
            self._repaint_required = True
            self._on_timer_update()


class FastScreen(Screen[None]):
    """A screen that paints once at start, and at most 5 ms after a change.

    Measured against Textual's Screen: 25 ms less CPU until the first paint (it lays out and paints once instead of after each
    mounted widget), and up to 12 ms less between a change and its paint (Textual paints at 60 Hz). Nothing is painted before
    `release`: the rows are drawn when the layout has settled, and would be painted twice.
    """

    _held = True
    _released = False
    _paint_timer: Timer | None = None

    @property
    def _update_timer(self) -> Timer:
        if self._paint_timer is None:
            self._paint_timer = self.set_interval(
                1 / _PAINTS_PER_SECOND, self._on_timer_update, name="paint", pause=True
            )
        return self._paint_timer

    @property
    def is_painted(self) -> bool:
        """Whether the first paint has happened."""
        return not self._held

    def release(self, *scrolling: Widget) -> None:
        """Allow the first paint, after the pending messages; the widgets given get their scroll bars before it."""
        self._released = True
        for widget in scrolling:
            widget._refresh_scrollbars()

    async def _on_idle(self, event: events.Idle) -> None:
        if self._held and self._released:
            self._held = False
            self._layout_required, self._repaint_required = True, False  # the layout paints everything by itself
            self._on_timer_update()

    def _refresh_layout(self, size: Size | None = None, scroll: bool = False) -> None:
        if not self._held or self._released or not self.app._dom_ready:
            super()._refresh_layout(size, scroll)

    def _compositor_refresh(self) -> None:
        if not self._held:
            super()._compositor_refresh()

    def _on_screen_resume(self, event: events.ScreenResume) -> None:
        if self._held:
            event.refresh_styles = False  # the styles were applied a moment ago


# -- the terminal -------------------------------------------------------------------------------------------------------


class _DroppingStream:
    """A stream to a terminal that may disappear: after a failed write it calls `on_gone` once and drops all output."""

    def __init__(self, stream: IO[str], on_gone: Callable[[], None]) -> None:
        self._stream = stream
        self._on_gone = on_gone
        self._gone = False

    def write(self, text: str) -> int:
        return self._attempt(lambda: self._stream.write(text))

    def flush(self) -> None:
        self._attempt(self._stream.flush)

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    def _attempt(self, operation: Callable[[], int | None]) -> int:
        try:
            return 0 if self._gone else operation() or 0
        except (OSError, ValueError):
            self._gone = True
            self._on_gone()
            return 0


class TerminalDriver(LinuxDriver):
    """Textual's driver for a terminal that may vanish, stall or be taken over by a shell.

    Textual alone hangs when the pane is closed (its writer dies, its queue fills, its reader spins), freezes a pane for good
    on ctrl-z where no shell can continue it, treats any SIGCONT as its own start, and polls for input ten times a second.
    """

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._file = cast("Any", _DroppingStream(cast("IO[str]", self._file), self._on_vanished))
        self._first_attributes: list[Any] | None = None
        self._is_on = False
        self._vanish_watch_done = threading.Event()
        self._stop_pipe: tuple[int, int] | None = None  # a byte in it ends the input thread

    @property
    def can_suspend(self) -> bool:
        return not getattr(self._app, "in_browser", False)

    def _get_terminal_size(self) -> tuple[int, int]:
        """Return the terminal's own size: COLUMNS and LINES may have been exported by another terminal's shell."""
        for fd in (self.fileno, 2, 1):
            with suppress(OSError):
                width, height = os.get_terminal_size(fd)
                if width and height:
                    return width, height
        return super()._get_terminal_size()

    # -- on and off -------------------------------------------------------------------------------------------------

    def start_application_mode(self) -> None:
        self._close_stop_pipe()
        self._stop_pipe = os.pipe()
        super().start_application_mode()  # type: ignore[no-untyped-call]
        self._is_on = self._writer_thread is not None
        if self._first_attributes is None:
            self._first_attributes = self.attrs_before
            threading.Thread(target=self._watch_hang_up, name="imi-terminal", daemon=True).start()
        self.attrs_before = self._first_attributes  # a later start may find the attributes it set itself

    def stop_application_mode(self) -> None:
        if not self._is_on:
            return
        self._is_on = False
        self.disable_input()  # first: the input thread switches modes on when the terminal's answer to a query arrives late
        # also the modes that Textual switches on and never off
        self.write(MODES_OFF + getattr(self._app, "farewell", ""))
        super().stop_application_mode()
        self._close_stop_pipe()

    def _close_stop_pipe(self) -> None:
        ends, self._stop_pipe = self._stop_pipe or (), None
        for fd in ends:
            os.close(fd)

    def close(self) -> None:
        super().close()
        if self._app._exit:
            self._vanish_watch_done.set()

    # -- job control ------------------------------------------------------------------------------------------------

    def _sigtstp_application(self, *_: object) -> None:
        self._run_between_callbacks(self._stop_for_shell)

    def _sigcont_application(self, *_: object) -> None:
        self._run_between_callbacks(self._reclaim_terminal)

    def _run_between_callbacks(self, function: Callable[[], object]) -> None:
        """Run `function` from the event loop: a signal may interrupt a write, whose lock `function` would wait for for ever."""
        loop = self._app._loop
        if self._is_on and loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(function)
        else:
            function()

    def _stop_for_shell(self) -> None:
        ours = self._auto_restart and self._is_on
        if ours:
            self.suspend_application_mode()
            self._must_signal_resume = True
        signal.signal(signal.SIGCONT, _ignore_signal)  # execution continues below, no handler is needed
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        # not SIGSTOP: the kernel ignores SIGTSTP where no shell could continue the process (a pane of its own)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGCONT, self._sigcont_application)
        if ours:
            self._resume()
        signal.signal(signal.SIGTSTP, self._sigtstp_application)

    def _reclaim_terminal(self) -> None:
        if self._auto_restart and self._is_on:  # stopped by SIGSTOP: the shell has changed the terminal meanwhile
            self.suspend_application_mode()
            self._resume()

    def _resume(self) -> None:
        if not self._app._exit:
            self.resume_application_mode()
            self._app.call_later(self._app.refresh, layout=True)

    # -- the terminal disappears ------------------------------------------------------------------------------------

    def _watch_hang_up(self) -> None:
        """Wait until the other end is closed; Textual's reader would take the endless end of file for missing input."""
        poller = select.poll()
        poller.register(self.fileno, 0)  # POLLHUP is reported without being requested
        while not self._vanish_watch_done.is_set():
            if poller.poll(60_000):
                self._on_vanished()
                return

    def _on_vanished(self) -> None:
        self._vanish_watch_done.set()
        exit_from_signal(self._app, signal.SIGHUP)

    # -- input ------------------------------------------------------------------------------------------------------

    def _run_input_thread(self) -> None:
        try:
            self.run_input_thread()
        except (OSError, ValueError):
            self._on_vanished()

    def run_input_thread(self) -> None:
        """Parse input until the stop pipe is written to. Textual's own polls for that ten times a second, which at rest costs
        more than the rest of the dashboard."""
        assert self._stop_pipe is not None
        stop, decode = self._stop_pipe[0], codecs.getincrementaldecoder("utf-8")("replace").decode
        parser = XTermParser(self._debug)
        with self._terminal_for_input() as terminal:
            while True:
                # an incomplete sequence may be complete, as when escape alone is pressed
                timeout = _KEY_TIMEOUT if parser._timeout_time is not None else None
                ready = select.select((terminal, stop), (), (), timeout)[0]
                if stop in ready:
                    return
                if ready:
                    try:
                        data = os.read(terminal, 4096)
                    except BlockingIOError:
                        continue  # a shell has read it while this process was stopped
                    if not data:
                        return  # end of file; `_watch_hang_up` finds out whether the terminal is gone
                    for event in parser.feed(decode(data)):
                        self.process_message(event)
                for event in parser.tick():
                    self.process_message(event)

    @contextmanager
    def _terminal_for_input(self) -> Iterator[int]:
        """The terminal, opened once more: its own O_NONBLOCK does not change what the shell and other programs have open."""
        try:
            terminal = os.open(os.ttyname(self.fileno), os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:  # no device file for it in this container, or not permitted after `su`
            yield self.fileno
            return
        try:
            yield terminal
        finally:
            os.close(terminal)

    def disable_input(self) -> None:
        if self._stop_pipe is not None:
            os.write(self._stop_pipe[1], b".")
        super().disable_input()


def _ignore_signal(_number: int, _frame: FrameType | None) -> None:
    """A handler for a signal that only has to interrupt."""
