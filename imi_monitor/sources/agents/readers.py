"""Every agent program we can read, one line each, and those who know something about any of them.

Nothing is imported before the first look: the dashboard paints first. The order is the order in which facts are
believed; who knows a session comes before who only sees a process.
"""

from __future__ import annotations

from importlib import import_module

from imi_monitor.sources.agents.base import Reader
from imi_monitor.sources.agents.source import Scan

MODULES: tuple[str, ...] = (
    "claude.reader",
    "codex.reader",
    "gemini.reader",
    "opencode.reader",
    "copilot.reader",
    "aider.reader",
    "hooks.spool",  # what hooks of any program tell
    "terminals.titles",  # what terminals show of any program
    "processes.bare",  # last: who knows nothing but the process
)


def all_readers() -> list[Reader]:
    """One of each, fresh."""
    return [import_module(f"imi_monitor.sources.agents.{name}").make() for name in MODULES]


def scan() -> Scan:
    """What lists the running agent processes."""
    made: Scan = import_module("imi_monitor.sources.agents.processes.scan").Scan()
    return made
