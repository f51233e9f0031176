"""Coding agents, found by the files, databases, sockets and processes their programs leave behind.

One package per program, all on one frame: `reader.py` finds sessions and their processes, `reducer.py` folds records into
a state, `records.py` and `session.py` hold the file format and one session where they are large. Everything else is
shared. A new program is one package, whose `reader.py` has `PROGRAM` and `make()`, and one line in `PROGRAMS`.
"""

from __future__ import annotations

from importlib import import_module

from imi_monitor.sources.agents.agent_reader import AgentProgram, AgentReader, ScanProcesses

# The facts of an earlier program win where two readers report the same session.
PROGRAMS: tuple[str, ...] = ("claude", "codex", "gemini", "opencode", "copilot", "aider")
# Readers of all programs, after those that know sessions: hook events, terminal titles, processes alone.
_SHARED_READERS = ("hooks.reader", "pane_titles", "process_scan")
# Programs of which only the process is recognised.
_WITHOUT_READER = (AgentProgram("qwen", ("/@qwen-code/qwen-code/",), frozenset({"mcp", "extensions"})),)


def known_programs() -> tuple[AgentProgram, ...]:
    found = (import_module(f"{__name__}.{name}.reader").PROGRAM for name in PROGRAMS)
    return (*found, *_WITHOUT_READER)


def all_readers() -> list[AgentReader]:
    """A new instance of every reader. Imports them only now, so that the dashboard paints first."""
    names = (*(f"{name}.reader" for name in PROGRAMS), *_SHARED_READERS)
    return [import_module(f"{__name__}.{name}").make() for name in names]


def process_scanner() -> ScanProcesses:
    """A new scanner of the running agent processes, imported only now."""
    scanner: ScanProcesses = import_module(f"{__name__}.process_scan").ProcessScan()
    return scanner
