"""The dashboard in a pane of a real Zellij: what it gets from the terminal, and what of it reaches the terminal."""

from __future__ import annotations

import base64
import fcntl
import os
import re
import signal
import struct
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.mux.zellij_kit import MISSING, WHY, ZellijSession, zellij_session
from tests.ui.pty_kit import FOCUS_IN, FOCUS_OUT

pytestmark = pytest.mark.skipif(MISSING, reason=WHY)


@contextmanager
def dashboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *worlds: str) -> Iterator[ZellijSession]:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    command = [sys.executable, "-m", "tests.ui.dashboard_process", *(worlds or ("busy", "taken_over"))]
    with zellij_session(tmp_path, monkeypatch, command) as session:
        session.until(lambda: "feat-api" in session.screen() and "Help" in session.screen())
        yield session


def next_world(tmp_path: Path) -> None:
    """The second snapshot: gemini-2 dies in feat-ui, and codex-2 takes feat-api over."""
    os.kill(dashboard_pid(tmp_path), signal.SIGUSR1)


def dashboard_pid(tmp_path: Path) -> int:
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            command = Path("/proc", name, "cmdline").read_bytes()
            if b"tests.ui.dashboard_process" in command and Path("/proc", name, "cwd").resolve() == tmp_path:
                return int(name)
    raise AssertionError("the dashboard does not run")


def test_notifications_and_copies_reach_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with dashboard(tmp_path, monkeypatch) as zellij:
        terminal = zellij.terminal
        before = zellij.screen()
        terminal.send(FOCUS_OUT)
        seen = len(terminal.output)
        terminal.until(lambda: len(terminal.output) > seen)  # the cursor's row is painted without focus
        terminal.mark = len(terminal.output)
        next_world(tmp_path)
        terminal.until(b"\x1b]9;imi: claude-1 lost feat-api to codex-2")
        terminal.until(lambda: re.search(rb"\x1b\][02];[^\x07\x1b]*claude-1 lost feat-api", bytes(terminal.output)))
        assert b"\a" in terminal.output[terminal.mark :]
        assert zellij.screen() != before
        terminal.send(FOCUS_IN)
        terminal.send(b"y")
        zellij.until(lambda: "Copy from" in zellij.screen())
        terminal.send(b"n")
        zellij.until(lambda: "copied: " in zellij.screen())
        name = str(re.search(r"copied: (\S+)", zellij.screen())[1])  # type: ignore[index]
        terminal.until(b"\x1b]52;c;" + base64.b64encode(name.encode()))


def test_the_mouse_selects_and_a_new_size_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with dashboard(tmp_path, monkeypatch) as zellij:
        zellij.until(lambda: "devops-ci  " in zellij.screen())
        lines = zellij.screen().splitlines()
        row = next(number for number, line in enumerate(lines) if "devops-ci  " in line)
        at = b"%d;%d" % (10, row + 2)  # the bar of tabs is the first line, and lines count from one
        zellij.terminal.send(b"\x1b[<0;" + at + b"M\x1b[<0;" + at + b"m")
        zellij.until(lambda: "Git · devops-ci" in zellij.screen())
        fcntl.ioctl(zellij.terminal.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 60, 0, 0))
        zellij.terminal.signal(signal.SIGWINCH)
        zellij.until(lambda: "feat-api (claude-1)" in zellij.screen())  # as 60 columns show it


def test_tabs_show_the_states_until_the_dashboard_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with dashboard(tmp_path, monkeypatch, "at_work", "asking") as zellij:
        for name in ("fix-bug", "feat-api"):
            zellij.ask("new-tab", "--no-focus", "--name", name, "--cwd", "/")
        next_world(tmp_path)
        zellij.until(lambda: zellij.tab_names() == ["Tab #1", "◆ fix-bug", "✓ feat-api"])
        zellij.terminal.send(b"q")
        zellij.until(lambda: zellij.tab_names() == ["Tab #1", "fix-bug", "feat-api"])
