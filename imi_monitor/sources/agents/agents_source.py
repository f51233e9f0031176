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
from imi_monitor.sources.agents.agent_poll import TICK, AgentPoll, PollResult
from imi_monitor.sources.agents.agent_reader import AgentReader, ScanProcesses, Sighting
from imi_monitor.sources.agents.sighting_merge import SeenAgent, as_agent, says_the_same
from imi_monitor.sources.files.watcher import FileEvent, FileWatcher, WatchRoot
from imi_monitor.sources.source import ReadingReceiver, RosterEntry
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


class AgentsSource:
    """`follow` says which worktrees matter; `keep` is given what happened, for the record."""

    name = "agents"

    def __init__(
        self,
        events: FileWatcher,
        readers: Callable[[], Sequence[AgentReader]],
        scan: Callable[[], ScanProcesses],
        keep: Keep | None = None,
        env: Mapping[str, str] | None = None,
        stirred: Callable[[], object] = object,
    ) -> None:
        """What `stirred` gives is the same as long as no file moved in any folder that is followed, by whomever."""
        self._events = events
        self._make = lambda: AgentPoll(list(readers()), scan(), os.environ if env is None else env)
        self._looks: AgentPoll | None = None
        self._keep = keep
        self._stirred = stirred
        self._calm: object = None  # what it gave at the last look, if nobody was there
        self._pace = PollTimer(TICK)
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

    def follow(self, entries: Sequence[RosterEntry]) -> None:
        before, self._unresolved = self._roots, True
        self._roots = {entry.path: entry.key for entry in entries if not entry.missing}
        if before != self._roots:
            self._look_at_all()

    def look_again(self) -> None:
        self._look_at_all()

    def _look_at_all(self) -> None:
        self._touched = None
        self._pace.poke()

    async def run(self, board: ReadingReceiver) -> None:
        await self._events.start(self)
        worker = WorkerThread("agents")
        try:
            self._looks = await worker.run(self._make)  # which imports them: the first paint comes before
            whole_at = 0.0
            while True:
                if time.monotonic() - whole_at > _WHOLE:
                    whole_at, self._touched = time.monotonic(), None
                started = time.monotonic()
                await self._turn(board, self._looks, worker)
                if self._looks.unread:
                    pause = min(TICK, (time.monotonic() - started) / _SHARE)
                    asyncio.get_running_loop().call_later(pause, self._pace.poke)
                await self._pace.next()
        finally:
            worker.close()
            if self._gathering is not None:
                self._gathering.cancel()
            await self._events.close()

    async def _turn(self, board: ReadingReceiver, looks: AgentPoll, worker: WorkerThread) -> None:
        await self._resolve()
        touched, self._touched = self._touched, set()
        places = self._places
        if not places:
            board.agents(())
            return
        wanted = None if touched is None else frozenset(touched)
        stirred = self._stirred()
        look = await worker.run(looks.look, wanted, tuple(places), calm=stirred == self._calm)
        seen = self._seen(look, places)
        self._calm = None if seen or look.broken else stirred
        if seen:
            self._pace.worked()
        else:
            self._pace.rest(_NOBODY)  # nobody is there who could end: it is enough to notice who comes
        board.agents(tuple([one.agent for one in seen]))
        if look.broken:
            board.fail(self.name, "agents", "; ".join(look.broken))
        else:
            board.well(self.name, "; ".join(f"{name}: {why}" for name, why in sorted(self._told.items())) or None)
        await self._follow_folders(look.folders)
        if self._keep is not None:
            why = await self._keep(seen)
            if why is None:
                board.well("sessions")
            else:
                board.fail("sessions", "the record of what agents do", why)

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
                await self._events.add(WatchRoot(name=name, folders=tuple(sorted(wanted))))

    # -- what the file events say -------------------------------------------------------------------------------------

    def touched(self, root: str, batch: Sequence[FileEvent]) -> None:
        if self._touched is not None:
            self._touched.update([one.path for one in batch])
        if self._gathering is None:
            self._gathering = asyncio.get_running_loop().call_later(_GATHER, self._gathered)

    def _gathered(self) -> None:
        self._gathering = None
        self._pace.poke()

    def lost(self, root: str | None, why: str) -> None:
        self._look_at_all()

    def doubt(self) -> None:
        """It is looked every second anyway."""

    def gone(self, root: str, folder: str) -> None:
        self._followed.pop(root, None)
        self._look_at_all()

    def mode(self, root: str, how: str, why: str | None) -> None:
        if how == "live":
            self._look_at_all()  # what changed between the look and the watch is seen now
        if how == "polling" and why:
            self._told[root] = f"polled, {why}"
        else:
            self._told.pop(root, None)


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
