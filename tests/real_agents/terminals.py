"""Terminals in a tmux server of their own, in which the real programs run."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

_IN_SUCCESSION = 0.2  # seconds between two keys that belong together
_TYPING = 0.5  # seconds between a text and its Enter: the programs take faster input for a paste


class TmuxServer:
    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self._socket = str(folder / "default")
        self._env = dict(env)
        self._terminals: list[Terminal] = []

    def run(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", self._socket, *words], env=self._env, capture_output=True, text=True, timeout=30, check=True
        )
        return done.stdout

    def open(self, cwd: Path, argv: Sequence[str], env: Mapping[str, str]) -> Terminal:
        given = [word for name, value in env.items() for word in ("-e", f"{name}={value}")]
        new = [
            "new-session",
            "-d",
            "-x",
            "140",
            "-y",
            "50",
            "-P",
            "-F",
            "#{pane_id} #{pane_pid}",
            "-c",
            str(cwd),
            *given,
        ]
        pane, pid = self.run(*new, shlex.join(argv)).split()
        self._terminals.append(Terminal(self, pane, int(pid)))
        return self._terminals[-1]

    def kill_all(self) -> None:
        for terminal in self._terminals:
            terminal.kill()

    def close(self) -> None:
        with suppress(subprocess.CalledProcessError):
            self.run("kill-server")


class Terminal:
    def __init__(self, server: TmuxServer, pane: str, pid: int) -> None:
        self._server = server
        self.pane = pane
        self.pid = pid

    def screen(self) -> str:
        try:
            return self._server.run("capture-pane", "-p", "-t", self.pane)
        except subprocess.CalledProcessError:
            return ""

    def keys(self, *names: str) -> None:
        """Each name is a key of tmux, several keys in quick succession, or a text to type."""
        for name in names:
            for key in name.split():
                self._server.run("send-keys", "-t", self.pane, key)
                time.sleep(_IN_SUCCESSION)
            time.sleep(_TYPING)

    def type(self, text: str) -> None:
        self._server.run("send-keys", "-t", self.pane, "-l", text)
        time.sleep(_TYPING)
        self.keys("Enter")

    def wait(self, pattern: str, seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while not re.search(pattern, self.screen(), re.MULTILINE):
            if time.monotonic() > end:
                raise TimeoutError(f"no {pattern!r} on this screen:\n{self.screen()}")
            time.sleep(0.1)

    def shows(self, pattern: str) -> bool:
        return re.search(pattern, self.screen(), re.MULTILINE) is not None

    def processes(self) -> list[int]:
        try:
            return [self.pid, *(one.pid for one in psutil.Process(self.pid).children(recursive=True))]
        except psutil.NoSuchProcess:
            return []

    def runs(self, name: str) -> bool:
        """True if a process whose name begins like this runs in it."""
        found = []
        for pid in self.processes():
            with suppress(psutil.NoSuchProcess):
                found.append(psutil.Process(pid).name())
        return any(one.startswith(name) for one in found)

    def kill(self) -> None:
        """SIGKILL to everything in it."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def ended(self) -> bool:
        return not psutil.pid_exists(self.pid)


@contextmanager
def tmux_server(folder: Path, env: Mapping[str, str]) -> Iterator[TmuxServer]:
    server = TmuxServer(folder, env)
    try:
        yield server
    finally:
        server.close()
