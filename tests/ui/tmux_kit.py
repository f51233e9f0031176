"""A tmux server of a test's own: a window of a given size, keys into it, its screen as text."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from imi_monitor import host
from tests.helpers import ROOT
from tests.limits import LIMIT

MISSING = shutil.which("tmux") is None


class Tmux:
    """Use as a context manager: its server ends with it, and everything in it."""

    def __init__(self, folder: Path, size: tuple[int, int], command: list[str]) -> None:
        self._socket = f"imi-test-{uuid.uuid4().hex[:12]}"
        width, height = map(str, size)
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "TERM": "xterm-256color",
            "PS1": "$ ",
            "ENV": "",
            "SHELL": "/bin/sh",
        }
        self._environment = environment
        # a shell in between, so that what it shows after the dashboard's end can be seen, too
        self._run("-f", "/dev/null", "new-session", "-d", "-x", width, "-y", height, "-c", str(folder), "/bin/sh")
        self._server = int(self._run("display-message", "-p", "#{pid}"))
        self._run("set-option", "-g", "status", "off")
        self._run("resize-window", "-x", width, "-y", height)
        self.keys(f"{shlex.join(command)}; echo ended with $?", "Enter")

    def __enter__(self) -> Tmux:
        return self

    def __exit__(self, *_: object) -> None:
        self._run("kill-server", check=False)
        end = time.monotonic() + LIMIT
        while host.start_time(self._server) is not None:
            if time.monotonic() > end:
                os.kill(self._server, signal.SIGKILL)
            time.sleep(0.02)
        socket = Path(os.environ.get("TMUX_TMPDIR", "/tmp"), f"tmux-{os.getuid()}", self._socket)
        socket.unlink(missing_ok=True)

    def _run(self, *words: str, check: bool = True) -> str:
        done = subprocess.run(
            ["tmux", "-L", self._socket, *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT,
            env=self._environment,
        )
        assert not check or done.returncode == 0, (words, done.stderr)
        return done.stdout

    def keys(self, *names: str) -> None:
        """Key names of tmux, or texts."""
        for name in names:
            self._run("send-keys", *(["--", name] if len(name) == 1 or " " in name else [name]))

    def text(self, text: str) -> None:
        self._run("send-keys", "-l", "--", text)

    def program(self) -> str:
        """The program in the foreground, as tmux sees it."""
        return self._run("display-message", "-p", "#{pane_current_command}").strip()

    def screen(self) -> str:
        return self._run("capture-pane", "-p")

    def shown(self, name: str) -> bool:
        return self.value(name) not in ("", "0")

    def value(self, name: str) -> str:
        """A format variable of the current window."""
        return self._run("display-message", "-p", f"#{{{name}}}").strip()

    def select_first_window(self) -> None:
        self._run("select-window", "-t", "{start}")

    def until(self, true: str | Callable[[str], object], seconds: float = LIMIT) -> str:
        """The screen, as soon as a text (or a condition) is on it."""
        end = time.monotonic() + seconds
        while True:
            now = self.screen()
            if true in now if isinstance(true, str) else true(now):
                return now
            assert time.monotonic() < end, f"{true!r} is not on the screen:\n{now}"
            time.sleep(0.05)

    def asked(self) -> None:
        """A dialog is open."""
        self.until("Cancel")

    def rest(self) -> None:
        """Until nothing moves any more."""
        before = self.screen()
        while (now := (time.sleep(0.4), self.screen())[1]) != before:
            before = now


def imi(*words: str) -> list[str]:
    return [sys.executable, "-m", "imi_monitor", *words]
