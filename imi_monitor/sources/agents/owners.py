"""Which process works on which session, for programs that do not write it down: by folder, by time, by command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from imi_monitor.sources.agents.base import AgentProcess

_SET_BACK = 60.0  # seconds by which a clock may have been set back while a process ran
_FRESH = 5.0  # seconds in which somebody unseen may still be the one who wrote


@dataclass(frozen=True, slots=True)
class Work:
    """A session, as far as finding its process goes. Moments are seconds since 1970."""

    session: str
    folder: str  # real path
    updated: float


@dataclass(frozen=True, slots=True)
class Life:
    """`process` has it; `alive`: True proven, False proven gone, None not known. `until`: when it was seen last."""

    process: AgentProcess | None
    alive: bool | None
    until: float | None = None


class Owners:
    """Remembers who had which session, so that a process that is gone is known to be gone at once.

    Of several processes in one folder it may be impossible to say which has which session. Each gets one then, so that
    none seems to be without; but the end of such a process proves nothing as long as another is there.
    """

    def __init__(self) -> None:
        self._had: dict[str, AgentProcess] = {}
        self._sure: set[str] = set()
        self._until: dict[str, float] = {}

    def lives(
        self, work: Sequence[Work], processes: Sequence[AgentProcess], now: float, told: Mapping[str, int] | None = None
    ) -> dict[str, Life]:
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
        self, owner: dict[str, AgentProcess], work: Sequence[Work], processes: Sequence[AgentProcess]
    ) -> list[str]:
        """Fill in who is left over, newest to newest; gives those of whom there is no doubt."""
        sure = []
        taken = {process.pid for process in owner.values()}
        left = sorted((each for each in processes if each.pid not in taken), key=lambda each: -each.began_at)
        beside, there = _grouped(left), _grouped_work(work)
        for process in left:
            mine = [one for one in there.get(process.cwd, ()) if one.session not in owner and _may_have(process, one)]
            had = [one for one in mine if _same(self._had.get(one.session), process)]
            alone = bool(mine) and sum(_may_have(other, mine[0]) for other in beside[process.cwd]) == 1
            free = [one for one in mine if one.session not in self._had]
            best = (mine if alone else had or free)[:1]
            owner |= {one.session: process for one in best}
            sure += [one.session for one in best if alone or (had and one.session in self._sure)]
        return sure

    def _life(
        self, one: Work, owner: Mapping[str, AgentProcess], processes: Sequence[AgentProcess], now: float
    ) -> Life:
        process, had = owner.get(one.session), self._had.get(one.session)
        if process is not None:
            return Life(process, True)
        if one.session not in self._sure and any(_may_have(each, one, _SET_BACK) for each in processes):
            return Life(None, None)  # and one process may work on several sessions
        if had is None and now - one.updated < _FRESH:
            return Life(None, None)
        self._until.setdefault(one.session, now if had is not None else one.updated)
        return Life(had, False, self._until[one.session])


def _named(work: Sequence[Work], processes: Sequence[AgentProcess], told: Mapping[str, int]) -> dict[str, AgentProcess]:
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


def _grouped_work(work: Iterable[Work]) -> dict[str, list[Work]]:
    """By folder, the newest first."""
    found: dict[str, list[Work]] = {}
    for one in sorted(work, key=lambda one: -one.updated):
        found.setdefault(one.folder, []).append(one)
    return found


def _may_have(process: AgentProcess, one: Work, slack: float = 0.0) -> bool:
    """It is in that folder, and was there when the session moved last."""
    return process.began_at <= one.updated + slack and process.cwd == one.folder


def _same(one: AgentProcess | None, other: AgentProcess) -> bool:
    return one is not None and (one.pid, one.started) == (other.pid, other.started)
