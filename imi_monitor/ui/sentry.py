"""Who restores the terminal when nothing of ours can: after SIGKILL, a crash of the interpreter, `os._exit`.

A small shell in a session of its own holds one end of a pipe and the terminal. The kernel closes our end however we die; a
word before that tells it that all is in order. Line settings are only touched while they still are those of the dead
program (keys that send signals are off): by then the person's shell may have made its own.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from typing import Any

from imi_monitor.terminal import LEAVE, Kept

AFTER = 0.3  # seconds: the first picture does not wait for it
_IN_ORDER = b"in order\n"
_SCRIPT = """
trap '' HUP INT TERM QUIT TSTP TTOU TTIN
read -r word && exit
exec <&1
case "$(stty -a)" in *-isig*) stty $0 ;; esac
printf %b "$1"
"""


class Sentry:
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
