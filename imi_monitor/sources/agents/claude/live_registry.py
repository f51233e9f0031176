"""What a configuration folder of Claude Code lists: living sessions, background jobs, folders of transcripts.

`sessions/<pid>.json` is written within a tenth of a second of every change. A killed process leaves its entry behind, so
an entry counts only while its process runs and is the same one. An entry from another machine or container (a shared
home) can be proven to live, but never to have ended.

`jobs/<id>/state.json` belongs to a session in the background (`claude --bg`): what it needs, and how it ended.

A transcript is `projects/<slug>/<session>.jsonl`. The slug is ambiguous (`/a/b-c` and `/a/b/c` have the same), so it only
narrows a search; the folder of a session is in its records.
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
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.agent_reader import ReadContext
from imi_monitor.sources.agents.claude.records import session_id
from imi_monitor.sources.agents.foreign_files import FileStamp, stamp_of

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


def config_folders(context: ReadContext) -> list[str]:
    """Where configuration folders may be. CLAUDE_CONFIG_DIR does not replace the usual ones: agents may run without it."""
    config = context.env.get("XDG_CONFIG_HOME") or f"{context.home}/.config"
    wanted = (context.env.get("CLAUDE_CONFIG_DIR"), f"{context.home}/.claude", f"{config}/claude")
    return [path for path in wanted if path]


def real_path(cwd: str) -> str | None:
    """The real path of a recorded folder; None for a name that no folder can have."""
    try:
        return os.path.realpath(cwd)
    except (ValueError, OSError):
        return None


def slug(path: str) -> str:
    """The name of a folder's transcripts, without the hash of a long one. Claude counts UTF-16 units."""
    whole = _NOT_IN_A_SLUG.sub(lambda found: "--" if ord(found[0]) > 0xFFFF else "-", path)
    return whole[:_LONGEST_SLUG]


def may_hold(folder: str, slugs: Iterable[str]) -> bool:
    """True if a folder of transcripts with this name may belong to one of the worktrees with these slugs."""
    name = _NOT_IN_A_SLUG.sub("-", folder)
    return any(name.startswith(one) for one in slugs)


def session_of(path: str) -> str | None:
    """The session of a transcript, from its file name."""
    name = os.path.basename(path)
    return name[: -len(".jsonl")] if name.endswith(".jsonl") else None


class WatchedFolders:
    """The worktrees, with their slugs."""

    def __init__(self, context: ReadContext) -> None:
        self.roots = context.roots
        self.slugs = tuple(slug(root) for root in context.roots)
        self.contains = context.is_watched

    def may_hold(self, folder: str) -> bool:
        """True if a folder of transcripts may belong to one of the worktrees."""
        return may_hold(os.path.basename(folder), self.slugs)


# -- living sessions --------------------------------------------------------------------------------------------------

