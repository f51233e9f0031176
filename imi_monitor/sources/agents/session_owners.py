"""Decides which process works on which session, for programs that do not record it.

`SessionOwners` (aider, opencode) matches by command line, folder and time, and says "unknown" while several processes of
one folder fit. `match_newest` with `ProcessHistory` (Gemini, Codex) gives each process exactly one session, the newest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from imi_monitor.sources.agents.agent_reader import AgentProcess

_CLOCK_SET_BACK = 60.0  # seconds by which a clock may have been set back while a process ran
_FRESH = 5.0  # seconds in which an unseen process may still be the one that wrote
_SLACK = 2.0  # seconds between a process's start and its first record


@dataclass(frozen=True, slots=True)
class SessionActivity:
    """What is needed of a session to find its process."""

    session: str
    folder: str  # real path
    updated: float  # seconds since 1970


@dataclass(frozen=True, slots=True)
class SessionProcess:
    """The process of a session. `alive`: True proven, False proven ended, None unknown. `until`: when it was last seen."""

    process: AgentProcess | None
    alive: bool | None
    until: float | None = None


class SessionOwners:
    """Remembers which process had which session, so that the end of a process ends its session at once.

    With several processes in one folder it may be impossible to say which has which session. Each is given one, so that
    none appears without; but then the end of a process proves nothing as long as another one is there.
    """

    def __init__(self) -> None:
        self._had: dict[str, AgentProcess] = {}
        self._certain: set[str] = set()
        self._until: dict[str, float] = {}

    def find(
        self,
        sessions: Sequence[SessionActivity],
        processes: Sequence[AgentProcess],
        now: float,
        pids: Mapping[str, int] | None = None,
    ) -> dict[str, SessionProcess]:
        """The process of each session. `pids`: session -> pid, where a process itself reports its session."""
        owner = _match_by_name(sessions, processes, pids or {})
        certain = {*owner, *self._match_by_folder(owner, sessions, processes)}
        known = {one.session for one in sessions}
        self._had = {each: process for each, process in {**self._had, **owner}.items() if each in known}
        self._certain = ((self._certain - owner.keys()) | certain) & known
        self._until = {each: at for each, at in self._until.items() if each in known and each not in owner}
        here = _processes_by_folder(processes)
        return {one.session: self._result(one, owner, here.get(one.folder, ()), now) for one in sessions}

    def _match_by_folder(
        self, owner: dict[str, AgentProcess], sessions: Sequence[SessionActivity], processes: Sequence[AgentProcess]
    ) -> list[str]:
        """Match the processes that are left, newest to newest; returns the sessions matched without doubt."""
        certain = []
        taken = {process.pid for process in owner.values()}
        left = sorted((each for each in processes if each.pid not in taken), key=lambda each: -each.began_at)
        beside, there = _processes_by_folder(left), _sessions_by_folder(sessions)
        for process in left:
            fitting = [one for one in there.get(process.cwd, ()) if one.session not in owner and _fits(process, one)]
            had = [one for one in fitting if _is_same(self._had.get(one.session), process)]
            alone = bool(fitting) and sum(_fits(other, fitting[0]) for other in beside[process.cwd]) == 1
            never_owned = [one for one in fitting if one.session not in self._had]
            best = (fitting if alone else had or never_owned)[:1]
            owner |= {one.session: process for one in best}
            certain += [one.session for one in best if alone or (had and one.session in self._certain)]
        return certain

    def _result(
        self, one: SessionActivity, owner: Mapping[str, AgentProcess], here: Sequence[AgentProcess], now: float
    ) -> SessionProcess:
        process, had = owner.get(one.session), self._had.get(one.session)
        if process is not None:
            return SessionProcess(process, True)
        if one.session not in self._certain and any(_fits(each, one, _CLOCK_SET_BACK) for each in here):
            return SessionProcess(None, None)  # one process may work on several sessions
        if had is None and now - one.updated < _FRESH:
            return SessionProcess(None, None)
        self._until.setdefault(one.session, now if had is not None else one.updated)
        return SessionProcess(had, False, self._until[one.session])


def _match_by_name(
    sessions: Sequence[SessionActivity], processes: Sequence[AgentProcess], pids: Mapping[str, int]
) -> dict[str, AgentProcess]:
    """Sessions whose process reports them, or names them on its command line."""
    by_pid = {process.pid: process for process in processes}
    by_word = {word: process for process in processes for word in process.argv}
    found: dict[str, AgentProcess] = {}
    for one in sessions:
        process = by_pid.get(pids.get(one.session, 0)) or by_word.get(one.session)
        if process is not None:
            found[one.session] = process
    return found


def _processes_by_folder(processes: Iterable[AgentProcess]) -> dict[str, list[AgentProcess]]:
    """In their order."""
    found: dict[str, list[AgentProcess]] = {}
    for process in processes:
        found.setdefault(process.cwd, []).append(process)
    return found


def _sessions_by_folder(sessions: Iterable[SessionActivity]) -> dict[str, list[SessionActivity]]:
    """Newest first."""
    found: dict[str, list[SessionActivity]] = {}
    for one in sorted(sessions, key=lambda one: -one.updated):
        found.setdefault(one.folder, []).append(one)
    return found


def _fits(process: AgentProcess, one: SessionActivity, slack: float = 0.0) -> bool:
    """True if the process works in that folder and was running when the session last changed."""
    return process.began_at <= one.updated + slack and process.cwd == one.folder


def _is_same(one: AgentProcess | None, other: AgentProcess) -> bool:
    return one is not None and (one.pid, one.started) == (other.pid, other.started)


# -- each process has one session: the newest -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SessionCandidate:
    """A session that may have a process."""

    id: str
    cwd: str
    modified_at: float
    names: frozenset[str] = frozenset()  # words of a command line that name it
    left_by: tuple[int, str] | None = None  # its former process; no other one fits while nothing was written since


def match_newest(sessions: Sequence[SessionCandidate], processes: Sequence[AgentProcess]) -> Mapping[str, AgentProcess]:
    """The process of each session that has one: by command line first, then newest to newest in the same folder."""
    found: dict[str, AgentProcess] = {}
    free = sorted(processes, key=lambda one: -one.began_at)
    ordered = sorted(sessions, key=lambda one: -one.modified_at)
    for by_name in (True, False):
        for session in ordered:
            if session.id in found:
                continue
            owner = next((one for one in free if _may_own(one, session, by_name)), None)
            if owner is not None:
                found[session.id] = owner
                free.remove(owner)
    return found


def _may_own(process: AgentProcess, session: SessionCandidate, by_name: bool) -> bool:
    if session.cwd != process.cwd:
        return False
    if by_name:
        return not session.names.isdisjoint(process.argv)
    if session.left_by is not None:
        return session.left_by == (process.pid, process.started)
    return session.modified_at >= process.began_at - _SLACK


class ProcessHistory:
    """Whether a session had a process at the last read, and whether it was written to since that ended."""

    def __init__(self) -> None:
        self.has_process = False
        self._last: tuple[int, str] | None = None
        self._modified_at_end: float | None = None

    def set_process(self, pid: int | None, started: str | None) -> None:
        self.has_process, self._modified_at_end = True, None
        self._last = (pid or 0, started or "")

    def set_no_process(self, modified_at: float) -> bool | None:
        """False: the session has ended. None: it was written to since its process ended, so an unseen process (in a
        container, of another user) goes on with it."""
        self.has_process = False
        if self._modified_at_end is None:
            self._modified_at_end = modified_at
        return None if modified_at > self._modified_at_end + _SLACK else False

    def left_by(self, modified_at: float) -> tuple[int, str] | None:
        """(pid, start time) of the process that ended, as long as nothing was written since."""
        return self._last if self._modified_at_end is not None and modified_at <= self._modified_at_end else None
