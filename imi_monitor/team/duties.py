"""The duties of a home: one process of it delivers events to their sinks, publishes its presence to the team, answers the
questions of other homes, and renews the claims that its own agents have there.

The process is the one that holds the duty lock: any dashboard, `imi watch`, or `imi serve`. The others try each second.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from contextlib import suppress
from dataclasses import replace

from imi_monitor import __version__, host
from imi_monitor.links import redis_url
from imi_monitor.model import home, home_rows, times
from imi_monitor.model.errors import ImiError
from imi_monitor.model.home import HomeDescription
from imi_monitor.model.snapshot import Snapshot
from imi_monitor.sources.hints import Hint, RegistryChanged
from imi_monitor.sources.registry_source import read_claims
from imi_monitor.sources.source import ReadingReceiver, Source, SourceContext
from imi_monitor.sources.worktrees_source import list_identities, read_roster
from imi_monitor.store import registry_identity
from imi_monitor.store.duty_lock import DutyLock
from imi_monitor.team.event_relays import EventRelays
from imi_monitor.team.task_duty import TaskDuty
from imi_monitor.team.today_figures import TodayFigures

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from imi_monitor.links.presence_publisher import PresencePublisher
    from imi_monitor.model.snapshot import Worktree
    from imi_monitor.team.context_relay import ContextRelay
    from imi_monitor.team.question_answerer import QuestionAnswerer

_QUESTIONS, _CONTEXTS = "questions", "contexts"  # the sources of their health
_TRY_LOCK_SECONDS = 1.0
_SIGN_SECONDS = 1.0  # between two signs of life
_RETRY_SECONDS = 10.0  # until a registry that cannot be read is read again
_LEAVE_SECONDS = 0.5  # a process that ends does not wait longer for Redis
_LEAST_PAUSE = 0.1  # between two publications


class TeamDuties(Source):
    """Waits for the duty lock, then delivers events and publishes each snapshot until the process ends."""

    name = "duties"

    def __init__(self, context: SourceContext) -> None:
        self._context = context
        self._settings = context.settings
        self._lock = DutyLock(context.database)
        self._relays = EventRelays(context)
        self._tasks = TaskDuty(context)
        self._changed = asyncio.Event()
        self._registry_changed = True
        self._snapshot: Snapshot | None = None
        self._others: tuple[Worktree, ...] = ()  # worktrees that this process does not follow
        self._identities: dict[str, str] = {}  # of repositories by their names here
        self._home = ""
        self._accepted = False  # the server takes what this home publishes: it is no copy of another one
        self._answerer: QuestionAnswerer | None = None
        self._contexts: ContextRelay | None = None
        self._today = TodayFigures(context.registry)

    def handle_hint(self, hint: Hint) -> None:
        if isinstance(hint, RegistryChanged):
            self._registry_changed = True
            self._changed.set()
            self._relays.wake()
            self._today.registry_changed()
            if self._answerer is not None:
                self._answerer.registry_changed()
            if self._contexts is not None:
                self._contexts.registry_changed()

    async def run(self, receiver: ReadingReceiver) -> None:
        address = self._team_address()
        try:
            await self._wait_for_lock(receiver)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._relays.run(receiver))
                if self._tasks.wanted:
                    group.create_task(self._tasks.run(receiver))
                if address is not None:
                    group.create_task(self._follow_snapshots(receiver))
                    group.create_task(self._answer(receiver, address))
                    group.create_task(self._publish(receiver, address))
        finally:
            self._lock.release()

    def _team_address(self) -> redis_url.RedisAddress | None:
        """The address of the team's Redis; None without one, and for one that the source of homes reports as wrong."""
        url, insecure = self._settings.text("servers.redis_url"), self._settings.flag("team.insecure")
        try:
            return redis_url.parse(url, insecure=insecure) if url else None
        except ImiError:
            return None

    async def _wait_for_lock(self, receiver: ReadingReceiver) -> None:
        while True:
            try:
                if self._lock.acquire():
                    return
            except ImiError as error:
                receiver.set_failure(self.name, "the duty lock", error.sentence)
            await asyncio.sleep(_TRY_LOCK_SECONDS)

    async def _follow_snapshots(self, receiver: ReadingReceiver) -> None:
        before: Snapshot | None = None
        async for snapshot in receiver.snapshots():
            self._snapshot = snapshot
            if before is None or (before.worktrees, before.agents) != (snapshot.worktrees, snapshot.agents):
                self._changed.set()
            before = snapshot

    async def _answer(self, receiver: ReadingReceiver, address: redis_url.RedisAddress) -> None:
        """Answer other homes, and renew what agents of this one have claimed there."""
        from imi_monitor.links.presence_keys import TeamKeys
        from imi_monitor.team.context_relay import ContextRelay
        from imi_monitor.team.lease_renewer import LeaseRenewer
        from imi_monitor.team.question_answerer import QuestionAnswerer

        def reporter(source: str, what: str) -> Callable[[str | None], None]:
            def report(why: str | None) -> None:
                if why is None:
                    receiver.set_healthy(source)
                else:
                    receiver.set_failure(source, what, why)

            return report

        report = reporter(_QUESTIONS, "claims of other machines")
        registry, keys = self._context.registry, TeamKeys(self._settings.text("team.name"))
        while not self._home:
            await asyncio.sleep(_LEAST_PAUSE)
        lease = float(self._settings.number("team.lease_seconds"))
        self._answerer = QuestionAnswerer(
            registry, self._context.database, address, keys, self._home, lease, report, lambda: self._accepted
        )
        renewer = LeaseRenewer(registry, address, keys, self._home, report)
        self._contexts = ContextRelay(
            registry,
            address,
            keys,
            self._home,
            self._settings.text("context.prefix"),
            reporter(_CONTEXTS, "contexts of terminals"),
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(self._answerer.run())
            group.create_task(renewer.run())
            group.create_task(self._contexts.run())

    async def _publish(self, receiver: ReadingReceiver, address: redis_url.RedisAddress) -> None:
        from imi_monitor.links import redis_link
        from imi_monitor.links.presence_keys import TeamKeys
        from imi_monitor.links.presence_publisher import PresencePublisher

        link, pause = redis_link.RedisLink(address), redis_link.RetryPause()
        publisher: PresencePublisher | None = None
        encoder = home_rows.RowEncoder(self._settings.text("team.share"), self._identity_of)
        try:
            while True:
                try:
                    await self._read_registry()
                    if publisher is None:
                        keys, since = TeamKeys(self._settings.text("team.name")), times.stamp()
                        by = _file_identity(self._context.database)
                        publisher = PresencePublisher(link, keys, self._home, by, lambda: self._describe(since))  # noqa: B023
                    if self._snapshot is not None:
                        day = await self._today.read(self._identity_of)
                        await publisher.publish(encoder.rows(self._with_others(self._snapshot), day))
                        self._accepted = True
                except redis_link.FAULTS as error:
                    self._accepted = False
                    receiver.set_failure(self.name, "presence", f"{address.shown} {redis_link.fault_of(error)}")
                    await asyncio.sleep(pause.next())
                except ImiError as error:
                    receiver.set_failure(self.name, "presence", error.sentence)
                    await asyncio.sleep(_RETRY_SECONDS)
                else:
                    pause.reset()
                    receiver.set_healthy(self.name)
                await asyncio.sleep(_LEAST_PAUSE)
                await self._wait_for_change()
        finally:
            if publisher is not None:
                with suppress(*redis_link.FAULTS):
                    async with asyncio.timeout(_LEAVE_SECONDS):
                        await publisher.leave()
            await link.close()

    async def _wait_for_change(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_SIGN_SECONDS - _LEAST_PAUSE):
                await self._changed.wait()
        self._changed.clear()

    async def _read_registry(self) -> None:
        """Read the home's id, the identities of repositories, and the worktrees that this process does not follow."""
        if not self._registry_changed:
            return
        self._registry_changed = False
        try:
            self._home, self._identities = await self._context.registry.read(
                _read_identities, self._context.common_dirs
            )
            if self._context.common_dirs is not None:
                self._others = await self._context.registry.read(_read_worktrees, self._context.database)
        except BaseException:
            self._registry_changed = True
            raise

    def _with_others(self, snapshot: Snapshot) -> Snapshot:
        followed = {tree.key for tree in snapshot.worktrees}
        others = tuple(tree for tree in self._others if tree.key not in followed)
        return replace(snapshot, worktrees=(*snapshot.worktrees, *others)) if others else snapshot

    def _identity_of(self, name: str) -> str:
        return self._identities.get(name) or f"{self._home}/{name}"

    def _describe(self, since: str) -> str:
        import getpass

        user = os.environ.get("USER") or getpass.getuser()
        name = home.plain_host(host.hostname())
        return home_rows.describe(
            HomeDescription(self._home, name, home.plain_host(user), __version__, home.PROTOCOL, since, times.stamp())
        )


def make_source(context: SourceContext) -> TeamDuties | None:
    return None if context.read_only else TeamDuties(context)


def _file_identity(database: str) -> str:
    """Return an identity that a copy of the registry does not have: its file on this boot of this machine."""
    info = os.stat(os.path.realpath(database))
    return hashlib.sha256(f"{host.boot()}/{info.st_dev}/{info.st_ino}".encode()).hexdigest()[:24]


def _read_identities(connection: sqlite3.Connection, common_dirs: tuple[str, ...] | None) -> tuple[str, dict[str, str]]:
    own = registry_identity.registry_id(connection) or ""
    return own, list_identities(connection, common_dirs, own)


def _read_worktrees(connection: sqlite3.Connection, database: str) -> tuple[Worktree, ...]:
    """All worktrees of the registry, without git status."""
    entries, _ = read_roster(connection, None, database)
    claims = {claim.key: claim for claim in read_claims(connection).claims}
    return tuple(entry.worktree(claims) for entry in entries)
