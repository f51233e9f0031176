"""Decides which process works on which session, for programs that do not record it in one place.

A pair is made once, from the hardest evidence there is, and stays until its process ends: what the program's own records
name (a lock, a log, a port), the command line (`--resume ID`), the time at which both began. Only where none of them
decides, the newest session goes to the newest process; such a pair is `tied`, and nothing about it is certain. A session
whose process ended is never given to another one that was there before, unless it was written to since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.agent_reader import AgentProcess

_CLOCK_SET_BACK = 60.0  # seconds by which a clock may have been set back while a process ran
_SLACK = 2.0  # seconds between a process's start and its first record, as far as their clocks differ
_START = 60.0  # seconds in which a process that begins with a session writes its first record

ProcessId = tuple[int, str]


@dataclass(frozen=True, slots=True)
class SessionTrace:
    """What is needed of a session to find its process."""

    session: str
    folder: str  # real path
    updated: float  # seconds since 1970
    began: float | None = None  # when its first record was written, for programs that write it as they start
    names: frozenset[str] = frozenset()  # words of a command line that name it
    pid: int | None = None  # of the process that a record of the program names
    loaded: bool = False  # some process has it now, whenever it was written
    freed: bool = False  # a record of the program shows that no process has it
    tied: bool = False  # `pid` and `freed` are only likely
    left: bool | None = None  # its process went on to another session: True and False are recorded, None is not known


@dataclass(frozen=True, slots=True)
class SessionProcess:
    """The process of a session. `alive`: True proven, False proven ended, None unknown. `until`: when it was last seen.

    `tied`: the process may as well have another session.
    """

    process: AgentProcess | None
    alive: bool | None
    until: float | None = None
    tied: bool = False

    @property
    def began(self) -> str | None:
        """When the process that has the session now began; None without one."""
        return fields.at(self.process.began_at) if self.process is not None and self.alive else None


@dataclass(slots=True)
class _Pair:
    process: AgentProcess
    tied: bool
    until: float | None = None  # when its process was seen to have ended, or to have gone on to another session
    updated: float = 0.0  # of the session at that moment
    left: bool = False


@dataclass(slots=True)
class _Folder:
    """The sessions and processes of one folder that are not paired."""

    processes: list[AgentProcess] = field(default_factory=list)  # all that run there, newest first
    sessions: list[SessionTrace] = field(default_factory=list)  # unpaired ones, newest first


class SessionPairs:
    """The pairs of one program. `several`: one process may work on several sessions at once. `moves`: it may go on to
    another one.

    `resumes`: whether a command line continues an older session, so that the process begins none of its own. `unseen`:
    seconds after a write in which a process that is not visible, such as one in a container, may have the session.
    """

    def __init__(
        self,
        *,
        several: bool = False,
        moves: bool = True,
        resumes: Callable[[Sequence[str]], bool] = lambda argv: False,
        unseen: float = 0.0,
    ) -> None:
        self._several = several
        self._moves = moves and not several
        self._unseen = unseen
        self._resumes = resumes
        self._pairs: dict[str, _Pair] = {}
        self._seen: dict[str, frozenset[ProcessId]] = {}  # session -> the processes at its first read
        self._last: frozenset[ProcessId] | None = None  # the processes at the last read
        self._gone: dict[str, float] = {}  # sessions without a process -> when they were written last at that moment

    def find(
        self, traces: Sequence[SessionTrace], processes: Sequence[AgentProcess], now: float
    ) -> dict[str, SessionProcess]:
        """The process of each session."""
        known = {one.session: one for one in traces}
        self._pairs = {session: pair for session, pair in self._pairs.items() if session in known}
        self._gone = {session: at for session, at in self._gone.items() if session in known}
        self._end_pairs(known, processes, now)
        self._pair_recorded(traces, processes, known, now)
        for folder in self._unpaired(traces, processes):
            self._pair_named(folder)
            self._pair_started(folder)
            self._pair_resumed(folder)
            self._pair_newest(folder)
            self._pair_moved(folder, known, now)
        here = frozenset(map(_id, processes))
        self._seen = {each: self._seen.get(each) or (self._last or frozenset()) for each in known}
        self._last = here
        by_folder = _by_folder(processes)
        return {one.session: self._result(one, by_folder.get(one.folder, ()), known, now) for one in traces}

    # -- pairs --------------------------------------------------------------------------------------------------------

    def _end_pairs(self, known: Mapping[str, SessionTrace], processes: Sequence[AgentProcess], now: float) -> None:
        running = {_id(one): one for one in processes}
        for session, pair in self._pairs.items():
            again = running.get(_id(pair.process))
            if again is not None and not (pair.left or known[session].freed):
                pair.process, pair.until = again, None
            elif pair.until is None:
                pair.until, pair.updated = now, known[session].updated

    def _living(self, process: AgentProcess) -> str | None:
        """The session that a process has."""
        mine = _id(process)
        return next((name for name, one in self._pairs.items() if one.until is None and _id(one.process) == mine), None)

    def _pair(self, session: str, process: AgentProcess, tied: bool) -> None:
        self._pairs[session] = _Pair(process, tied)

    def _leave(self, session: str, known: Mapping[str, SessionTrace], now: float) -> None:
        """The process of a session has gone on to another one."""
        pair = self._pairs[session]
        pair.until, pair.updated, pair.left = now, known[session].updated, True

    def _pair_recorded(
        self,
        traces: Sequence[SessionTrace],
        processes: Sequence[AgentProcess],
        known: Mapping[str, SessionTrace],
        now: float,
    ) -> None:
        """Make the pairs that the program's own records name; they replace any other."""
        by_pid = {pid: one for one in processes for pid in (*one.family, one.pid)}
        recorded = {one.session: by_pid[one.pid] for one in traces if one.pid in by_pid}
        for session, process in recorded.items():
            mine = self._pairs.get(session)
            if mine is not None and mine.until is None and not mine.tied and _id(mine.process) == _id(process):
                continue
            before = self._living(process)
            if before is not None and before not in recorded and (not self._several or self._pairs[before].tied):
                self._leave(before, known, now)
            self._pair(session, process, known[session].tied)

    def _unpaired(self, traces: Sequence[SessionTrace], processes: Sequence[AgentProcess]) -> Iterable[_Folder]:
        folders: dict[str, _Folder] = {}
        for process in sorted(processes, key=lambda one: -one.began_at):
            folders.setdefault(process.cwd, _Folder()).processes.append(process)
        for one in sorted(traces, key=lambda one: -one.updated):
            if one.folder in folders and self._is_unpaired(one):
                folders[one.folder].sessions.append(one)
        return [folder for folder in folders.values() if folder.sessions]

    def _is_unpaired(self, one: SessionTrace) -> bool:
        """True if the session may belong to another process; an ended session only if it was written to afterwards."""
        pair = self._pairs.get(one.session)
        if one.freed or (pair is not None and pair.until is None):
            return False
        return pair is None or one.loaded or one.updated > pair.updated

    def _free(self, folder: _Folder) -> list[AgentProcess]:
        return [one for one in folder.processes if self._living(one) is None]

    def _assign(self, folder: _Folder, one: SessionTrace, process: AgentProcess, tied: bool) -> None:
        self._pair(one.session, process, tied)
        folder.sessions.remove(one)

    def _pair_named(self, folder: _Folder) -> None:
        for process in self._free(folder):
            words = process.argv[1:]
            one = next((one for one in folder.sessions if not one.names.isdisjoint(words)), None)
            if one is not None:
                self._assign(folder, one, process, False)

    def _pair_started(self, folder: _Folder) -> None:
        """Pairs that began together."""
        free = sorted(self._free(folder), key=lambda one: one.began_at)
        fresh = [one for one in free if not self._resumes(one.argv)]
        began = sorted((one for one in folder.sessions if one.began is not None), key=lambda one: one.began or 0.0)
        fits = {one.session: [each for each in fresh if _began_with(each, one)] for one in began}
        matched = _match(fits)
        for one in began:
            process = matched.get(one.session)
            if process is not None:
                self._assign(folder, one, process, not _is_only(fits, matched, one.session))

    def _pair_resumed(self, folder: _Folder) -> None:
        """Processes that continue an older session: one that was written to since."""
        for process in self._free(folder):
            if self._resumes(process.argv):
                older = [
                    one for one in folder.sessions if _fits(process, one) and process.began_after(one.began or 0.0)
                ]
                if older:
                    rivals = [one for one in folder.processes if one is not process and _fits(one, older[0])]
                    self._assign(folder, older[0], process, len(older) > 1 or bool(rivals))

    def _pair_newest(self, folder: _Folder) -> None:
        """Pair the remaining sessions and processes, newest to newest. A pair without any alternative is not tied."""
        for process in self._free(folder):
            fitting = [one for one in folder.sessions if self._may_have(process, one)]
            if not fitting:
                continue
            one = fitting[0]
            others = [each for each in folder.processes if each is not process and _fits(each, one)]
            had = any(_id(pair.process) == _id(process) for pair in self._pairs.values())
            self._assign(folder, one, process, bool(others) or (len(fitting) > 1 and not had))

    def _may_have(self, process: AgentProcess, one: SessionTrace) -> bool:
        """True unless the session began before the process and was not written to since, or it ended with another."""
        pair = self._pairs.get(one.session)
        if pair is not None and _id(pair.process) != _id(process) and process.began_at < (pair.until or 0.0) - _SLACK:
            return one.loaded  # it was there beside the former one; an unseen process may be the one that writes
        return _fits(process, one, _SLACK)

    def _pair_moved(self, folder: _Folder, known: Mapping[str, SessionTrace], now: float) -> None:
        """Pair processes that went on to another session (/clear, /resume); undecided while several may have done so."""
        if not self._moves:
            return
        for one in list(folder.sessions):
            may = [each for each in folder.processes if self._may_have_moved(each, one, known)]
            if len(may) != 1:
                continue
            before = self._living(may[0])
            assert before is not None
            alone = len(folder.processes) == 1 and _id(may[0]) in self._seen.get(one.session, self._last or ())
            certain = known[before].left is True or alone
            self._leave(before, known, now)
            self._pairs[before].tied = not certain
            self._assign(folder, one, may[0], not certain)

    def _may_have_moved(self, process: AgentProcess, to: SessionTrace, known: Mapping[str, SessionTrace]) -> bool:
        before = self._living(process)
        if before is None or known[before].left is False or known[before].loaded or not _fits(process, to):
            return False
        return known[before].updated <= (to.updated if to.began is None else to.began + _SLACK)

    # -- the result ---------------------------------------------------------------------------------------------------

    def _result(
        self, one: SessionTrace, here: Sequence[AgentProcess], known: Mapping[str, SessionTrace], now: float
    ) -> SessionProcess:
        pair = self._pairs.get(one.session)
        if pair is not None and pair.until is None:
            return SessionProcess(pair.process, True, tied=pair.tied)
        if one.freed:
            until = pair.until if pair else one.updated
            return SessionProcess(pair.process if pair else None, False, until, one.tied)
        rivals = [each for each in here if self._may_still_have(each, one, known)]
        if pair is not None:
            again = one.updated > pair.updated + _SLACK  # by an unseen process: in a container, of another user
            if again or (pair.tied and rivals):
                return SessionProcess(None, None)
            return SessionProcess(pair.process, False, pair.until)
        newer = not self._several and all(self._has_newer(each, one, known) for each in rivals)
        if fields.quiet(now, one.updated) < self._unseen or (rivals and not newer):
            return SessionProcess(None, None)
        if one.updated > self._gone.setdefault(one.session, one.updated):
            return SessionProcess(None, None)  # an unseen process goes on with it
        return SessionProcess(None, False, one.updated, tied=bool(rivals))

    def _has_newer(self, process: AgentProcess, one: SessionTrace, known: Mapping[str, SessionTrace]) -> bool:
        """True if the process most likely works on its paired session: it was written later, or the process stays with it."""
        has = self._living(process)
        if has is None:
            return False
        return known[has].updated > one.updated or known[has].left is False or not self._moves

    def _may_still_have(self, process: AgentProcess, one: SessionTrace, known: Mapping[str, SessionTrace]) -> bool:
        """True if a process may have this session, although it has none or another one."""
        if not _fits(process, one, _CLOCK_SET_BACK):
            return False
        has = self._living(process)
        if has is None or self._several or self._pairs[has].tied:
            return has is None or self._pairs[has].tied
        return self._may_have_moved(process, one, known)


