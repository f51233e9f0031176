"""One agent is several processes: a node wrapper and its binary, a program that started itself again, helpers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from imi_monitor import host
from imi_monitor.sources.agents.base import AgentProcess
from imi_monitor.sources.agents.processes.procfs import Stat
from imi_monitor.sources.agents.processes.programs import Named

_DEEP = 64  # ancestors, at most: a circle cannot be, but what is read at two moments may look like one
_STARTING = 30.0  # seconds in which a wrapper starts the program proper; later children are agents that it runs
_NEAR = 4  # ancestors that are asked for their folder instead

CwdOf = Callable[[int], str | None]


@dataclass(frozen=True, slots=True)
class Found:
    """A process of an agent program, before it is folded."""

    stat: Stat
    named: Named
    argv: tuple[str, ...]
    raw_cwd: str | None  # as the system wrote it: equal means that nothing needs to be asked
    cwd: str | None
    began_at: float

    def again(self, stat: Stat, raw_cwd: str | None, cwd_of: CwdOf) -> Found:
        """The same process at a later look."""
        if raw_cwd == self.raw_cwd:
            return self if stat == self.stat else replace(self, stat=stat)
        return replace(self, stat=stat, raw_cwd=raw_cwd, cwd=cwd_of(stat.pid))


def fold(found: Mapping[int, Found], parents: Mapping[int, int], cwd_of: CwdOf) -> list[AgentProcess]:
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
    top: int, agents: Mapping[int, Found], children: Mapping[int, list[int]], parents: Mapping[int, int], cwd_of: CwdOf
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


def _head(top: int, agents: Mapping[int, Found], children: Mapping[int, list[int]]) -> int:
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
