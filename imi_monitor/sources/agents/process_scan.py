"""Finds the agent programs that this user runs, with their folders, and reports each process as a sighting.

A machine has hundreds of processes and few agents. A scan is therefore one listing; files are opened only of new
processes, of agents, of young processes (a shell may still become an agent in place) and, in turn, of a few old ones.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from imi_monitor import host
from imi_monitor.model.agent import UNKNOWN, Evidence
from imi_monitor.sources import agents
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.agent_reader import AgentProcess, AgentReader, ReadContext, Sighting
from imi_monitor.sources.agents.process_names import ProgramMatch, ProgramNames
from imi_monitor.sources.agents.procfs import ProcessStat, ProcFs, argv_of

_AT_MOST_EVERY = 0.5  # seconds: files change far more often than processes start and end
_ALL = 2.0  # seconds between two checks of known agents; in between, only new processes are examined
_YOUNG = 10.0  # seconds in which a new process is examined at every scan
_TURNS = 32  # scans in which each old process is examined once


class ProcessScan:
    """Finds the agent processes, when called. Caches what it found for the next call; not thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, proc: ProcFs | None = None) -> None:
        self._clock = clock
        names = ProgramNames(agents.known_programs())
        linux = sys.platform.startswith("linux")
        self._scan = LinuxProcessScan(names, clock, proc or ProcFs()) if linux else _psutil_scan(names)
        self._at = float("-inf")
        self._last: tuple[AgentProcess, ...] = ()

    def __call__(self) -> Sequence[AgentProcess]:
        now = self._clock()
        if now - self._at >= _AT_MOST_EVERY:
            self._at, self._last = now, tuple(self._scan())
        return self._last


def _psutil_scan(names: ProgramNames) -> Callable[[], Sequence[AgentProcess]]:
    from imi_monitor.sources.agents import psutil_scan  # installed only where there is no /proc

    return lambda: psutil_scan.scan(names)


class LinuxProcessScan:
    def __init__(self, names: ProgramNames, clock: Callable[[], float], proc: ProcFs) -> None:
        self._names = names
        self._variables = agents.home_variables()
        self._proc = proc
        self._clock = clock
        self._user = os.getuid()
        self._known: dict[int, int] = {}  # pid -> see ProcFs.pids
        self._young: dict[int, float] = {}  # pid -> until when it is young
        self._no_agents: dict[int, tuple[str, bytes]] = {}  # young pid -> name and command line
        self._parents: dict[int, int] = {}
        self._found: dict[int, FoundProcess] = {}
        self._turn = 0
        self._all_at = float("-inf")
        self._folded: tuple[object, Sequence[AgentProcess]] = None, ()

    def __call__(self) -> Sequence[AgentProcess]:
        self._follow(self._proc.pids())
        for pid in list(self._young):
            self._examine(pid)
        if self._clock() - self._all_at >= _ALL:
            self._all_at = self._clock()
            self._check_old()
        self._age()
        return self._fold()

    def _check_old(self) -> None:
        self._turn = (self._turn + 1) % _TURNS
        in_turn = {pid for pid in self._known if pid % _TURNS == self._turn} - self._young.keys()
        for pid in in_turn:
            self._examine(pid)
        for pid in self._found.keys() - in_turn - self._young.keys():
            self._check(pid)

    def _fold(self) -> Sequence[AgentProcess]:
        """Fold again only after a change, or while the folder of a process comes from its ancestors."""
        families = {pid for one in self._folded[1] for pid in (one.pid, *one.family, *one.ancestors)}
        key = dict(self._found), {pid: self._parents.get(pid) for pid in families}
        if key != self._folded[0] or any(one.cwd is None for one in self._found.values()):
            self._folded = key, fold(self._found, self._parents, self._proc.cwd)
        return self._folded[1]

    def _follow(self, now: dict[int, int]) -> None:
        """Forget processes that ended, also if their pid is used again; note new ones."""
        before, self._known = self._known, now
        if before.keys() == now.keys() and before == now:
            return
        new = [pid for pid, number in now.items() if before.get(pid) != number]
        for pid in (*(before.keys() - now.keys()), *new):
            for table in (self._parents, self._young, self._found, self._no_agents):
                table.pop(pid, None)
        self._young.update(dict.fromkeys(new, self._clock() + _YOUNG))

    def _age(self) -> None:
        now = self._clock()
        for pid in [pid for pid, until in self._young.items() if until <= now]:
            del self._young[pid]
            self._no_agents.pop(pid, None)

    def _examine(self, pid: int) -> None:
        """Find out whether it is an agent, unless its command line is known."""
        stat = self._proc.stat(pid)
        if stat is None:
            self._found.pop(pid, None)
            return
        self._parents[pid] = stat.parent
        line = stat.comm, self._proc.command_line(pid)
        if pid not in self._found and self._no_agents.get(pid) == line:
            return
        argv = argv_of(line[1])
        before = self._found.get(pid)
        if before is not None and (before.stat.comm, before.argv) == (stat.comm, argv):
            self._found[pid] = before.updated(stat, self._proc.raw_cwd(pid), self._proc.cwd)
            return
        self._found.pop(pid, None)
        match = self._names.match(stat.comm, argv, self._proc.exe(pid) if "." in stat.comm else None)
        if match is not None and self._proc.owner(pid) == self._user:
            self._found[pid] = FoundProcess(
                stat,
                match,
                argv,
                self._proc.raw_cwd(pid),
                self._proc.cwd(pid),
                stat.began_at,
                self._proc.environment(pid, self._variables),
            )
        elif pid in self._young:
            self._no_agents[pid] = line

    def _check(self, pid: int) -> None:
        """Update the state and the folder of a known agent."""
        stat = self._proc.stat(pid)
        if stat is None or stat.comm != self._found[pid].stat.comm:
            self._examine(pid)
            return
        self._parents[pid] = stat.parent
        self._found[pid] = self._found[pid].updated(stat, self._proc.raw_cwd(pid), self._proc.cwd)


