"""Reads the spool into which the hooks of agents write: exact states without delay, where hooks are installed.

One file is one event. Every monitor reads all files itself. A file is deleted only when no state rests on it any more and
it is old enough for every running monitor to have read it.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from imi_monitor import paths
from imi_monitor.model.agent import AgentEvent, SessionFacts
from imi_monitor.sources.agents.agent_reader import AgentProcess, AgentReader, ReadContext, Sighting
from imi_monitor.sources.agents.foreign_files import MOST_WRITTEN
from imi_monitor.sources.agents.hooks import question_hooks
from imi_monitor.sources.agents.hooks.question_hooks import WaitingHook
from imi_monitor.sources.agents.hooks.records import ASKS, END, HookRecord, parse
from imi_monitor.sources.agents.hooks.reducer import HookReducer, events_of, evidence_of

_LONGEST_READ = 8 << 20  # bytes per call
_KEEP = 120.0  # seconds that every file stays, so that all monitors read it; counted by a clock that cannot be set
_BROKEN = 600.0  # seconds after which an incomplete file is deleted
_OLDEST = 7 * 86400.0
_RECENT = 86400.0  # sessions without an event for longer are not shown
_TIDY_AFTER = 60.0  # seconds before a reader deletes files: a single command records nothing


def make() -> AgentReader:
    return HookReader()


class HookReader:
    cli = "hooks"

    def __init__(self, longest_read: int = _LONGEST_READ, clock: Callable[[], float] = time.monotonic) -> None:
        self.has_more = False
        self._clock = clock
        self._longest_read = longest_read
        self._born: float | None = None
        self._known: dict[str, HookRecord | None] = {}  # by file name; None: of an unknown format
        self._since: dict[str, float] = {}  # file name -> when it was first found
        self._waiting: dict[str, tuple[int, int]] = {}  # found, not read yet: (ns, size)
        self._torn: dict[str, int] = {}  # incomplete: ns
        self._sessions: dict[tuple[str, str], HookSession] = {}
        self._hooks: list[WaitingHook] = []  # that wait for an answer

    def watch_folders(self, context: ReadContext) -> Sequence[str]:
        folders = _folder(context), _asks(context)
        return tuple(folder for folder in folders if os.path.isdir(folder))

    def read(self, context: ReadContext, touched: frozenset[str] | None) -> Sequence[Sighting]:
        folder = _folder(context)
        self._born = self._clock() if self._born is None else self._born
        if touched is None:
            self._list(folder)
        else:
            self._add_touched(folder, touched)
        self._find_hooks(_asks(context), touched)
        if self._waiting:
            self._read(folder)
        if touched is None and self._clock() - self._born > _TIDY_AFTER:
            self._tidy(folder, context.now)
        since = (context.now - _RECENT) * 1e9
        for session in self._sessions.values():
            if self._hooks or session.ask is not None:
                session.find_ask(self._hooks)
        return [
            sighting
            for session in self._sessions.values()
            if session.records and session.records[-1].ns > since
            if (sighting := sighting_of(session, context)) is not None
        ]

    # -- reading ------------------------------------------------------------------------------------------------------

    def _list(self, folder: str) -> None:
        """List the whole folder; forget the files that are gone."""
        found: dict[str, tuple[int, int]] = {}
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.startswith("e.") and entry.name not in self._known:
                        _stat(entry.path, entry.name, found)
                    elif entry.name in self._known:
                        found[entry.name] = (0, 0)
        except OSError:
            found = {}
        gone = self._known.keys() - found.keys()
        self._forget(gone)
        self._waiting = {name: of_it for name, of_it in found.items() if name not in self._known}
        self._torn = {name: ns for name, ns in self._torn.items() if name in found}
        self._since = {name: at for name, at in self._since.items() if name in found}

    def _find_hooks(self, folder: str, touched: frozenset[str] | None) -> None:
        if touched is None or any(os.path.dirname(path) == folder for path in touched):
            self._hooks = question_hooks.find(folder)
        if self._hooks:  # one that is killed changes no file
            gone = [one for one in self._hooks if not one.alive]
            self._hooks = [one for one in self._hooks if one not in gone]
            for one in gone:
                one.release()

    def _add_touched(self, folder: str, touched: frozenset[str]) -> None:
        for path in touched:
            name = os.path.basename(path)
            if os.path.dirname(path) == folder and name.startswith("e.") and name not in self._known:
                _stat(path, name, self._waiting)

    def _read(self, folder: str) -> None:
        """Read new files, the newest first, for the state; many old ones follow in slices."""
        budget = self._longest_read
        new: dict[tuple[str, str], list[HookRecord]] = {}
        for name, (ns, _) in sorted(self._waiting.items(), key=lambda item: item[1], reverse=True):
            if budget <= 0:
                break
            del self._waiting[name]
            self._since.setdefault(name, self._clock())
            record, size = _read(os.path.join(folder, name), name)
            budget -= max(size, 4096)
            if record is _INCOMPLETE:  # it is read after its next change
                self._torn[name] = ns
                continue
            self._torn.pop(name, None)
            if size >= 0:
                self._known[name] = record
            if record is not None:
                new.setdefault((record.cli, record.session), []).append(record)
        self.has_more = bool(self._waiting)
        for key, records in new.items():
            self._sessions.setdefault(key, HookSession()).add(records)

    # -- forgetting -----------------------------------------------------------------------------------------------------

    def _tidy(self, folder: str, now: float) -> None:
        """Delete the files that no state rests on any more."""
        needed = {name for session in self._sessions.values() for name in session.reducer.needed()}
        gone = set()
        for name, record in self._known.items():
            age = now - record.ns / 1e9 if record is not None else None
            if age is None or age > _OLDEST or (age > _KEEP and name not in needed):
                gone.add(name)
        gone |= {name for name, ns in self._torn.items() if now - ns / 1e9 > _BROKEN}
        seen = self._clock() - _KEEP
        gone = {name for name in gone if self._since[name] < seen}
        for name in gone:
            try:
                os.unlink(os.path.join(folder, name))
            except FileNotFoundError:  # another monitor was first
                continue
            except OSError:  # the folder is read-only: the file stays
                return
        self._forget(gone)
        for name in gone:
            self._torn.pop(name, None)

    def _forget(self, gone: Iterable[str]) -> None:
        names = set(gone)
        if not names:
            return
        for name in names:
            self._known.pop(name, None)
        for key, session in list(self._sessions.items()):
            left = [record for record in session.records if record.name not in names]
            if not left:
                del self._sessions[key]
            elif len(left) != len(session.records):
                session.replace(left)


_INCOMPLETE = HookRecord("", 0, "", "", "")


def _folder(context: ReadContext) -> str:
    return os.path.join(paths.hooks_dir(context.home, context.env), "spool")


def _asks(context: ReadContext) -> str:
    return question_hooks.folder_of(paths.hooks_dir(context.home, context.env))


def _stat(path: str, name: str, into: dict[str, tuple[int, int]]) -> None:
    try:
        found = os.lstat(path)
    except OSError:
        into.pop(name, None)
        return
    if stat.S_ISREG(found.st_mode):
        into[name] = (found.st_mtime_ns, found.st_size)


def _read(path: str, name: str) -> tuple[HookRecord | None, int]:
    """(record, bytes read); `_INCOMPLETE` while the file is being written, -1 bytes if it is gone."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None, -1
    with open(fd, "rb") as file:
        try:
            info = os.fstat(fd)
            file.seek(max(0, info.st_size - len(END)))
            if file.read() != END:
                return _INCOMPLETE, 0
            file.seek(0)
            data = file.read()
        except OSError:
            return None, -1
    return parse(name, info.st_mtime_ns, data), len(data)


