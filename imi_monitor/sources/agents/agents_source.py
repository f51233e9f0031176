"""The agents source: asks every reader when its files moved, joins what they say, and decides what is so.

Looks happen in one thread, one after the other. A change in a followed folder is looked at within a twentieth of a
second; once a second everybody is asked for what no file tells, such as a process that ended.

One thread of its own for what must not hold up the loop, for as long as it is wanted: a hop costs half of what one to
a pool of threads does, and what it works on stays where it is warm.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from imi_monitor.model import times
from imi_monitor.model.agent import Agent
from imi_monitor.model.snapshot import Key
from imi_monitor.model.truth import reports_rest
from imi_monitor.sources.agents import all_readers, process_scanner
from imi_monitor.sources.agents.agent_poll import TICK, AgentPoll, PollResult
from imi_monitor.sources.agents.agent_reader import AgentReader, ScanProcesses, Sighting
from imi_monitor.sources.agents.sighting_merge import SeenAgent, as_agent, says_the_same
from imi_monitor.sources.files.watcher import FileEvent, FileWatcher, WatchRoot, WatchSink
from imi_monitor.sources.hints import AgentsRead, Hint, RefreshRequested, RosterRead
from imi_monitor.sources.source import ReadingReceiver, RosterEntry, Source, SourceContext
from imi_monitor.sources.timers import PollTimer

_GATHER = 0.01  # seconds to wait for what comes together: a record is written in several pieces
_WHOLE = 60.0  # every so often everything is looked at anew, whatever was said to have changed
_NOBODY = (
    5.0  # seconds between two looks where no agent is: most write something when they start, which is told at once
)
_SETTLED = 5.0  # seconds after the last word, when nothing that was said can be overtaken any more
_SHARE = 0.1  # of the time goes into what lies further back in long records: it only adds up tokens

# Gives a sentence as long as what happened cannot be written down.
Keep = Callable[[Sequence[SeenAgent]], Awaitable[str | None]]


class AgentsSource(Source):
    """`keep` is given what happened, for the record."""

    name = "agents"

    def __init__(
        self,
        events: FileWatcher,
        readers: Callable[[], Sequence[AgentReader]],
        scan: Callable[[], ScanProcesses],
        keep: Keep | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._events = events
        self._make = lambda: AgentPoll(list(readers()), scan(), os.environ if env is None else env)
        self._looks: AgentPoll | None = None
        self._keep = keep
        self._calm: object = None  # what it gave at the last look, if nobody was there
        self._timer = PollTimer(TICK)
        self._gathering: asyncio.TimerHandle | None = None
        self._touched: set[str] | None = None  # None: anything may have changed
        self._roots: dict[str, Key] = {}  # as the roster has them
        self._unresolved = False  # whether it may have others by now
        self._places: dict[str, Key] = {}  # the same by their real paths
        self._followed: dict[str, frozenset[str]] = {}
        self._told: dict[str, str] = {}
        self._made: dict[object, tuple[Sighting, SeenAgent]] = {}  # by session, or process
        self._all: tuple[object, list[SeenAgent]] = (
            None,
            [],
        )  # of one look, and of those after it in which nothing moved

    def handle_hint(self, hint: Hint) -> None:
        match hint:
            case RosterRead(entries):
                self.follow(entries)
            case RefreshRequested():
                self.look_again()

    def follow(self, entries: Sequence[RosterEntry]) -> None:
        before, self._unresolved = self._roots, True
        self._roots = {entry.path: entry.key for entry in entries if not entry.missing}
        if before != self._roots:
            self._look_at_all()

    def look_again(self) -> None:
        self._look_at_all()

    def _look_at_all(self) -> None:
        self._touched = None
        self._timer.wake()

    async def run(self, receiver: ReadingReceiver) -> None:
        worker = WorkerThread("agents")
        try:
            self._looks = await worker.run(self._make)  # which imports them: the first paint comes before
            whole_at = 0.0
            while True:
                if time.monotonic() - whole_at > _WHOLE:
                    whole_at, self._touched = time.monotonic(), None
                started = time.monotonic()
                await self._turn(receiver, self._looks, worker)
                if self._looks.unread:
                    pause = min(TICK, (time.monotonic() - started) / _SHARE)
                    asyncio.get_running_loop().call_later(pause, self._timer.wake)
                await self._timer.wait()
        finally:
            worker.close()
            if self._gathering is not None:
                self._gathering.cancel()

    async def _turn(self, receiver: ReadingReceiver, looks: AgentPoll, worker: WorkerThread) -> None:
        await self._resolve()
        touched, self._touched = self._touched, set()
        places = self._places
        if not places:
            receiver.set_agents(())
            return
        wanted = None if touched is None else frozenset(touched)
        stirred = self._events.activity
        look = await worker.run(looks.look, wanted, tuple(places), calm=stirred == self._calm)
        seen = self._seen(look, places)
        self._calm = None if seen or look.broken else stirred
        if seen:
            self._timer.succeeded()
        else:
            self._timer.slow_down(_NOBODY)  # nobody is there who could end: it is enough to notice who comes
        receiver.set_agents(tuple([one.agent for one in seen]))
        if look.broken:
            receiver.set_failure(self.name, "agents", "; ".join(look.broken))
        else:
            receiver.set_healthy(
                self.name, "; ".join(f"{name}: {why}" for name, why in sorted(self._told.items())) or None
            )
        await self._follow_folders(look.folders)
        receiver.send_hint(AgentsRead([one.agent for one in seen]))
        if self._keep is not None:
            why = await self._keep(seen)
            if why is None:
                receiver.set_healthy("sessions")
            else:
                receiver.set_failure("sessions", "the record of what agents do", why)

    async def _resolve(self) -> None:
        """In a thread: hundreds of paths cost the loop tens of milliseconds while other threads are busy."""
        if self._unresolved:
            self._unresolved = False
            places = await asyncio.to_thread(_real, self._roots)
            if places != self._places:
                self._places, self._made, self._all, self._touched = places, {}, (None, []), None

    def _seen(self, look: PollResult, places: Mapping[str, Key]) -> list[SeenAgent]:
        """The agents. Who looks as before is not thought about again until a second has passed."""
        if look.found is self._all[0] and not look.ticked:
            return self._all[1]
        now, before, self._made = times.now(), self._made, {}
        for one, root in look.found:
            name = one.cli, one.session or one.pid
            known = before.get(name)
            if known is None or (known[0] is not one and not says_the_same(known[0], one)):
                known = one, as_agent(one, places.get(root or ""), now)
            elif look.ticked and _may_change(one, known[1].agent, now):
                known = one, as_agent(one, known[1].agent.key, now)
            elif known[0] is not one:
                known = one, SeenAgent(known[1].agent, one.news)
            self._made[name] = known
        self._all = look.found, [seen for _, seen in self._made.values()]
        return self._all[1]

    async def _follow_folders(self, folders: dict[str, frozenset[str]]) -> None:
        for name, wanted in folders.items():
            known = self._followed.get(name)
            if known is not wanted and known != wanted:
                self._followed[name] = wanted
                await self._events.add(WatchRoot(f"agents {name}", tuple(sorted(wanted)), ReaderSink(self, name)))

    # -- what the file events say -------------------------------------------------------------------------------------

    def events(self, batch: Sequence[FileEvent]) -> None:
        if self._touched is not None:
            self._touched.update([one.path for one in batch])
        if self._gathering is None:
            self._gathering = asyncio.get_running_loop().call_later(_GATHER, self._gathered)

    def _gathered(self) -> None:
        self._gathering = None
        self._timer.wake()

    def folder_gone(self, name: str) -> None:
        self._followed.pop(name, None)
        self._look_at_all()

    def mode_changed(self, name: str, mode: str, why: str | None) -> None:
        if mode == "live":
            self._look_at_all()  # what changed between the look and the watch is seen now
        if mode == "polling" and why:
            self._told[name] = f"polled, {why}"
        else:
            self._told.pop(name, None)


def make_source(context: SourceContext) -> AgentsSource | None:
    if not context.tracks_agents:
        return None
    return AgentsSource(context.watcher, all_readers, process_scanner, context.recorder.keep)


class ReaderSink(WatchSink):
    """Receives the events of the folders that one reader wants to watch."""

    def __init__(self, source: AgentsSource, name: str) -> None:
        self._source = source
        self._name = name

    def events(self, batch: Sequence[FileEvent]) -> None:
        self._source.events(batch)

    def lost(self, why: str) -> None:
        self._source.look_again()

    def gone(self, folder: str) -> None:
        self._source.folder_gone(self._name)

    def mode_changed(self, mode: str, why: str | None) -> None:
        self._source.mode_changed(self._name, mode, why)


def _real(roots: Mapping[str, Key]) -> dict[str, Key]:
    return {os.path.realpath(path): key for path, key in roots.items()}


def _may_change(one: Sighting, agent: Agent, now: datetime) -> bool:
    """Whether time alone may change what is thought of it: while nobody knows its life, or soon after something was
    heard of one whose turn may be over."""
    if one.alive is not None and not reports_rest(one.evidence):
        return False
    heard = times.parse(agent.seen_at)
    return one.alive is None or heard is None or (now - heard).total_seconds() < _SETTLED


P = ParamSpec("P")
T = TypeVar("T")


class WorkerThread:
    """`await worker.run(function, …)`, one after the other; `close` when nothing more is to come."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        # a look at a disk that hangs must not keep the program from ending
        threading.Thread(target=self._work, name=name, daemon=True).start()

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Cancelled, it ends by itself and nobody hears of it."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def job() -> None:
            try:
                result = function(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001  whoever asked is told, whatever it is
                _tell(loop, done, error=error)
            else:
                _tell(loop, done, result)

        self._jobs.put(job)
        return await done

    def close(self) -> None:
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            del job  # what it holds is not kept until the next one comes


def _tell(
    loop: asyncio.AbstractEventLoop,
    done: asyncio.Future[T],
    result: T | None = None,
    error: BaseException | None = None,
) -> None:
    try:
        loop.call_soon_threadsafe(_settle, done, result, error)
    except RuntimeError:
        return  # the loop was closed: nobody waits any more


def _settle(done: asyncio.Future[T], result: Any, error: BaseException | None) -> None:
    if done.cancelled():
        return
    if error is not None:
        done.set_exception(error)
    else:
        done.set_result(result)
