"""Codex: its rollouts, its daemon, its index and its locks, put together into one sighting a thread."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from imi_monitor.model.agent import FAILED, RESTING, WAITING, Evidence
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.agent_reader import ReadContext, Sighting
from imi_monitor.sources.agents.codex import session as codex_index
from imi_monitor.sources.agents.codex.daemon import CodexDaemon, DaemonStatus
from imi_monitor.sources.agents.codex.record_types import ThreadContext
from imi_monitor.sources.agents.codex.session import DAY, CodexThread, day_folders, head, recent, thread_of
from imi_monitor.sources.agents.codex.thread_owners import ThreadCandidate, ThreadLocks, ThreadProcess, find_owners

_MOST_NEW = 40  # threads that are read for the first time in one look
_SETTLES = 1.0  # seconds in which the daemon may be behind the file, or the file behind the daemon
_AGAIN = 5.0  # a busy thread's status is read again after so long, should the daemon not push its changes
_TERMINALS = re.compile(r"tui|cli|exec")  # originators: `codex-tui`, `codex_cli_rs`, `codex_exec`


class CodexReader:
    """See `Reader`."""

    cli = "codex"

    def __init__(self) -> None:
        self.unread = False
        self.threads: dict[str, CodexThread] = {}
        self._home = ""
        self._locks = ThreadLocks("")
        self._daemon = CodexDaemon("")
        self._heads: dict[str, ThreadContext] = {}  # rollout -> what its first line tells, ours or not
        self._asked: set[str] = set()  # locked threads that the index was asked for
        self._places: dict[str, str | None] = {}  # cwd -> real path where it is watched
        self._roots: tuple[str, ...] = ()

    def folders(self, world: ReadContext) -> Sequence[str]:
        sessions = os.path.join(self._home, "sessions")
        days = day_folders(sessions, world.now)
        parents = {os.path.dirname(day) for day in days} | {os.path.dirname(os.path.dirname(day)) for day in days}
        wanted = {self._home, sessions, self._locks.folder, os.path.dirname(self._daemon.path), *days, *parents}
        if os.path.isdir(sessions):
            wanted.discard(self._home)  # its databases are written all the time
        live = {os.path.dirname(thread.path) for thread in self.threads.values()}
        return sorted(folder for folder in wanted | live if os.path.isdir(folder))

    def look(self, world: ReadContext, touched: frozenset[str] | None) -> Sequence[Sighting]:
        self._settle_in(world)
        self._locks.look(anew=touched is None)
        self._find(world, touched)
        grown = self._read(touched)
        for thread in self._to_read_on()[:1]:
            thread.read_older()
        self._drop_old(world)
        mine = [thread for thread in self.threads.values() if not thread.course.internal]
        self._ask_daemon(world, touched, grown)
        lives = self._lives(mine, world)
        self.unread = bool(self._to_read_on()) or any(not one.begun for one in self.threads.values())
        helpers = self._helpers(mine, lives)
        shown = [one for one in mine if self._shown(one, lives[one.id])]
        return [self._told(one, lives[one.id], helpers.get(one.id, ()), world) for one in shown]

    def close(self) -> None:
        """Leave the daemon."""
        self._daemon.close()

    # -- finding ------------------------------------------------------------------------------------------------------

    def _settle_in(self, world: ReadContext) -> None:
        home = os.path.realpath(world.env.get("CODEX_HOME") or os.path.join(world.home, ".codex"))
        if home != self._home:
            self._daemon.close()
            self._home, self.threads, self._heads = home, {}, {}
            self._locks = ThreadLocks(os.path.join(home, "thread-writer-locks"))
            self._daemon = CodexDaemon(os.path.join(home, "app-server-control", "app-server-control.sock"))
        if world.roots != self._roots:
            self._roots, self._places = world.roots, {}

    def _find(self, world: ReadContext, touched: frozenset[str] | None) -> None:
        days = day_folders(os.path.join(self._home, "sessions"), world.now)
        if touched is None:
            self._asked.clear()
            for path in recent(days, world.now - DAY):
                self._meet(path, world)
        elif touched:
            for path in _rollouts(touched, days, world.now - DAY):
                self._meet(path, world)
        unknown = set(self._locks.threads) - self.threads.keys() - self._asked
        if touched is None or (unknown and touched):
            self._asked |= unknown
            self._ask_index(world, unknown)

    def _ask_index(self, world: ReadContext, also: Iterable[str]) -> None:
        for row in codex_index.threads(self._home, world.now - DAY, also):
            if row.path and row.id not in self.threads and (self._place(row.cwd, world) or row.id in also):
                self._meet(os.path.realpath(row.path), world, ours=True)
            if row.id in self.threads:
                self.threads[row.id].listed = row

    def _meet(self, path: str, world: ReadContext, ours: bool = False) -> None:
        """A rollout that may be ours: its first line tells where it began to work."""
        ident = thread_of(path)
        if ident is None or ident in self.threads:
            return
        known = self._heads.get(path) or head(path)
        if known is None:
            return
        self._heads[path] = known
        if ours or known.cwd is None or self._place(known.cwd, world):
            self.threads[ident] = CodexThread(ident, path, known)

    def _place(self, cwd: str | None, world: ReadContext) -> str | None:
        """The real path of a folder in a watched worktree."""
        if cwd is None:
            return None
        if cwd not in self._places:
            self._places[cwd] = os.path.realpath(cwd) if world.watched(cwd) else None
        return self._places[cwd]

    def _drop_old(self, world: ReadContext) -> None:
        for ident, thread in list(self.threads.items()):
            gone = thread.heard_at < world.now - DAY and ident not in self._locks.threads
            if gone or self._place(thread.cwd, world) is None:
                del self.threads[ident]
        if len(self._heads) > 4000:
            self._heads.clear()

    # -- reading ------------------------------------------------------------------------------------------------------

    def _read(self, touched: frozenset[str] | None) -> list[str]:
        """The threads that grew. New ones come some a look, those that live first."""
        known = [one for one in self.threads.values() if one.begun and (touched is None or one.path in touched)]
        new = [one for one in self.threads.values() if not one.begun]
        new.sort(key=lambda one: (one.id in self._locks.threads, one.heard_at), reverse=True)
        return [thread.id for thread in (*known, *new[:_MOST_NEW]) if thread.read()]

    def _to_read_on(self) -> list[CodexThread]:
        """Living threads that are not read to their end, or from their beginning."""
        return [one for one in self.threads.values() if one.unread and (one.unseen.owned or one.tail.behind)]

    def _lives(self, threads: Sequence[CodexThread], world: ReadContext) -> Mapping[str, ThreadProcess]:
        found = dict(find_owners([self._candidate(one, world) for one in threads], self._locks, world))
        for thread in threads:
            life = found[thread.id]
            if life.alive is False and thread.unseen.owned and thread.begun:
                thread.read()  # its last words may have come with its end
            if life.alive is not False:
                thread.unseen.owner_is(life.pid, life.started)
            elif thread.unseen.nobody(thread.heard_at) is None:
                found[thread.id] = replace(life, alive=None)
        return found

    def _candidate(self, thread: CodexThread, world: ReadContext) -> ThreadCandidate:
        status = self._daemon.statuses.get(thread.id)
        working = thread.course.working or (status is not None and status.state not in RESTING)
        terminal = bool(_TERMINALS.search(thread.course.context.originator or ""))
        return ThreadCandidate(
            thread.id,
            self._place(thread.cwd, world) or "",
            thread.heard_at,
            working,
            terminal,
            thread.unseen.left_by(thread.heard_at),
        )

    # -- the daemon ---------------------------------------------------------------------------------------------------

    def _ask_daemon(self, world: ReadContext, touched: frozenset[str] | None, grown: Iterable[str]) -> None:
        if not self.threads:
            return
        statuses = self._daemon.statuses
        busy = [name for name, one in statuses.items() if self._may_have_changed(name, one, world.now)]
        control = os.path.dirname(self._daemon.path)
        whole = touched is None or any(os.path.dirname(path) in (control, self._locks.folder) for path in touched)
        again = [name for name in (*grown, *busy) if name in self.threads]
        before = {name: one.raw for name, one in statuses.items()}
        self._daemon.look(world.now, whole, again)
        for name, one in self._daemon.statuses.items():
            if before.get(name) != one.raw and name in self.threads:
                self.threads[name].read()  # it says why

    def _may_have_changed(self, name: str, status: DaemonStatus, now: float) -> bool:
        """It is busy, or its file says otherwise."""
        thread = self.threads.get(name)
        if thread is None:
            return False
        busy = status.state not in RESTING
        return busy != thread.course.working or (busy and now - status.read_at >= _AGAIN)

    def _said_by_daemon(self, thread: CodexThread, world: ReadContext) -> Evidence | None:
        status = self._daemon.statuses.get(thread.id)
        if status is None:
            return None
        course = thread.course
        since = fields.at(status.since) if status.since else course.at or fields.at(status.read_at)
        if status.state in RESTING and course.working and world.now - (fields.seconds(course.at) or 0) < _SETTLES:
            return None  # the file is ahead: what was asked of it has not begun there
        detail = course.asks if status.waits_for == "an answer" else None
        if status.waits_for == "approval":
            detail = "permission" + (f": {course.asks}" if course.asks else "")
        says = f"its daemon says {status.raw}"
        return Evidence("socket", status.state, since, says, detail or status.waits_for, standing=True)

    # -- telling ------------------------------------------------------------------------------------------------------

    def _shown(self, thread: CodexThread, life: ThreadProcess) -> bool:
        """A thread that works for another is told of there; one in which nothing happened before it ended, nowhere."""
        context, held = thread.course.context, thread.id in self._locks.threads
        helps = context.parent in self.threads or (context.child and context.parent is None)
        archived = thread.listed is not None and thread.listed.archived and not held
        empty = life.alive is False and thread.course.at is None and not thread.course.strange
        return thread.begun and not (helps or archived or empty)

    def _told(
        self, thread: CodexThread, life: ThreadProcess, helpers: Sequence[CodexThread], world: ReadContext
    ) -> Sighting:
        """Of one that is over the same is told until something moves: there may be hundreds of them."""
        key = (thread.read_count, life, thread.listed)
        if thread.told is not None and thread.told[0] == key:
            return thread.told[1]
        found = self._sighting(thread, life, helpers, world)
        over = life.alive is False and not helpers and thread.id not in self._daemon.statuses
        thread.told = (key, replace(found, news=())) if over else None
        return found

    def _sighting(
        self, thread: CodexThread, life: ThreadProcess, helpers: Sequence[CodexThread], world: ReadContext
    ) -> Sighting:
        facts = thread.course.facts(thread.listed.title if thread.listed else None)
        facts = replace(
            facts,
            parent=thread.course.context.parent,
            subagents=sum(one.course.working for one in helpers) if helpers else None,
            format_note=facts.format_note or self._daemon.note,
        )
        return Sighting(
            cli=self.cli,
            session=thread.id,
            cwd=thread.cwd,
            pid=life.pid,
            pid_started=life.started,
            alive=life.alive,
            last_alive=fields.at(thread.heard_at) if life.alive is False and thread.heard_at else None,
            evidence=tuple(self._evidence(thread, helpers, world)),
            facts=facts,
            news=thread.take_news(),
        )

    def _helpers(
        self, threads: Iterable[CodexThread], lives: Mapping[str, ThreadProcess]
    ) -> dict[str, list[CodexThread]]:
        """Living subagents by the thread that they work for."""
        found: dict[str, list[CodexThread]] = {}
        for one in threads:
            parent = one.course.context.parent
            if parent is not None and lives[one.id].alive is not False:
                found.setdefault(parent, []).append(one)
        return found

    def _evidence(self, thread: CodexThread, helpers: Iterable[CodexThread], world: ReadContext) -> Iterator[Evidence]:
        told = self._said_by_daemon(thread, world)
        waits = next((one for one in helpers if (self._said_by_daemon(one, world) or _NONE).state == WAITING), None)
        if waits is not None and (told is None or told.state != WAITING):
            yield replace(self._said_by_daemon(waits, world) or _NONE, says="its daemon says that a subagent waits")
        elif told is not None:
            yield told
        own = thread.course.evidence(world.now - thread.heard_at)
        own = own or codex_index.last_turn(self._home, thread.id) if thread.course.strange else own
        if own is not None:
            yield own


_NONE = Evidence("socket", FAILED, "", "")


def _rollouts(touched: Iterable[str], days: Sequence[str], since: float) -> Iterator[str]:
    """Rollouts among what changed; a day's folder that changed as a whole is listed."""
    for path in touched:
        if thread_of(path):
            yield path
        elif path in days:
            yield from recent((path,), since)


def make() -> CodexReader:
    return CodexReader()
