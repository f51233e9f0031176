"""A session of tmux: capture its windows and panes, and build them again with the same folders and geometry.

A command is typed into its pane and waits for Enter: no program is started.
"""

from __future__ import annotations

import os
import shlex

from imi_monitor import host, programs
from imi_monitor.model import terminal_layout
from imi_monitor.model.errors import Refused
from imi_monitor.model.terminal_layout import LayoutPane, LayoutTab, TerminalLayout
from imi_monitor.model.text import safe
from imi_monitor.mux import tmux
from imi_monitor.mux.pane import run_multiplexer

KIND = "tmux"
_FIELDS = (
    "session_name",
    "window_id",
    "window_name",
    "window_layout",
    "window_active",
    "pane_id",
    "pane_active",
    "pane_current_path",
    "pane_current_command",
    "pane_pid",
    "pane_title",
)
_SHELLS = frozenset(("sh", "bash", "zsh", "fish", "dash", "ksh", "nu"))


def capture(server: str, pane: str, *, commands: bool) -> TerminalLayout:
    """The windows of the session that this pane is in; with `commands` the command lines of their programs, redacted."""
    listing = tmux.Listing(*_FIELDS)
    session = run_multiplexer("tmux", "-S", server, "display-message", "-p", "-t", pane, "#{session_id}").strip()
    listed = run_multiplexer("tmux", "-u", "-S", server, "list-panes", "-s", "-t", session, "-F", listing.format)
    windows: dict[str, list[dict[str, str]]] = {}
    for values in listing.parse(listed):
        row = dict(zip(_FIELDS, values, strict=True))
        windows.setdefault(row["window_id"], []).append(row)
    tabs = [
        LayoutTab(
            rows[0]["window_name"],
            rows[0]["window_active"] == "1",
            tuple(_pane(row, commands) for row in rows[: terminal_layout.MOST_PANES]),
            rows[0]["window_layout"],
        )
        for rows in windows.values()
    ]
    name = next((rows[0]["session_name"] for rows in windows.values()), "")
    return TerminalLayout(KIND, name, tuple(tabs[: terminal_layout.MOST_TABS]))


def rebuild(layout: TerminalLayout, server: str, pane: str) -> list[str]:
    """Add the windows to the session of this pane; returns what could not be done. Folders that are gone are named."""
    session = run_multiplexer("tmux", "-S", server, "display-message", "-p", "-t", pane, "#{session_id}").strip()
    problems: list[str] = []
    for tab in layout.tabs:
        if tab.panes:
            problems += _rebuild_window(tab, server, session)
    return problems


def _rebuild_window(tab: LayoutTab, server: str, session: str) -> list[str]:
    problems: list[str] = []

    def run(*words: str) -> str:
        return run_multiplexer("tmux", "-S", server, *words).strip()

    def folder(one: LayoutPane) -> tuple[str, ...]:
        if os.path.isdir(one.folder):
            return ("-c", tmux.escape(one.folder))
        problems.append(f"the folder {safe(one.folder, 300)} does not exist any more")
        return ()

    first = tab.panes[0]
    made = run(
        "new-window",
        "-d",
        "-P",
        "-F",
        "#{window_id} #{pane_id}",
        "-t",
        f"{session}:",
        "-n",
        tmux.escape(tmux.tab_name(tab.name)),
        *folder(first),
    )
    window, pane = made.split()
    panes = [pane]
    for one in tab.panes[1:]:
        try:
            panes.append(run("split-window", "-d", "-P", "-F", "#{pane_id}", "-t", panes[-1], *folder(one)))
        except Refused:
            problems.append(f"there is no room for all panes of {safe(tab.name, 60)}")
            break
        run("select-layout", "-t", window, "tiled")  # makes room for the next one
    try:
        run("select-layout", "-t", window, tab.arrangement)
    except Refused:
        problems.append(f"the panes of {safe(tab.name, 60)} have another arrangement")
    for ident, one in zip(panes, tab.panes, strict=False):
        if terminal_layout.is_typeable(one.command):
            run("send-keys", "-t", ident, "-l", "--", tmux.literal(one.command))
        if one.focused:
            run("select-pane", "-t", ident)
    if tab.active:
        run("select-window", "-t", window)
    return problems


def _pane(row: dict[str, str], commands: bool) -> LayoutPane:
    program = row["pane_current_command"]
    shell = program.lstrip("-") in _SHELLS
    line = "" if shell or not row["pane_pid"].isdecimal() else _foreground_line(int(row["pane_pid"]))
    return LayoutPane(
        row["pane_current_path"],
        "" if shell else program,
        terminal_layout.kept_command(line, commands),
        row["pane_title"],
        row["pane_active"] == "1",
    )


def _foreground_line(leader: int) -> str:
    """The command line of the program in the foreground of the terminal that this process leads; Linux only."""
    pid = host.foreground_process(leader) or leader
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(1 << 16).rstrip(b"\0").split(b"\0")
    except OSError:
        return ""
    return shlex.join(word.decode("utf-8", "replace") for word in words)


def start_session(layout: TerminalLayout) -> list[str]:
    """Start a session of this name, or of a free one, with these windows; returns the command that shows it."""
    folder = next((pane.folder for tab in layout.tabs for pane in tab.panes if os.path.isdir(pane.folder)), os.getcwd())
    name = _free_name(layout.session or "imi")
    made = run_multiplexer(
        "tmux",
        "new-session",
        "-d",
        "-s",
        tmux.escape(name),
        "-c",
        tmux.escape(folder),
        "-x",
        "200",
        "-y",
        "50",
        "-P",
        "-F",
        "#{socket_path} #{pane_id} #{window_id}",
    )
    server, pane, window = made.strip().rsplit(" ", 2)
    rebuild(layout, server, pane)
    run_multiplexer("tmux", "-S", server, "kill-window", "-t", window)  # the one it began with, which imi made
    return [programs.find("tmux") or "tmux", "-S", server, "attach-session", "-t", f"={name}"]


def _free_name(wanted: str) -> str:
    try:
        listed = run_multiplexer("tmux", "list-sessions", "-F", "#{session_name}").split("\n")
    except Refused:  # no server runs
        listed = []
    names = [wanted, *(f"{wanted}-{number}" for number in range(2, len(listed) + 3))]
    return next(name for name in names if name not in listed)
