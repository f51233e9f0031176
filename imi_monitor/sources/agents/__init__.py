"""Coding agents, found by the files, databases, sockets and processes their programs leave behind.

One package per program, all on one frame: `reader.py` finds sessions and their processes, `reducer.py` folds records into
a state, `records.py` and `session.py` hold the file format and one session where they are large. Everything else is
shared. A new program is one package, whose `reader.py` has `PROGRAM` and `make()`, and one line in `PROGRAMS`; one of which
only the process is recognised is one line in `other_programs.py`.
"""

from __future__ import annotations

from importlib import import_module

from imi_monitor.sources.agents.agent_reader import AgentProgram, AgentReader, ScanProcesses

# The facts of an earlier program win where two readers report the same session.
PROGRAMS: tuple[str, ...] = ("claude", "codex", "gemini", "opencode", "copilot", "qwen", "kimi", "aider")
# Readers of all programs, after those that know sessions: hook events, terminal titles, processes alone.
_SHARED_READERS = ("hooks.reader", "pane_titles", "process_scan")


def known_programs() -> tuple[AgentProgram, ...]:
    """All agent programs: those with a reader, those without one, and the user's own."""
    from imi_monitor.sources.agents import other_programs

    found = (import_module(f"{__name__}.{name}.reader").PROGRAM for name in PROGRAMS)
    return (*found, *other_programs.PROGRAMS, *other_programs.own_programs())


def home_variables() -> frozenset[str]:
    """The environment variables that name a home of any program."""
    return frozenset({"HOME"}.union(*(one.home_variables for one in known_programs())))


def all_readers() -> list[AgentReader]:
    """A new instance of every reader. Imports them only now, so that the dashboard paints first."""
    from imi_monitor.sources.agents.home_readers import HomeReaders

    programs = [import_module(f"{__name__}.{name}.reader") for name in PROGRAMS]
    shared = [import_module(f"{__name__}.{name}").make() for name in _SHARED_READERS]
    return [*(HomeReaders(one.PROGRAM, one.make) for one in programs), *shared]


def process_scanner() -> ScanProcesses:
    """A new scanner of the running agent processes, imported only now."""
    scanner: ScanProcesses = import_module(f"{__name__}.process_scan").ProcessScan()
    return scanner
