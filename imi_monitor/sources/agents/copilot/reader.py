"""GitHub Copilot CLI: `session-state/<id>/` with `events.jsonl`, `workspace.yaml`, and `inuse.<pid>.lock` while it is open.

The events tell everything, waiting too. The lock names the process; one that was killed leaves it behind, so the
process must be there, be a copilot, and have begun before the lock was made.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from imi_monitor import host
from imi_monitor.model.agent import AgentEvent, SessionFacts
from imi_monitor.sources.agents import fields, foreign_files
from imi_monitor.sources.agents.agent_reader import AgentProcess, AgentReader, ReadContext, Sighting
from imi_monitor.sources.agents.copilot import flat_yaml
from imi_monitor.sources.agents.copilot.reducer import CopilotReducer
from imi_monitor.sources.agents.foreign_files import Tail

_DAY = 86_400.0
_FRESH = 5.0  # seconds in which somebody unseen, in a container, may still be the one who writes
_MOST_YAML = 64 << 10
_NEEDLE = b'"type"'


def make() -> AgentReader:
    return CopilotReader()


class CopilotReader:
    cli = "copilot"

    def __init__(self) -> None:
        self._sessions: dict[str, CopilotSession] = {}  # by folder
        self._elsewhere: dict[str, float | None] = {}  # folders of others -> when they were asked
        self._home_seen: float | None = None
        self._roots: tuple[str, ...] = ()
        self.unread = False

    def folders(self, world: ReadContext) -> Sequence[str]:
        home = _home(world)
        live = [one.folder for one in self._sessions.values() if one.open or one.where() is None]
        return [folder for folder in (home, *live) if os.path.isdir(folder)]

    def look(self, world: ReadContext, touched: frozenset[str] | None) -> Sequence[Sighting]:
        home = _home(world)
        seen = foreign_files.modified_at(home)
        if touched is None or seen != self._home_seen or world.roots != self._roots:
            self._list(home, world)
            self._home_seen, self._roots = seen, world.roots
        found = [one.look(world) for one in self._sessions.values()]
        self.unread = any(one.unread for one in self._sessions.values())
        return [one for one in found if one is not None]

    def _list(self, home: str, world: ReadContext) -> None:
        """Which sessions moved in the last day, or since a process that lives began."""
        since = min([world.now - _DAY, *(process.began_at for process in world.processes_of(self.cli))])
        if world.roots != self._roots:
            self._elsewhere.clear()
        folders = [folder for folder in _folders(home) if _moved_at(folder) >= since]
        self._sessions = {folder: self._sessions[folder] for folder in folders if folder in self._sessions}
        for folder in folders:
            if folder not in self._sessions and self._elsewhere.get(folder) != foreign_files.modified_at(folder):
                session = CopilotSession(folder)
                where = session.where()
                if where is None or world.watched(where):  # a new one has written nothing yet
                    self._sessions[folder] = session
                else:
                    self._elsewhere[folder] = foreign_files.modified_at(folder)


@dataclass(frozen=True, slots=True)
class InUseLock:
    pid: int
    made_at: float


class CopilotSession:
    """One folder, and what was read in it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.open = False
        self._tail = Tail(f"{folder}/events.jsonl")
        self._mark: foreign_files.FileStamp | None = None
        self._course = CopilotReducer()
        self._before = CopilotReducer()  # what lies in front of the window: only counted
        self._yaml: dict[str, str] = {}
        self._listed: float | None = None
        self._locks: list[InUseLock] = []
        self._had_lock = False
        self._last_alive: float | None = None

    @property
    def id(self) -> str:
        return os.path.basename(self.folder)

    @property
    def unread(self) -> bool:
        return self._tail.behind or (self.open and self._tail.has_older)

    def where(self) -> str | None:
        """Its folder, before anything else of it is read."""
        self._yaml = self._yaml or flat_yaml.read(_small(f"{self.folder}/workspace.yaml"))
        return self._course.cwd or self._yaml.get("cwd") or _first_cwd(f"{self.folder}/events.jsonl")

    def look(self, world: ReadContext) -> Sighting | None:
        self._list()
        news = self._read()
        if not world.watched(self.where()):
            return None  # it has written nothing yet, or moved to another place
        process, alive = self._life(world)
        self.open = alive is True
        if alive is False and self._last_alive is None:
            self._last_alive = world.now if process is not None else self._written_at()
        told = self._course.evidence()
        return Sighting(
            cli="copilot",
            session=self.id,
            cwd=self.where(),
            pid=process.pid if process else None,
            pid_started=process.started if process else None,
            alive=alive,
            last_alive=fields.at(self._last_alive) if alive is False and self._last_alive else None,
            evidence=() if told is None else (told,),
            facts=self._facts(),
            news=tuple(news),
        )

    # -- its process --------------------------------------------------------------------------------------------------

    def _list(self) -> None:
        now = foreign_files.modified_at(self.folder)
        if now != self._listed:
            self._listed = now
            self._locks = _locks(self.folder)
            self._had_lock = self._had_lock or bool(self._locks)
            self._yaml = flat_yaml.read(_small(f"{self.folder}/workspace.yaml")) or self._yaml

    _process: AgentProcess | None = None

    def _life(self, world: ReadContext) -> tuple[AgentProcess | None, bool | None]:
        for lock in self._locks:
            process = _holder(lock, world)
            if process is not None:
                self._process, self._last_alive = process, None
                return process, True
        if self._course.ended_at is not None or (self._had_lock and not self._locks):
            return self._process, False
        if not self._locks or (world.now - self._written_at() < _FRESH and self._process is None):
            return None, None
        return self._process, False

    def _written_at(self) -> float:
        return self._mark.moved_at if self._mark else 0.0

    # -- its events ---------------------------------------------------------------------------------------------------

    def _read(self) -> list[AgentEvent]:
        mark = foreign_files.stamp_of(self._tail.path)
        if mark == self._mark and not self._tail.behind:
            return self._read_older()
        lines = self._tail.new()
        self._mark = mark
        if self._tail.begun_anew:
            self._course, self._before = CopilotReducer(), CopilotReducer()
        return list(_taken(self._course, lines))

    def _read_older(self) -> list[AgentEvent]:
        """What was there before we came: counted and kept, but no state of now comes from it."""
        if not self.open or not self._tail.has_older:
            return []
        return list(_taken(self._before, list(self._tail.older())))

    def _facts(self) -> SessionFacts:
        now, old = self._course, self._before
        counted = now.counted or old.counted
        tokens = [now.tokens[each] + old.tokens[each] if counted else None for each in range(3)]
        if self._tail.has_older:  # a part of the sum would be taken for all of it
            tokens = [None, None, None]
        return SessionFacts(
            version=now.version or old.version,
            model=now.model or old.model,
            title=self._yaml.get("name"),
            branch=now.branch or old.branch or self._yaml.get("branch"),
            started_at=old.started_at or now.started_at or fields.moment(self._yaml.get("created_at")),
            ended_at=now.ended_at,
            turn_at=now.turn_at or old.turn_at,
            prompt=now.prompt or old.prompt,
            last_message=now.last_message or old.last_message,
            tokens_in=tokens[0],
            tokens_out=tokens[1],
            tokens_cached=tokens[2],
            context_used=now.context_used or old.context_used,
            context_size=now.context_size or old.context_size,
            files=tuple({**old.files, **now.files}),
            subagents=len(now.subagents),
            format_note=now.format_note() if self._mark and self._mark.size else None,
        )


