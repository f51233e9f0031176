"""The terminal as it was found: its line settings remembered, every mode that a dashboard switches on switched off again.

No Textual in here: it must also work after Textual is gone, and for `imi reset-terminal`.
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

# The mouse in all its forms, focus reports, bracketed paste, resize reports, frames that wait for their end.
_MODES = (1000, 1001, 1002, 1003, 1005, 1006, 1015, 1016, 1004, 2004, 2048, 2026)
MODES_OFF = "".join(f"\x1b[?{mode}l" for mode in _MODES)
# Kitty's keys first: they are kept per screen. The cursor is saved, so that leaving an alternate screen that is not shown
# does not move it.
LEAVE = f"\x1b[<u{MODES_OFF}\x1b[?7h\x1b7\x1b[?1049l\x1b[?25h\x1b[0m"
# For a person whose terminal is broken: also the key flags, scroll region, character sets and colours of other programs.
RESET = f"{LEAVE}\x1b[=0;1u\x1b[!p\x1b[?7h\x1b(B\x0f\x1b[?1l\x1b>\x1b[?25h\x1b[0m\r\n"


class Kept:
    """What the terminal of a file descriptor was like; `restore` makes it so again, however often, whatever happened."""

    def __init__(self, fd: int | None = None) -> None:
        self.fd = terminal_fd() if fd is None else fd
        self.attributes = _attributes(self.fd)

    def restore(self, *, leave: bool) -> None:
        """Line settings, and the modes; `leave`: the alternate screen may still be shown."""
        if self.fd is None:
            return
        write(self.fd, LEAVE if leave else MODES_OFF)
        if self.attributes is not None and _attributes(self.fd) != self.attributes:
            _set(self.fd, self.attributes)


def terminal_fd() -> int | None:
    """Ours among the standard streams; None: there is none."""
    return next((fd for fd in (0, 2, 1) if _is_terminal(fd)), None)


def _is_terminal(fd: int) -> bool:
    try:
        return os.isatty(fd)
    except OSError:
        return False


def reset(fd: int) -> None:
    """Make a terminal usable whatever left it broken, as `stty sane` and `reset` do, but at once and without clearing it."""
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
    """Write without ever waiting: a terminal that nobody reads must not keep a process that wants to end."""
    with contextlib.suppress(OSError), _own(fd) as own:
        os.write(own, text.encode("ascii"))


@contextlib.contextmanager
def _own(fd: int) -> Iterator[int]:
    """A descriptor of our own for the same terminal: non-blocking on the shared one would also be so for the shell."""
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

    # in the background, setting them would stop us; the terminal is ours to give back all the same
    here = _main_thread()
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN) if here else None
    try:
        termios.tcsetattr(fd, termios.TCSANOW, attributes)
    except termios.error:
        pass  # the terminal is gone: there is nothing left to restore
    finally:
        if here:
            signal.signal(signal.SIGTTOU, before)


def _main_thread() -> bool:
    import threading

    return threading.current_thread() is threading.main_thread()
