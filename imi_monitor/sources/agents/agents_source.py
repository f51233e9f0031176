"""The agents source: polls every reader when its files change, and once a second for what no file shows.

Polls run one after the other in a thread of their own. A change in a watched folder is polled within 50 ms; records that
are appended to transcripts while others were read a moment ago are gathered, because forty agents write all the time.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from imi_monitor.model.snapshot import Key
from imi_monitor.sources.agents import all_readers, foreign_files, process_scanner
from imi_monitor.sources.agents.agent_poll import SCAN_EVERY, TICK, AgentPoll
from imi_monitor.sources.agents.agent_reader import AgentReader, ScanProcesses
from imi_monitor.sources.agents.foreign_files import FileStamp
from imi_monitor.sources.agents.registry_names import RegistryNames
from imi_monitor.sources.agents.sighting_merge import SeenAgent
from imi_monitor.sources.files.watcher import FileEvent, FileWatcher, WatchRoot, WatchSink
from imi_monitor.sources.hints import AgentLookedAt, AgentsRead, Hint, RefreshRequested, RegistryChanged, RosterRead
from imi_monitor.sources.source import ReadingReceiver, RosterEntry, Source, SourceContext
from imi_monitor.sources.timers import PollTimer

_GATHER = 0.01  # seconds to wait for events that belong together: a record is written in several pieces
_RECORDS_EVERY = 0.15  # seconds between two polls for appended records alone: a state may be 200 ms old
_READ_ALL_EVERY = 60.0  # seconds between two polls of everything, whatever changed
_WITHOUT_AGENTS = 5.0  # seconds between two polls while there is no agent; a new one usually writes a file, too
_SHARE_FOR_OLDER = 0.1  # of the time goes into older records, which only add up tokens

# Returns a sentence while the events cannot be recorded.
RecordAgents = Callable[[Sequence[SeenAgent]], Awaitable[str | None]]


class AgentsSource(Source):
    name = "agents"

    def __init__(
        self,
        watcher: FileWatcher,
        readers: Callable[[], Sequence[AgentReader]],
        scan: Callable[[], ScanProcesses],
        record: RecordAgents | None = None,
        env: Mapping[str, str] | None = None,
        *,
        naming: RegistryNames | None = None,
        tick: float = TICK,
        scan_every: float = SCAN_EVERY,
        without_agents: float = _WITHOUT_AGENTS,
    ) -> None:
        """`readers` and `scan` are called in the worker thread, which imports them: the first paint comes before."""
        self._watcher = watcher
        self._new_poll = lambda: AgentPoll(
            list(readers()), scan(), os.environ if env is None else env, tick=tick, scan_every=scan_every
        )
        self._record = record
        self._naming = naming
        self._without_agents = without_agents
        self._idle_since: object = None  # the watcher's activity at the last poll, if that found no agent
        self._timer = PollTimer(tick)
        self._gathering: asyncio.TimerHandle | None = None
        self._polled_at = float("-inf")  # by the loop's clock
        self._touched: set[str] | None = None  # None: anything may have changed
        self._logs: dict[str, FileStamp | None] = {}  # of SQLite databases, as they were last written
        self._paths: dict[str, Key] = {}  # the worktrees by the paths of the roster
        self._paths_changed = False
        self._roots: dict[str, Key] = {}  # the worktrees by their real paths
        self._watched: dict[str, frozenset[str]] = {}  # folders by reader
        self._polled: dict[str, str] = {}  # readers whose folders are polled -> why

    def handle_hint(self, hint: Hint) -> None:
        match hint:
            case RosterRead(entries):
                self.set_roster(entries)
            case RefreshRequested():
                self.poll_all()
            case RegistryChanged() if self._naming is not None:
                self._naming.registry_changed()
            case AgentLookedAt(agent) if self._naming is not None:
                self._naming.mark_looked_at(agent)

    def set_roster(self, entries: Sequence[RosterEntry]) -> None:
        before, self._paths_changed = self._paths, True
        self._paths = {entry.path: entry.key for entry in entries if not entry.missing}
        if before != self._paths:
            self.poll_all()

    def poll_all(self) -> None:
        """Poll soon, as if every file had changed."""
        self._touched = None
        self._timer.wake()

    async def run(self, receiver: ReadingReceiver) -> None:
        loop = asyncio.get_running_loop()
        worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="agents")
        try:
            poll = await loop.run_in_executor(worker, self._new_poll)
            all_at = 0.0
            while True:
                if time.monotonic() - all_at > _READ_ALL_EVERY:
                    all_at, self._touched = time.monotonic(), None
                started = time.monotonic()
                await self._poll(receiver, poll, worker)
                if poll.has_more:
                    pause = min(TICK, (time.monotonic() - started) / _SHARE_FOR_OLDER)
                    loop.call_later(pause, self._timer.wake)
                await self._timer.wait()
        finally:
            worker.shutdown(wait=False, cancel_futures=True)
            self._end_gathering()
            if self._naming is not None:
                self._naming.close()

    async def _poll(self, receiver: ReadingReceiver, poll: AgentPoll, worker: ThreadPoolExecutor) -> None:
        await self._resolve_roots()
        self._end_gathering()
        self._polled_at = asyncio.get_running_loop().time()
        touched, self._touched = self._touched, set()
        if not self._roots:
            receiver.set_agents(())
            return
        activity = self._watcher.activity
        changed = None if touched is None else frozenset(touched)
        work = partial(poll.poll, changed, self._roots, idle=activity == self._idle_since)
        result = await asyncio.get_running_loop().run_in_executor(worker, work)
        self._idle_since = None if result.agents or result.failures else activity
        if result.agents:
            self._timer.succeeded()
        else:
            self._timer.slow_down(self._without_agents)  # no agent can end
        agents = [one.agent for one in result.agents]
        if self._naming is not None:
            receiver.set_agent_names(await self._naming.names_of(agents))
        receiver.set_agents(tuple(agents))
        if result.failures:
            receiver.set_failure(self.name, "agents", "; ".join(result.failures))
        else:
            polled = "; ".join(f"{name}: {why}" for name, why in sorted(self._polled.items()))
            receiver.set_healthy(self.name, polled or None)
        await self._watch(result.watch_folders)
        receiver.send_hint(AgentsRead(agents))
        await self._record_events(receiver, result.agents)

    async def _record_events(self, receiver: ReadingReceiver, seen: Sequence[SeenAgent]) -> None:
        if self._record is None:
            return
        why = await self._record(seen)
        if why is None:
            receiver.set_healthy("sessions")
        else:
            receiver.set_failure("sessions", "the record of what agents do", why)

    async def _resolve_roots(self) -> None:
        """Resolve the roots in a thread: hundreds of paths would block the loop for tens of milliseconds."""
        if self._paths_changed:
            self._paths_changed = False
            self._roots = await asyncio.to_thread(_real_paths, self._paths)

    async def _watch(self, folders: Mapping[str, frozenset[str]]) -> None:
        for name, wanted in folders.items():
            known = self._watched.get(name)
            if known is not wanted and known != wanted:
                self._watched[name] = wanted
                await self._watcher.add(WatchRoot(f"agents {name}", tuple(sorted(wanted)), ReaderSink(self, name)))

    # -- file events --------------------------------------------------------------------------------------------------

    def events(self, batch: Sequence[FileEvent]) -> None:
        if self._gathering is not None and all(map(self._is_gathered, batch)):
            return  # the second event of a write, which is closed after it
        written = [one for one in batch if self._was_written(one.path)]
        if not written:
            return
        if self._touched is not None:
            self._touched.update([one.path for one in written])
        loop = asyncio.get_running_loop()
        due = poll_due(written, loop.time(), self._polled_at)
        if self._gathering is not None and due < self._gathering.when():
            self._end_gathering()
        if self._gathering is None:
            self._gathering = loop.call_at(due, self._timer.wake)

    def _is_gathered(self, event: FileEvent) -> bool:
        return _is_appended_record(event) and (self._touched is None or event.path in self._touched)

    def _was_written(self, path: str) -> bool:
        """False for what the readers' own reading does: they open the log of a database, and its index, as a writer does."""
        if path.endswith("-shm"):
            return False
        if not path.endswith("-wal"):
            return True
        before, now = self._logs.get(path), foreign_files.stamp_of(path)
        self._logs[path] = now
        return now is None or now != before

    def _end_gathering(self) -> None:
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None

    def folder_gone(self, name: str) -> None:
        self._watched.pop(name, None)
        self.poll_all()

    def mode_changed(self, name: str, mode: str, why: str | None) -> None:
        if mode == "live":
            self.poll_all()  # for changes between the last poll and the start of the watch
        if mode == "polling" and why:
            self._polled[name] = f"polled, {why}"
        else:
            self._polled.pop(name, None)


