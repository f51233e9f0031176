"""Claude's own list of what lives: `sessions/<pid>.json`, written within a tenth of a second of every change.

A killed process leaves its entry behind, so an entry counts only while its process lives and is the same one. An entry
from another machine or container (a shared home) can be proven to live, never to be gone.
"""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import dataclass
from functools import cache

from imi_monitor import host
from imi_monitor.sources.agents import loose, marks
from imi_monitor.sources.agents.base import World
from imi_monitor.sources.agents.claude.places import Places
from imi_monitor.sources.agents.claude.records import identity

_ENTRY = re.compile(r"[0-9]+\.json\Z")  # beside it lies a key that is none of our business
_PANE = re.compile(r"%[0-9]+\Z")
_LONGEST = 1 << 20
_LINUX = sys.platform.startswith("linux")


@dataclass(frozen=True, slots=True)
class Entry:
    file: str  # its name, for people
    pid: int
    session: str
    cwd: str
    proc_start: str | None
    started_at: str | None
    status: str | None
    status_known: bool  # False: a status was written in a way that we do not know
    waiting_for: str | None
    at: str | None
    version: str | None
    kind: str | None
    entrypoint: str | None
    domain: str | None
    pane: str | None
    name: str | None
    job: str | None


class Registry:
    """The entries of one configuration folder. `look` reads only files that changed."""

    def __init__(self, places: Places) -> None:
        self.entries: dict[str, Entry] = {}  # by path
        self.exists = False
        self.readings = 0
        self._folder = places.sessions
        self._marks: dict[str, marks.Mark] = {}
        self._torn: set[str] = set()  # read while they were written

    def look(self, touched: frozenset[str] | None) -> None:
        if touched is None or self._folder in touched:
            self._look_at_all()
        else:
            self._read_all({path for path in touched if self._is_entry(path)} | self._torn)

    def _is_entry(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        return folder == self._folder and _ENTRY.match(name) is not None

    def _look_at_all(self) -> None:
        there = {}
        self.exists = os.path.isdir(self._folder)
        try:
            with os.scandir(self._folder) as found:
                for one in found:
                    if _ENTRY.match(one.name):
                        there[one.path] = marks.mark(one.path)
        except OSError:
            there = {}
        self._read_all({path for path in {*there, *self._marks} if there.get(path) != self._marks.get(path)})

    def _read_all(self, paths: set[str]) -> None:
        for path in paths:
            self._read(path)

    def _read(self, path: str) -> None:
        self._torn.discard(path)
        self.readings += 1
        mark = marks.mark(path)
        if mark is None:
            self.entries.pop(path, None)
            self._marks.pop(path, None)
            return
        self._marks[path] = mark
        try:
            with open(path, "rb") as file:
                found = json.loads(file.read(_LONGEST))
        except (OSError, ValueError, RecursionError):
            self._torn.add(path)  # what was known holds until it is whole
            return
        entry = entry_of(os.path.basename(path), found)
        if entry is not None:
            self.entries[path] = entry


def entry_of(file: str, found: object) -> Entry | None:
    """An entry; None when it does not even name its process, session and folder."""
    told = loose.table(found)
    pid, session, cwd = loose.number(told.get("pid")), identity(told.get("sessionId")), loose.path(told.get("cwd"))
    if not pid or session is None or cwd is None or told.get("kind") == "daemon":  # which works for all, and is none
        return None
    status = told.get("status")
    pane = _PANE.search(loose.text(told.get("tmux"), 200) or "")
    return Entry(
        file=f"sessions/{file}",
        pid=pid,
        session=session,
        cwd=cwd,
        proc_start=loose.text(told.get("procStart"), 100),
        started_at=loose.moment(told.get("startedAt")),
        status=loose.text(status, 40),
        status_known=status is None or status in ("busy", "waiting", "shell", "idle"),
        waiting_for=loose.text(told.get("waitingFor"), 100),
        at=loose.moment(told.get("statusUpdatedAt")) or loose.moment(told.get("updatedAt")),
        version=loose.text(told.get("version"), 40),
        kind=loose.text(told.get("kind"), 40),
        entrypoint=loose.text(told.get("entrypoint"), 40),
        domain=loose.text(told.get("pidDomain"), 300),
        pane=pane[0] if pane else None,
        name=loose.text(told.get("name"), 200),
        job=loose.text(told.get("jobId"), 100),
    )


def lives(entry: Entry, world: World, proven: set[str]) -> bool | None:
    """True: its process runs. False: proven gone. None: it runs, or ran, where we cannot look.

    `proven`: domains in which a process of ours was found, and so are ours however they are written.
    """
    now = world.start_time(entry.pid)
    if now is not None and (entry.proc_start == now if _LINUX and entry.proc_start else _known(entry, world)):
        proven.update((entry.domain,) if entry.domain else ())
        return True
    return False if entry.domain in proven or _here(entry.domain) else None


def _known(entry: Entry, world: World) -> bool:
    """Where start times are written in another way than ours: whether Claude runs under that number."""
    return any(entry.pid == one.pid or entry.pid in one.family for one in world.processes_of("claude"))


def _here(domain: str | None) -> bool:
    """Whether a domain such as `linux:<machine>:pid:[4026531836]` is this machine's and namespace's."""
    if domain is None or not _LINUX:
        return True
    _, _, rest = domain.partition(":")
    machine, _, namespace = rest.partition(":")
    return namespace == host.boot().partition("/")[2] and machine in ("", _machine() or machine)


@cache
def _machine() -> str:
    try:
        with open("/etc/machine-id", encoding="ascii", errors="replace") as file:
            return file.read(100).strip()
    except OSError:
        return ""
