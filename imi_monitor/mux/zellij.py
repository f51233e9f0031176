"""Zellij: list the panes of agents, open a worktree in a pane or tab, focus the pane of an agent.

From 0.44 on Zellij lists its panes with their folders, from 0.44.1 on a pane can be focused by its id; older versions
only have tab names. Each version is sent only the commands it has.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from imi_monitor.model.agent import Agent
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe
from imi_monitor.mux.pane import Pane, query_multiplexer, run_multiplexer

Version = tuple[int, int, int]

_LISTS_PANES: Version = (0, 44, 0)
_FOCUSES_PANES: Version = (0, 44, 1)
_LIST_TIMEOUT = 1.5  # seconds
_MOST_ENVIRONMENT = 1 << 20


def _parse_version(text: str) -> Version:
    """Parse `zellij 0.44.1`; an unreadable version counts as the oldest."""
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2]), int(found[3])) if found else (0, 0, 0)


def _parse_panes(text: str) -> list[dict[str, Any]]:
    """Return the terminal panes of `list-panes --json`, without plugins; unreadable output gives none."""
    try:
        panes = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return (
        [pane for pane in panes if isinstance(pane, dict) and not pane.get("is_plugin")] if type(panes) is list else []
    )


# -- list panes -----------------------------------------------------------------------------------------------------


class ZellijPanes:
    """Lists the panes in which agents run; keeps the version and each agent's pane between calls.

    Zellij does not report processes: the environment of an agent names its session and pane.
    """

    def __init__(self) -> None:
        self._lists_panes: bool | None = None
        self._pane_names: dict[tuple[int, str], str | None] = {}  # (pid, start time) -> session:pane

    def list_panes(self, env: Mapping[str, str], processes: Iterable[tuple[int, str]]) -> Sequence[Pane] | None:
        """Return the panes of the current session with one of these (pid, start time) in them; None: no answer."""
        session = env.get("ZELLIJ_SESSION_NAME", "")
        known = self._pane_names
        self._pane_names = {key: known[key] if key in known else _pane_name(key[0]) for key in processes}
        pids: dict[str, set[int]] = {}
        for (pid, _), name in self._pane_names.items():
            if name is not None and name.startswith(f"{session}:"):
                pids.setdefault(name, set()).add(pid)
        if not pids:
            return []
        titles = self._read_titles(env)
        if titles is None:
            return None
        return [
            Pane("zellij", name, titles.get(name.rpartition(":")[2], ""), pids=frozenset(found))
            for name, found in pids.items()
        ]

    def _read_titles(self, env: Mapping[str, str]) -> dict[str, str] | None:
        if self._lists_panes is None:
            version = query_multiplexer(["zellij", "--version"], env, _LIST_TIMEOUT) or ""
            self._lists_panes = _parse_version(version) >= _LISTS_PANES
        if not self._lists_panes:
            return {}
        listed = query_multiplexer(["zellij", "action", "list-panes", "--all", "--json"], env, _LIST_TIMEOUT)
        if listed is None:
            return None
        panes = [pane for pane in _parse_panes(listed) if isinstance(pane.get("title"), str)]
        return {str(pane.get("id")).removeprefix("terminal_"): pane["title"] for pane in panes}


def _pane_name(pid: int) -> str | None:
    """Return `session:pane` from the environment of a process; only Linux shows it, and only for own processes."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            entries = file.read(_MOST_ENVIRONMENT).split(b"\0")
    except OSError:
        return None
    env = dict(entry.decode("utf-8", "replace").partition("=")[::2] for entry in entries if entry.startswith(b"ZELLIJ"))
    session, pane = env.get("ZELLIJ_SESSION_NAME"), env.get("ZELLIJ_PANE_ID")
    return f"{session}:{pane}" if session and pane else None


# -- open and focus -------------------------------------------------------------------------------------------------


def open_worktree(path: str, name: str, command: Sequence[str]) -> str:
    """Focus a pane or tab of the worktree, or open a new tab; `command` always gets a new pane."""
    tab = safe(name, 40).lstrip("-") or "worktree"  # a leading dash would be read as an option
    if command:
        new_pane = ("new-pane", "--cwd", path, "--name", tab, "--close-on-exit", "--", *command)
        run_multiplexer("zellij", "action", *new_pane)
        return f"{tab}: {safe(os.path.basename(command[0]))} in a new pane"
    version = _parse_version(run_multiplexer("zellij", "--version"))
    if version >= _LISTS_PANES:
        pane = _find_pane(path)
        if pane is not None:
            by_id = ("focus-pane-id", f"terminal_{pane['id']}")
            by_tab = ("go-to-tab-by-id", str(pane["tab_id"]))
            run_multiplexer("zellij", "action", *(by_id if version >= _FOCUSES_PANES else by_tab))
            return f"{tab}: the pane that is already open there"
    # a name has no line feed, because Zellij drops control characters; it may have other separators of lines
    if tab in run_multiplexer("zellij", "action", "query-tab-names").split("\n"):
        run_multiplexer("zellij", "action", "go-to-tab-name", tab)
        return f"{tab}: the tab that is already open"
    try:
        run_multiplexer("zellij", "action", "new-tab", "--name", tab, "--cwd", path)
    except Refused:  # before 0.38 a tab has a folder only with a layout
        run_multiplexer("zellij", "action", "new-pane", "--cwd", path, "--name", tab)
        return f"{tab}: a new pane"
    return f"{tab}: a new tab"


def focus_agent(agent: Agent) -> str | None:
    """Focus the agent's pane; None if it is in another session or this Zellij cannot focus a pane."""
    session, _, pane = (agent.facts.zellij or "").rpartition(":")
    number = pane.removeprefix("terminal_")
    if not number.isdecimal() or session not in ("", os.environ.get("ZELLIJ_SESSION_NAME", "")):
        return None
    if _parse_version(run_multiplexer("zellij", "--version")) < _FOCUSES_PANES:
        return None
    run_multiplexer("zellij", "action", "focus-pane-id", f"terminal_{number}")
    return f"{safe(agent.name, 60)}: its own pane"


def _find_pane(path: str) -> dict[str, Any] | None:
    """Return a running terminal pane that stands in the worktree; never imi's own pane."""
    folder, own = f"{os.path.realpath(path)}/", os.environ.get("ZELLIJ_PANE_ID", "").removeprefix("terminal_")
    for pane in _parse_panes(run_multiplexer("zellij", "action", "list-panes", "--all", "--json")):
        pane_id, cwd = pane.get("id"), pane.get("pane_cwd")
        usable = isinstance(pane_id, int) and isinstance(pane.get("tab_id"), int) and not pane.get("exited")
        if not usable or str(pane_id) == own or not isinstance(cwd, str) or not cwd:
            continue
        if f"{os.path.realpath(cwd)}/".startswith(folder):
            return pane
    return None
