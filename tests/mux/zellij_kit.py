"""A real Zellij session of a test's own, in a pty and on a private socket folder."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.limits import LIMIT
from tests.ui.pty_kit import Terminal

PROGRAM = os.environ.get("IMI_TEST_ZELLIJ") or shutil.which("zellij")
MISSING = PROGRAM is None
WHY = "there is no zellij on the PATH, and IMI_TEST_ZELLIJ names none"
_ANSWER = 10.0  # seconds for one answer; a server that just starts may never give it
_BAR = 'pane size=1 borderless=true {\n  plugin location="zellij:tab-bar"\n }'
_CONFIG = """
show_startup_tips false
show_release_notes false
session_serialization false
pane_frames false
default_shell "/bin/sh"
"""


class ZellijSession:
    """The environment of the test process says that it runs in the session's first pane."""

    def __init__(self, folder: Path, sockets: str, terminal: Terminal) -> None:
        self.folder, self.sockets, self.terminal = folder, sockets, terminal

    def ask(self, *words: str) -> str:
        """The answer of `zellij action`; it may be empty for a moment after a change, or never come at the start."""
        with suppress(subprocess.TimeoutExpired):
            argv = [str(PROGRAM), "--session", "one", "action", *words]
            return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=_ANSWER).stdout
        return ""

    def rows(self, *words: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []

        def listed() -> bool:
            answer = self.ask(*words, "--json")
            found[:] = json.loads(answer) if answer.strip() else []
            return bool(found)

        wait_until(listed)
        return found

    def panes(self) -> list[dict[str, Any]]:
        return [pane for pane in self.rows("list-panes", "--all") if not pane["is_plugin"]]

    def tab_names(self) -> list[str]:
        return [str(tab["name"]) for tab in self.rows("list-tabs")]

    def active_tab(self) -> str:
        return next((str(tab["name"]) for tab in self.rows("list-tabs") if tab["active"]), "")

    def screen(self, pane: int = 0) -> str:
        return self.ask("dump-screen", "--pane-id", f"terminal_{pane}")

    def kill_server(self) -> None:
        for pid in servers(self.sockets):
            os.kill(pid, signal.SIGKILL)

    def until(self, true: Callable[[], object]) -> None:
        wait_until(true, lambda: f"{self.screen()}\n{self.rows('list-tabs')}")


def wait_until(true: Callable[[], object], about: Callable[[], str] = str) -> None:
    end = time.monotonic() + LIMIT
    while not true():
        assert time.monotonic() < end, about()
        time.sleep(0.02)


def servers(sockets: str) -> list[int]:
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            if f"--server\0{sockets}/".encode() in Path("/proc", name, "cmdline").read_bytes():
                found.append(int(name))
    return found


@contextmanager
def zellij_session(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: Sequence[str] = (),
    *,
    layout: Path | None = None,
    size: tuple[int, int] = (140, 40),
) -> Iterator[ZellijSession]:
    """A session whose first pane is a shell, runs `command`, or is what the layout has, which needs a bar of tabs."""
    folder = tmp_path / "zellij"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "zellij").symlink_to(str(PROGRAM))
    config = Path.home() / ".config" / "zellij" / "config.kdl"  # one named in the environment would hide the layout
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(_CONFIG)
    if command:
        layout = folder / "layout.kdl"
        arguments = " ".join(json.dumps(word, ensure_ascii=False) for word in command[1:])
        pane = f"pane command={json.dumps(command[0])} {{\n  args {arguments}\n }}"
        template = f"new_tab_template {{\n {_BAR}\n pane\n}}"  # else each new tab runs the command too
        layout.write_text(f"layout {{\n {_BAR}\n {pane}\n {template}\n}}\n")
    with tempfile.TemporaryDirectory(prefix="imi-z-", dir="/tmp") as sockets:  # the path of a socket is short
        for name, value in (
            ("PATH", f"{folder / 'bin'}:{os.environ['PATH']}"),
            ("ZELLIJ_SOCKET_DIR", sockets),
            ("SHELL", "/bin/sh"),
            ("PS1", "$ "),
            ("ENV", ""),
        ):
            monkeypatch.setenv(name, value)
        words = ["--session", "one", *(("--new-session-with-layout", str(layout)) if layout else ())]
        with Terminal([str(PROGRAM), *words], cwd=tmp_path, size=size) as terminal:
            for name, value in (("ZELLIJ", "0"), ("ZELLIJ_SESSION_NAME", "one"), ("ZELLIJ_PANE_ID", "0")):
                monkeypatch.setenv(name, value)
            session = ZellijSession(folder, sockets, terminal)
            try:
                terminal.until(b"Tab #1")  # a question before it would start a server of its own
                wait_until(lambda: session.ask("list-panes", "--all").strip(), lambda: terminal.text[-2000:])
                yield session
            finally:
                for pid in servers(sockets):
                    os.kill(pid, signal.SIGTERM)
                _endservers(sockets)


def _endservers(sockets: str) -> None:
    end = time.monotonic() + 5
    while found := servers(sockets):
        if time.monotonic() > end:
            for pid in found:
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def touch(session: ZellijSession) -> None:
    """A person presses a key: from then on commands from outside move this client."""
    session.terminal.send(b"\r")
    wait_until(lambda: session.ask("current-tab-info", "--json").strip())
