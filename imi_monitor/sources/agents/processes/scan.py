"""Every agent program that runs on this machine as this user, and in which folder: looked at each second.

A machine has hundreds of processes and few agents. So a scan is one listing; a file is opened only for what is new,
for agents, for the young (a shell may still become an agent in place) and, in turn, for a few of the old.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence

from imi_monitor.sources.agents.base import AgentProcess
from imi_monitor.sources.agents.processes import folding, procfs
from imi_monitor.sources.agents.processes.folding import Found
from imi_monitor.sources.agents.processes.programs import name

_AT_MOST_EVERY = 0.5  # seconds: files move far more often than processes come and go
_ALL = 2.0  # seconds between two looks at the agents that are known; before, only who is new is looked at
_YOUNG = 10.0  # seconds in which a new process is looked at again and again
_IN_TURN = 32  # in so many scans each old process is looked at once


class Scan:
    """`scan()` gives the agents now. To be called from one thread at a time; what it knows it keeps for the next."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._scan = _Linux(clock) if sys.platform.startswith("linux") else _elsewhere
        self._at = float("-inf")
        self._last: tuple[AgentProcess, ...] = ()

    def __call__(self) -> Sequence[AgentProcess]:
        now = self._clock()
        if now - self._at >= _AT_MOST_EVERY:
            self._at, self._last = now, tuple(self._scan())
        return self._last


def _elsewhere() -> Sequence[AgentProcess]:
    """macOS: psutil, imported when it is needed."""
    from imi_monitor.sources.agents.processes import by_psutil as processes_psutil

    return processes_psutil.scan()


class _Linux:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._user = os.getuid()
        self._known: dict[int, int] = {}  # pid -> the number that changes when it is used again
        self._young: dict[int, float] = {}  # pid -> until when it is young
        self._none: dict[int, tuple[str, bytes]] = {}  # the young that are no agents, by what they are called
        self._parents: dict[int, int] = {}
        self._found: dict[int, Found] = {}
        self._turn = 0
        self._all_at = float("-inf")
        self._folded: tuple[object, Sequence[AgentProcess]] = None, ()

    def __call__(self) -> Sequence[AgentProcess]:
        self._follow(procfs.pids())
        for pid in list(self._young):
            self._examine(pid)
        if self._clock() - self._all_at >= _ALL:
            self._all_at = self._clock()
            self._look_at_the_old()
        self._grow_old()
        return self._fold()

    def _look_at_the_old(self) -> None:
        self._turn = (self._turn + 1) % _IN_TURN
        in_turn = {pid for pid in self._known if pid % _IN_TURN == self._turn} - self._young.keys()
        for pid in in_turn:
            self._examine(pid)
        for pid in self._found.keys() - in_turn - self._young.keys():
            self._glance(pid)

    def _fold(self) -> Sequence[AgentProcess]:
        """Anew only when something is otherwise, or somebody's folder is asked of others."""
        families = {pid for one in self._folded[1] for pid in (one.pid, *one.family, *one.ancestors)}
        now = dict(self._found), {pid: self._parents.get(pid) for pid in families}
        if now != self._folded[0] or any(one.cwd is None for one in self._found.values()):
            self._folded = now, folding.fold(self._found, self._parents, procfs.cwd)
        return self._folded[1]

    def _follow(self, now: dict[int, int]) -> None:
        """Forget who is gone, and whose pid is another's now; note who is new."""
        before, self._known = self._known, now
        if before.keys() == now.keys() and before == now:
            return
        new = [pid for pid, number in now.items() if before.get(pid) != number]
        for pid in (*(before.keys() - now.keys()), *new):
            for of_one in (self._parents, self._young, self._found, self._none):
                of_one.pop(pid, None)
        self._young.update(dict.fromkeys(new, self._clock() + _YOUNG))

    def _grow_old(self) -> None:
        now = self._clock()
        for pid in [pid for pid, until in self._young.items() if until <= now]:
            del self._young[pid]
            self._none.pop(pid, None)

    def _examine(self, pid: int) -> None:
        """What it is, from the beginning."""
        stat = procfs.stat(pid)
        if stat is None:
            self._found.pop(pid, None)
            return
        self._parents[pid] = stat.parent
        line = stat.comm, procfs.command_line(pid)
        if pid not in self._found and self._none.get(pid) == line:
            return  # looked at before, and no agent
        argv = procfs.argv(line[1])
        before = self._found.get(pid)
        if before is not None and (before.stat.comm, before.argv) == (stat.comm, argv):
            self._found[pid] = before.again(stat, procfs.raw_cwd(pid), procfs.cwd)
            return
        self._found.pop(pid, None)
        named = name(stat.comm, argv, procfs.exe(pid) if "." in stat.comm else None)
        if named is not None and procfs.owner(pid) == self._user:
            self._found[pid] = Found(stat, named, argv, procfs.raw_cwd(pid), procfs.cwd(pid), stat.began_at)
        elif pid in self._young:
            self._none[pid] = line

    def _glance(self, pid: int) -> None:
        """Whether a known agent lives, and where; all else of it stays."""
        stat = procfs.stat(pid)
        if stat is None or stat.comm != self._found[pid].stat.comm:
            self._examine(pid)
            return
        self._parents[pid] = stat.parent
        self._found[pid] = self._found[pid].again(stat, procfs.raw_cwd(pid), procfs.cwd)
