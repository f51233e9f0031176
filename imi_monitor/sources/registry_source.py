"""The registry as the engine sees it: claims, the line in front of them, who held what, and the log.

Told by a watcher that the database's write-ahead log changed, it confirms by `PRAGMA data_version` and reads. A slow
tick is the safety net for changes nobody announced: it looks when the files were written, which costs no thread its sleep,
and asks the registry itself as long as there are holders, who may die, which writes nothing anywhere.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Sequence

from imi_monitor import host
from imi_monitor.model.errors import ImiError
from imi_monitor.model.snapshot import ClaimState, Key, RegistryEvent, Waiter
from imi_monitor.sources.hints import Hint, RefreshRequested, RegistryChanged, RegistryWritten
from imi_monitor.sources.source import HolderPeriod, ReadingReceiver, RegistryReading, Source
from imi_monitor.store import claim_history, claim_queue, claims, db, events

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.store.async_registry import AsyncRegistry

_TICK = 1.0
_SURE = 10.0  # seconds until it is asked whatever its files look like
_UNSETTLED = 10.0  # seconds after a write in which it is asked every time: it is seen only after the disk has it
_COMING = 0.01  # seconds until what was written and cannot be seen yet is looked for again, then twice that, and so on
_COMES_WITHIN = 0.1  # seconds after a write; later the tick finds it
_MOST_EVENTS = 500
_MOST_GRANTS = 2000


class RegistrySource(Source):
    """Reads the registry when its files were written, and at a slow tick."""

    name = "registry"

    def __init__(self, registry: AsyncRegistry, database: str) -> None:
        from imi_monitor.sources.timers import PollTimer  # imports asyncio, which `read_registry` does not need

        self._registry = registry
        self._files = (database, f"{database}-wal")
        self._marks: tuple[object, ...] | None = None  # when they were written, before the registry was asked
        self._asked_at = 0.0
        self._timer = PollTimer(_TICK)
        self._version: tuple[int, int] | None = None
        self._own = 0  # changes that we ourselves had made when it was asked
        self._seq: int | None = None
        self._states: tuple[str, ...] = ()

    def handle_hint(self, hint: Hint) -> None:
        if isinstance(hint, RegistryWritten | RefreshRequested):
            self._timer.wake()

    async def run(self, receiver: ReadingReceiver) -> None:
        while True:
            await self._turn(receiver)
            await self._timer.wait(self._may_differ)

    def _may_differ(self) -> bool:
        """Whether anything may have been committed, or a holder may have died, since the registry was asked."""
        if self._states or self._marks is None or time.monotonic() - self._asked_at >= _SURE:
            return True
        return _marks(self._files) != self._marks

    async def _turn(self, receiver: ReadingReceiver) -> None:
        self._marks, self._asked_at = _marks(self._files), time.monotonic()
        try:
            version, own = await self._registry.read(_version)
            ours, self._own = own != self._own, own
            if version == self._version and not await self._somebody_died():
                self._wait_for_more(ours)
                return
            picture = await self._registry.read(read_registry, self._seq)
        except ImiError as error:
            self._marks = None
            self._timer.failed()
            receiver.set_failure(self.name, "the registry", error.sentence)
            return
        self._timer.succeeded()
        self._version = version
        self._seq = max([self._seq or 0, *(line.seq for line in picture.events)])
        self._states = tuple(claim.state for claim in picture.claims)
        receiver.send_hint(RegistryChanged())
        receiver.set_registry(picture)
        receiver.set_healthy(self.name)

    def _wait_for_more(self, ours: bool) -> None:
        """Nothing is new. A commit is written, which is what watchers tell, and can be seen some milliseconds later."""
        if not ours and _written_within(self._files, _COMES_WITHIN):
            self._timer.retry_soon(_COMING)
        else:
            self._timer.succeeded()

    async def _somebody_died(self) -> bool:
        """Whether a holder's state changed without a write: a process ended, or was silent past its ttl."""
        if not self._states:
            return False
        return await self._registry.read(_states) != self._states


def _marks(files: Sequence[str]) -> tuple[object, ...] | None:
    """What changes with every commit; None while one may be under way, or the next look the same."""
    found = tuple(_mark(path) for path in files)
    return None if _young(found, _UNSETTLED) else found


def _written_within(files: Sequence[str], seconds: float) -> bool:
    return _young([_mark(path) for path in files], seconds)


def _young(marks: Sequence[tuple[int, int, int] | None], seconds: float) -> bool:
    newest = max((mark[0] for mark in marks if mark is not None), default=0)
    return newest > time.time_ns() - seconds * 1e9


def _mark(path: str) -> tuple[int, int, int] | None:
    try:
        info = os.stat(path)
    except OSError:
        return None
    return info.st_mtime_ns, info.st_size, info.st_ino


def read_registry(connection: sqlite3.Connection, since: int | None) -> RegistryReading:
    """Everything at once, on one consistent picture; of the log only what is new, or its end at the first look."""
    after = max(0, events.last_seq(connection) - _MOST_EVENTS) if since is None else since
    lines = events.list_events(connection, after, limit=_MOST_EVENTS)
    return RegistryReading(
        claims=tuple(_claim(claim) for claim in claims.list_held(connection)),
        waiting=tuple(_waiting(connection)),
        grants=tuple(_grant(grant) for grant in claim_history.list_grants(connection, limit=_MOST_GRANTS)),
        events=tuple(
            RegistryEvent(
                line.seq, line.type, line.occurred_at, line.repo_name, line.worktree_name, line.agent_id, line.data
            )
            for line in lines
        ),
    )


def read_claims(connection: sqlite3.Connection) -> RegistryReading:
    """Who holds what and who waits, without the history."""
    return RegistryReading(tuple(map(_claim, claims.list_held(connection))), tuple(_waiting(connection)), (), ())


def _version(connection: sqlite3.Connection) -> tuple[tuple[int, int], int]:
    """What moves when another process commits anything, or we ourselves an event, which the first number does not tell;
    and how much we ourselves have changed."""
    return (db.data_version(connection), events.last_seq(connection)), connection.total_changes


def _states(connection: sqlite3.Connection) -> tuple[str, ...]:
    return tuple(claims.state(claim) for claim in claims.list_held(connection))


def _claim(claim: claims.Claim) -> ClaimState:
    return ClaimState(
        key=_key(claim.repo_name, claim.worktree_name),
        agent=claim.agent_id or "",
        state=claims.state(claim),
        epoch=claim.epoch,
        claimed_at=claim.claimed_at,
        heartbeat_at=claim.heartbeat_at,
        task=claim.task_id,
        pid=claim.pid,
        process=_process(claim),
    )


def _process(claim: claims.Claim) -> str | None:
    """What the holder's process is called; None when it is not one of this machine that lives."""
    alive = host.is_alive(claim.host, claim.boot, claim.pid, claim.pid_started)
    return host.process_name(claim.pid) if alive and claim.pid is not None else None


def _waiting(connection: sqlite3.Connection) -> list[Waiter]:
    places: dict[Key, int] = {}
    found = []
    for waiter in claim_queue.list_waiters(connection):
        key = _key(waiter.repo_name, waiter.worktree_name)
        places[key] = places.get(key, 0) + 1
        found.append(Waiter(key, waiter.agent_id, waiter.enqueued_at, places[key]))
    return found


def _grant(grant: claim_history.ClaimGrant) -> HolderPeriod:
    return HolderPeriod(_key(grant.repo_name, grant.worktree_name), grant.agent_id, grant.claimed_at, grant.released_at)


def _key(repo: str, worktree: str) -> Key:
    return Key(host.hostname(), repo, worktree)
