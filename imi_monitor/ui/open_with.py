"""What a worktree can be opened with: shells, the editor, agents and git screens that are installed.

Around is the multiplexer we run in; without one everything opens right here, with the dashboard asleep meanwhile.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from imi_monitor.model.errors import Refused
from imi_monitor.model.snapshot import Worktree
from imi_monitor.model.text import safe
from imi_monitor.ui import availability, editor
from imi_monitor.ui.dialogs.menu import MenuEntry

# Agents by the program that starts them.
_AGENTS = (("c", "claude"), ("x", "codex"), ("i", "gemini"), ("p", "copilot"), ("k", "opencode"), ("m", "amp"))
_PLACES = {"zellij": "a new pane of Zellij", "tmux": "a new window of tmux"}


@dataclass(frozen=True, slots=True)
class Way:
    """`command` empty is a shell; `here` is this terminal even where there is a multiplexer."""

    key: str
    label: str
    help: str
    command: Sequence[str] = ()
    here: bool = False
    why_not: str = ""


def ways(tree: Worktree, around: str) -> dict[str, Way]:
    place = _PLACES.get(around, "this terminal, until it ends")
    found = {}
    if around:
        found["shell"] = Way("s", "Shell", f"{place}, or the one already there")
    found["here"] = Way("h", "Shell here", "in this terminal; leave it to come back", here=True)
    found["editor"] = _editor(tree)
    for key, program in _AGENTS:
        if installed(program):
            found[program] = Way(key, program, f"the agent, in {place}", (program,))
    screen = availability.git_screen()
    why_not = "" if screen else "neither lazygit nor tig is installed"
    found["screen"] = Way("g", screen or "lazygit", f"in {place}", (screen,), why_not=why_not)
    return found


def entries(found: dict[str, Way]) -> list[MenuEntry]:
    return [MenuEntry(word, way.label, way.help, way.key, why_not=way.why_not) for word, way in found.items()]


def installed(program: str) -> bool:
    return shutil.which(program) is not None


def _editor(tree: Worktree) -> Way:
    """At the folder, always here: most editors want a terminal of their own to come back from."""
    try:
        argv = editor.command(tree.path, "")
    except Refused as refusal:
        return Way("e", "Editor", "", why_not=refusal.sentence)
    return Way("e", "Editor", f"{os.path.basename(argv[0])}, in this terminal", argv, here=True)


def run_here(path: str, command: Sequence[str] = ()) -> str:
    """Run the user's shell, or `command`, in this terminal until it ends; return an error sentence, or ""."""
    argv = list(command) or [os.environ.get("SHELL") or "/bin/sh"]
    try:
        # these two belong to the shell function that started this imi, not to an imi started in the new shell
        env = {name: value for name, value in os.environ.items() if name not in ("IMI_CD_FILE", "IMI_SHELL")}
        subprocess.run(argv, cwd=path, env=env, check=False)
    except OSError as error:
        return f"{safe(argv[0])} cannot be started in {safe(path)}: {error.strerror}"
    return ""
