"""GitHub Copilot CLI: `session-state/<id>/` with `events.jsonl`, `workspace.yaml`, and `inuse.<pid>.lock` while it is open.

The events show everything, also waiting. The lock names the process. A killed process leaves its lock behind, so the lock
counts only while that process runs, is a Copilot, and is older than the lock. A session without any lock is open nowhere,
except that a process with `--continue` or `--resume` takes the lock with the first prompt.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from imi_monitor import host
from imi_monitor.model.agent import SessionFacts
from imi_monitor.sources.agents import fields, foreign_files
from imi_monitor.sources.agents.agent_reader import AgentProcess, AgentProgram, AgentReader, ReadContext, Sighting
from imi_monitor.sources.agents.copilot.reducer import CopilotReducer
from imi_monitor.sources.agents.copilot.session_start import SessionStart, copilot_folder
from imi_monitor.sources.agents.foreign_files import FileStamp, RecordFile

_DAY = 86_400.0
_WINDOW = 256 << 10
_LONGEST_YAML = 64 << 10

PROGRAM = AgentProgram(
    "copilot", ("/@github/copilot",), frozenset({"mcp", "login", "update"}), home_variables=("COPILOT_HOME",)
)


def make() -> AgentReader:
    return CopilotReader()


class CopilotReader:
    cli = "copilot"

    def __init__(self) -> None:
        self._sessions: dict[str, CopilotSession] = {}  # by folder
        self._elsewhere: dict[str, float | None] = {}  # folders outside of the worktrees -> when they were checked
        self._home_modified_at: float | None = None
        self._roots: tuple[str, ...] = ()
        self.has_more = False

    def watch_folders(self, context: ReadContext) -> Sequence[str]:
        home = _home(context)
        live = [one.folder for one in self._sessions.values() if one.alive or one.cwd() is None]
        return [folder for folder in (home, *live) if os.path.isdir(folder)]

    def read(self, context: ReadContext, touched: frozenset[str] | None) -> Sequence[Sighting]:
        home = _home(context)
        modified_at = foreign_files.modified_at(home)
        if touched is None or modified_at != self._home_modified_at or context.roots != self._roots:
            self._list(home, context)
            self._home_modified_at, self._roots = modified_at, context.roots
        resumed = self._find_resumed(context)
        found = [one.read(context, resumed.get(one.id)) for one in self._sessions.values()]
        self.has_more = any(one.has_more for one in self._sessions.values())
        return [one for one in found if one is not None]

    def _find_resumed(self, context: ReadContext) -> dict[str, AgentProcess]:
        """session -> process that was started to continue it and has no lock yet."""
        locked = {lock.pid for one in self._sessions.values() for lock in one.locks}
        free = [
            one
            for one in context.processes_of(self.cli)
            if _continues(one.argv) and locked.isdisjoint({one.pid, *one.family})
        ]
        return {session: one for one in free if (session := self._session_to_continue(one)) is not None}

    def _session_to_continue(self, process: AgentProcess) -> str | None:
        words = process.argv[1:]
        older = [one for one in self._sessions.values() if one.is_older_than(process)]
        named = next((one.id for one in older if any(one.id in word for word in words)), None)
        newest = max(older, key=lambda one: one.written_at, default=None)
        return newest.id if named is None and newest is not None and "--continue" in words else named

    def _list(self, home: str, context: ReadContext) -> None:
        """Find the sessions modified in the last day, or since a running process began."""
        since = min([context.now - _DAY, *(process.began_at for process in context.processes_of(self.cli))])
        if context.roots != self._roots:
            self._elsewhere.clear()
        folders = [folder for folder in _subfolders(home) if _session_modified_at(folder) >= since]
        self._sessions = {folder: self._sessions[folder] for folder in folders if folder in self._sessions}
        for folder in folders:
            modified_at = foreign_files.modified_at(folder)
            if folder not in self._sessions and self._elsewhere.get(folder) != modified_at:
                session = CopilotSession(folder)
                cwd = session.cwd()
                if cwd is None or context.is_watched(cwd):  # a new session has no folder yet
                    self._sessions[folder] = session
                else:
                    self._elsewhere[folder] = modified_at


@dataclass(frozen=True, slots=True)
class InUseLock:
    pid: int
    made_at: float


class CopilotSession:
    """One folder, and what was read of it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.alive = False
        self._start = SessionStart()
        self._file = RecordFile(f"{folder}/events.jsonl", CopilotReducer, _WINDOW)
        self._stamp: FileStamp | None = None
        self._workspace: dict[str, str] = {}
        self._listed_at: float | None = None
        self.locks: list[InUseLock] = []
        self._gone_at: float | None = None  # when it was written last, as no process had it
        self._process: AgentProcess | None = None
        self._last_alive: float | None = None

    @property
    def id(self) -> str:
        return os.path.basename(self.folder)

    @property
    def has_more(self) -> bool:
        return self._file.tail.has_more or (self.alive and self._file.has_older)

    def cwd(self) -> str | None:
        """The session's folder; known before its events are read."""
        self._workspace = self._workspace or read_workspace(f"{self.folder}/workspace.yaml")
        return self._file.reducer.cwd or self._workspace.get("cwd") or _first_cwd(self._file.path)

    def is_older_than(self, process: AgentProcess) -> bool:
        """True if the process may continue it: it is of the same folder and was written before the process began."""
        cwd = self.cwd()
        written = self.written_at > 0 and process.began_after(self.written_at)
        return written and cwd is not None and os.path.realpath(cwd) == process.cwd

    def read(self, context: ReadContext, resumed_by: AgentProcess | None) -> Sighting | None:
        self._list()
        self._read_events()
        cwd = self.cwd()
        if not context.is_watched(cwd):
            self._file.take_events()
            return None  # nothing is written yet, or it moved to another folder
        process, alive = self._find_process(context, resumed_by)
        self.alive = alive is True
        if alive is False and self._last_alive is None:
            self._last_alive = context.now if process is not None else self.written_at
        evidence = self._file.reducer.evidence()
        if evidence is None and self._stamp is None:
            if alive is not True or process is None:
                return None  # it ended before anything was asked
            evidence = self._start.evidence(process, context)
        return Sighting(
            cli="copilot",
            session=self.id,
            cwd=cwd,
            pid=process.pid if process else None,
            pid_started=process.started if process else None,
            alive=alive,
            last_alive=fields.at(self._last_alive) if alive is False and self._last_alive else None,
            evidence=() if evidence is None else (evidence,),
            facts=self._facts(),
            events=self._file.take_events(),
            process_began=fields.at(process.began_at) if process is not None and alive else None,
        )

    # -- its process --------------------------------------------------------------------------------------------------

    def _list(self) -> None:
        modified_at = foreign_files.modified_at(self.folder)
        if modified_at != self._listed_at:
            self._listed_at = modified_at
            self.locks = _locks(self.folder)
            self._workspace = read_workspace(f"{self.folder}/workspace.yaml") or self._workspace

    def _find_process(
        self, context: ReadContext, resumed_by: AgentProcess | None
    ) -> tuple[AgentProcess | None, bool | None]:
        """(process, alive)."""
        holders = (_holder(lock, context) for lock in self.locks)
        process = next((one for one in holders if one is not None), resumed_by)
        if process is not None:
            self._process, self._last_alive, self._gone_at = process, None, None
            return process, True
        if self._gone_at is None:
            self._gone_at = self.written_at
        if self.locks and self._file.reducer.ended_at is None and self.written_at > self._gone_at:
            return None, None  # an unseen process, such as one in a container, goes on with it
        return self._process, False

    @property
    def written_at(self) -> float:
        stamp = self._stamp or foreign_files.stamp_of(self._file.path)
        return stamp.modified_at if stamp else 0.0

    # -- its events ---------------------------------------------------------------------------------------------------

    def _read_events(self) -> None:
        stamp = foreign_files.stamp_of(self._file.path)
        if stamp != self._stamp or self._file.tail.has_more:
            self._file.read()
            self._stamp = stamp
        elif self.alive:
            self._file.read_older()

    def _facts(self) -> SessionFacts:
        reducer, workspace = self._file.reducer, self._workspace
        whole = reducer.tokens is not None and not self._file.has_older  # a part of the sum would mislead
        return replace(
            reducer.known_facts(reducer.tokens if whole else None),
            title=workspace.get("name"),
            branch=reducer.branch or workspace.get("branch"),
            started_at=reducer.started_at or fields.moment(workspace.get("created_at")),
            subagents=len(reducer.subagents),
            format_note=reducer.format_note() if self._stamp and self._stamp.size else None,
        )


