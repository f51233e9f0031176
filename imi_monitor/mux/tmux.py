"""tmux: find its servers, list their panes, open a worktree in a window, focus the pane of an agent."""

from __future__ import annotations

import os
import re
import socket
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress

from imi_monitor import host
from imi_monitor.model.agent import Agent
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe
from imi_monitor.mux.pane import Pane, query_multiplexer, run_multiplexer

_LIST_TIMEOUT = 0.5  # seconds; tmux usually answers in 3 ms
_MOST_SERVERS = 4
_PANE_FORMAT = "#{pane_id}\t#{pane_pid}\t#{pane_tty}\t#{pane_title}"


# -- list panes -----------------------------------------------------------------------------------------------------


def server_sockets(env: Mapping[str, str]) -> list[str]:
    """Return the sockets of this user's running servers, the current server first."""
    current = env.get("TMUX", "").split(",")[0]
    folder = os.path.join(env.get("TMUX_TMPDIR") or "/tmp", f"tmux-{os.getuid()}")
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        names = []
    found = dict.fromkeys([*([current] if current else []), *(os.path.join(folder, name) for name in names)])
    return [path for path in found if _accepts_connections(path)][:_MOST_SERVERS]


def _accepts_connections(path: str) -> bool:
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


def list_panes(server: str, env: Mapping[str, str], *, timeout: float = _LIST_TIMEOUT) -> Sequence[Pane] | None:
    """Return the panes of the server with this socket, or None when it does not answer in time."""
    listed = query_multiplexer(["tmux", "-u", "-S", server, "list-panes", "-a", "-F", _PANE_FORMAT], env, timeout)
    if listed is None:
        return None
    rows = (line.split("\t", 3) for line in listed.splitlines())
    return [Pane("tmux", row[0], row[3], int(row[1]), row[2]) for row in rows if len(row) == 4 and row[1].isdigit()]


# -- open and focus -------------------------------------------------------------------------------------------------


def open_worktree(path: str, name: str, command: Sequence[str]) -> str:
    """Focus a pane that stands in the worktree, or open a new window; `command` always gets a new window."""
    pane = None if command else _find_pane(path)
    if pane is not None:
        _focus_pane(pane)
        return f"{safe(name)}: the pane that is already open there"
    window = ("tmux", "new-window", "-P", "-F", "#{pane_id}", "-n", _escape(safe(name, 40)), "-c", _escape(path))
    pane = run_multiplexer(*window, *map(_literal, command)).strip()
    if not command:
        run_multiplexer("tmux", "set-option", "-p", "-t", pane, "@imi", _literal(path))
    return f"{safe(name)}: a new tmux window"


def focus_agent(agent: Agent) -> str | None:
    """Focus the agent's pane; None unless the pane exists and the agent runs in it.

    The check of the process is needed because another tmux server has panes with the same ids.
    """
    pane = re.search(r"%\d+$", agent.facts.tmux or "")
    if pane is None:
        return None
    listed = run_multiplexer("tmux", "list-panes", "-a", "-F", "#{pane_id} #{pane_pid}").splitlines()
    leader = dict(line.split(" ", 1) for line in listed if " " in line).get(pane[0], "")
    if not leader.isdigit() or not _runs_below(agent.pid, int(leader)):
        return None
    _focus_pane(pane[0])
    return f"{safe(agent.name, 60)}: its own pane"


def _runs_below(pid: int | None, leader: int) -> bool:
    """True if `pid` is `leader` or one of its descendants, or if that cannot be determined."""
    if pid is None or not (parent := host.parent_pid(pid)):
        return True
    ancestors = {pid}
    while parent > 1 and parent not in ancestors:
        ancestors.add(parent)
        parent = host.parent_pid(parent)
    return leader in ancestors


def _find_pane(path: str) -> str | None:
    """Return a pane that imi opened for the worktree, else one whose program stands in it; never imi's own pane."""
    lines = run_multiplexer("tmux", "list-panes", "-a", "-F", "#{pane_id}\t#{@imi}\t#{pane_current_path}").splitlines()
    panes = [line.split("\t") for line in lines if line.count("\t") == 2]
    others = [pane for pane in panes if pane[0] != os.environ.get("TMUX_PANE")]
    real = os.path.realpath(path)
    opened = (pane[0] for pane in others if pane[1] == path)
    inside = (pane[0] for pane in others if f"{os.path.realpath(pane[2])}/".startswith(f"{real}/") and pane[2])
    return next(opened, None) or next(inside, None)


def _focus_pane(pane: str) -> None:
    window = run_multiplexer("tmux", "display-message", "-p", "-t", pane, "#{window_id}").strip()
    run_multiplexer("tmux", "select-window", "-t", window)
    run_multiplexer("tmux", "select-pane", "-t", pane)
    with suppress(Refused):  # a client that shows another session is switched; it fails when there is no client
        run_multiplexer("tmux", "switch-client", "-t", pane)


def _escape(text: str) -> str:
    """Escape tmux formats: `#(…)` in a window name or a start folder runs a shell command."""
    return _literal(text.replace("#", "##"))


def _literal(text: str) -> str:
    """Escape a semicolon at the end, which would make the next argument another tmux command."""
    return f"{text[:-1]}\\;" if text.endswith(";") else text
