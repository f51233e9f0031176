"""What a reader of one agent program is, what it is told about the world, and what it says.

A reader looks at files, databases and sockets that its program leaves behind. It runs in a thread, one reader one look
at a time, and keeps between two looks what it has read already: a look costs what was appended, not what is there. It
never raises for what it finds (an unknown record is a `format_note`), and never writes anything outside.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from imi_monitor import host
from imi_monitor.model.agent import AgentEvent, Evidence, SessionFacts


@dataclass(frozen=True, slots=True)
class AgentProcess:
    """A running agent program; its helpers and node wrappers are folded into one."""

    cli: str
    pid: int
    started: str  # as host.start_time tells it
    cwd: str  # real path; may lie outside every worktree
    argv: tuple[str, ...]
    began_at: float  # seconds since 1970
    family: frozenset[int] = frozenset()  # pids of its wrappers and children of the same program
    ancestors: tuple[int, ...] = ()  # its parents up to init, nearest first
    tty: str | None = None
    suspended: bool = False  # it does nothing until somebody continues it


ScanProcesses = Callable[[], Sequence[AgentProcess]]


@dataclass(frozen=True, slots=True)
class ReadContext:
    """What every reader may look at beside its own files."""

    now: float  # seconds since 1970
    home: str
    env: Mapping[str, str]
    roots: tuple[str, ...]  # real paths of the worktrees, and nothing else matters
    processes: tuple[AgentProcess, ...] = ()
    known_roots: dict[str, str | None] = field(
        default_factory=dict, compare=False, repr=False
    )  # as they were asked for
    lives: dict[int, tuple[str | None, bool]] | None = field(
        default=None, compare=False, repr=False
    )  # the same, lately

    def watched(self, cwd: str | None) -> bool:
        """Whether it lies in one of the worktrees. `cwd` may be as recorded, with links in it or gone by now."""
        return cwd is not None and self.root_of(cwd) is not None

    def root_of(self, cwd: str) -> str | None:
        """The worktree it lies in: the longest one, as a worktree may lie inside another."""
        if cwd not in self.known_roots:
            self.known_roots[cwd] = self.root_of_real(os.path.realpath(cwd))
        return self.known_roots[cwd]

    def root_of_real(self, real: str) -> str | None:
        """The same for a path without links, as that of a process is: nothing is asked of the disk."""
        if real not in self.known_roots:
            inside = [root for root in self.roots if real == root or real.startswith(root.rstrip("/") + "/")]
            self.known_roots[real] = max(inside, key=len, default=None)
        return self.known_roots[real]

    def processes_of(self, cli: str) -> tuple[AgentProcess, ...]:
        return tuple(process for process in self.processes if process.cli == cli)

    def life(self, pid: int) -> tuple[str | None, bool]:
        """As `host.life` tells it; several readers ask for the same process, and once a second is enough."""
        if self.lives is None:
            return host.start_time_and_suspension(pid)
        if pid not in self.lives:
            self.lives[pid] = host.start_time_and_suspension(pid)
        return self.lives[pid]

    def start_time(self, pid: int) -> str | None:
        return self.life(pid)[0]

    def alive(self, pid: int | None, started: str | None) -> bool | None:
        """True: it runs, and is the same one. False: proven gone. None: nobody knows the pid."""
        if pid is None:
            return None
        now = self.start_time(pid)
        return now is not None and (started is None or now == started)


@dataclass(frozen=True, slots=True)
class Sighting:
    """What one reader says about one session. Several about the same session, or the same process, are joined."""

    cli: str
    session: str | None  # None: only a process is known
    cwd: str | None  # the newest that is recorded
    pid: int | None = None
    pid_started: str | None = None
    alive: bool | None = None  # True: proven to run; False: proven gone; None: not known
    last_alive: str | None = None  # until when it was, when it is gone
    evidence: tuple[Evidence, ...] = ()
    facts: SessionFacts = field(default_factory=SessionFacts)
    news: tuple[AgentEvent, ...] = ()  # what was read since the last look, oldest first
    suspended: bool = False  # its process is stopped: asked for all readers in one place


class AgentReader(Protocol):
    """One agent program. `look` is only ever called from one thread at a time."""

    cli: str

    def folders(self, world: ReadContext) -> Sequence[str]:
        """Existing folders in which something changes whenever there is something new to read; asked after each look.

        Each is followed for itself, not what lies below it. Few: those of live sessions, and where new ones appear.
        """

    def look(self, world: ReadContext, touched: frozenset[str] | None) -> Sequence[Sighting]:
        """Everything that matters now: sessions in a watched worktree which live, or moved in the last 24 hours.

        `touched`: paths that changed since the last look; None: anything may have. Also called about every second with
        nothing touched, for what no file tells (a process that ended): that must cost next to nothing.
        """
