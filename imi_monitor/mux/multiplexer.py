"""Open a worktree or focus an agent in the multiplexer that imi runs in.

All functions block and are called in threads. Names and paths come from outside: they are passed as arguments, never
as a command line, and the tmux formats in them are escaped.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from imi_monitor.model import attention
from imi_monitor.model.agent import Agent
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe
from imi_monitor.mux import tmux, zellij


def current() -> str:
    """Return `zellij`, `tmux`, or an empty string outside both."""
    return "zellij" if os.environ.get("ZELLIJ") else "tmux" if os.environ.get("TMUX") else ""


def open_worktree(
    multiplexer: str, path: str, name: str, command: Sequence[str] = (), *, layout: str = "", floating: bool = False
) -> str:
    """Focus the pane that stands in the worktree, or open a new one; `command` always gets a new one.

    `layout`: what a new tab or window has besides a shell. `floating`: above the other panes, where the multiplexer can.
    Returns one sentence about what was done; raises Refused with the multiplexer's error text.
    """
    if not os.path.isdir(path):
        raise Refused(f"the folder {safe(path)} does not exist any more")
    if multiplexer == "zellij":
        return zellij.open_worktree(path, name, command, layout=layout, floating=floating)
    return tmux.open_worktree(path, name, command, layout=layout)


def may_have_pane(agent: Agent) -> bool:
    """True if the agent lives and reports a pane of the current multiplexer."""
    pane = {"zellij": agent.facts.zellij, "tmux": agent.facts.tmux}.get(current())
    return bool(pane) and not attention.has_ended(agent)


def open_agent(multiplexer: str, agent: Agent, path: str, name: str, *, layout: str = "") -> str:
    """Focus the agent's pane; if it cannot be found, open the worktree as `open_worktree` does."""
    focused = zellij.focus_agent(agent) if multiplexer == "zellij" else tmux.focus_agent(agent)
    return focused or open_worktree(multiplexer, path, name, layout=layout)
