"""A real tmux server and a fake Zellij for tests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import ROOT

RunTmux = Callable[..., str]


@contextmanager
def tmux_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunTmux]:
    """A tmux server of its own with one window; the environment says that imi runs in that window."""
    program = shutil.which("tmux")
    if program is None:
        pytest.skip("there is no tmux here")
    socket = tmp_path / "s"

    def ask(*argv: str) -> str:
        done = subprocess.run(
            [program, "-S", str(socket), "-f", "/dev/null", *argv], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    ask("new-session", "-d", "-s", "one", "-c", str(tmp_path), "-x", "80", "-y", "24")
    pid, pane = ask("display-message", "-p", "#{pid} #{pane_id}").split()
    monkeypatch.setenv("TMUX", f"{socket},{pid},0")
    monkeypatch.setenv("TMUX_PANE", pane)
    try:
        yield ask
    finally:
        with suppress(subprocess.CalledProcessError):  # a test has killed it
            ask("kill-server")


def pane_folders(tmux: RunTmux) -> list[str]:
    return tmux("list-panes", "-a", "-F", "#{pane_current_path}").splitlines()


def wait_for_pane(tmux: RunTmux, place: Path) -> None:
    """Wait until a pane stands in the folder: a new pane needs a moment to start its program there."""
    end = time.monotonic() + 20
    while str(place) not in pane_folders(tmux):
        assert time.monotonic() < end, pane_folders(tmux)
        time.sleep(0.05)


class FakeZellij:
    """A fake Zellij of a given version on the PATH; it refuses commands that this version does not have."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._file, self._patch = folder / "zellij.json", patch
        tool = folder / "bin" / "zellij"
        tool.parent.mkdir()
        tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{ROOT}/tests/mux/fake_zellij.py" "$@"\n')
        tool.chmod(0o755)
        patch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
        for name, value in (("ZELLIJ", "0"), ("ZELLIJ_PANE_ID", "0"), ("FAKE_ZELLIJ", str(self._file))):
            patch.setenv(name, value)
        own = {"id": 0, "is_plugin": False, "tab_id": 0, "pane_cwd": str(folder), "exited": False}
        bar = {"id": 0, "is_plugin": True, "tab_id": 0, "pane_cwd": None}
        self._write(told=[], tabs=[{"id": 0, "name": "Tab #1"}], panes=[own], tab=0, pane=0, bar=bar)

    def _write(self, **state: Any) -> None:
        self._file.write_text(json.dumps(state))

    @property
    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._file.read_text())
        return found

    def change(self, **fields: Any) -> None:
        self._write(**{**self.state, **fields})

    def version(self, number: str) -> None:
        self._patch.setenv("FAKE_ZELLIJ_VERSION", number)

    def commands(self) -> list[str]:
        return [" ".join(words[1:]) for words in self.state["told"]]