def _id(process: AgentProcess) -> ProcessId:
    return process.pid, process.started


def _by_folder(processes: Iterable[AgentProcess]) -> dict[str, list[AgentProcess]]:
    found: dict[str, list[AgentProcess]] = {}
    for process in processes:
        found.setdefault(process.cwd, []).append(process)
    return found


def _fits(process: AgentProcess, one: SessionTrace, slack: float = 0.0) -> bool:
    """True if the process works in that folder and was running when the session last changed."""
    return process.cwd == one.folder and (one.loaded or process.ran_at(one.updated + slack))


def _began_with(process: AgentProcess, one: SessionTrace) -> bool:
    """True if the session began as the process did."""
    return one.began is not None and -_SLACK <= one.began - process.began_at <= _START and _fits(process, one, _SLACK)


# -- the only way to give as many sessions as possible a process ------------------------------------------------------

_Fits = Mapping[str, Sequence[AgentProcess]]


def _match(fits: _Fits, without: tuple[str, AgentProcess] | None = None) -> dict[str, AgentProcess]:
    """A process for as many sessions as possible, in their order. `without`: a pair that is not allowed."""
    taken: dict[ProcessId, str] = {}

    def place(session: str, tried: set[ProcessId]) -> bool:
        allowed = [one for one in fits[session] if (session, one) != without and _id(one) not in tried]
        for one in sorted(allowed, key=lambda one: _id(one) in taken):
            tried.add(_id(one))
            holder = taken.get(_id(one))
            if holder is None or place(holder, tried):
                taken[_id(one)] = session
                return True
        return False

    for session in fits:
        place(session, set())
    processes = {_id(one): one for each in fits.values() for one in each}
    return {session: processes[who] for who, session in taken.items()}


def _is_only(fits: _Fits, matched: Mapping[str, AgentProcess], session: str) -> bool:
    """True if without this pair fewer sessions would have a process."""
    return len(_match(fits, (session, matched[session]))) < len(matched)
