"""Whether a process has started a child: a tool that runs a command has one, a tool that waits for a permission has none."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace

from imi_monitor import host
from imi_monitor.model.agent import RUNNING, UNKNOWN, WAITING, WORKING, Evidence
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.agent_reader import AgentProcess, Sighting
from imi_monitor.sources.agents.procfs import ProcessStat, ProcFs, argv_of

_SLACK = 0.5  # seconds by which the start of a child and the record of its tool may differ
_STARTS = 1.5  # seconds in which a tool that was called starts its child

_INNER = frozenset({"--git-dir", "--work-tree", "rev-parse", "ls-files", "status", "write-tree"})

_proc = ProcFs()


def has_child_since(process: AgentProcess, since: float) -> bool | None:
    """True if a child that began since then runs, other than a part of the program; None if the system does not show it."""
    if host.start_time(process.pid) != process.started:
        return None  # it has ended, and its number may be another process's
    own = {process.pid, *process.family}
    listed = [found for pid in own if (found := _children(pid)) is not None]
    if not listed:
        return None
    stats = [stat for found in listed for child in found - own if (stat := _proc.stat(child)) is not None]
    return any(one.began_at >= since - _SLACK and not _is_inner_git(one) for one in stats)


def _is_inner_git(one: ProcessStat) -> bool:
    """True for git as the programs call it for themselves: for snapshots, and for the branch that they show."""
    return one.comm == "git" and not _INNER.isdisjoint(argv_of(_proc.command_line(one.pid)))


def _children(pid: int) -> set[int] | None:
    """The children of all its threads; None if it has ended or the system does not list them."""
    if not os.path.exists(f"/proc/{pid}/task/{pid}/children"):
        return None
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return None
    words = b" ".join(_proc.read(f"/proc/{pid}/task/{thread}/children", 1 << 16) for thread in threads)
    return set(map(int, words.split()))


def with_child_evidence(one: Sighting, processes: Collection[AgentProcess], now: float) -> Sighting:
    """The sighting, with what the children of its process say about an open command."""
    asked = open_command(one)
    process = next((each for each in processes if each.pid == one.pid), None) if asked is not None else None
    if asked is None or process is None:
        return one
    since = fields.seconds(asked.at) or now
    runs = has_child_since(process, since)
    if runs is None or (not runs and (now - since < _STARTS or asked.state not in WORKING)):
        return one
    says = f"process {process.pid} has {'a child' if runs else 'no child'} that began since the tool was called"
    state, detail = (RUNNING, None) if runs else (WAITING, "an answer: its command is not running")
    at = fields.at(now)
    found = Evidence("process", state, asked.at, says, detail, standing=True, read_at=at)
    return replace(one, evidence=(*one.evidence, found))


def open_command(one: Sighting) -> Evidence | None:
    """The newest event, if it is a command that either runs or waits for a permission."""
    if one.alive is not True or one.pid is None:
        return None
    events = [each for each in one.evidence if not each.standing]
    newest = max(events, key=lambda each: each.at, default=None)
    if newest is None or not newest.in_child or not {RUNNING, WAITING} <= {newest.state, *newest.or_else}:
        return None
    return newest if newest.state in WORKING or newest.state == UNKNOWN else None
