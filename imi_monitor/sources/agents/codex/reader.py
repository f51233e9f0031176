"""Codex: its rollouts, its daemon, its index and its locks, combined into one sighting per thread."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from imi_monitor.model.agent import COMPLETED, RESTING, RUNNING, WAITING, Evidence
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.agent_reader import AgentProgram, AgentReader, ReadContext, Sighting
from imi_monitor.sources.agents.codex import thread_questions
from imi_monitor.sources.agents.codex.daemon import CodexDaemon, DaemonStatus
from imi_monitor.sources.agents.codex.record_types import ThreadContext
from imi_monitor.sources.agents.codex.session import (
    DAY,
    CodexThread,
    day_folders,
    index_rows,
    last_turn,
    read_head,
    recent_rollouts,
    thread_of,
)
from imi_monitor.sources.agents.codex.thread_log import ThreadLog
from imi_monitor.sources.agents.codex.thread_owners import ThreadCandidate, ThreadLocks, ThreadOwners, ThreadProcess
from imi_monitor.sources.agents.codex.unprompted import UnpromptedTerminals

_MOST_NEW = 40  # threads that are read for the first time in one call
_MOST_HEADS = 4000
_SETTLES = 1.0  # seconds by which the daemon and the file may be behind each other
_READ_AGAIN = 5.0  # seconds after which a busy thread's status is read again, in case the daemon pushes no change
_TERMINALS = re.compile(r"tui|cli|exec")  # originators: `codex-tui`, `codex_cli_rs`, `codex_exec`

PROGRAM = AgentProgram(
    "codex",
    ("/@openai/codex",),
    frozenset({"app-server", "mcp-server", "mcp", "login", "completion"}),
    # the server's folder is the one in which it was started, whatever its threads work on; commands run in a sandbox of
    # its own, which has its name
    helpers_anywhere=frozenset({"app-server", "sandbox-policy-cwd"}),
    titles=((re.compile(r"\bAction Required\b"), WAITING), (re.compile(r"^[\u2800-\u28ff]"), RUNNING)),  # a spinner
    folder_title=COMPLETED,
    home_variables=("CODEX_HOME",),
)


def make() -> AgentReader:
    return CodexReader()


class CodexReader:
    cli = "codex"

    def __init__(self) -> None:
        self.has_more = False
        self.threads: dict[str, CodexThread] = {}
        self._home = ""
        self._locks = ThreadLocks("")
        self._owners = ThreadOwners()
        self._daemon = CodexDaemon("")
        self._log = ThreadLog("")
        self._unprompted = UnpromptedTerminals("")
        self._heads: dict[str, ThreadContext] = {}  # rollout -> its first line, of any worktree
        self._asked: set[str] = set()  # locked threads that were looked up in the index
        self._places: dict[str, str | None] = {}  # cwd -> real path; None outside of the worktrees
        self._roots: tuple[str, ...] = ()

    def watch_folders(self, context: ReadContext) -> Sequence[str]:
        sessions = os.path.join(self._home, "sessions")
        days = day_folders(sessions, context.now)
        parents = {os.path.dirname(day) for day in days} | {os.path.dirname(os.path.dirname(day)) for day in days}
        wanted = {self._home, sessions, self._locks.folder, os.path.dirname(self._daemon.path), *days, *parents}
        if os.path.isdir(sessions):
            wanted.discard(self._home)  # its databases are written all the time
        live = {os.path.dirname(thread.path) for thread in self.threads.values()}
        return sorted(folder for folder in wanted | live if os.path.isdir(folder))

    def read(self, context: ReadContext, touched: frozenset[str] | None) -> Sequence[Sighting]:
        self._follow_settings(context)
        self._locks.read(anew=touched is None)
        self._find(context, touched)
        grown = self._read(touched)
        for thread in self._with_more()[:1]:
            thread.read_older()
        self._drop_old(context)
        threads = [thread for thread in self.threads.values() if not thread.reducer.internal]
        self._poll_daemon(context, touched, grown)
        processes = self._find_processes(threads, context)
        self.has_more = bool(self._with_more()) or any(not one.was_read for one in self.threads.values())
        helpers = self._helpers(threads, processes)
        shown = [one for one in threads if self._is_shown(one, processes[one.id])]
        found = [self._sighting(one, processes[one.id], helpers.get(one.id, ()), context) for one in shown]
        taken = {one.pid for one in processes.values()}
        daemon = os.path.exists(self._daemon.path)
        return [*found, *self._unprompted.find(context, self._locks, self.threads.keys(), taken, daemon)]

    def close(self) -> None:
        """Disconnect from the daemon."""
        self._daemon.close()

    # -- finding threads ----------------------------------------------------------------------------------------------

    def _follow_settings(self, context: ReadContext) -> None:
        """Start again if CODEX_HOME or the worktrees changed."""
        home = os.path.realpath(context.env.get("CODEX_HOME") or os.path.join(context.home, ".codex"))
        if home != self._home:
            self._daemon.close()
            self._home, self.threads, self._heads = home, {}, {}
            self._locks = ThreadLocks(os.path.join(home, "thread-writer-locks"))
            self._daemon = CodexDaemon(thread_questions.socket_path(home))
            self._log, self._unprompted = ThreadLog(home), UnpromptedTerminals(home)
        if context.roots != self._roots:
            self._roots, self._places = context.roots, {}

    def _find(self, context: ReadContext, touched: frozenset[str] | None) -> None:
        days = day_folders(os.path.join(self._home, "sessions"), context.now)
        if touched is None:
            self._asked.clear()
            for path in recent_rollouts(days, context.now - DAY):
                self._add(path, context)
        elif touched:
            for path in _touched_rollouts(touched, days, context.now - DAY):
                self._add(path, context)
        unknown = set(self._locks.threads) - self.threads.keys() - self._asked
        if touched is None or (unknown and touched):
            self._asked |= unknown
            self._read_index(context, unknown)

    def _read_index(self, context: ReadContext, also: Iterable[str]) -> None:
        for row in index_rows(self._home, context.now - DAY, also):
            if row.path and row.id not in self.threads and (self._place(row.cwd, context) or row.id in also):
                self._add(os.path.realpath(row.path), context, certain=True)
            if row.id in self.threads:
                self.threads[row.id].row = row

    def _add(self, path: str, context: ReadContext, certain: bool = False) -> None:
        """Follow a rollout, unless its first line names a folder outside of the worktrees."""
        ident = thread_of(path)
        if ident is None or ident in self.threads:
            return
        head = self._heads.get(path) or read_head(path)
        if head is None:
            return
        self._heads[path] = head
        if certain or head.cwd is None or self._place(head.cwd, context):
            self.threads[ident] = CodexThread(ident, path, head)

    def _place(self, cwd: str | None, context: ReadContext) -> str | None:
        """The real path of a folder in a worktree."""
        if cwd is None:
            return None
        if cwd not in self._places:
            self._places[cwd] = os.path.realpath(cwd) if context.is_watched(cwd) else None
        return self._places[cwd]

    def _drop_old(self, context: ReadContext) -> None:
        for ident, thread in list(self.threads.items()):
            gone = thread.modified_at < context.now - DAY and ident not in self._locks.threads
            if gone or self._place(thread.cwd, context) is None:
                del self.threads[ident]
        if len(self._heads) > _MOST_HEADS:
            self._heads.clear()

    # -- reading ------------------------------------------------------------------------------------------------------

    def _read(self, touched: frozenset[str] | None) -> list[str]:
        """Read what was added; returns the threads that grew. New threads come a few at a time, loaded ones first."""
        known = [one for one in self.threads.values() if one.was_read and (touched is None or one.path in touched)]
        new = [one for one in self.threads.values() if not one.was_read]
        new.sort(key=lambda one: (one.id in self._locks.threads, one.modified_at), reverse=True)
        return [thread.id for thread in (*known, *new[:_MOST_NEW]) if thread.read()]

    def _with_more(self) -> list[CodexThread]:
        """Threads that are not read to their end, and living ones that are not read from their beginning."""
        return [one for one in self.threads.values() if one.has_more and (one.has_process or one.tail.has_more)]

    def _find_processes(self, threads: Sequence[CodexThread], context: ReadContext) -> Mapping[str, ThreadProcess]:
        found = self._owners.find([self._candidate(one, context) for one in threads], self._locks, context)
        for thread in threads:
            ended = found[thread.id].alive is False
            if ended and thread.has_process and thread.was_read:
                thread.read()  # the last records may have come together with its end
            thread.has_process = not ended
        return found

    def _candidate(self, thread: CodexThread, context: ReadContext) -> ThreadCandidate:
        status = self._daemon.statuses.get(thread.id)
        working = thread.reducer.working or (status is not None and status.state not in RESTING)
        terminal = bool(_TERMINALS.search(thread.reducer.context.originator or ""))
        return ThreadCandidate(thread.id, self._place(thread.cwd, context) or "", thread.modified_at, working, terminal)

    # -- the daemon ---------------------------------------------------------------------------------------------------

    def _poll_daemon(self, context: ReadContext, touched: frozenset[str] | None, grown: Iterable[str]) -> None:
        if not self.threads:
            return
        statuses = self._daemon.statuses
        busy = [name for name, one in statuses.items() if self._may_have_changed(name, one, context.now)]
        control = os.path.dirname(self._daemon.path)
        whole = touched is None or any(os.path.dirname(path) in (control, self._locks.folder) for path in touched)
        again = [name for name in (*grown, *busy) if name in self.threads]
        before = {name: one.raw for name, one in statuses.items()}
        self._daemon.poll(context.now, whole, again)
        for name, one in self._daemon.statuses.items():
            if before.get(name) != one.raw and name in self.threads:
                self.threads[name].read()  # the file says why

    def _may_have_changed(self, name: str, status: DaemonStatus, now: float) -> bool:
        """True if its file says something else, or it is busy and its status is old."""
        thread = self.threads.get(name)
        if thread is None:
            return False
        busy = status.state not in RESTING
        return busy != thread.reducer.working or (busy and not 0 <= now - status.read_at < _READ_AGAIN)

    def _daemon_evidence(self, thread: CodexThread, context: ReadContext) -> Evidence | None:
        status = self._daemon.statuses.get(thread.id)
        if status is None:
            return None
        reducer = thread.reducer
        since = fields.at(status.since) if status.since else reducer.at or fields.at(status.read_at)
        if (
            status.state in RESTING
            and reducer.working
            and fields.quiet(context.now, fields.seconds(reducer.at) or 0) < _SETTLES
        ):
            return None  # the file is ahead: the daemon has not taken up the prompt yet
        detail = reducer.asks if status.waits_for == "an answer" else None
        if status.waits_for == "approval":
            detail = "permission" + (f": {reducer.asks}" if reducer.asks else "")
        says = f"its daemon says {status.raw}"
        return Evidence("socket", status.state, since, says, detail or status.waits_for, standing=True)

    # -- sightings ----------------------------------------------------------------------------------------------------

    def _is_shown(self, thread: CodexThread, process: ThreadProcess) -> bool:
        """False for a thread that works for another one, and for one that ended before anything happened."""
        started, loaded = thread.reducer.context, thread.id in self._locks.threads
        helps = started.parent in self.threads or (started.child and started.parent is None)
        archived = thread.row is not None and thread.row.archived and not loaded
        empty = process.alive is False and thread.reducer.at is None and not thread.reducer.unknown
        return thread.was_read and not (helps or archived or empty)

    def _sighting(
        self, thread: CodexThread, process: ThreadProcess, helpers: Sequence[CodexThread], context: ReadContext
    ) -> Sighting:
        """The sighting of an ended thread is kept until something changes: there may be hundreds of them."""
        key = (thread.reads, process, thread.row)
        if thread.last is not None and thread.last[0] == key:
            return thread.last[1]
        found = self._build(thread, process, helpers, context)
        ended = process.alive is False and not helpers and thread.id not in self._daemon.statuses
        thread.last = (key, replace(found, events=())) if ended else None
        return found

    def _build(
        self, thread: CodexThread, process: ThreadProcess, helpers: Sequence[CodexThread], context: ReadContext
    ) -> Sighting:
        facts = thread.reducer.facts(thread.row.title if thread.row else None)
        facts = replace(
            facts,
            parent=thread.reducer.context.parent,
            subagents=sum(one.reducer.working for one in helpers) if helpers else None,
            format_note=facts.format_note or self._daemon.note,
            ask=self._question(thread, helpers),
        )
        return Sighting(
            cli=self.cli,
            session=thread.id,
            cwd=thread.cwd,
            pid=process.pid,
            pid_started=process.started,
            alive=process.alive,
            last_alive=fields.at(thread.modified_at) if process.alive is False and thread.modified_at else None,
            evidence=tuple(self._evidence(thread, process, helpers, context)),
            facts=facts,
            events=thread.take_events(),
            process_began=process.began,
            tied=process.tied,
        )

    def _question(self, thread: CodexThread, helpers: Sequence[CodexThread]) -> str | None:
        """The id of the question that imi can answer: of a thread of the user's own daemon, or of a subagent of it."""
        asking = (
            one.id for one in (thread, *helpers) if (found := self._daemon.statuses.get(one.id)) and found.waits_for
        )
        first = next(asking, None)
        mine = first is not None and self._daemon.path == thread_questions.socket_path()
        return thread_questions.id_of(first) if mine and first is not None else None

    def _helpers(
        self, threads: Iterable[CodexThread], processes: Mapping[str, ThreadProcess]
    ) -> dict[str, list[CodexThread]]:
        """The living subagents of each thread."""
        found: dict[str, list[CodexThread]] = {}
        for one in threads:
            parent = one.reducer.context.parent
            if parent is not None and processes[one.id].alive is not False:
                found.setdefault(parent, []).append(one)
        return found

    def _evidence(
        self, thread: CodexThread, process: ThreadProcess, helpers: Iterable[CodexThread], context: ReadContext
    ) -> Iterator[Evidence]:
        own = self._daemon_evidence(thread, context)
        below = (self._daemon_evidence(one, context) for one in helpers)
        waits = next((one for one in below if one is not None and one.state == WAITING), None)
        if waits is not None and (own is None or own.state != WAITING):
            yield replace(waits, says="its daemon says that a subagent waits")
        elif own is not None:
            yield own
        recorded = thread.reducer.evidence(fields.quiet(context.now, thread.modified_at))
        if recorded is None and thread.reducer.unknown:
            recorded = last_turn(self._home, thread.id)
        if recorded is not None:
            yield self._with_approval(thread, _with_background(recorded, thread, process))

    def _with_approval(self, thread: CodexThread, found: Evidence) -> Evidence:
        """The evidence of an open call, certain once its approval was answered."""
        call = thread.reducer.only_call
        since = fields.seconds(call.at) if call is not None else None
        if WAITING not in found.or_else or since is None or not self._log.is_answered(thread.id, since):
            return found
        says = f"{found.says}; its log says that the approval was answered"
        return replace(found, says=says, detail=None, or_else=frozenset())


def _with_background(found: Evidence, thread: CodexThread, process: ThreadProcess) -> Evidence:
    """The evidence of a turn that is over, with the command that runs on after it."""
    left = thread.reducer.background(process.began) if process.alive is not False else None
    if found.state != COMPLETED or found.detail is not None or left is None:
        return found
    return replace(found, detail=f"a command runs on in the background: {left}")


def _touched_rollouts(touched: Iterable[str], days: Sequence[str], since: float) -> Iterator[str]:
    """The rollouts among the changed paths; a day's folder that changed as a whole is listed."""
    for path in touched:
        if thread_of(path):
            yield path
        elif path in days:
            yield from recent_rollouts((path,), since)
