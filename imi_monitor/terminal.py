"""Saves the state of the terminal and restores it: its line settings, and the modes that a dashboard switches on.

It does not use Textual: it also runs after Textual has failed, and for `imi reset-terminal`.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Attributes = list[Any]

IN_BROWSER = "IMI_BROWSER"  # the variable that says that the terminal is a page of `imi web`

# Mouse reports in all forms, focus reports, bracketed paste, resize reports, synchronised output.
_MODES = (1000, 1001, 1002, 1003, 1005, 1006, 1015, 1016, 1004, 2004, 2048, 2026)
MODES_OFF = "".join(f"\x1b[?{mode}l" for mode in _MODES)
# The Kitty key protocol first: it is a setting of each screen. The cursor is saved, because leaving the alternate screen
# moves it even if that screen is not shown.
LEAVE = f"\x1b[<u{MODES_OFF}\x1b[?7h\x1b7\x1b[?1049l\x1b[?25h\x1b[0m"
# Also resets key flags, scroll region, character sets and colours that other programs may have left.
RESET = f"{LEAVE}\x1b[=0;1u\x1b[!p\x1b[?7h\x1b(B\x0f\x1b[?1l\x1b>\x1b[?25h\x1b[0m\r\n"


class TerminalState:
    """The state of a terminal; `restore` can be called more than once."""

    def __init__(self, fd: int | None = None) -> None:
        self.fd = terminal_fd() if fd is None else fd
        self.attributes = _attributes(self.fd)

    def restore(self, *, leave: bool) -> None:
        """Restore line settings and modes; with `leave` also leave the alternate screen."""
        if self.fd is None:
            return
        write(self.fd, LEAVE if leave else MODES_OFF)
        if self.attributes is not None and _attributes(self.fd) != self.attributes:
            _set(self.fd, self.attributes)


def terminal_fd() -> int | None:
    """Return the first standard stream that is a terminal; None without one."""
    return next((fd for fd in (0, 2, 1) if _is_terminal(fd)), None)


def _is_terminal(fd: int) -> bool:
    try:
        return os.isatty(fd)
    except OSError:
        return False


def reset(fd: int) -> None:
    """Make a broken terminal usable, as `stty sane` and `reset` do, but at once and without clearing it."""
    attributes = _attributes(fd)
    if attributes is not None:
        _set(fd, _sane(attributes))
    write(fd, RESET)


def _sane(attributes: Attributes) -> Attributes:
    import termios as t

    iflag, oflag, cflag, lflag, ispeed, ospeed, cc = attributes
    iflag = (iflag | t.BRKINT | t.ICRNL | t.IXON | t.IMAXBEL) & ~(t.INLCR | t.IGNCR | t.IXOFF | t.IGNBRK | t.ISTRIP)
    oflag |= t.OPOST | t.ONLCR
    lflag = lflag | t.ISIG | t.ICANON | t.IEXTEN | t.ECHO | t.ECHOE | t.ECHOK | t.ECHOCTL | t.ECHOKE
    lflag &= ~(t.ECHONL | t.NOFLSH | t.TOSTOP)
    cc = list(cc)
    cc[t.VMIN], cc[t.VTIME] = b"\x01", b"\x00"
    return [iflag, oflag, cflag | t.CREAD, lflag, ispeed, ospeed, cc]


def write(fd: int, text: str) -> None:
    """Write without blocking: a stalled terminal must not keep the process from ending."""
    with contextlib.suppress(OSError), _open_again(fd) as own:
        os.write(own, text.encode("ascii"))


@contextlib.contextmanager
def _open_again(fd: int) -> Iterator[int]:
    """Open the same terminal anew: a non-blocking mode of the shared descriptor would also apply to the shell."""
    own = os.open(os.ttyname(fd), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        yield own
    finally:
        os.close(own)


def _attributes(fd: int | None) -> Attributes | None:
    if fd is None or sys.platform == "win32":
        return None
    import termios

    try:
        return termios.tcgetattr(fd)
    except termios.error:
        return None


def _set(fd: int, attributes: Attributes) -> None:
    import signal
    import termios
    import threading

    # a background process that sets them is stopped by SIGTTOU
    in_main_thread = threading.current_thread() is threading.main_thread()  # only there a handler can be set
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN) if in_main_thread else None
    try:
        termios.tcsetattr(fd, termios.TCSANOW, attributes)
    except termios.error:
        pass  # the terminal is gone
    finally:
        if in_main_thread:
            signal.signal(signal.SIGTTOU, before)
