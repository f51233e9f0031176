"""Where Claude Code keeps its things: the configuration folders in use, and how folders of transcripts are named.

A transcript lies in `projects/<slug>/<session>.jsonl`. The slug loses information (`/a/b-c` and `/a/b/c` share one), so
it only ever narrows a search; whose transcript it is, its own records say.

Claude's own list of what lives: `sessions/<pid>.json`, written within a tenth of a second of every change.

A killed process leaves its entry behind, so an entry counts only while its process lives and is the same one. An entry
from another machine or container (a shared home) can be proven to live, never to be gone.

Sessions in the background (`claude --bg`): `jobs/<id>/state.json` says what one needs, and how it ended.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

from imi_monitor import host
from imi_monitor.model import times
from imi_monitor.model.agent import CANCELLED, COMPLETED, FAILED, WAITING, Evidence
from imi_monitor.sources.agents import fields, foreign_files
from imi_monitor.sources.agents.agent_reader import ReadContext
from imi_monitor.sources.agents.claude.records import identity

_LONGEST_SLUG = 200  # longer ones are cut there and end in a hash
_NOT_IN_A_SLUG = re.compile("[^A-Za-z0-9]")


@dataclass(frozen=True, slots=True)
class ClaudePaths:
    """The folders of one configuration folder."""

    home: str

    @property
    def sessions(self) -> str:
        return f"{self.home}/sessions"

    @property
    def projects(self) -> str:
        return f"{self.home}/projects"

    @property
    def jobs(self) -> str:
        return f"{self.home}/jobs"

    def transcript(self, cwd: str, session: str) -> str:
        return f"{self.projects}/{slug(real_path(cwd) or '')}/{session}.jsonl"


def config_folders(world: ReadContext) -> list[str]:
    """Where configuration folders may be. The named one does not hide the usual ones: agents may run without it."""
    config = world.env.get("XDG_CONFIG_HOME") or f"{world.home}/.config"
    wanted = (world.env.get("CLAUDE_CONFIG_DIR"), f"{world.home}/.claude", f"{config}/claude")
    return [path for path in wanted if path]


def real_path(cwd: str) -> str | None:
    """A recorded folder as the disk has it; None for a name that no folder can have."""
    try:
        return os.path.realpath(cwd)
    except (ValueError, OSError):
        return None


def slug(path: str) -> str:
    """A folder's name as Claude writes it, which counts UTF-16 units; without the hash of a long one."""
    whole = _NOT_IN_A_SLUG.sub(lambda found: "--" if ord(found[0]) > 0xFFFF else "-", path)
    return whole[:_LONGEST_SLUG]


def may_concern(folder: str, slugs: Iterable[str]) -> bool:
    """Whether sessions of that slug can lie in one of the roots with these `slugs`."""
    name = _NOT_IN_A_SLUG.sub("-", folder)
    return any(name.startswith(one) for one in slugs)


def session_of(path: str) -> str | None:
    """The session whose transcript this is, by its name."""
    name = os.path.basename(path)
    return name[: -len(".jsonl")] if name.endswith(".jsonl") else None


class WatchedFolders:
    """Which recorded folders lie in a watched worktree; asking the disk about each is done once."""

    def __init__(self, world: ReadContext) -> None:
        self.roots = world.roots
        self.slugs = tuple(slug(root) for root in world.roots)
        self._world = world
        self._known: dict[str, bool] = {}

    def inside(self, cwd: str | None) -> bool:
        if cwd is None:
            return False
        if cwd not in self._known:
            self._known[cwd] = real_path(cwd) is not None and self._world.watched(cwd)
        return self._known[cwd]

    def may_hold(self, folder: str) -> bool:
        """Whether a folder of transcripts may hold some of these worktrees."""
        return may_concern(os.path.basename(folder), self.slugs)


_ENTRY = re.compile(r"[0-9]+\.json\Z")  # beside it lies a key that is none of our business
_PANE = re.compile(r"%[0-9]+\Z")
_LONGEST = 1 << 20
_LINUX = sys.platform.startswith("linux")


@dataclass(frozen=True, slots=True)
class RegistryEntry:
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


class LiveRegistry:
    """The entries of one configuration folder. `look` reads only files that changed."""

    def __init__(self, places: ClaudePaths) -> None:
        self.entries: dict[str, RegistryEntry] = {}  # by path
        self.exists = False
        self.readings = 0
        self._folder = places.sessions
        self._marks: dict[str, foreign_files.FileStamp] = {}
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
                        there[one.path] = foreign_files.stamp_of(one.path)
        except OSError:
            there = {}
        self._read_all({path for path in {*there, *self._marks} if there.get(path) != self._marks.get(path)})

    def _read_all(self, paths: set[str]) -> None:
        for path in paths:
            self._read(path)

    def _read(self, path: str) -> None:
        self._torn.discard(path)
        self.readings += 1
        mark = foreign_files.stamp_of(path)
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


