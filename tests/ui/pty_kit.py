"""A terminal of the tests' own: a program in a pty, what it wrote, the modes it left on, and its line settings."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.helpers import ROOT
from tests.limits import LIMIT

# Textual asks whether the terminal knows these; a modern one says yes, and then more is switched on.
_ANSWERS = {b"\x1b[?2026$p": b"\x1b[?2026;2$y", b"\x1b[?2048$p": b"\x1b[?2048;2$y"}
_MODE = re.compile(rb"\x1b\[\?([\d;]+)([hl])|\x1b\[>(\d+)u|\x1b\[<(\d*)u")
_ON_BY_DEFAULT = {7, 25}
FOCUS_OUT, FOCUS_IN = b"\x1b[O", b"\x1b[I"
ESCAPE = b"\x1b[27u"  # as the kitty protocol spells it: a plain one right before a letter would be one key with it


class Terminal:
    """`argv` runs in a session of its own, with this as its terminal. Use as a context manager: nothing stays behind."""

    def __init__(
        self, argv: Sequence[str], *, cwd: Path, size: tuple[int, int] = (100, 30), env: dict[str, str] | None = None
    ) -> None:
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self.before = termios.tcgetattr(self.slave)
        self.output = bytearray()
        self.mark = 0  # for tests: a place in the output
        self.started = time.perf_counter()
        self.arrivals: list[tuple[float, int]] = []  # (seconds since the start, bytes)
        surroundings = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        # what another terminal has left in the environment must not count
        surroundings |= {"COLUMNS": "33", "LINES": "7"}
        surroundings.pop("PYTHONDONTWRITEBYTECODE", None)  # compiling everything at each start takes twice the time
        self.process = subprocess.Popen(
            argv,
            cwd=cwd,
            env={**surroundings, **(env or {})},
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        self._over = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(LIMIT)
        self.close()

    def _read(self) -> None:
        while not self._over.is_set():
            master = self.master
            try:
                if master < 0 or not select.select([master], [], [], 0.1)[0]:
                    continue
                data = os.read(master, 1 << 16)
            except (OSError, ValueError):
                return
            self.arrivals.append((time.perf_counter() - self.started, len(data)))
            self.output += data
            for question, answer in _ANSWERS.items():
                if question in data:
                    os.write(master, answer)

    # -- acting -----------------------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        os.write(self.master, data)

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def stop_reading(self) -> None:
        """Read no more of what is painted, as a stalled connection does."""
        self._over.set()
        self._reader.join(10)

    def close(self) -> None:
        """Close the pane: both ends that we hold."""
        self.stop_reading()
        for fd in (self.slave, self.master):
            with contextlib.suppress(OSError):
                os.close(fd)

    # -- seeing -----------------------------------------------------------------------------------------------------

    def until(self, wanted: bytes | Callable[[], object], seconds: float = LIMIT) -> None:
        end = time.monotonic() + seconds
        while not (wanted in self.output if isinstance(wanted, bytes) else wanted()):
            if time.monotonic() > end:
                raise AssertionError(f"{wanted!r} did not happen; it wrote: {bytes(self.output[-9000:])!r}")
            time.sleep(0.01)

    def ended(self, seconds: float = LIMIT) -> int:
        """Its exit status, when everything that it wrote was read."""
        status = self.process.wait(seconds)
        size = -1
        while size != len(self.output):
            size = len(self.output)
            time.sleep(0.1)
        return status

    @property
    def text(self) -> str:
        return self.output.decode("utf-8", "replace")

    def after_screen(self) -> str:
        """What was written after the alternate screen was left, without what steers the terminal.

        A program that ends at once leaves this terminal's answers to the line, which echoes them.
        """
        tail = bytes(self.output).rpartition(b"\x1b[?1049l")[2]
        for answer in _ANSWERS.values():
            tail = tail.replace(answer.replace(b"\x1b", b"^["), b"")
        return re.sub(rb"\x1b\[[<>=?]?[\d;]*[a-zA-Z]|\x1b[78]", b"", tail).decode("utf-8", "replace").strip()

    def modes_left(self) -> set[str]:
        """The modes that are not as a terminal has them by itself."""
        return modes_left(bytes(self.output))

    def line_settings_kept(self) -> bool:
        return termios.tcgetattr(self.slave) == self.before


def modes_left(output: bytes) -> set[str]:
    on: dict[int, bool] = {}
    keys = 0
    for numbers, letter, pushed, popped in _MODE.findall(output):
        for number in filter(None, numbers.split(b";")):
            on[int(number)] = letter == b"h"
        keys = keys + 1 if pushed else keys
        if not numbers and not pushed:
            keys = max(0, keys - int(popped or b"1"))
    left = {f"?{mode}" for mode, is_on in on.items() if is_on != (mode in _ON_BY_DEFAULT)}
    return left | ({"kitty keys"} if keys else set())


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def imi(*words: str) -> list[str]:
    return [sys.executable, "-m", "imi_monitor", *words]


def patched(code: str, *words: str) -> list[str]:
    """`imi WORDS` with some of its code replaced first."""
    program = f"import sys\n{code}\nfrom imi_monitor.cli.command_runner import main\nsys.exit(main({list(words)!r}))"
    return [sys.executable, "-c", program]


def attributes(fd: int) -> list[Any]:
    return termios.tcgetattr(fd)