def _continues(argv: Sequence[str]) -> bool:
    return any(word == "--continue" or word.split("=")[0] == "--resume" for word in argv[1:])


def _home(context: ReadContext) -> str:
    return f"{copilot_folder(context)}/session-state"


def _holder(lock: InUseLock, context: ReadContext) -> AgentProcess | None:
    """The process that made the lock: it runs, is a Copilot, and is older than the lock."""
    for process in context.processes_of("copilot"):
        if lock.pid == process.pid or lock.pid in process.family:
            older = process.began_at <= lock.made_at + 1.0
            return process if older and host.start_time(lock.pid) is not None else None
    return None


def _subfolders(home: str) -> list[str]:
    try:
        with os.scandir(home) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _locks(folder: str) -> list[InUseLock]:
    """The lock files, newest first."""
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                front, _, rest = entry.name.partition(".")
                pid = rest.removesuffix(".lock")
                if front == "inuse" and pid.isascii() and pid.isdigit() and rest.endswith(".lock"):
                    found.append(InUseLock(int(pid), entry.stat().st_mtime))
    except OSError:
        return found
    return sorted(found, key=lambda lock: -lock.made_at)


def _session_modified_at(folder: str) -> float:
    return max(foreign_files.modified_at(f"{folder}/events.jsonl") or 0, foreign_files.modified_at(folder) or 0)


def read_workspace(path: str) -> dict[str, str]:
    """The plain values of a `workspace.yaml`; empty if it is missing, torn or no mapping."""
    text = _read_start(path)
    if not text:
        return {}
    import yaml  # 11 ms and 1 MB, only where Copilot has sessions

    try:
        found = yaml.load(text, yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in found.items() if isinstance(name, str) and _is_plain(value)}


def _is_plain(value: object) -> bool:
    return isinstance(value, str) and value not in ("", "~", "null")


def _read_start(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(_LONGEST_YAML).decode("utf-8", "replace")
    except OSError:
        return ""


def _first_cwd(path: str) -> str | None:
    """The folder in the first event, for a session without a `workspace.yaml`."""
    event = fields.record(_read_start(path).split("\n", 1)[0]) or {}
    return fields.path(fields.table(fields.table(event.get("data")).get("context")).get("cwd"))
