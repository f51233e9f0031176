"""All sessions of one configuration folder of Claude Code: its registry, its jobs and its transcripts together."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence

from imi_monitor.model import times
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.agent_reader import AgentProcess, ReadContext, Sighting
from imi_monitor.sources.agents.claude.live_registry import (
    BackgroundJobs,
    ClaudePaths,
    LiveRegistry,
    RegistryEntry,
    WatchedFolders,
    is_alive,
    real_path,
    session_of,
)
from imi_monitor.sources.agents.claude.session import ClaudeSession

_DAY = 24 * 3600.0
_CHECK_LIFE = 0.8  # seconds between two checks of which processes run
_CHECK_FOLDERS = 2.0  # seconds between two checks of which folders exist
_MOST_OPENED = 8  # found transcripts that are opened per read
_MOST_SEARCHED = 4  # sessions per read whose transcript is searched in every folder
_SMALL = 8 << 20  # the transcript of an ended session is read from its beginning if it is no longer


class ConfigFolder:
    def __init__(self, paths: ClaudePaths) -> None:
        self.paths = paths
        self.registry = LiveRegistry(paths)
        self.sessions: dict[str, ClaudeSession] = {}
        self.has_more = False
        self._jobs = BackgroundJobs(paths)
        self._search = TranscriptSearch(paths)
        self._proven: set[str] = set()  # see is_alive
        self._session_of_process: dict[tuple[int, str | None], str] = {}
        self._anew = True
        self._listed_at = 0.0
        self._listed_key: tuple[object, ...] = ()
        self._folders: list[str] = []
        self._folders_key: object = None
        self._folders_at = 0.0
        self._missing: set[str] = set()  # folders that may appear

    def read(self, context: ReadContext, watched: WatchedFolders, touched: frozenset[str] | None) -> None:
        now = fields.at(context.now)
        self.registry.read(touched)
        self._jobs.read(touched)
        if touched is None:
            self._anew, self._folders_key = True, None
            self._search.everywhere(watched, context.now)
        elif touched:
            unknown = [path for path in touched if not self._is_followed(path)]
            self._search.among(unknown, watched, context.now)
            if not self._missing.isdisjoint(touched):
                self._folders_key = None
        self._open_found()
        self._update_lives(context, watched, now)
        if touched is None or touched:
            self._open_listed(touched is None)
        self._read_sessions(touched)
        self._forget_old(context.now)

    def sightings(self, watched: WatchedFolders) -> list[Sighting]:
        anew, self._anew = self._anew, False
        found = (session.sighting(watched, anew) for session in self.sessions.values())
        return [one for one in found if one is not None]

    def listed_pids(self) -> set[int]:
        return {entry.pid for entry in self.registry.entries.values()}

    def watch_folders(self, watched: WatchedFolders) -> list[str]:
        """The registry, the folders in which new sessions appear, and those of living sessions; the same list object
        while nothing changed."""
        living = [session.folders for session in self.sessions.values() if session.life.alive is not False]
        key, now = (watched, self._jobs.reads, living), time.monotonic()
        if key != self._folders_key or now - self._folders_at >= _CHECK_FOLDERS:
            folders = self._existing_folders(watched, living)
            self._folders = self._folders if folders == self._folders else folders
            self._folders_key, self._folders_at = key, now
        return self._folders

    def _existing_folders(self, watched: WatchedFolders, living: Iterable[Sequence[str]]) -> list[str]:
        wanted = [self.paths.sessions, self.paths.projects, *self._jobs.folders()]
        wanted += [f"{self.paths.projects}/{name}" for name in watched.slugs]
        for folders in living:
            wanted += folders
        found = [folder for folder in dict.fromkeys(wanted) if os.path.isdir(folder)]
        self._missing = set(wanted).difference(found)
        complete = self.paths.projects in found and self.paths.sessions in found
        return found if complete else [self.paths.home, *found]

    # -- which sessions live ------------------------------------------------------------------------------------------

    def _update_lives(self, context: ReadContext, watched: WatchedFolders, now: str) -> None:
        """Take in the registry and the jobs, after either was read and from time to time."""
        key = (watched, self.registry.reads, self._jobs.reads, len(self.sessions))
        if key == self._listed_key and 0 <= context.now - self._listed_at < _CHECK_LIFE:
            return
        self._listed_key, self._listed_at = key, context.now
        best: dict[str, tuple[RegistryEntry, bool | None]] = {}
        for entry in self.registry.entries.values():
            if entry.session in self.sessions or watched.contains(entry.cwd):
                alive = is_alive(entry, context, self._proven)
                if entry.session not in best or alive or _begins_later(entry, alive, *best[entry.session]):
                    best[entry.session] = (entry, alive)
        for ident, (entry, alive) in best.items():
            session = self.sessions.get(ident)
            if session is not None and session.life.is_current(entry, alive):
                continue
            if alive is not False or session is not None or _is_recent(entry.at or entry.started_at, context.now):
                self._list(entry, alive, now)
        for job in self._jobs.by_session.values():
            if watched.contains(job.cwd) and (job.session in self.sessions or _is_recent(job.at, context.now)):
                self._session(job.session).set_job(job)
        for ident in self.sessions.keys() - best.keys():
            self._unlist(self.sessions[ident], context, now)

    def _list(self, entry: RegistryEntry, alive: bool | None, now: str) -> None:
        if alive:
            process = (entry.pid, entry.proc_start)
            before = self.sessions.get(self._session_of_process.get(process, entry.session))
            self._session_of_process[process] = entry.session
            if before is not None and before.ident != entry.session:
                before.leave(entry.at or now)
        self._session(entry.session).list_as(entry, alive, now)

    def _unlist(self, session: ClaudeSession, context: ReadContext, now: str) -> None:
        life = session.life
        if life.alive is False:
            return
        if life.entry is not None:
            alive = is_alive(life.entry, context, self._proven)
        elif life.pid is not None:
            alive = context.alive(life.pid, life.pid_started)
        else:
            alive = False if session.registers and self.registry.exists else None
        session.unlist(alive, now)

    def adopt(self, process: AgentProcess, now: str) -> bool:
        """Give a process without a registry entry to the session it must belong to: one of a version without a registry."""
        began = fields.at(process.began_at)
        cwd = real_path(process.cwd)
        fitting = [
            one
            for one in self.sessions.values()
            if one.life.entry is None and not one.registers and one.last_at >= began and cwd in map(real_path, one.cwds)
        ]
        if not fitting:
            return False
        max(fitting, key=lambda one: one.last_at).adopt(process.pid, process.started, now)
        return True

    # -- transcripts --------------------------------------------------------------------------------------------------

    def _session(self, ident: str) -> ClaudeSession:
        return self.sessions.setdefault(ident, ClaudeSession(ident))

    def _is_followed(self, path: str) -> bool:
        """True for the transcript of a known session."""
        session = self.sessions.get(session_of(path) or "")
        return session is not None and session.transcript is not None and session.transcript.path == path

    def _open_found(self) -> None:
        for path in self._search.take_next():
            session = self._session(session_of(path) or path)
            if session.transcript is None or session.transcript.path != path:  # else it is read with the others
                session.open(path)
                session.read(None)

    def _open_listed(self, everywhere: bool) -> None:
        """Open the transcripts of listed sessions; a transcript appears with the first prompt."""
        searched = 0
        for session in self.sessions.values():
            if session.transcript is None and session.cwds:
                path: str | None = self.paths.transcript(session.cwds[0], session.ident)
                if path is not None and not os.path.exists(path):
                    may_search = everywhere and searched < _MOST_SEARCHED
                    path = self._search.transcript_of(session.ident) if may_search else None
                    searched += 1
                if path is not None:
                    session.open(path)
                    session.read(None)

    def _read_sessions(self, touched: frozenset[str] | None) -> None:
        older, has_more = None, False
        concerned = _stems(touched or ())
        for session in self.sessions.values():
            if touched is None or session.stem in concerned or session.has_more:
                session.read(touched)
                has_more = has_more or session.has_more
            if session.has_older and self._is_worth_reading(session):
                older = session
        if older is not None and touched is not None:
            older.read_older()
        self.has_more = older is not None or has_more or self._search.waiting

    def _is_worth_reading(self, session: ClaudeSession) -> bool:
        """True if the older records of a session are read: if it lives, or is short."""
        assert session.transcript is not None
        return session.life.alive is not False or session.transcript.tail.size <= _SMALL

    def _forget_old(self, now: float) -> None:
        since = fields.at(now - _DAY)
        for ident in [one.ident for one in self.sessions.values() if not one.life.alive and one.last_at < since]:
            del self.sessions[ident]


def _stems(touched: Iterable[str]) -> set[str]:
    """The beginnings of the paths of the sessions that these files belong to."""
    found = set()
    for path in touched:
        found.add(path.removesuffix(".jsonl"))
        found.add(path.rpartition("/subagents")[0])
    return found


def _begins_later(entry: RegistryEntry, alive: bool | None, other: RegistryEntry, other_alive: bool | None) -> bool:
    return other_alive is not True and alive == other_alive and (entry.started_at or "") > (other.started_at or "")


def _is_recent(at: str | None, now: float) -> bool:
    moment = times.parse(at)
    return moment is not None and now - moment.timestamp() < _DAY


class TranscriptSearch:
    """Finds transcripts without a registry entry: of sessions that ended today, and of versions without a registry.

    Years of old transcripts may lie beside them. Only folders whose name can be a watched worktree's are listed, only
    files modified in the last day are opened, and few at a time, after those of living sessions.
    """

    def __init__(self, paths: ClaudePaths) -> None:
        self._projects = paths.projects
        self._waiting: dict[str, float] = {}  # transcripts to open -> modification time
        self._seen: dict[str, float] = {}  # opened ones -> modification time at that moment

    @property
    def waiting(self) -> bool:
        return bool(self._waiting)

    def everywhere(self, watched: WatchedFolders, now: float) -> None:
        for folder in self._folders():
            if watched.may_hold(folder):
                self._list(folder, now)

    def among(self, touched: Iterable[str], watched: WatchedFolders, now: float) -> None:
        for path in touched:
            folder = os.path.dirname(path)
            if folder == self._projects and watched.may_hold(path):
                self._list(path, now)
            elif os.path.dirname(folder) == self._projects and session_of(path) and watched.may_hold(folder):
                self._waiting[path] = now

    def take_next(self) -> list[str]:
        """The next few, newest first."""
        chosen = sorted(self._waiting, key=lambda path: -self._waiting[path])[:_MOST_OPENED]
        for path in chosen:
            self._seen[path] = self._waiting.pop(path)
        return chosen

    def transcript_of(self, session: str) -> str | None:
        """The transcript in any folder: a session that was resumed elsewhere keeps its file."""
        for folder in self._folders():
            path = f"{folder}/{session}.jsonl"
            if os.path.exists(path):
                return path
        return None

    def _folders(self) -> list[str]:
        try:
            return [f"{self._projects}/{name}" for name in os.listdir(self._projects)]
        except OSError:
            return []

    def _list(self, folder: str, now: float) -> None:
        try:
            with os.scandir(folder) as found:
                dated = [(one.path, one.stat().st_mtime) for one in found if one.name.endswith(".jsonl")]
        except OSError:
            return
        for path, modified in dated:
            if now - modified < _DAY and self._seen.get(path) != modified:
                self._waiting[path] = modified