@dataclass
class HookSession:
    records: list[HookRecord] = field(default_factory=list)  # in order
    reducer: HookReducer = field(default_factory=HookReducer)
    facts: SessionFacts = field(default_factory=SessionFacts)
    events: list[AgentEvent] = field(default_factory=list)
    ask: str | None = None  # the id of the hook that waits for the answer to its first question

    def find_ask(self, hooks: Sequence[WaitingHook]) -> None:
        mine = [one for one in hooks if (one.record.cli, one.record.session) == self._key]
        found = question_hooks.match(mine, self.reducer, self.records) if mine else None
        self.ask = found.id if found is not None else None

    @property
    def _key(self) -> tuple[str, str]:
        return self.records[-1].cli, self.records[-1].session

    def add(self, new: Iterable[HookRecord]) -> None:
        ordered = sorted(new, key=_order)
        if self.records and ordered[0].order < self.records[-1].order:  # an older slice, or a hook that took longer
            self.records = sorted([*self.records, *ordered], key=_order)
            self.reducer = HookReducer()
            self._add(self.records, {record.name for record in ordered})
            return
        self.records += ordered
        self._add(ordered, {record.name for record in ordered})

    def replace(self, records: Iterable[HookRecord]) -> None:
        """Start again with these records."""
        self.records = sorted(records, key=_order)
        self.reducer = HookReducer()
        self._add(self.records, set())

    def _add(self, records: Iterable[HookRecord], new: set[str]) -> None:
        """`new`: the names of the records whose events are not reported yet."""
        for record in records:
            if record.name in new:
                self.events += events_of(record, self.reducer.call_of(record) if record.kind == ASKS else None)
            self.reducer.add(record)
        self.facts = _facts(self.reducer, self.records)


