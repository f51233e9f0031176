"""Coding agents, found by the files, databases, sockets and processes their programs leave behind.

One package per program, all on one frame: `reader.py` finds sessions and their processes, `reducer.py` folds records into
a state, `records.py` and `session.py` hold the file format and one session where they are large. Everything else is
shared. A new program is one package with a `reader.py` and one line in `READERS`.
"""

from __future__ import annotations

from importlib import import_module

from imi_monitor.sources.agents.agent_reader import AgentReader, ScanProcesses

# SessionFacts of an earlier reader win; readers that know sessions come before those that only see a process.
READERS: tuple[str, ...] = (
    "claude.reader",
    "codex.reader",
    "gemini.reader",
    "opencode.reader",
    "copilot.reader",
    "aider.reader",
    "hooks.reader",  # events from the hooks of any program
    "pane_titles",  # titles of terminal panes
    "process_scan",  # the process alone
)


def all_readers() -> list[AgentReader]:
    """A new instance of every reader. Imports them only now, so that the dashboard paints first."""
    return [import_module(f"imi_monitor.sources.agents.{name}").make() for name in READERS]


def process_scanner() -> ScanProcesses:
    """A new scanner of the running agent processes, imported only now."""
    scanner: ScanProcesses = import_module("imi_monitor.sources.agents.process_scan").ProcessScan()
    return scanner
