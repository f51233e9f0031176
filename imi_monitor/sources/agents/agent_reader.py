"""The interface of a reader of one agent program: what it is given, and what it reports.

A reader reads files, databases and sockets that its program leaves behind. It runs in a worker thread, one call at a
time, and keeps its state between calls, so that a call costs what was appended since. Foreign data never makes it raise
(an unknown record becomes a `format_note`), and it writes nothing into the program's folders.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from imi_monitor import host
from imi_monitor.model.agent import AgentEvent, Evidence, SessionFacts

# Seconds by which moments of one instant differ: the start of a process is known to 10 ms, the time of a file to a tick of the
# kernel (up to 10 ms), and programs cut the time of a record to milliseconds.
CLOCK_RESOLUTION: Final = 0.05


@dataclass(frozen=True, slots=True)
class AgentProgram:
    """How the processes of an agent program are recognised, and what their terminal titles mean."""

    cli: str
    packages: tuple[str, ...]  # parts of the paths of its files
    helpers: frozenset[str] = frozenset()  # first arguments that start no agent
    helpers_anywhere: frozenset[str] = frozenset()  # the same among the first few arguments
    titles: tuple[tuple[re.Pattern[str], str], ...] = ()  # pattern of a title -> state
    folder_title: str | None = None  # the state when the title is the name of its folder
    commands: tuple[str, ...] = ()  # names of its commands, if not `cli`
    starters: frozenset[str] = frozenset()  # if given, only these first arguments, or none, start an agent
    home_variables: tuple[str, ...] = ()  # environment variables, beside HOME, that say where it keeps its sessions


@dataclass(frozen=True, slots=True)
class AgentProcess:
    """A running agent program; its helpers and node wrappers are folded into one."""

    cli: str
    pid: int
    started: str  # in the form of host.start_time
    cwd: str  # real path; may lie outside every worktree
    argv: tuple[str, ...]
    began_at: float  # seconds since 1970
    family: frozenset[int] = frozenset()  # pids of its wrappers and children of the same program
    ancestors: tuple[int, ...] = ()  # its parents up to init, nearest first
    tty: str | None = None
    suspended: bool = False  # stopped by ctrl-z or SIGSTOP
    environment: tuple[tuple[str, str], ...] | None = None  # the variables that name its home; None: not readable

    def ran_at(self, moment: float) -> bool:
        """Whether it had begun by then; True if the clocks cannot tell."""
        return self.began_at <= moment + CLOCK_RESOLUTION

    def began_after(self, moment: float) -> bool:
        """Whether it had not begun by then; True if the clocks cannot tell."""
        return moment < self.began_at + CLOCK_RESOLUTION


ScanProcesses = Callable[[], Sequence[AgentProcess]]


@dataclass(frozen=True, slots=True)
class ReadContext:
    """What a reader may use besides its own files: the time, the worktrees and the running processes."""

    now: float  # seconds since 1970
    home: str
    env: Mapping[str, str]
    roots: tuple[str, ...]  # real paths of the worktrees
    processes: tuple[AgentProcess, ...] = ()
    # Both are shared by all readers and, the first one, by all reads: path -> worktree; pid -> its state.
    known_roots: dict[str, str | None] = field(default_factory=dict, compare=False, repr=False)
    process_states: dict[int, tuple[str | None, bool]] | None = field(default=None, compare=False, repr=False)

    def is_watched(self, cwd: str | None) -> bool:
        """True if the folder lies in a worktree. `cwd` may contain links, or no longer exist."""
        return cwd is not None and self.root_of(cwd) is not None

    def root_of(self, cwd: str) -> str | None:
        """The innermost worktree that contains the folder."""
        if cwd not in self.known_roots:
            try:
                self.known_roots[cwd] = self.root_of_real(os.path.realpath(cwd))
            except (ValueError, OSError):  # a recorded name that no folder can have
                self.known_roots[cwd] = None
        return self.known_roots[cwd]

    def root_of_real(self, real: str) -> str | None:
        """Return the root of a path that has no links, such as a process's folder; reads nothing from the disk."""
        if real not in self.known_roots:
            inside = [root for root in self.roots if real == root or real.startswith(root.rstrip("/") + "/")]
            self.known_roots[real] = max(inside, key=len, default=None)
        return self.known_roots[real]

    def processes_of(self, cli: str) -> tuple[AgentProcess, ...]:
        return tuple(process for process in self.processes if process.cli == cli)

    def process_state(self, pid: int) -> tuple[str | None, bool]:
        """(start time, suspended) as in `host.start_time_and_suspension`, read at most once per tick."""
        if self.process_states is None:
            return host.start_time_and_suspension(pid)
        if pid not in self.process_states:
            self.process_states[pid] = host.start_time_and_suspension(pid)
        return self.process_states[pid]

    def start_time(self, pid: int) -> str | None:
        return self.process_state(pid)[0]

    def alive(self, pid: int | None, started: str | None) -> bool | None:
        """True: the process runs and is the same one. False: it has ended. None: no pid is known."""
        if pid is None:
            return None
        now = self.start_time(pid)
        return now is not None and (started is None or now == started)


@dataclass(frozen=True, slots=True)
class Sighting:
    """What one reader found out about one session. Sightings of the same session or process are merged."""

    cli: str
    session: str | None  # None: only a process is known
    cwd: str | None  # the newest recorded one
    pid: int | None = None
    pid_started: str | None = None
    alive: bool | None = None  # True: it runs; False: it has ended; None: unknown
    last_alive: str | None = None  # when an ended process was last seen running
    evidence: tuple[Evidence, ...] = ()
    facts: SessionFacts = field(default_factory=SessionFacts)
    events: tuple[AgentEvent, ...] = ()  # read since the last call, oldest first
    suspended: bool = False  # filled in by AgentPoll for every reader
    process_began: str | None = None  # of the process that holds the session; an open turn from before was cut off
    tied: bool = False  # another process may have the session as well: the newest one was chosen


class AgentReader(Protocol):
    """One agent program. All calls come from one thread."""

    cli: str
    has_more: bool  # older records are still unread; the next call reads another slice

    def watch_folders(self, context: ReadContext) -> Sequence[str]:
        """Existing folders that change whenever there is something to read; asked for after each `read`.

        Each folder is watched by itself, without what lies below it. Few: those of live sessions, and those in which
        new sessions appear.
        """

    def read(self, context: ReadContext, touched: frozenset[str] | None) -> Sequence[Sighting]:
        """The sessions of watched worktrees that run now or changed in the last 24 hours.

        `touched`: paths that changed since the last call; None: anything may have. A call with nothing touched comes
        about once a second, for what no file shows (such as a process that ended), and must be cheap.
        """
