"""tmux: find its servers, list their panes, open a worktree in a window, focus the pane of an agent."""

from __future__ import annotations

import os
import re
import socket
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from imi_monitor import host, programs
from imi_monitor.model.agent import Agent
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe
from imi_monitor.mux.pane import Pane, query_multiplexer, run_multiplexer

_LIST_TIMEOUT = 0.5  # seconds; tmux usually answers in 3 ms
_MOST_SERVERS = 4


class Listing:
    """The format of a list and its parser.

    A random text separates the fields: any program can set titles and folders with lines and tabs in them.
    """

    def __init__(self, *fields: str) -> None:
        self._mark = f"|{os.urandom(12).hex()}|"
        self._size = len(fields)
        self.format = self._mark + self._mark.join(f"#{{{field}}}" for field in fields)

    def parse(self, listed: str) -> Iterator[tuple[str, ...]]:
        """Yield the fields of each row."""
        values = [value.removesuffix("\n") for value in listed.split(self._mark)[1:]]
        return (tuple(values[row : row + self._size]) for row in range(0, len(values) - self._size + 1, self._size))


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
    listing = Listing("pane_id", "pane_pid", "pane_tty", "pane_title")
    # -u: without it tmux replaces what its locale lacks
    listed = query_multiplexer(["tmux", "-u", "-S", server, "list-panes", "-a", "-F", listing.format], env, timeout)
    if listed is None:
        return None
    rows = listing.parse(listed)
    return [Pane("tmux", pane, title, int(pid), tty) for pane, pid, tty, title in rows if pid.isdecimal()]


# -- open and focus -------------------------------------------------------------------------------------------------


def open_worktree(path: str, name: str, command: Sequence[str], *, layout: str) -> str:
    """Focus a pane that stands in the worktree, or open a new window; `command` always gets a new window.

    `layout` is a file of tmux commands, which run in a new window without a command.
    """
    pane = None if command else _find_pane(path)
    if pane is not None:
        focus_pane(pane)
        return f"{safe(name)}: the pane that is already open there"
    window = ("tmux", "new-window", "-P", "-F", "#{pane_id}", "-n", escape(tab_name(name)), "-c", escape(path))
    arranged = (";", "source-file", literal(layout)) if layout and not command else ()
    pane = run_multiplexer(*window, *map(literal, command), *arranged).split("\n")[0]
    if not command:
        run_multiplexer("tmux", "set-option", "-p", "-t", pane, "@imi", literal(path))
    return f"{safe(name)}: a new tmux window"


def focus_agent(agent: Agent) -> str | None:
    """Focus the agent's pane; None unless the pane exists and the agent runs in it.

    The check of the process is needed because another tmux server has panes with the same ids.
    """
    pane = re.search(r"%\d+$", agent.facts.tmux or "")
    if pane is None:
        return None
    leader = next((pid for name, pid in _list_panes("pane_id", "pane_pid") if name == pane[0]), "")
    if not leader.isdecimal() or not _runs_below(agent.pid, int(leader)):
        return None
    focus_pane(pane[0])
    return f"{safe(agent.name, 60)}: its own pane"


def tab_name(name: str) -> str:
    return safe(name, 40)


def list_tabs() -> list[tuple[str, str]]:
    """Return the (id, name) of each window of the server, those that are linked into several sessions once."""
    return list(dict.fromkeys((window, name) for window, name in _list_panes("window_id", "window_name")))


def rename_tab(window: str, name: str) -> None:
    run_multiplexer("tmux", "rename-window", "-t", window, "--", escape(name))


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
    panes = _list_panes("pane_id", "@imi", "pane_current_path")
    others = [pane for pane in panes if pane[0] != os.environ.get("TMUX_PANE")]
    real = os.path.realpath(path)
    opened = (pane for pane, worktree, _ in others if worktree == path)
    inside = (pane for pane, _, folder in others if folder and f"{os.path.realpath(folder)}/".startswith(f"{real}/"))
    return next(opened, None) or next(inside, None)


def _list_panes(*fields: str) -> list[tuple[str, ...]]:
    """Return these fields of every pane of the current server."""
    listing = Listing(*fields)
    return list(listing.parse(run_multiplexer("tmux", "-u", "list-panes", "-a", "-F", listing.format)))


def focus_pane(pane: str) -> None:
    window = run_multiplexer("tmux", "display-message", "-p", "-t", pane, "#{window_id}").strip()
    run_multiplexer("tmux", "select-window", "-t", window)
    run_multiplexer("tmux", "select-pane", "-t", pane)
    with suppress(Refused):  # a client that shows another session is switched; it fails when there is no client
        run_multiplexer("tmux", "switch-client", "-t", pane)


# -- a pane of any server -------------------------------------------------------------------------------------------


def start_window(server: str, session: str, title: str, path: str, command: Sequence[str]) -> None:
    """Run a command in a new window of a session; the window that is shown stays."""
    window = ("new-window", "-d", "-t", f"{session}:", "-n", escape(tab_name(title)), "-c", escape(path))
    run_multiplexer("tmux", "-S", server, *window, "--", *map(literal, command))


def attach_command(server: str, pane: str) -> list[str]:
    """Return the command that shows this pane in the terminal around it; Refused if the pane is gone."""
    run_multiplexer("tmux", "-S", server, "select-window", "-t", pane)
    run_multiplexer("tmux", "-S", server, "select-pane", "-t", pane)
    program = programs.find("tmux")
    return [program or "tmux", "-S", server, "attach-session", "-t", pane]


def paste(server: str, pane: str, text: str) -> None:
    """Paste a text as a terminal does, in brackets where the program asked for them."""
    buffer = f"imi-{os.getpid()}"
    run_multiplexer("tmux", "-S", server, "set-buffer", "-b", buffer, "--", literal(text))
    run_multiplexer("tmux", "-S", server, "paste-buffer", "-p", "-r", "-d", "-b", buffer, "-t", pane)


def press(server: str, pane: str, key: str) -> None:
    run_multiplexer("tmux", "-S", server, "send-keys", "-t", pane, key)


def read_screen(server: str, pane: str) -> str:
    """Return what the pane shows, as plain text."""
    return run_multiplexer("tmux", "-S", server, "capture-pane", "-p", "-t", pane)


def escape(text: str) -> str:
    """Escape tmux formats: `#(…)` in a window name or a start folder runs a shell command."""
    return literal(text.replace("#", "##"))


def literal(text: str) -> str:
    """Escape a semicolon at the end, which would make the next argument another tmux command."""
    return f"{text[:-1]}\\;" if text.endswith(";") else text
