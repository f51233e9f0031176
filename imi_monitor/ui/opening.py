"""Where `enter` goes: the agent's own pane in the multiplexer around us, else a tab or window there, the one already open
for that worktree if there is one.

All of it runs in threads and gives one sentence. Names and paths are text from outside: they are arguments, never a command
line, and what tmux would expand in them is taken apart.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence

from imi_monitor import host
from imi_monitor.model import attention
from imi_monitor.model.agent import Agent
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe
from imi_monitor.ui import zellij

_TIMEOUT = 10.0


def multiplexer() -> str:
    """`zellij`, `tmux`, or empty when the terminal is all there is."""
    return "zellij" if os.environ.get("ZELLIJ") else "tmux" if os.environ.get("TMUX") else ""


def open_in(multiplexer: str, path: str, name: str, command: Sequence[str] = ()) -> str:
    """Show the place of a worktree; gives what was done, raises Refused with the multiplexer's own words."""
    if not os.path.isdir(path):
        raise Refused(f"the folder {safe(path)} does not exist any more")
    return zellij.open_in(_run, path, name, command) if multiplexer == "zellij" else _tmux(path, name, command)


def has_pane(agent: Agent) -> bool:
    """Whether the multiplexer around us may have the pane in which the agent runs."""
    pane = agent.facts.zellij if multiplexer() == "zellij" else agent.facts.tmux if multiplexer() == "tmux" else None
    return bool(pane) and not attention.over(agent)


def open_agent(multiplexer: str, agent: Agent, path: str, name: str) -> str:
    """Go to the pane in which the agent runs; when that is not to be had, to the place of its worktree as always."""
    told = zellij.go_to_agent(_run, agent) if multiplexer == "zellij" else _tmux_agent(agent)
    return told or open_in(multiplexer, path, name)


def _run(*argv: str) -> str:
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refused(f"{argv[0]} does not answer: {safe(str(error), 200)}") from error
    if done.returncode:
        raise Refused(f"{argv[0]} says: {safe(done.stderr.strip() or str(done.returncode), 200)}")
    return done.stdout


# -- tmux -----------------------------------------------------------------------------------------------------------


def _tmux(path: str, name: str, command: Sequence[str]) -> str:
    pane = None if command else _tmux_pane_of(path)
    if pane is not None:
        _show_pane(pane)
        return f"{safe(name)}: the pane that is already open there"
    # tmux expands formats in both, and `#(…)` there is a shell command
    made = _run(
        "tmux", "new-window", "-P", "-F", "#{pane_id}", "-n", _literal(safe(name, 40)), "-c", _literal(path), *command
    ).strip()
    if not command:
        _run("tmux", "set-option", "-p", "-t", made, "@imi", path)
    return f"{safe(name)}: a new tmux window"


def _show_pane(pane: str) -> None:
    window = _run("tmux", "display-message", "-p", "-t", pane, "#{window_id}").strip()
    _run("tmux", "select-window", "-t", window)
    _run("tmux", "select-pane", "-t", pane)
    _follow(pane)


def _tmux_agent(agent: Agent) -> str | None:
    """Only if that pane is there and the agent runs in it: another server has panes of the same names."""
    pane = re.search(r"%\d+$", agent.facts.tmux or "")
    if pane is None:
        return None
    listed = _run("tmux", "list-panes", "-a", "-F", "#{pane_id} #{pane_pid}").splitlines()
    pids = dict(line.split(" ", 1) for line in listed if " " in line)
    leader = pids.get(pane[0], "")
    if not leader.isdigit() or not _runs_below(agent.pid, int(leader)):
        return None
    _show_pane(pane[0])
    return f"{safe(agent.name, 60)}: its own pane"


def _runs_below(pid: int | None, leader: int) -> bool:
    """Whether a process is another or was started below it; what cannot be told is believed."""
    if pid is None or not (above := host.parent(pid)):
        return True
    family = {pid}
    while above > 1 and above not in family:
        family.add(above)
        above = host.parent(above)
    return leader in family


def _literal(text: str) -> str:
    return text.replace("#", "##")


def _tmux_pane_of(path: str) -> str | None:
    """A pane opened for the worktree, else one whose program stands in it; never our own."""
    lines = _run("tmux", "list-panes", "-a", "-F", "#{pane_id}\t#{@imi}\t#{pane_current_path}").splitlines()
    panes = [line.split("\t") for line in lines if line.count("\t") == 2]
    others = [pane for pane in panes if pane[0] != os.environ.get("TMUX_PANE")]
    real = os.path.realpath(path)
    ours = next((pane[0] for pane in others if pane[1] == path), None)
    inside = (pane[0] for pane in others if f"{os.path.realpath(pane[2])}/".startswith(f"{real}/") and pane[2])
    return ours or next(inside, None)


def _follow(pane: str) -> None:
    """Bring a client along that looks at another session; without any client there is nobody to bring."""
    subprocess.run(
        ["tmux", "switch-client", "-t", pane],
        capture_output=True,
        timeout=_TIMEOUT,
        stdin=subprocess.DEVNULL,
        check=False,
    )


# -- neither --------------------------------------------------------------------------------------------------------


def run_here(path: str, command: Sequence[str] = ()) -> str:
    """The person's shell (or a program) in this terminal, until it ends; gives a sentence when it could not start."""
    argv = list(command) or [os.environ.get("SHELL") or "/bin/sh"]
    try:
        # imi's shell function speaks to the imi it has started, and to nobody below that
        env = {name: value for name, value in os.environ.items() if name not in ("IMI_CD_FILE", "IMI_SHELL")}
        subprocess.run(argv, cwd=path, env=env, check=False)
    except OSError as error:
        return f"{safe(argv[0])} cannot be started in {safe(path)}: {error.strerror}"
    return ""