def _taken(course: CopilotReducer, lines: Sequence[bytes]) -> list[AgentEvent]:
    found: list[AgentEvent] = []
    for line in lines:
        event = fields.record(line) if _NEEDLE in line else None
        if event is not None:
            found += course.event(event)
    return found


def _home(world: ReadContext) -> str:
    given = world.env.get("COPILOT_HOME", "")
    return f"{given if os.path.isabs(given) else world.home + '/.copilot'}/session-state"


def _holder(lock: InUseLock, world: ReadContext) -> AgentProcess | None:
    """The process that made it: there, a copilot, and older than the lock."""
    for process in world.processes_of("copilot"):
        if lock.pid == process.pid or lock.pid in process.family:
            made_by = process.began_at <= lock.made_at + 1.0
            return process if made_by and host.start_time(lock.pid) is not None else None
    return None


def _folders(home: str) -> list[str]:
    try:
        with os.scandir(home) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _locks(folder: str) -> list[InUseLock]:
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


def _moved_at(folder: str) -> float:
    return max(foreign_files.modified_at(f"{folder}/events.jsonl") or 0, foreign_files.modified_at(folder) or 0)


def _small(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(_MOST_YAML).decode("utf-8", "replace")
    except OSError:
        return ""


def _first_cwd(path: str) -> str | None:
    """From the first event, where the other file tells nothing."""
    event = fields.record(_small(path).split("\n", 1)[0]) or {}
    return fields.path(fields.table(fields.table(event.get("data")).get("context")).get("cwd"))
