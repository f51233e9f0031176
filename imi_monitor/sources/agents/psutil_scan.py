"""Agent processes where there is no /proc (macOS), by psutil. Reads the names of all processes, the rest of agents only."""

from __future__ import annotations

import os
from collections.abc import Sequence

import psutil

from imi_monitor import host
from imi_monitor.sources.agents import process_scan
from imi_monitor.sources.agents.agent_reader import AgentProcess
from imi_monitor.sources.agents.process_names import ProgramMatch, ProgramNames
from imi_monitor.sources.agents.process_scan import FoundProcess
from imi_monitor.sources.agents.procfs import ProcessStat

_STOPPED = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
_started: dict[tuple[int, float], str | None] = {}  # (pid, began) -> host.start_time, which runs `ps`


def scan(names: ProgramNames) -> Sequence[AgentProcess]:
    found: dict[int, FoundProcess] = {}
    parents: dict[int, int] = {}
    for process in psutil.process_iter(["ppid", "name", "cmdline", "uids", "create_time", "status"]):
        info = process.info
        parents[process.pid] = info["ppid"] or 0
        argv = tuple(info["cmdline"] or ())
        match = names.match(info["name"] or "", argv, argv[0] if argv else None)
        ours = info["uids"] is not None and info["uids"].real == os.getuid()
        if match is not None and ours and info["status"] != psutil.STATUS_ZOMBIE:
            one = _found(process, match, argv)
            if one is not None:
                found[process.pid] = one
    for who in _started.keys() - {(one.stat.pid, one.began_at) for one in found.values()}:
        del _started[who]
    return process_scan.fold(found, parents, cwd_of)


def cwd_of(pid: int) -> str | None:
    try:
        return psutil.Process(pid).cwd() or None
    except psutil.Error:
        return None


def _found(process: psutil.Process, match: ProgramMatch, argv: tuple[str, ...]) -> FoundProcess | None:
    began = float(process.info["create_time"] or 0)
    who = (process.pid, began)
    if who not in _started:
        _started[who] = host.start_time(process.pid)
    started = _started[who]
    if started is None:
        return None
    where = cwd_of(process.pid)
    state = "T" if process.info["status"] in _STOPPED else "S"
    stat = ProcessStat(process.pid, process.info["name"], state, process.info["ppid"] or 0, started, _terminal(process))
    return FoundProcess(stat, match, argv, where, where, began)


def _terminal(process: psutil.Process) -> str | None:
    try:
        terminal: str | None = process.terminal()
        return terminal
    except (psutil.Error, AttributeError):
        return None
