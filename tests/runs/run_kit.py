"""Tools for the tests of runs: fake programs in PATH, a worktree, and waits for what a run does."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from imi_monitor import host
from imi_monitor.runs import launch_folder
from imi_monitor.runs.launch_folder import LaunchFolder
from tests.helpers import Ran, Repo, imi, wait_for

_PROGRAM = Path(__file__).with_name("fake_agent.py")


def install(folder: Path, *names: str) -> Path:
    """Put fake programs of these names into the folder."""
    folder.mkdir(exist_ok=True)
    for name in names:
        program = folder / name
        # under its name, by which imi finds it
        program.write_text(f'#!/bin/bash\nexec -a {name} {sys.executable} -I -S {_PROGRAM} {name} "$@"\n')
        program.chmod(0o755)
    return folder


@dataclass(frozen=True)
class RunWorld:
    """A repository with the worktree `feat-x`, in which the tests start agents."""

    repo: Repo
    tree: Repo

    def imi(self, *words: str, **more: Any) -> Ran:
        return imi(*words, **{"cwd": self.tree.path, **more})

    def start(self, prompt: str, program: str = "claude", *words: str) -> str:
        """Start an agent; returns the run's id."""
        ran = self.imi("start", program, "--prompt", prompt, *words, "--json")
        assert ran.code == 0, ran.out + ran.err
        return str(ran.data["id"])

    def run(self, ident: str) -> dict[str, Any]:
        found = [one for one in self.imi("runs", "-n", "1000", "--json").data["runs"] if one["id"] == ident]
        assert len(found) == 1
        row: dict[str, Any] = found[0]
        return row

    def wait(self, ident: str, *states: str) -> dict[str, Any]:
        """The run, once it is in one of these states."""
        found: list[dict[str, Any]] = []

        def is_there() -> bool:
            found[:] = [self.run(ident)]
            return found[0]["shown_state"] in states

        wait_for(is_there)
        return found[0]

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The data of the recorded events of this kind, oldest first."""
        with closing(sqlite3.connect(f"file:{registry()}?mode=ro", uri=True)) as connection:
            rows = connection.execute("SELECT data FROM events WHERE type = ? ORDER BY seq", (kind,)).fetchall()
        return [json.loads(row[0]) for row in rows]

    def folder(self, ident: str) -> LaunchFolder:
        return launch_folder.folder_of(ident)

    def sent(self, ident: str) -> list[dict[str, Any]]:
        return list(self.folder(ident).sent())

    def messages(self, ident: str) -> list[str]:
        """What the agent said, as the log has it."""
        entries = self.imi("logs", ident, "-n", "100000", "--json").out.splitlines()
        return [one["text"] for one in map(json.loads, entries) if one["kind"] == "message"]


def registry() -> str:
    return os.path.join(os.environ["HOME"], ".config", "iMi", "iMi.db")


def has_ended(pids: dict[int, str]) -> Callable[[], bool]:
    """A condition: none of these processes runs any more."""
    return lambda: not any(host.start_time(pid) == started for pid, started in pids.items())


def family(ident: str) -> dict[int, str]:
    """All processes of a run, by their environment."""
    return host.processes_by_variable("IMI_RUN_ID").get(ident, {})


def kill_followers(home: str | None = None) -> None:
    """Kill the followers of this test's registry, or of that of another HOME, as a crash would."""
    for pid in followers(home or os.environ["HOME"]):
        with suppress(ProcessLookupError):  # it ended meanwhile
            os.kill(pid, signal.SIGKILL)


def kill_runs(home: str) -> None:
    """End the followers and agents of this HOME."""
    kill_followers(home)
    for pids in host.processes_by_variable("IMI_RUN_DIR").values():
        for pid in pids:
            if f"HOME={home}".encode() in _environment(pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def followers(path: str | None = None) -> list[int]:
    """The followers of this test's registry, or of that of another HOME."""
    home = os.fsencode(f"HOME={path or os.environ['HOME']}")
    found = []
    for name in os.listdir("/proc"):
        try:
            words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
            if b"imi_monitor.runs.follower" in words and home in Path(f"/proc/{name}/environ").read_bytes().split(
                b"\0"
            ):
                found.append(int(name))
        except (OSError, ValueError):
            continue
    return found
