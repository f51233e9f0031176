"""Zellij: list the panes of agents, open a worktree in a pane or tab, focus the pane of an agent.

From 0.44 on Zellij lists its panes with their folders, from 0.44.1 on a pane can be focused by its id; older versions
only have tab names. Each version is sent only the commands it has.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from imi_monitor.model.agent import Agent
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe
from imi_monitor.mux.pane import Pane, query_multiplexer, run_multiplexer, without_sign

Version = tuple[int, int, int]

_LISTS_PANES: Version = (0, 44, 0)
_FOCUSES_PANES: Version = (0, 44, 1)
TYPES_INTO_PANES: Version = (0, 45, 0)
_LIST_TIMEOUT = 1.5  # seconds
_EMPTY_ANSWERS = 10  # an answer may come back empty for some 0.1 s after a change; no list of ours can be empty
_MOST_ENVIRONMENT = 1 << 20


def parse_version(text: str) -> Version:
    """Parse `zellij 0.44.1`; an unreadable version counts as the oldest."""
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2]), int(found[3])) if found else (0, 0, 0)


def lacking(version: Version) -> list[str]:
    """Return what this version cannot do, as ends of a sentence; each is done the older way or left out."""
    found = (
        [] if version >= _LISTS_PANES else ["names of tabs do not show states", "a worktree is found by its tab's name"]
    )
    found += [] if version >= _FOCUSES_PANES else ["enter opens the worktree instead of the agent's own pane"]
    found += [] if version >= TYPES_INTO_PANES else ["a new tab takes the focus", "`imi say` cannot type into a pane"]
    return found


def _parse_panes(text: str) -> list[dict[str, Any]]:
    """Return the terminal panes of `list-panes --json`, without plugins; unreadable output gives none."""
    return [pane for pane in parse_rows(text) if not pane.get("is_plugin")]


def parse_rows(text: str) -> list[dict[str, Any]]:
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return [row for row in rows if isinstance(row, dict)] if type(rows) is list else []


def _act(*words: str) -> str:
    return run_multiplexer("zellij", "action", *words)


def _focus(pane: object) -> None:
    try:
        _act("focus-pane-id", f"terminal_{pane}")
    except Refused as refusal:
        if not is_focused_already(refusal):
            raise


def is_focused_already(refusal: Refused) -> bool:
    return "already focused" in refusal.sentence


def _list(*words: str) -> str:
    """Return the answer to a question whose answer is never empty; Refused if it stays empty."""
    for _ in range(_EMPTY_ANSWERS):
        answer = _act(*words)
        if answer.strip():
            return answer
        time.sleep(0.05)
    raise Refused(f"zellij gives no answer to {words[0]}: try again", code="no-answer")


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
            self._lists_panes = parse_version(version) >= _LISTS_PANES
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


def open_worktree(path: str, name: str, command: Sequence[str], *, layout: str, floating: bool) -> str:
    """Focus a pane or tab of the worktree, or open a new tab; `command` always gets a new pane."""
    tab = tab_name(name)
    if command:
        options = ("--floating",) if floating else ()
        _act("new-pane", *options, "--cwd", path, "--name", tab, "--close-on-exit", "--", *command)
        return f"{tab}: {safe(os.path.basename(command[0]))} in a new pane"
    version = _read_version()
    if version >= _LISTS_PANES:
        pane = _find_pane(path)
        if pane is not None:
            if version >= _FOCUSES_PANES:
                _focus(pane["id"])
            else:
                _act("go-to-tab-by-id", str(pane["tab_id"]))
            return f"{tab}: the pane that is already open there"
    # not `splitlines`: a name has no line feed, because Zellij drops control characters, but may have other separators
    shown = next((one for one in _list("query-tab-names").split("\n") if without_sign(one) == tab), None)
    if shown is not None:
        _act("go-to-tab-name", shown)
        return f"{tab}: the tab that is already open"
    try:
        _act("new-tab", *(("--layout", layout) if layout else ()), "--name", tab, "--cwd", path)
    except Refused:  # before 0.38 a tab has a folder only with a layout
        if layout:
            raise
        _act("new-pane", "--cwd", path, "--name", tab)
        return f"{tab}: a new pane"
    return f"{tab}: a new tab"


def tab_name(name: str) -> str:
    """Return the name of a worktree's tab; a leading dash would be read as an option."""
    return safe(name, 40).lstrip("-") or "worktree"


def focus_agent(agent: Agent) -> str | None:
    """Focus the agent's pane; None if it is in another session or this Zellij cannot focus a pane."""
    session, _, pane = (agent.facts.zellij or "").rpartition(":")
    number = pane.removeprefix("terminal_")
    if not number.isdecimal() or session not in ("", os.environ.get("ZELLIJ_SESSION_NAME", "")):
        return None
    if _read_version() < _FOCUSES_PANES:
        return None
    _focus(number)
    return f"{safe(agent.name, 60)}: its own pane"


def list_tabs() -> list[tuple[str, str]] | None:
    """Return the (id, name) of each tab; None before 0.44, which cannot name a tab that has not the focus."""
    if _read_version() < _LISTS_PANES:
        return None
    tabs = parse_rows(_list("list-tabs", "--json"))
    return [(str(tab["tab_id"]), str(tab["name"])) for tab in tabs if isinstance(tab.get("tab_id"), int)]


def rename_tab(tab: str, name: str) -> None:
    _act("rename-tab-by-id", tab, name)


def _read_version() -> Version:
    return parse_version(run_multiplexer("zellij", "--version"))


def _find_pane(path: str) -> dict[str, Any] | None:
    """Return a running terminal pane that stands in the worktree; never imi's own pane."""
    folder, own = f"{os.path.realpath(path)}/", os.environ.get("ZELLIJ_PANE_ID", "").removeprefix("terminal_")
    for pane in _parse_panes(_list("list-panes", "--all", "--json")):
        pane_id, cwd = pane.get("id"), pane.get("pane_cwd")
        usable = isinstance(pane_id, int) and isinstance(pane.get("tab_id"), int) and not pane.get("exited")
        if not usable or str(pane_id) == own or not isinstance(cwd, str) or not cwd:
            continue
        if f"{os.path.realpath(cwd)}/".startswith(folder):
            return pane
    return None
