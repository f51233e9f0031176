"""The spool that agents' hooks write into, read as sightings: exact and at once, where hooks are installed.

One file is one event. Every monitor reads for itself and none takes an event from another: a file goes only when the state
of its session no longer rests on it and it is old enough to have been read and kept by whoever runs.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence

from imi_monitor import paths
from imi_monitor.sources.agents.base import Reader, Sighting, World
from imi_monitor.sources.agents.hooks.records import Record
from imi_monitor.sources.agents.hooks.session import HookSession, sighting_of
from imi_monitor.sources.agents.hooks.words import END, parse

_SLICE = 8 << 20  # bytes read in one look
_KEEP = 120.0  # seconds that a file stays whatever it says: everybody has looked by then
_BROKEN = 600.0  # seconds after which an unfinished file is given up
_OLDEST = 7 * 86400.0
_RECENT = 86400.0  # sessions that were silent for longer are not shown
_LIVES_FOR = 60.0  # seconds before a reader tidies: a command that looks once has kept nothing


def make() -> Reader:
    return Spool()


class Spool:
    cli = "hooks"

    def __init__(self) -> None:
        self.unread = False
        self._born: float | None = None
        self._known: dict[str, Record | None] = {}  # by file; None: never to be understood
        self._waiting: dict[str, tuple[int, int]] = {}  # found and not read yet: (ns, size)
        self._torn: dict[str, int] = {}  # being written, or given up: ns
        self._sessions: dict[tuple[str, str], HookSession] = {}

    def folders(self, world: World) -> Sequence[str]:
        folder = _folder(world)
        return (folder,) if os.path.isdir(folder) else ()

    def look(self, world: World, touched: frozenset[str] | None) -> Sequence[Sighting]:
        folder = _folder(world)
        self._born = world.now if self._born is None else self._born
        if touched is None:
            self._list(folder)
        else:
            self._note(folder, touched)
        if self._waiting:
            self._read(folder)
        if touched is None and world.now - self._born > _LIVES_FOR:
            self._tidy(folder, world.now)
        since = (world.now - _RECENT) * 1e9
        return [
            sighting
            for session in self._sessions.values()
            if session.records and session.records[-1].ns > since
            if (sighting := sighting_of(session, world)) is not None
        ]

    # -- reading ------------------------------------------------------------------------------------------------------

    def _list(self, folder: str) -> None:
        """Everything that is there; what went meanwhile is forgotten, as if it had never been."""
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

    def _note(self, folder: str, touched: frozenset[str]) -> None:
        for path in touched:
            name = os.path.basename(path)
            if os.path.dirname(path) == folder and name.startswith("e.") and name not in self._known:
                _stat(path, name, self._waiting)

    def _read(self, folder: str) -> None:
        """The newest first: they tell the state; a mountain of old ones follows in slices."""
        budget = _SLICE
        new: dict[tuple[str, str], list[Record]] = {}
        for name, (ns, _) in sorted(self._waiting.items(), key=lambda item: item[1], reverse=True):
            if budget <= 0:
                break
            del self._waiting[name]
            record, size = _read(os.path.join(folder, name), name)
            budget -= max(size, 4096)
            if record is _NOT_YET:  # to be read when it moves again
                self._torn[name] = ns
                continue
            self._torn.pop(name, None)
            if size >= 0:
                self._known[name] = record
            if record is not None:
                new.setdefault((record.cli, record.session), []).append(record)
        self.unread = bool(self._waiting)
        for key, records in new.items():
            self._sessions.setdefault(key, HookSession()).add(records)

    # -- forgetting -----------------------------------------------------------------------------------------------------

    def _tidy(self, folder: str, now: float) -> None:
        """Delete what no state rests on any more."""
        needed = {name for session in self._sessions.values() for name in session.course.needed()}
        gone = set()
        for name, record in self._known.items():
            age = now - record.ns / 1e9 if record is not None else None
            if age is None or age > _OLDEST or (age > _KEEP and name not in needed):
                gone.add(name)
        gone |= {name for name, ns in self._torn.items() if now - ns / 1e9 > _BROKEN}
        for name in gone:
            try:
                os.unlink(os.path.join(folder, name))
            except FileNotFoundError:  # another monitor was first
                continue
            except OSError:  # read-only by now: it stays, and is looked at again
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
                session.keep(left)


_NOT_YET = Record("", 0, "", "", "")


def _folder(world: World) -> str:
    return os.path.join(paths.hooks_dir(world.home, world.env), "spool")


def _stat(path: str, name: str, into: dict[str, tuple[int, int]]) -> None:
    try:
        found = os.lstat(path)
    except OSError:
        into.pop(name, None)
        return
    if stat.S_ISREG(found.st_mode):
        into[name] = (found.st_mtime_ns, found.st_size)


def _read(path: str, name: str) -> tuple[Record | None, int]:
    """The record and what it cost; `_NOT_YET` while it is being written, a size of -1 when it is gone."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None, -1
    with open(fd, "rb") as file:
        try:
            info = os.fstat(fd)
            file.seek(max(0, info.st_size - len(END)))
            if file.read() != END:
                return _NOT_YET, 0
            file.seek(0)
            data = file.read()
        except OSError:
            return None, -1
    return parse(name, info.st_mtime_ns, data), len(data)
