"""What of a worktree can be copied. The terminal's clipboard gets it (OSC 52), which works over ssh too."""

from __future__ import annotations

import shlex

from imi_monitor.model.snapshot import Worktree
from imi_monitor.model.text import safe
from imi_monitor.ui.dialogs.menu import MenuEntry

_HARMFUL = "holds control characters: copy the command, which has them quoted"


def choices(tree: Worktree) -> dict[str, tuple[str, str, str]]:
    """word -> (key, label, text). Pasted into a shell, the command cannot do anything but change the folder."""
    found = {
        "path": ("p", "Path", tree.path),
        "branch": ("b", "Branch", tree.branch or ""),
        "name": ("n", "Name", tree.key.worktree),
        "command": ("c", "Command", f"cd -- {shlex.quote(tree.path)}"),
    }
    head = tree.git.head if tree.git else None
    if head:
        found["commit"] = ("h", "Commit", head)
    return {word: entry for word, entry in found.items() if entry[2]}


def entries(tree: Worktree) -> list[MenuEntry]:
    return [
        MenuEntry(word, label, safe(text, 60), key, why_not="" if _harmless(word, text) else f"its {word} {_HARMFUL}")
        for word, (key, label, text) in choices(tree).items()
    ]


def _harmless(word: str, text: str) -> bool:
    """A line break would run a command where it is pasted; in the command everything is quoted."""
    return text.isprintable() or word == "command"
