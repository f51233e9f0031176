"""The registry's claims, lines, periods of claims and events.

After a hint that a file of the registry was written, `PRAGMA data_version` confirms the change. A slow tick finds
changes without an event by the files' time stamps; while there are holders it also queries the registry, because the
death of a holder's process writes nothing. While the registry cannot be used, each tick tries it again.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable

from imi_monitor import host, paths
from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model import times
from imi_monitor.model.attribution import ClaimPeriod
from imi_monitor.model.errors import ImiError, RegistryError
from imi_monitor.model.snapshot import ClaimState, Key, Waiter
from imi_monitor.sources.hints import Hint, RefreshRequested, RegistryChanged, RegistryWritten
from imi_monitor.sources.source import ReadingReceiver, RegistryReading, Source, SourceContext
from imi_monitor.store import claim_history, claim_holder, claim_queue, claims, db, events, notes, registry_file
from imi_monitor.store.followed_registry import is_about_file
from imi_monitor.store.registry_identity import RegistryIdentity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.store.async_registry import AsyncRegistry

_MOST_EVENTS = 500
_MOST_PERIODS = 2000


@dataclass(frozen=True, slots=True)
class RegistryTiming:
    """When the registry is queried, in seconds."""

    tick: float = 1.0
    at_least_every: float = 10.0  # even if its files did not change
    # seconds after a write in which every tick queries: a commit is visible only after the disk's sync
    unsettled: float = 10.0
    visible_retry: float = 0.01  # until a written commit that is not visible yet is looked for again; doubles each time
    visible_within: float = 0.1  # after a write; later the tick finds it


class RegistrySource(Source):
    """Reads the registry when its files were written, and at a slow tick."""

    name = "registry"

    def __init__(self, registry: AsyncRegistry, database: str, timing: RegistryTiming | None = None) -> None:
        from imi_monitor.sources.timers import PollTimer  # imports asyncio, which `read_registry` does not need

        self._registry = registry
        self._database = database
        self._timing = timing or RegistryTiming()
        self._files = (database, f"{database}-wal")
        self._stamps: object = None  # of the files, before the last query; None: query again
        self._queried_at = 0.0
        self._timer = PollTimer(self._timing.tick)
        self._version: tuple[int, ...] | None = None
        self._identity: RegistryIdentity | None = None
        self._own_changes = 0  # made by this process until the last query
        self._own_stamps: object = None  # of the files, right after the last change that this process made
        self._seq: int | None = None
        self._states: tuple[str, ...] = ()
        self._problem: str | None = None  # why the registry cannot be used, as it was reported

    def handle_hint(self, hint: Hint) -> None:
        if isinstance(hint, RegistryWritten | RefreshRequested):
            self._timer.wake()

    async def run(self, receiver: ReadingReceiver) -> None:
        while True:
            await self._read(receiver)
            await self._timer.wait(self._may_have_changed)

    def _may_have_changed(self) -> bool:
        """True if a commit or the death of a holder is possible since the last query."""
        if self._states or self._stamps is None or time.monotonic() - self._queried_at >= self._timing.at_least_every:
            return True
        return self._read_stamps() != self._stamps

    def _read_stamps(self) -> object:
        """Return the time stamps; None while the next change might give the same ones."""
        settled = settled_stamps(self._files, self._timing.unsettled)
        return settled and (settled, registry_file.stamp(self._database, os.path.realpath(self._database)))

    async def _read(self, receiver: ReadingReceiver) -> None:
        if self._is_own_write():
            self._timer.retry_soon(self._timing.visible_within)
            return
        self._stamps, self._queried_at = self._read_stamps(), time.monotonic()
        try:
            version, own_changes = await self._registry.read(_version)
            own, self._own_changes = own_changes != self._own_changes, own_changes
            if version == self._version and not await self._holders_changed():
                self._wait_for_commit(visible=own, own=own)
                return
            reopened = self._version is None or version[0] != self._version[0]
            identity, reading = await self._registry.read(read_registry, self._seq, self._identity)
        except ImiError as error:
            self._report_failure(receiver, error)
            return
        self._wait_for_commit(visible=own or not reopened, own=own)  # a file opened again may have nothing new yet
        self._version, self._identity = version, identity
        self._seq = max([0 if reading.anew else self._seq or 0, *(line.seq for line in reading.events)])
        self._states = tuple(claim.state for claim in reading.claims)
        self._problem = None
        receiver.send_hint(RegistryChanged())
        receiver.set_registry(reading)
        receiver.set_healthy(self.name)

    def _report_failure(self, receiver: ReadingReceiver, error: ImiError) -> None:
        """The next tick tries again. A registry that is only busy still holds what was read of it."""
        self._stamps, self._version = None, None
        self._timer.succeeded()
        receiver.set_failure(self.name, "the registry", error.sentence)
        if isinstance(error, RegistryError) and is_about_file(error) and error.sentence != self._problem:
            self._problem = error.sentence
            receiver.set_registry_unusable(error.sentence)
            receiver.send_hint(RegistryChanged())  # so that sources that read the registry report their part as unknown

    def _wait_for_commit(self, *, visible: bool, own: bool) -> None:
        """Query again soon unless what was written is `visible`: a commit causes its file event milliseconds earlier.

        The file events that follow an own commit are its own, too, and lead to one query more: another process may have
        written within the resolution of the file system's clock.
        """
        stamps = tuple(map(paths.file_stamp, self._files))
        if own:
            self._own_stamps = stamps
        if not visible and _is_younger(stamps, self._timing.visible_within):
            is_own = stamps == self._own_stamps
            self._timer.retry_soon(self._timing.visible_within if is_own else self._timing.visible_retry)
        else:
            self._timer.succeeded()

    def _is_own_write(self) -> bool:
        """True while the files are as they were right after the last change that this process made and has read."""
        stamps = tuple(map(paths.file_stamp, self._files))
        return stamps == self._own_stamps and _is_younger(stamps, self._timing.visible_within)

    async def _holders_changed(self) -> bool:
        """True if a holder's state changed without a write: its process ended, or it was silent beyond its ttl."""
        return bool(self._states) and await self._registry.read(_states) != self._states