_ENTRY = re.compile(r"[0-9]+\.json\Z")  # the folder also holds a key
_PANE = re.compile(r"%[0-9]+\Z")
_LONGEST_ENTRY = 1 << 20
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
    status_known: bool  # False: the status has an unknown form
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
    """The entries of one configuration folder. `read` opens only files that changed."""

    def __init__(self, paths: ClaudePaths) -> None:
        self.entries: dict[str, RegistryEntry] = {}  # by path
        self.exists = False
        self.reads = 0
        self._folder = paths.sessions
        self._stamps: dict[str, FileStamp] = {}
        self._torn: set[str] = set()  # read while they were written

    def read(self, touched: frozenset[str] | None) -> None:
        if touched is None or self._folder in touched:
            self._read_folder()
        else:
            for path in {path for path in touched if self._is_entry(path)} | self._torn:
                self._read_entry(path)

    def _is_entry(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        return folder == self._folder and _ENTRY.match(name) is not None

    def _read_folder(self) -> None:
        there = {}
        self.exists = os.path.isdir(self._folder)
        try:
            with os.scandir(self._folder) as found:
                for one in found:
                    if _ENTRY.match(one.name):
                        there[one.path] = stamp_of(one.path)
        except OSError:
            there = {}
        for path in {*there, *self._stamps}:
            if there.get(path) != self._stamps.get(path):
                self._read_entry(path)

    def _read_entry(self, path: str) -> None:
        self._torn.discard(path)
        self.reads += 1
        stamp = stamp_of(path)
        if stamp is None:
            self.entries.pop(path, None)
            self._stamps.pop(path, None)
            return
        self._stamps[path] = stamp
        try:
            with open(path, "rb") as file:
                found = json.loads(file.read(_LONGEST_ENTRY))
        except (OSError, ValueError, RecursionError):
            self._torn.add(path)  # the former entry stands until the file is complete
            return
        entry = entry_of(os.path.basename(path), found)
        if entry is not None:
            self.entries[path] = entry


def entry_of(file: str, found: object) -> RegistryEntry | None:
    """The entry in a file; None if process, session or folder is missing, or for the daemon, which has no session."""
    table = fields.table(found)
    pid, session = fields.number(table.get("pid")), session_id(table.get("sessionId"))
    cwd = fields.path(table.get("cwd"))
    if not pid or session is None or cwd is None or table.get("kind") == "daemon":
        return None
    status = table.get("status")
    pane = _PANE.search(fields.text(table.get("tmux"), 200) or "")
    return RegistryEntry(
        file=f"sessions/{file}",
        pid=pid,
        session=session,
        cwd=cwd,
        proc_start=fields.text(table.get("procStart"), 100),
        started_at=fields.moment(table.get("startedAt")),
        status=fields.text(status, 40),
        status_known=status is None or status in ("busy", "waiting", "shell", "idle"),
        waiting_for=fields.text(table.get("waitingFor"), 100),
        at=fields.moment(table.get("statusUpdatedAt")) or fields.moment(table.get("updatedAt")),
        version=fields.text(table.get("version"), 40),
        kind=fields.text(table.get("kind"), 40),
        entrypoint=fields.text(table.get("entrypoint"), 40),
        domain=fields.text(table.get("pidDomain"), 300),
        pane=pane[0] if pane else None,
        name=fields.text(table.get("name"), 200),
        job=fields.text(table.get("jobId"), 100),
    )


def is_alive(entry: RegistryEntry, context: ReadContext, proven: set[str]) -> bool | None:
    """True: its process runs. False: it has ended. None: it runs, or ran, on another machine or in a container.

    `proven`: domains in which a process was found here, which makes them this machine's however they are written.
    """
    now = context.start_time(entry.pid)
    if now is not None and (entry.proc_start == now if _LINUX and entry.proc_start else _is_claude(entry, context)):
        proven.update((entry.domain,) if entry.domain else ())
        return True
    return False if entry.domain in proven or _is_this_machine(entry.domain) else None


def _is_claude(entry: RegistryEntry, context: ReadContext) -> bool:
    """True if a Claude process has this pid; for systems whose start times differ in form from the recorded ones."""
    return any(entry.pid == one.pid or entry.pid in one.family for one in context.processes_of("claude"))


def _is_this_machine(domain: str | None) -> bool:
    """True if a domain such as `linux:<machine>:pid:[4026531836]` is this machine and pid namespace."""
    if domain is None or not _LINUX:
        return True
    _, _, rest = domain.partition(":")
    machine, _, namespace = rest.partition(":")
    return namespace == host.boot().partition("/")[2] and machine in ("", _machine_id() or machine)


@cache
def _machine_id() -> str:
    try:
        with open("/etc/machine-id", encoding="ascii", errors="replace") as file:
            return file.read(100).strip()
    except OSError:
        return ""


# -- background jobs --------------------------------------------------------------------------------------------------

_MOST_JOBS = 100
_LONGEST_JOB = 1 << 20
_JOB_ENDS = {"done": COMPLETED, "failed": FAILED, "stopped": CANCELLED}


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
        """Return evidence of how the job ended or what it needs; None while it works, which the registry shows better."""
        says = f"jobs/{self.ident}/state.json says {self.state}"
        if self.state in _JOB_ENDS:
            why = self.detail if self.state == "failed" else None
            return Evidence("registry", _JOB_ENDS[self.state], self.at, says, why)
        return Evidence("registry", WAITING, self.at, says, self.needs) if self.state == "blocked" else None


class BackgroundJobs:
    """The jobs of one configuration folder, by session."""

    def __init__(self, paths: ClaudePaths) -> None:
        self.folder = paths.jobs
        self.by_session: dict[str, BackgroundJob] = {}
        self.reads = 0
        self._modified: dict[str, int] = {}

    def read(self, touched: frozenset[str] | None) -> None:
        if touched is None or self.folder in touched:
            self._read_folder()
            return
        inside = self.folder + "/"
        for path in touched:
            if path.startswith(inside):
                self._read_job(path.removeprefix(inside).partition("/")[0], force=True)

    def folders(self) -> list[str]:
        """The folders of running jobs."""
        ids = [one.ident for one in self.by_session.values() if one.state not in _JOB_ENDS]
        return [self.folder, *(f"{self.folder}/{ident}" for ident in ids)] if os.path.isdir(self.folder) else []

    def _read_folder(self) -> None:
        try:
            with os.scandir(self.folder) as found:
                dated = [(one.stat().st_mtime, one.name) for one in found]
        except OSError:
            return
        for _, ident in sorted(dated)[-_MOST_JOBS:]:
            self._read_job(ident)

    def _read_job(self, ident: str, force: bool = False) -> None:
        path = f"{self.folder}/{ident}/state.json"
        try:
            modified = os.stat(path).st_mtime_ns
            if self._modified.get(ident) == modified and not force:
                return
            with open(path, "rb") as file:
                job = _job(ident, json.loads(file.read(_LONGEST_JOB)), modified)
        except (OSError, ValueError, RecursionError):
            return  # gone, or being written: its next change is read
        self._modified[ident] = modified
        self.reads += 1
        if job is not None:
            self.by_session[job.session] = job


def _job(ident: str, found: object, modified: int) -> BackgroundJob | None:
    table = fields.table(found)
    session = session_id(table.get("sessionId"))
    if session is None:
        return None
    return BackgroundJob(
        ident,
        session,
        fields.path(table.get("cwd")),
        fields.text(table.get("state"), 40),
        fields.text(table.get("detail"), 300),
        fields.text(table.get("needs"), 300),
        fields.text(table.get("name"), 200),
        fields.text(table.get("cliVersion"), 40),
        fields.moment(table.get("updatedAt")) or times.stamp(datetime.fromtimestamp(modified / 1e9, UTC)),
    )