# -- folding: a node wrapper and its binary, a program that started itself again, and helpers are one agent ------------

_MOST_ANCESTORS = 64  # pids read at two moments may seem to form a circle
_WRAPPER_STARTS = 30.0  # seconds in which a wrapper starts its program; later children are other agents that it runs
_NEAR = 4  # ancestors whose folder is used instead

CwdOf = Callable[[int], str | None]


@dataclass(frozen=True, slots=True)
class FoundProcess:
    """A process of an agent program."""

    stat: ProcessStat
    match: ProgramMatch
    argv: tuple[str, ...]
    raw_cwd: str | None  # as the system writes it; while it is equal, `cwd` is current
    cwd: str | None
    began_at: float
    environment: tuple[tuple[str, str], ...] | None = None  # see AgentProcess

    def updated(self, stat: ProcessStat, raw_cwd: str | None, cwd_of: CwdOf) -> FoundProcess:
        if raw_cwd == self.raw_cwd:
            return self if stat == self.stat else replace(self, stat=stat)
        return replace(self, stat=stat, raw_cwd=raw_cwd, cwd=cwd_of(stat.pid))


def fold(found: Mapping[int, FoundProcess], parents: Mapping[int, int], cwd_of: CwdOf) -> list[AgentProcess]:
    """The agents among the processes. `parents` contains all processes, agents or not."""
    programs = {pid: one for pid, one in found.items() if not one.match.helper}
    children: dict[int, list[int]] = {}
    tops = []
    for pid, one in sorted(programs.items()):
        above = programs.get(parents.get(pid, 0))
        if above is not None and above.match.cli == one.match.cli:
            children.setdefault(above.stat.pid, []).append(pid)
        else:
            tops.append(pid)
    folded = (_agent(top, programs, children, parents, cwd_of) for top in tops)
    return [one for one in folded if one is not None]


def _agent(
    top: int,
    programs: Mapping[int, FoundProcess],
    children: Mapping[int, list[int]],
    parents: Mapping[int, int],
    cwd_of: CwdOf,
) -> AgentProcess | None:
    head = _head(top, programs, children)
    one = programs[head]
    ancestors = tuple(_ancestors(head, parents))
    # codex hides its folder from everyone: its wrapper, or the shell before it, shows where it was started
    near = (cwd_of(pid) for pid in ancestors[:_NEAR])
    cwd = one.cwd or next((path for path in near if path), None)
    if cwd is None:
        return None
    return AgentProcess(
        cli=one.match.cli,
        pid=head,
        started=one.stat.started,
        cwd=cwd,
        argv=one.argv,
        began_at=one.began_at,
        family=frozenset(_tree(top, children)) - {head},
        ancestors=ancestors,
        tty=one.stat.tty,
        suspended=one.stat.state in host.STOPPED,
        environment=one.environment,
    )


def _head(top: int, programs: Mapping[int, FoundProcess], children: Mapping[int, list[int]]) -> int:
    """The process that does the work: the first child of a wrapper, if it was started soon after it."""
    head = top
    while programs[head].match.wrapped:
        latest = programs[head].began_at + _WRAPPER_STARTS
        own = [pid for pid in children.get(head, ()) if programs[pid].began_at < latest]
        if not own:
            break
        head = min(own, key=lambda pid: (programs[pid].began_at, pid))
    return head


def _tree(top: int, children: Mapping[int, list[int]]) -> Iterator[int]:
    yield top
    for child in children.get(top, ()):
        yield from _tree(child, children)


def _ancestors(pid: int, parents: Mapping[int, int]) -> Iterator[int]:
    for _ in range(_MOST_ANCESTORS):
        pid = parents.get(pid, 0)
        if pid <= 0:
            return
        yield pid


# -- the reader: processes as sightings -------------------------------------------------------------------------------


def make() -> AgentReader:
    return ProcessReader()


class ProcessReader:
    """Reports every agent process in a worktree, with the same object while it does not change.

    A process is merged with the session that names its pid. One without a session is shown as unknown, never as idle: it
    may be waiting in a dialog that it opens before it writes anything.
    """

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
    what = "is suspended (ctrl-z, SIGSTOP)" if one.suspended else "runs"
    says = f"a {one.cli} process {what} (pid {one.pid}); nothing shows what it does"
    began = fields.at(one.began_at)
    return Sighting(
        cli=one.cli,
        session=None,
        cwd=one.cwd,
        pid=one.pid,
        pid_started=one.started,
        alive=True,
        evidence=(Evidence(source="process", state=UNKNOWN, at=began, says=says, standing=True),),
    )
