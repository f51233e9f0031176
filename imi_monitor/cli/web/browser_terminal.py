"""A dashboard in a pseudo-terminal, for a viewer in a browser. It outlives a cut of the viewer's connection."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import signal
import struct
import termios
from collections.abc import Mapping, Sequence

from imi_monitor.terminal import IN_BROWSER

_READ = 1 << 16
_MOST_UNREAD = 1 << 20  # bytes of input that the dashboard has not read
_COLUMNS, _ROWS = (20, 500), (5, 300)
# what another terminal has left, and what would open windows that the viewer does not see
_FOREIGN = ("TMUX", "TMUX_PANE", "STY", "COLUMNS", "LINES", "BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "NO_COLOR")
_FOREIGN_PREFIXES = ("ZELLIJ", "TERM_PROGRAM", "KITTY_", "WEZTERM_")


class BrowserTerminal:
    """Use `start`; `end` always follows."""

    def __init__(self, process: asyncio.subprocess.Process, master: int) -> None:
        self.process = process
        self.master = master
        self._output = asyncio.StreamReader(limit=_READ)
        self._input: asyncio.WriteTransport | None = None
        self._reading: asyncio.ReadTransport | None = None

    @classmethod
    async def start(cls, argv: Sequence[str], width: int, height: int) -> BrowserTerminal:
        """Start a program with a terminal of its own; OSError if the system refuses."""
        master, slave = pty.openpty()
        try:
            _set_size(master, width, height)
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=slave,
                stdout=slave,
                stderr=slave,
                env=environment(os.environ),
                start_new_session=True,
                preexec_fn=_take_terminal,
            )
        except OSError:
            os.close(master)
            raise
        finally:
            os.close(slave)
        terminal = cls(process, master)
        await terminal._open_streams()
        return terminal

    async def _open_streams(self) -> None:
        loop = asyncio.get_running_loop()
        protocol = asyncio.StreamReaderProtocol(self._output)
        self._reading, _ = await loop.connect_read_pipe(lambda: protocol, os.fdopen(os.dup(self.master), "rb", 0))
        self._input, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(os.dup(self.master), "wb", 0))

    async def read(self) -> bytes:
        """Return what the program wrote; empty after its end."""
        try:
            return await self._output.read(_READ)
        except OSError:  # the last process has closed the terminal
            return b""

    def write(self, data: bytes) -> None:
        """Type into the terminal; what a program that reads nothing cannot take is lost."""
        if self._input is not None and self._input.get_write_buffer_size() + len(data) <= _MOST_UNREAD:
            self._input.write(data)

    def resize(self, width: int, height: int) -> None:
        _set_size(self.master, width, height)

    def repaint(self) -> None:
        """Have the dashboard switch all modes on again and paint everything, for a terminal that knows nothing yet."""
        self._signal(signal.SIGCONT)

    async def end(self, seconds: float) -> None:
        """End the program and its group, by force after so many seconds; returns when it is gone."""
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(seconds):
                await self.process.wait()
        except TimeoutError:
            self._signal(signal.SIGKILL)
            await self.process.wait()
        for stream in (self._reading, self._input):
            if stream is not None:
                stream.close()
        os.close(self.master)
        await asyncio.sleep(0)  # the streams close their files in the next round

    def _signal(self, number: int) -> None:
        if self.process.returncode is None:
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                return  # it has just ended


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """The environment of a dashboard whose terminal is xterm.js in a browser."""
    kept = {
        name: value for name, value in env.items() if name not in _FOREIGN and not name.startswith(_FOREIGN_PREFIXES)
    }
    charset = next((kept[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if kept.get(name)), "")
    if "utf" not in charset.lower():
        kept["LC_ALL"] = "C.UTF-8"
    return kept | {"TERM": "xterm-256color", "COLORTERM": "truecolor", IN_BROWSER: "1"}


def _set_size(master: int, width: int, height: int) -> None:
    columns = min(max(width, _COLUMNS[0]), _COLUMNS[1])
    rows = min(max(height, _ROWS[0]), _ROWS[1])
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