def entry_of(file: str, found: object) -> RegistryEntry | None:
    """An entry; None when it does not even name its process, session and folder."""
    told = fields.table(found)
    pid, session, cwd = fields.number(told.get("pid")), identity(told.get("sessionId")), fields.path(told.get("cwd"))
    if not pid or session is None or cwd is None or told.get("kind") == "daemon":  # which works for all, and is none
        return None
    status = told.get("status")
    pane = _PANE.search(fields.text(told.get("tmux"), 200) or "")
    return RegistryEntry(
        file=f"sessions/{file}",
        pid=pid,
        session=session,
        cwd=cwd,
        proc_start=fields.text(told.get("procStart"), 100),
        started_at=fields.moment(told.get("startedAt")),
        status=fields.text(status, 40),
        status_known=status is None or status in ("busy", "waiting", "shell", "idle"),
        waiting_for=fields.text(told.get("waitingFor"), 100),
        at=fields.moment(told.get("statusUpdatedAt")) or fields.moment(told.get("updatedAt")),
        version=fields.text(told.get("version"), 40),
        kind=fields.text(told.get("kind"), 40),
        entrypoint=fields.text(told.get("entrypoint"), 40),
        domain=fields.text(told.get("pidDomain"), 300),
        pane=pane[0] if pane else None,
        name=fields.text(told.get("name"), 200),
        job=fields.text(told.get("jobId"), 100),
    )


def is_alive(entry: RegistryEntry, world: ReadContext, proven: set[str]) -> bool | None:
    """True: its process runs. False: proven gone. None: it runs, or ran, where we cannot look.

    `proven`: domains in which a process of ours was found, and so are ours however they are written.
    """
    now = world.start_time(entry.pid)
    if now is not None and (entry.proc_start == now if _LINUX and entry.proc_start else _known(entry, world)):
        proven.update((entry.domain,) if entry.domain else ())
        return True
    return False if entry.domain in proven or _here(entry.domain) else None


def _known(entry: RegistryEntry, world: ReadContext) -> bool:
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


_MOST_JOBS = 100
_LONGEST_JOB = 1 << 20
_ENDS = {"done": COMPLETED, "failed": FAILED, "stopped": CANCELLED}


@dataclass(frozen=True, slots=True)
class BackgroundJob:
    ident: str
    session: str
    cwd: str | None
    state: str | None
    detail: str | None
    needs: str | None
    name: str | None
    version: str | None
    at: str

    def evidence(self) -> Evidence | None:
        """How it ended, or what it needs; whether it works its live registry knows better."""
        says = f"jobs/{self.ident}/state.json says {self.state}"
        if self.state in _ENDS:
            why = self.detail if self.state == "failed" else None
            return Evidence("registry", _ENDS[self.state], self.at, says, why)
        return Evidence("registry", WAITING, self.at, says, self.needs) if self.state == "blocked" else None


class BackgroundJobs:
    """The jobs of one configuration folder, by session."""

    def __init__(self, places: ClaudePaths) -> None:
        self.folder = places.jobs
        self.by_session: dict[str, BackgroundJob] = {}
        self.readings = 0
        self._marks: dict[str, int] = {}

    def look(self, touched: frozenset[str] | None) -> None:
        if touched is None or self.folder in touched:
            self._look_at_all()
            return
        inside = self.folder + "/"
        for path in touched:
            if path.startswith(inside):
                self._read(path.removeprefix(inside).partition("/")[0], force=True)

    def folders(self) -> list[str]:
        """Of the jobs that go on."""
        ids = [one.ident for one in self.by_session.values() if one.state not in _ENDS]
        return [self.folder, *(f"{self.folder}/{ident}" for ident in ids)] if os.path.isdir(self.folder) else []

    def _look_at_all(self) -> None:
        try:
            with os.scandir(self.folder) as found:
                dated = [(one.stat().st_mtime, one.name) for one in found]
        except OSError:
            return
        for _, ident in sorted(dated)[-_MOST_JOBS:]:
            self._read(ident)

    def _read(self, ident: str, force: bool = False) -> None:
        path = f"{self.folder}/{ident}/state.json"
        try:
            mark = os.stat(path).st_mtime_ns
            if self._marks.get(ident) == mark and not force:
                return
            with open(path, "rb") as file:
                job = _job(ident, json.loads(file.read(_LONGEST_JOB)), mark)
        except (OSError, ValueError, RecursionError):
            return  # gone, or being written: it is read when it changed again
        self._marks[ident] = mark
        self.readings += 1
        if job is not None:
            self.by_session[job.session] = job


def _job(ident: str, found: object, mark: int) -> BackgroundJob | None:
    told = fields.table(found)
    session = identity(told.get("sessionId"))
    if session is None:
        return None
    return BackgroundJob(
        ident,
        session,
        fields.path(told.get("cwd")),
        fields.text(told.get("state"), 40),
        fields.text(told.get("detail"), 300),
        fields.text(told.get("needs"), 300),
        fields.text(told.get("name"), 200),
        fields.text(told.get("cliVersion"), 40),
        fields.moment(told.get("updatedAt")) or times.stamp(datetime.fromtimestamp(mark / 1e9, UTC)),
    )
