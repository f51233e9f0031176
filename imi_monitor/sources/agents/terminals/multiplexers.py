"""tmux and Zellij asked for their panes: bounded in time and in words, and not at all where there are none."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import stat
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from imi_monitor.sources.agents.base import AgentProcess

_TIMEOUT: Final = 0.5  # for tmux, which answers in 3 ms
_ZELLIJ_TIMEOUT: Final = 1.5
_MOST_BYTES: Final = 1 << 20
_MOST_SERVERS: Final = 4
_FORMAT: Final = "#{pane_id}\t#{pane_pid}\t#{pane_tty}\t#{pane_title}"
_FIRST_WITH_PANES: Final = (0, 44)


@dataclass(frozen=True, slots=True)
class Pane:
    kind: str  # tmux, zellij
    name: str  # %3; session:3
    title: str
    pid: int | None = None  # of what was started in it
    tty: str | None = None
    pids: frozenset[int] = frozenset()  # agents that say themselves that they are in it


Ask = Callable[[], Sequence[Pane] | None]


# -- tmux -------------------------------------------------------------------------------------------------------------


def tmux_sockets(env: Mapping[str, str]) -> list[str]:
    """Servers of this user that live: the one around us first. A socket whose server is gone is no server."""
    around = env.get("TMUX", "").split(",")[0]
    folder = os.path.join(env.get("TMUX_TMPDIR") or "/tmp", f"tmux-{os.getuid()}")
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        names = []
    found = dict.fromkeys([*([around] if around else []), *(os.path.join(folder, name) for name in names)])
    return [path for path in found if _answers(path)][:_MOST_SERVERS]


def _answers(path: str) -> bool:
    try:
        info = os.stat(path)
        if not stat.S_ISSOCK(info.st_mode) or info.st_uid != os.getuid():
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            probe.connect(path)
    except (OSError, ValueError):
        return False
    return True


def tmux_panes(path: str, env: Mapping[str, str]) -> Sequence[Pane] | None:
    """None: it gave no answer in time, or an error."""
    program = shutil.which("tmux", path=env.get("PATH"))
    said = _said([program, "-u", "-S", path, "list-panes", "-a", "-F", _FORMAT], env, _TIMEOUT) if program else None
    if said is None:
        return None
    rows = (line.split("\t", 3) for line in said.splitlines())
    return [Pane("tmux", row[0], row[3], int(row[1]), row[2]) for row in rows if len(row) == 4 and row[1].isdigit()]


# -- Zellij -----------------------------------------------------------------------------------------------------------


class Zellij:
    """It lists panes since 0.44 and tells no processes: an agent's own environment says which pane it is in."""

    def __init__(self) -> None:
        self._lists: bool | None = None
        self._places: dict[tuple[int, str], str | None] = {}  # (pid, started) -> session:pane

    def panes(self, env: Mapping[str, str], agents: Sequence[AgentProcess]) -> Sequence[Pane] | None:
        session = env.get("ZELLIJ_SESSION_NAME", "")
        keys = {(one.pid, one.started): one for one in agents}
        self._places = {key: place for key, place in self._places.items() if key in keys}
        inside: dict[str, set[int]] = {}
        for key in keys:
            if key not in self._places:
                self._places[key] = _place_of(key[0])
            place = self._places[key]
            if place is not None and place.startswith(f"{session}:"):
                inside.setdefault(place, set()).add(key[0])
        if not inside:  # nobody to be asked about
            return []
        titles = self._titles(env)
        return (
            None
            if titles is None
            else [
                Pane("zellij", place, titles.get(place.rpartition(":")[2], ""), pids=frozenset(pids))
                for place, pids in inside.items()
            ]
        )

    def _titles(self, env: Mapping[str, str]) -> dict[str, str] | None:
        program = shutil.which("zellij", path=env.get("PATH"))
        if program is None:
            return None
        if self._lists is None:
            version = re.match(r"zellij (\d+)\.(\d+)", _said([program, "--version"], env, _ZELLIJ_TIMEOUT) or "")
            self._lists = version is not None and (int(version[1]), int(version[2])) >= _FIRST_WITH_PANES
        if not self._lists:
            return {}
        said = _said([program, "action", "list-panes", "--all", "--json"], env, _ZELLIJ_TIMEOUT)
        return None if said is None else _zellij_titles(said)


def _zellij_titles(said: str) -> dict[str, str]:
    try:
        rows = json.loads(said)
    except (ValueError, RecursionError):
        return {}
    found = {}
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and not row.get("is_plugin") and isinstance(row.get("title"), str):
            found[str(row.get("id")).removeprefix("terminal_")] = row["title"]
    return found


def _place_of(pid: int) -> str | None:
    """Where an agent says it is; only Linux lets us look, and only at our own processes."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            entries = file.read(_MOST_BYTES).split(b"\0")
    except OSError:
        return None
    env = dict(entry.decode("utf-8", "replace").partition("=")[::2] for entry in entries if entry.startswith(b"ZELLIJ"))
    session, pane = env.get("ZELLIJ_SESSION_NAME"), env.get("ZELLIJ_PANE_ID")
    return f"{session}:{pane}" if session and pane else None


# -- both -------------------------------------------------------------------------------------------------------------


def _said(argv: Sequence[str], env: Mapping[str, str], timeout: float) -> str | None:
    """What it prints; None when it fails or takes too long."""
    try:
        done = subprocess.run(
            argv, capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL, check=False, env=dict(env)
        )
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    return done.stdout[:_MOST_BYTES].decode("utf-8", "replace") if done.returncode == 0 else None