def make_source(context: SourceContext) -> RegistrySource:
    return RegistrySource(context.registry, context.database)


def settled_stamps(files: Iterable[str], unsettled: float) -> tuple[object, ...] | None:
    """Return what changes with every commit; None while the next commit might give the same stamps."""
    stamps = tuple(map(paths.file_stamp, files))
    return None if _is_younger(stamps, unsettled) else stamps


def _is_younger(stamps: Iterable[tuple[int, int, int] | None], seconds: float) -> bool:
    newest = max((stamp[0] for stamp in stamps if stamp is not None), default=0)
    return newest > times.clock() - seconds * 1e9


def read_registry(
    connection: sqlite3.Connection, since: int | None, known: RegistryIdentity | None = None
) -> tuple[RegistryIdentity, RegistryReading]:
    """Read everything in one transaction; of the events those after `since`, at first or of another registry the last ones."""
    identity = RegistryIdentity(connection)
    anew = known is not None and identity != known
    since = None if anew else since
    after = max(0, events.last_seq(connection) - _MOST_EVENTS) if since is None else since
    lines = events.list_events(connection, after, limit=_MOST_EVENTS)
    return identity, RegistryReading(
        claims=tuple(_claim(claim) for claim in claims.list_held(connection)),
        waiting=tuple(_waiting(connection)),
        periods=tuple(_period(grant) for grant in claim_history.list_grants(connection, limit=_MOST_PERIODS)),
        events=tuple(map(events.to_model, lines)),
        registry_id=identity.registry_id,
        generation=identity.generation,
        anew=anew,
        intents=tuple((_key(*key), intent) for key, intent in notes.list_intents(connection)),
    )


def read_claims(connection: sqlite3.Connection) -> RegistryReading:
    """Read the claims and the lines, without periods and events."""
    return RegistryReading(tuple(map(_claim, claims.list_held(connection))), tuple(_waiting(connection)), (), ())


def _version(connection: sqlite3.Connection) -> tuple[tuple[int, ...], int]:
    """Return what changes with the commits of other processes and with own events, and the number of own changes."""
    return (*db.data_version(connection), events.last_seq(connection)), connection.total_changes


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
        sessions=claim_holder.agent_sessions(claim),
    )


def _process(claim: claims.Claim) -> str | None:
    """Return the name of the holder's process; None unless it lives on this machine."""
    alive = host.is_alive(claim.host, claim.boot, claim.pid, claim.pid_started)
    return host.process_name(claim.pid) if alive and claim.pid is not None else None


def _waiting(connection: sqlite3.Connection) -> list[Waiter]:
    positions: dict[Key, int] = {}
    found = []
    for waiter in claim_queue.list_waiters(connection):
        key = _key(waiter.repo_name, waiter.worktree_name)
        positions[key] = positions.get(key, 0) + 1
        found.append(Waiter(key, waiter.agent_id, waiter.enqueued_at, positions[key]))
    return found


def _period(grant: claim_history.ClaimGrant) -> ClaimPeriod:
    return ClaimPeriod(_key(grant.repo_name, grant.worktree_name), grant.agent_id, grant.claimed_at, grant.released_at)


def _key(repo: str, worktree: str) -> Key:
    return Key(host.hostname(), repo, worktree)