def make_source(context: SourceContext) -> AgentsSource | None:
    if not context.tracks_agents:
        return None
    naming = RegistryNames(context.registry)
    return AgentsSource(context.watcher, all_readers, process_scanner, context.recorder.record, naming=naming)


class ReaderSink(WatchSink):
    """Receives the events of the folders that one reader wants to watch."""

    def __init__(self, source: AgentsSource, name: str) -> None:
        self._source = source
        self._name = name

    def events(self, batch: Sequence[FileEvent]) -> None:
        self._source.events(batch)

    def lost(self, why: str) -> None:
        self._source.poll_all()

    def gone(self, folder: str) -> None:
        self._source.folder_gone(self._name)

    def mode_changed(self, mode: str, why: str | None) -> None:
        self._source.mode_changed(self._name, mode, why)


def poll_due(batch: Sequence[FileEvent], now: float, polled_at: float) -> float:
    """Return when the files of a batch of events are to be polled. `polled_at`: the beginning of the last poll."""
    due = now + _GATHER
    return max(due, polled_at + _RECORDS_EVERY) if all(map(_is_appended_record, batch)) else due


def _is_appended_record(event: FileEvent) -> bool:
    """True for a transcript that grew. What shows a state by itself (a registry, a hook's file, a database) is more urgent."""
    return event.kind == "modified" and event.path.endswith(".jsonl")


def _real_paths(paths: Mapping[str, Key]) -> dict[str, Key]:
    return {os.path.realpath(path): key for path, key in paths.items()}
