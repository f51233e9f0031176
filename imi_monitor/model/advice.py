"""Texts that end with advice: what to type for the command line, what to press for the dashboard."""

from __future__ import annotations

from imi_monitor.model.text import safe


class Advised(str):
    """A text with two forms: the string itself is for the command line, `dashboard` for the dashboard."""

    dashboard: str


def advised(text: str, command_line: str, dashboard: str = "", *, joint: str = ": ") -> Advised:
    """Return the text with the advice behind it; with none for the dashboard where no key helps."""
    whole = Advised(f"{text}{joint}{command_line}" if text else command_line)
    whole.dashboard = f"{text}{joint}{dashboard}" if text and dashboard else text or dashboard
    return whole


def missing_folder(name: str, path: str) -> str:
    """Return the sentence about a worktree whose folder does not exist. A worktree in imi's trash is not listed as one."""
    where = safe(path)
    return f"{safe(name)}'s folder is missing ({where}): `imi repair` searches for it, `imi prune` forgets it"


def on_dashboard(text: str) -> str:
    """Return the text as the dashboard shows it."""
    return text.dashboard if isinstance(text, Advised) else text