def _order(record: HookRecord) -> tuple[int, str]:
    return record.order


def sighting_of(session: HookSession, context: ReadContext) -> Sighting | None:
    reducer, latest = session.reducer, session.records[-1]
    news, session.events = tuple(session.events), []
    cwd = next((record.cwd for record in reversed(session.records) if record.cwd), None)
    if not context.is_watched(cwd):
        return None
    pid, started, alive = (None, None, False) if reducer.ended else _find_process(session.records, context)
    return Sighting(
        latest.cli,
        latest.session,
        cwd,
        pid,
        started,
        alive,
        last_alive=latest.at if alive is False else None,
        evidence=evidence_of(reducer),
        facts=session.facts if session.ask is None else replace(session.facts, ask=session.ask),
        events=news,
    )


def _find_process(records: Sequence[HookRecord], context: ReadContext) -> tuple[int | None, str | None, bool | None]:
    """The process that fired the last hook; for Claude also the fact that it has ended."""
    last = next((record for record in reversed(records) if record.pid), None)
    if last is None or last.pid is None or last.host not in ("", os.uname().nodename):
        return None, None, None
    for process in context.processes_of(last.cli):
        if last.pid == process.pid or last.pid in process.family:
            return _if_older(process, last)
    if last.cli == "claude" and context.start_time(last.pid) is None:
        return last.pid, None, False
    return None, None, None


def _if_older(process: AgentProcess, record: HookRecord) -> tuple[int | None, str | None, bool | None]:
    """Return pid, start and life of the process; if it began after the event, it only reuses the pid."""
    if process.began_at > record.ns / 1e9 + 1:
        return None, None, False if record.cli == "claude" else None
    return process.pid, process.started, True


def _facts(reducer: HookReducer, records: Sequence[HookRecord]) -> SessionFacts:
    newest = list(reversed(records))
    files = dict.fromkeys(path for record in records for path in record.files)
    return SessionFacts(
        model=next((one.model for one in newest if one.model), None),
        title=next((one.title for one in newest if one.title), None),
        started_at=reducer.started.at if reducer.started else None,
        ended_at=reducer.ended.at if reducer.ended else None,
        turn_at=reducer.prompt.at if reducer.prompt else None,
        prompt=reducer.prompt.text if reducer.prompt else None,
        last_message=reducer.said.text if reducer.said else None,
        files=tuple(files)[-MOST_WRITTEN:],
        subagents=len(reducer.helpers) or None,
        parent=next((one.parent for one in newest if one.parent), None),
        tmux=next((one.tmux for one in newest if one.tmux), None),
        zellij=next((one.zellij for one in newest if one.zellij), None),
    )
