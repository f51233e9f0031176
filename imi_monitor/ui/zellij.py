"""Opening in Zellij: the pane that already stands in a worktree, else a tab of its name, else a new one.

From 0.44 on Zellij tells where each pane stands, from 0.44.1 on one pane can be focused; before that a tab is known by its
name only. What a version does not know it is never asked.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from typing import Any

from imi_monitor.model.agent import Agent
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe

Run = Callable[..., str]
Version = tuple[int, int, int]

_TELLS_PANES: Version = (0, 44, 0)
_FOCUSES_PANES: Version = (0, 44, 1)


def open_in(run: Run, path: str, name: str, command: Sequence[str]) -> str:
    """Gives what was done. `run` runs a program and gives its answer, or raises Refused with its words."""
    tab = safe(name, 40).lstrip("-") or "worktree"  # never taken for an option
    if command:
        run("zellij", "action", "new-pane", "--cwd", path, "--name", tab, "--close-on-exit", "--", *command)
        return f"{tab}: {command[0]} in a new pane"
    version = _version(run("zellij", "--version"))
    if version >= _TELLS_PANES:
        pane = _pane_of(run("zellij", "action", "list-panes", "--all", "--json"), path)
        if pane is not None:
            _go(run, version, pane)
            return f"{tab}: the pane that is already open there"
    if tab in run("zellij", "action", "query-tab-names").splitlines():
        run("zellij", "action", "go-to-tab-name", tab)
        return f"{tab}: the tab that is already open"
    return _new(run, path, tab)


def go_to_agent(run: Run, agent: Agent) -> str | None:
    """The pane in which an agent runs, if it is one of this session; None when that cannot be had."""
    session, _, pane = (agent.facts.zellij or "").rpartition(":")
    number = pane.removeprefix("terminal_")
    if not number.isdecimal() or session not in ("", os.environ.get("ZELLIJ_SESSION_NAME", "")):
        return None
    if _version(run("zellij", "--version")) < _FOCUSES_PANES:
        return None
    run("zellij", "action", "focus-pane-id", f"terminal_{number}")
    return f"{safe(agent.name, 60)}: its own pane"


def _new(run: Run, path: str, tab: str) -> str:
    try:
        run("zellij", "action", "new-tab", "--name", tab, "--cwd", path)
    except Refused:  # a Zellij that wants a layout with it
        run("zellij", "action", "new-pane", "--cwd", path, "--name", tab)
        return f"{tab}: a new pane"
    return f"{tab}: a new tab"


def _go(run: Run, version: Version, pane: dict[str, Any]) -> None:
    if version >= _FOCUSES_PANES:
        run("zellij", "action", "focus-pane-id", f"terminal_{pane['id']}")
    else:
        run("zellij", "action", "go-to-tab-by-id", str(pane["tab_id"]))


def _version(said: str) -> Version:
    """Of `zellij 0.44.1`; one that cannot be read knows only what all know."""
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2]), int(found[3])) if found else (0, 0, 0)


def _pane_of(said: str, path: str) -> dict[str, Any] | None:
    """A terminal that stands in the worktree, never our own; what cannot be understood is no pane."""
    try:
        listed = json.loads(said)
    except ValueError:
        return None
    root, own = f"{os.path.realpath(path)}/", os.environ.get("ZELLIJ_PANE_ID", "").removeprefix("terminal_")
    for pane in listed if isinstance(listed, list) else []:
        if not isinstance(pane, dict) or pane.get("is_plugin") or pane.get("exited"):
            continue
        number, where = pane.get("id"), pane.get("pane_cwd")
        known = isinstance(number, int) and isinstance(pane.get("tab_id"), int) and str(number) != own
        if known and isinstance(where, str) and where and f"{os.path.realpath(where)}/".startswith(root):
            return pane
    return None
