"""All that one configuration folder of Claude Code tells: who lives by its registry, and what their files say.

Transcripts that no registry leads to: of sessions that ended today, and of versions that list themselves nowhere.

Years of old transcripts lie beside them. Only folders whose name can be a watched worktree's are listed, only files
that moved in the last day are opened, and few at a time: those that live were shown before.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from imi_monitor.model import times
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

_MISSED = 4.0  # seconds until a folder that was not there is asked for again, though nobody told of it
_ASK = 0.8  # seconds between two questions to the system for everybody's life
_FOLDERS = 2.0  # the same for folders that come and go without a word
_SEARCHED = 4  # sessions whose transcript is looked for everywhere, in one look
_SMALL = 8 << 20  # an ended session is read from its beginning only if it is no longer than that


class ConfigFolder:
    def __init__(self, places: ClaudePaths) -> None:
        self.places = places
        self.registry = LiveRegistry(places)
        self.sessions: dict[str, ClaudeSession] = {}
        self.unread = False
        self._jobs = BackgroundJobs(places)
        self._search = TranscriptSearch(places)
        self._proven: set[str] = set()
        self._at_work: dict[tuple[int, str | None], str] = {}  # the session of each process
        self._wholes = 0
        self._known: tuple[object, ...] = ()
        self._asked_at = 0.0
        self._lives: dict[str, tuple[RegistryEntry, bool | None]] = {}  # by the entry's path, as it was asked last
        self._told: dict[str, Sighting | None] = {}
        self._told_at = -1
        self._there = _There()
        self._followed: tuple[object, list[str]] = None, []
        self._followed_at = 0.0

    def look(self, world: ReadContext, watched: WatchedFolders, touched: frozenset[str] | None) -> None:
        now = times.stamp(datetime.fromtimestamp(world.now, UTC))
        self.registry.look(touched)
        self._jobs.look(touched)
        if touched is None:
            self._wholes += 1
            self._there, self._followed = _There(), (None, [])
            self._search.everywhere(watched, world.now)
        elif touched:
            self._search.among([path for path in touched if not self._is_read(path)], watched, world.now)
        self._open_found()
        self._list(world, watched, now)
        if touched and self._there.expect(touched):
            self._followed = None, []
        if touched is None or touched:
            self._open_listed(touched is None)
        self._read(touched)
        self._forget(world.now)

    def sightings(self, watched: WatchedFolders) -> list[Sighting]:
        """Those that did not move are not even asked."""
        before, self._told = self._told, {}
        whole, self._told_at = self._told_at != self._wholes, self._wholes
        for ident, session in self.sessions.items():
            known = not whole and not session.moved and ident in before
            self._told[ident] = before[ident] if known else self._sighting(session, watched)
        return [one for one in self._told.values() if one is not None]

    def _sighting(self, session: ClaudeSession, watched: WatchedFolders) -> Sighting | None:
        cwd = next((cwd for cwd in session.cwds if watched.inside(cwd)), None)
        if cwd is None:
            session.forget_news()
            return None
        return session.sighting(cwd, self._wholes)

    def listed(self) -> set[int]:
        return {entry.pid for entry in self.registry.entries.values()}

    def folders(self, watched: WatchedFolders) -> list[str]:
        """The registry, where new sessions appear, and the files of those that live."""
        living = [session.folders for session in self.sessions.values() if session.life.alive is not False]
        known, now = (watched, self._jobs.readings, living), time.monotonic()
        if known != self._followed[0] or now - self._followed_at >= _FOLDERS:
            folders = self._there_now(watched, living)
            # the very same where nothing is otherwise: that is seen at a glance
            self._followed = known, self._followed[1] if folders == self._followed[1] else folders
            self._followed_at = now
        return self._followed[1]

    def _there_now(self, watched: WatchedFolders, living: Iterable[Sequence[str]]) -> list[str]:
        wanted = [self.places.sessions, self.places.projects, *self._jobs.folders()]
        wanted += [f"{self.places.projects}/{name}" for name in watched.slugs]
        for folders in living:
            wanted += folders
        there = self._there.of(dict.fromkeys(wanted))
        return there if self.places.projects in there and self.places.sessions in there else [self.places.home, *there]

    # -- who lives ----------------------------------------------------------------------------------------------------

    def _list(self, world: ReadContext, watched: WatchedFolders, now: str) -> None:
        """Who is listed, and who of them lives; asked again when something was read, or a while is over."""
        known = (watched, self.registry.readings, self._jobs.readings, len(self.sessions))
        just_asked = 0 <= world.now - self._asked_at < _ASK
        if known == self._known and just_asked:
            return
        if not just_asked:
            self._lives, self._asked_at = {}, world.now
        self._known = known
        best: dict[str, tuple[RegistryEntry, bool | None]] = {}
        for path, entry in self.registry.entries.items():
            if entry.session in self.sessions or watched.inside(entry.cwd):
                asked = self._lives.get(path)
                if asked is None or asked[0] is not entry:
                    asked = self._lives[path] = entry, is_alive(entry, world, self._proven)
                alive = asked[1]
                if entry.session not in best or alive or _begins_later(entry, alive, *best[entry.session]):
                    best[entry.session] = (entry, alive)
        for ident, (entry, alive) in best.items():
            session = self.sessions.get(ident)
            if session is not None and session.life.is_so(entry, alive):
                continue
            if alive is not False or ident in self.sessions or _recent(entry.at or entry.started_at, world.now):
                self._listed(entry, alive, now)
        for job in self._jobs.by_session.values():
            if watched.inside(job.cwd) and (job.session in self.sessions or _recent(job.at, world.now)):
                self._session(job.session).works_on(job)
        for ident in self.sessions.keys() - best.keys():
            self._unlisted(self.sessions[ident], world, now)

    def _listed(self, entry: RegistryEntry, alive: bool | None, now: str) -> None:
        if alive:
            process = (entry.pid, entry.proc_start)
            before = self.sessions.get(self._at_work.get(process, entry.session))
            self._at_work[process] = entry.session
            if before is not None and before.ident != entry.session:
                before.happened(before.life.went_on(entry.at or now))
        self._session(entry.session).listed_as(entry, alive, now)

    def _unlisted(self, session: ClaudeSession, world: ReadContext, now: str) -> None:
        life = session.life
        if life.alive is False:
            return
        if life.entry is not None:
            alive = is_alive(life.entry, world, self._proven)
        elif life.pid is not None:
            alive = world.alive(life.pid, life.pid_started)
        else:
            alive = False if session.registers and self.registry.exists else None
        session.happened(life.unlisted(alive, now))

    def adopt(self, process: AgentProcess, now: str) -> bool:
        """Give a process that is in no list to the session that must be its own: of a version that keeps no list."""
        began = times.stamp(datetime.fromtimestamp(process.began_at, UTC))
        there = real_path(process.cwd)
        fitting = [
            one
            for one in self.sessions.values()
            if one.life.entry is None
            and not one.registers
            and one.last_at >= began
            and there in map(real_path, one.cwds)
        ]
        if not fitting:
            return False
        session = max(fitting, key=lambda one: one.last_at)
        session.happened(session.life.owned_by(process.pid, process.started, now))
        return True

    # -- what their files say -----------------------------------------------------------------------------------------

    def _session(self, ident: str) -> ClaudeSession:
        return self.sessions.setdefault(ident, ClaudeSession(ident))

    def _is_read(self, path: str) -> bool:
        """Whether it is the transcript of a session that is known."""
        session = self.sessions.get(session_of(path) or "")
        return session is not None and session.transcript is not None and session.transcript.path == path

    def _open_found(self) -> None:
        for path in self._search.next():
            session = self._session(session_of(path) or path)
            if session.transcript is None or session.transcript.path != path:  # else it is read with the others
                session.open(path)
                session.read(None)

    def _open_listed(self, everywhere: bool) -> None:
        """The transcripts of sessions that are known without; they appear with the first prompt."""
        searched = 0
        for session in self.sessions.values():
            if session.transcript is None and session.cwds:
                path: str | None = self.places.transcript(session.cwds[0], session.ident)
                if path is not None and not os.path.exists(path):
                    path = self._search.transcript_of(session.ident) if everywhere and searched < _SEARCHED else None
                    searched += 1
                if path is not None:
                    session.open(path)
                    session.read(None)

    def _read(self, touched: frozenset[str] | None) -> None:
        older, behind = None, False
        concerned = _stems(touched or ())
        for session in self.sessions.values():
            if touched is None or session.stem in concerned or session.behind:
                session.read(touched)
                behind = behind or session.behind
            if session.has_older and self._to_the_beginning(session):
                older = session
        if older is not None and touched is not None:
            older.read_before()
        self.unread = older is not None or behind or self._search.waiting

    def _to_the_beginning(self, session: ClaudeSession) -> bool:
        assert session.transcript is not None
        return session.life.alive is not False or session.transcript.size <= _SMALL

    def _forget(self, now: float) -> None:
        for ident in [one.ident for one in self.sessions.values() if one.life.alive is not True]:
            if not _recent(self.sessions[ident].last_at, now):
                del self.sessions[ident]


def _stems(touched: Iterable[str]) -> set[str]:
    """The sessions, by how the names of their files begin, that these files may be of."""
    found = set()
    for path in touched:
        found.add(path.removesuffix(".jsonl"))
        found.add(path.rpartition("/subagents")[0])
    return found


class _There:
    """Which folders exist. One that does is believed until everything is looked at anew, one that does not is asked for
    now and then: most of them never come."""

    def __init__(self) -> None:
        self._found: set[str] = set()
        self._missed: dict[str, float] = {}

    def expect(self, touched: Iterable[str]) -> bool:
        """Something may have come there: it is asked for again, with what may have come inside."""
        came = tuple(f"{path}/" for path in touched if path in self._missed)
        if came:
            self._missed = {folder: at for folder, at in self._missed.items() if not f"{folder}/".startswith(came)}
        return bool(came)

    def of(self, wanted: Iterable[str]) -> list[str]:
        now = time.monotonic()
        for folder in wanted:
            if folder not in self._found and now - self._missed.get(folder, -_MISSED) >= _MISSED:
                if os.path.isdir(folder):
                    self._found.add(folder)
                else:
                    self._missed[folder] = now
        return [folder for folder in wanted if folder in self._found]


def _begins_later(entry: RegistryEntry, alive: bool | None, other: RegistryEntry, other_alive: bool | None) -> bool:
    return other_alive is not True and alive == other_alive and (entry.started_at or "") > (other.started_at or "")


def _recent(at: str | None, now: float) -> bool:
    moment = times.parse(at)
    return moment is not None and now - moment.timestamp() < DAY


DAY = 24 * 3600.0
_AT_ONCE = 8


class TranscriptSearch:
    def __init__(self, places: ClaudePaths) -> None:
        self._projects = places.projects
        self._waiting: dict[str, float] = {}  # transcripts to be opened, and when they moved
        self._seen: dict[str, float] = {}  # opened, and when they had moved

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

    def next(self) -> list[str]:
        """The next few, those that moved last first."""
        chosen = sorted(self._waiting, key=lambda path: -self._waiting[path])[:_AT_ONCE]
        for path in chosen:
            self._seen[path] = self._waiting.pop(path)
        return chosen

    def transcript_of(self, session: str) -> str | None:
        """Wherever it lies: a session that was resumed elsewhere keeps its file."""
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
        for path, moved in dated:
            if now - moved < DAY and self._seen.get(path) != moved:
                self._waiting[path] = moved
