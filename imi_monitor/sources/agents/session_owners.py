"""Which process works on which session, for programs that do not write it down: by folder, by time, by command line.

Who works on what, for programs that write down neither: the newest sessions of a folder are those of its processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from imi_monitor.sources.agents.agent_reader import AgentProcess

_SET_BACK = 60.0  # seconds by which a clock may have been set back while a process ran
_FRESH = 5.0  # seconds in which somebody unseen may still be the one who wrote


@dataclass(frozen=True, slots=True)
class SessionActivity:
    """A session, as far as finding its process goes. Moments are seconds since 1970."""

    session: str
    folder: str  # real path
    updated: float


@dataclass(frozen=True, slots=True)
class SessionProcess:
    """`process` has it; `alive`: True proven, False proven gone, None not known. `until`: when it was seen last."""

    process: AgentProcess | None
    alive: bool | None
    until: float | None = None


class SessionOwners:
    """Remembers who had which session, so that a process that is gone is known to be gone at once.

    Of several processes in one folder it may be impossible to say which has which session. Each gets one then, so that
    none seems to be without; but the end of such a process proves nothing as long as another is there.
    """

    def __init__(self) -> None:
        self._had: dict[str, AgentProcess] = {}
        self._sure: set[str] = set()
        self._until: dict[str, float] = {}

    def lives(
        self,
        work: Sequence[SessionActivity],
        processes: Sequence[AgentProcess],
        now: float,
        told: Mapping[str, int] | None = None,
    ) -> dict[str, SessionProcess]:
        """`told`: session -> pid, where a process itself says what it works on."""
        owner = _named(work, processes, told or {})
        sure = {*owner, *self._by_folder(owner, work, processes)}
        known = {one.session for one in work}
        self._had = {each: process for each, process in {**self._had, **owner}.items() if each in known}
        self._sure = ((self._sure - owner.keys()) | sure) & known
        self._until = {each: at for each, at in self._until.items() if each in known and each not in owner}
        here = _grouped(processes)
        return {one.session: self._life(one, owner, here.get(one.folder, ()), now) for one in work}

    def _by_folder(
        self, owner: dict[str, AgentProcess], work: Sequence[SessionActivity], processes: Sequence[AgentProcess]
    ) -> list[str]:
        """Fill in who is left over, newest to newest; gives those of whom there is no doubt."""
        sure = []
        taken = {process.pid for process in owner.values()}
        left = sorted((each for each in processes if each.pid not in taken), key=lambda each: -each.began_at)
        beside, there = _grouped(left), _grouped_work(work)
        for process in left:
            mine = [one for one in there.get(process.cwd, ()) if one.session not in owner and _may_have(process, one)]
            had = [one for one in mine if _is_same(self._had.get(one.session), process)]
            alone = bool(mine) and sum(_may_have(other, mine[0]) for other in beside[process.cwd]) == 1
            free = [one for one in mine if one.session not in self._had]
            best = (mine if alone else had or free)[:1]
            owner |= {one.session: process for one in best}
            sure += [one.session for one in best if alone or (had and one.session in self._sure)]
        return sure

    def _life(
        self, one: SessionActivity, owner: Mapping[str, AgentProcess], processes: Sequence[AgentProcess], now: float
    ) -> SessionProcess:
        process, had = owner.get(one.session), self._had.get(one.session)
        if process is not None:
            return SessionProcess(process, True)
        if one.session not in self._sure and any(_may_have(each, one, _SET_BACK) for each in processes):
            return SessionProcess(None, None)  # and one process may work on several sessions
        if had is None and now - one.updated < _FRESH:
            return SessionProcess(None, None)
        self._until.setdefault(one.session, now if had is not None else one.updated)
        return SessionProcess(had, False, self._until[one.session])


def _named(
    work: Sequence[SessionActivity], processes: Sequence[AgentProcess], told: Mapping[str, int]
) -> dict[str, AgentProcess]:
    """Whose process says so itself, or has it in its command line."""
    by_pid = {process.pid: process for process in processes}
    by_word = {word: process for process in processes for word in process.argv}
    found: dict[str, AgentProcess] = {}
    for one in work:
        process = by_pid.get(told.get(one.session, 0)) or by_word.get(one.session)
        if process is not None:
            found[one.session] = process
    return found


def _grouped(processes: Iterable[AgentProcess]) -> dict[str, list[AgentProcess]]:
    """By folder, in their order."""
    found: dict[str, list[AgentProcess]] = {}
    for process in processes:
        found.setdefault(process.cwd, []).append(process)
    return found


def _grouped_work(work: Iterable[SessionActivity]) -> dict[str, list[SessionActivity]]:
    """By folder, the newest first."""
    found: dict[str, list[SessionActivity]] = {}
    for one in sorted(work, key=lambda one: -one.updated):
        found.setdefault(one.folder, []).append(one)
    return found


def _may_have(process: AgentProcess, one: SessionActivity, slack: float = 0.0) -> bool:
    """It is in that folder, and was there when the session moved last."""
    return process.began_at <= one.updated + slack and process.cwd == one.folder


def _is_same(one: AgentProcess | None, other: AgentProcess) -> bool:
    return one is not None and (one.pid, one.started) == (other.pid, other.started)


_SLACK = 2.0  # seconds between a process's start and what it writes first


@dataclass(frozen=True, slots=True)
class SessionCandidate:
    """A session: where, and when it was heard of last. `names`: what its process may have been told on its command line."""

    id: str
    cwd: str
    heard_at: float
    names: frozenset[str] = frozenset()
    left_by: tuple[int, str] | None = None  # its process ended, and nothing was heard since: only that one may be back


def match_newest(sessions: Sequence[SessionCandidate], processes: Sequence[AgentProcess]) -> Mapping[str, AgentProcess]:
    """The process of each session that has one; the others have ended."""
    found: dict[str, AgentProcess] = {}
    free = sorted(processes, key=lambda one: -one.began_at)
    ordered = sorted(sessions, key=lambda one: -one.heard_at)
    for told in (True, False):
        for session in ordered:
            if session.id in found:
                continue
            owner = next((one for one in free if _fits(session, one, told)), None)
            if owner is not None:
                found[session.id] = owner
                free.remove(owner)
    return found


def _fits(session: SessionCandidate, process: AgentProcess, told: bool) -> bool:
    if session.cwd != process.cwd:
        return False
    if told:
        return not session.names.isdisjoint(process.argv)
    if session.left_by is not None:
        return session.left_by == (process.pid, process.started)
    return session.heard_at >= process.began_at - _SLACK


class ProcessHistory:
    """What became of a session's process, from look to look."""

    def __init__(self) -> None:
        self.owned = False  # it had a process when it was asked last
        self._owner: tuple[int, str] | None = None
        self._heard_alone: float | None = None

    def owner_is(self, pid: int | None, started: str | None) -> None:
        self.owned, self._heard_alone = True, None
        self._owner = (pid or 0, started or "")

    def nobody(self, heard_at: float) -> bool | None:
        """No process is proof of its end (False), unless it was heard of since: then something goes on that we cannot
        see, in a container or as another user (None)."""
        self.owned = False
        if self._heard_alone is None:
            self._heard_alone = heard_at
        return None if heard_at > self._heard_alone + _SLACK else False

    def left_by(self, heard_at: float) -> tuple[int, str] | None:
        """Who left it while we looked, as long as nothing was heard of it since."""
        return self._owner if self._heard_alone is not None and heard_at <= self._heard_alone else None
