"""Every agent program that runs on this machine as this user, and in which folder: looked at each second.

A machine has hundreds of processes and few agents. So a scan is one listing; a file is opened only for what is new,
for agents, for the young (a shell may still become an agent in place) and, in turn, for a few of the old.

One agent is several processes: a node wrapper and its binary, a program that started itself again, helpers.

Agent programs of which nothing but the process is known: they are there, and nothing tells what they do.

Every agent has such a sighting; it is joined by its pid to the session that another reader knows. One that stays alone
is shown as unknown, never as idle: it may wait for an answer in a dialog that it opens before it writes anything.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from imi_monitor import host
from imi_monitor.model import times
from imi_monitor.model.agent import UNKNOWN, Evidence
from imi_monitor.sources.agents import procfs
from imi_monitor.sources.agents.agent_reader import AgentProcess, AgentReader, ReadContext, Sighting
from imi_monitor.sources.agents.process_names import ProgramMatch, match_program
from imi_monitor.sources.agents.procfs import ProcessStat

_AT_MOST_EVERY = 0.5  # seconds: files move far more often than processes come and go
_ALL = 2.0  # seconds between two looks at the agents that are known; before, only who is new is looked at
_YOUNG = 10.0  # seconds in which a new process is looked at again and again
_IN_TURN = 32  # in so many scans each old process is looked at once


class ProcessScan:
    """`scan()` gives the agents now. To be called from one thread at a time; what it knows it keeps for the next."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._scan = _LinuxScan(clock) if sys.platform.startswith("linux") else _elsewhere
        self._at = float("-inf")
        self._last: tuple[AgentProcess, ...] = ()

    def __call__(self) -> Sequence[AgentProcess]:
        now = self._clock()
        if now - self._at >= _AT_MOST_EVERY:
            self._at, self._last = now, tuple(self._scan())
        return self._last


def _elsewhere() -> Sequence[AgentProcess]:
    """macOS: psutil, imported when it is needed."""
    from imi_monitor.sources.agents import psutil_scan as processes_psutil

    return processes_psutil.scan()


class _LinuxScan:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._user = os.getuid()
        self._known: dict[int, int] = {}  # pid -> the number that changes when it is used again
        self._young: dict[int, float] = {}  # pid -> until when it is young
        self._none: dict[int, tuple[str, bytes]] = {}  # the young that are no agents, by what they are called
        self._parents: dict[int, int] = {}
        self._found: dict[int, FoundProcess] = {}
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
            self._folded = now, fold(self._found, self._parents, procfs.cwd)
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
        named = match_program(stat.comm, argv, procfs.exe(pid) if "." in stat.comm else None)
        if named is not None and procfs.owner(pid) == self._user:
            self._found[pid] = FoundProcess(stat, named, argv, procfs.raw_cwd(pid), procfs.cwd(pid), stat.began_at)
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


_DEEP = 64  # ancestors, at most: a circle cannot be, but what is read at two moments may look like one
_STARTING = 30.0  # seconds in which a wrapper starts the program proper; later children are agents that it runs
_NEAR = 4  # ancestors that are asked for their folder instead

CwdOf = Callable[[int], str | None]


@dataclass(frozen=True, slots=True)
class FoundProcess:
    """A process of an agent program, before it is folded."""

    stat: ProcessStat
    named: ProgramMatch
    argv: tuple[str, ...]
    raw_cwd: str | None  # as the system wrote it: equal means that nothing needs to be asked
    cwd: str | None
    began_at: float

    def again(self, stat: ProcessStat, raw_cwd: str | None, cwd_of: CwdOf) -> FoundProcess:
        """The same process at a later look."""
        if raw_cwd == self.raw_cwd:
            return self if stat == self.stat else replace(self, stat=stat)
        return replace(self, stat=stat, raw_cwd=raw_cwd, cwd=cwd_of(stat.pid))


def fold(found: Mapping[int, FoundProcess], parents: Mapping[int, int], cwd_of: CwdOf) -> list[AgentProcess]:
    """The agents among the processes that were found. `parents` knows those of all processes, agents or not."""
    agents = {pid: one for pid, one in found.items() if not one.named.helper}
    children: dict[int, list[int]] = {}
    tops = []
    for pid, one in sorted(agents.items()):
        above = agents.get(parents.get(pid, 0))
        if above is not None and above.named.cli == one.named.cli:
            children.setdefault(above.stat.pid, []).append(pid)
        else:
            tops.append(pid)
    folded = (_agent(top, agents, children, parents, cwd_of) for top in tops)
    return [one for one in folded if one is not None]


def _agent(
    top: int,
    agents: Mapping[int, FoundProcess],
    children: Mapping[int, list[int]],
    parents: Mapping[int, int],
    cwd_of: CwdOf,
) -> AgentProcess | None:
    head = _head(top, agents, children)
    one = agents[head]
    ancestors = tuple(_ancestors(head, parents))
    # codex may not be asked for its folder by anybody: its wrapper, or the shell in front of it, is where it began
    near = (cwd_of(pid) for pid in ancestors[:_NEAR])
    cwd = one.cwd or next((path for path in near if path), None)
    if cwd is None:
        return None
    return AgentProcess(
        cli=one.named.cli,
        pid=head,
        started=one.stat.started,
        cwd=cwd,
        argv=one.argv,
        began_at=one.began_at,
        family=frozenset(_tree(top, children)) - {head},
        ancestors=ancestors,
        tty=one.stat.tty,
        suspended=one.stat.state in host.STOPPED,
    )


def _head(top: int, agents: Mapping[int, FoundProcess], children: Mapping[int, list[int]]) -> int:
    """The process that does the work: the first child of a wrapper, if it was started at once."""
    head = top
    while agents[head].named.wrapped:
        own = [pid for pid in children.get(head, ()) if agents[pid].began_at - agents[head].began_at < _STARTING]
        if not own:
            break
        head = min(own, key=lambda pid: (agents[pid].began_at, pid))
    return head


def _tree(top: int, children: Mapping[int, list[int]]) -> Iterator[int]:
    yield top
    for child in children.get(top, ()):
        yield from _tree(child, children)


def _ancestors(pid: int, parents: Mapping[int, int]) -> Iterator[int]:
    for _ in range(_DEEP):
        pid = parents.get(pid, 0)
        if pid <= 0:
            return
        yield pid


def make() -> AgentReader:
    return ProcessReader()


class ProcessReader:
    """Says the very same of a process for as long as that is as it was."""

    cli = "processes"
    has_more = False

    def __init__(self) -> None:
        self._known: dict[AgentProcess, Sighting] = {}

    def watch_folders(self, context: ReadContext) -> Sequence[str]:
        return ()

    def read(self, context: ReadContext, touched: frozenset[str] | None) -> Sequence[Sighting]:
        before, here = self._known, [one for one in context.processes if context.root_of_real(one.cwd)]
        if here != list(before):
            self._known = {one: before.get(one) or _sighting(one) for one in here}
        return list(self._known.values())


def _sighting(one: AgentProcess) -> Sighting:
    began = times.stamp(datetime.fromtimestamp(one.began_at, UTC))
    what = "suspended (ctrl-z, SIGSTOP): nothing goes on until it is continued" if one.suspended else "there"
    says = f"a {one.cli} process is {what} (pid {one.pid}); nothing tells what it does"
    return Sighting(
        cli=one.cli,
        session=None,
        cwd=one.cwd,
        pid=one.pid,
        pid_started=one.started,
        alive=True,
        evidence=(Evidence(source="process", state=UNKNOWN, at=began, says=says, standing=True),),
    )
