"""Every agent program we can read, one line each, and those who know something about any of them.

Nothing is imported before the first look: the dashboard paints first. The order is the order in which facts are
believed; who knows a session comes before who only sees a process.
"""

from __future__ import annotations

from importlib import import_module

from imi_monitor.sources.agents.base import Reader
from imi_monitor.sources.agents.source import Scan

MODULES: tuple[str, ...] = (
    "claude",
    "codex",
    "gemini",
    "opencode",
    "copilot",
    "aider",
    "spool",  # what hooks of any program tell
    "titles",  # what terminals show of any program
    "bare",  # last: who knows nothing but the process
)


def all_readers() -> list[Reader]:
    """One of each, fresh."""
    return [import_module(f"imi_monitor.sources.agents.{name}").make() for name in MODULES]


def scan() -> Scan:
    """What lists the running agent processes."""
    made: Scan = import_module("imi_monitor.sources.agents.processes").Scan()
    return made
