"""The homes of the team: what other machines publish on the team's Redis, and their last events. Without one nothing is asked."""

from __future__ import annotations

import asyncio

from imi_monitor import host
from imi_monitor.links import redis_url
from imi_monitor.model.errors import ImiError
from imi_monitor.model.home_states import HomeStates, PublishedRows
from imi_monitor.model.team_events import MOST, TeamFeed
from imi_monitor.sources import worktrees_source
from imi_monitor.sources.hints import Hint, RegistryChanged
from imi_monitor.sources.source import ReadingReceiver, Source, SourceContext
from imi_monitor.store import registry_identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from imi_monitor.links.presence_reader import PresenceReader

_EVENTS = "team-events"  # the source of their health
_START = "0-0"
_RETRY_SECONDS = 10.0  # until a registry that cannot be read is read again


class HomesSource(Source):
    """Follows the presence of all homes; while Redis cannot be used, the last rows stay, unconfirmed."""

    name = "team"

    def __init__(self, context: SourceContext) -> None:
        self._registry = context.registry
        self._common_dirs = context.common_dirs
        self._settings = context.settings
        self._feed = TeamFeed("")
        self._registry_changed = True
        self._own = ""
        self._labels: dict[str, str] = {}  # of the homes by their ids

    async def run(self, receiver: ReadingReceiver) -> None:
        try:
            url, insecure = self._settings.text("servers.redis_url"), self._settings.flag("team.insecure")
            address = redis_url.parse(url, insecure=insecure)
        except ImiError as error:
            receiver.set_failure(self.name, "the team's Redis", error.sentence)
            return
        while not await self._read_registry(receiver):
            await asyncio.sleep(_RETRY_SECONDS)
        self._feed = TeamFeed(self._own)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(receiver, address, HomeStates(self._own, host.hostname())))
            group.create_task(self._follow_events(receiver, address))

    def handle_hint(self, hint: Hint) -> None:
        if isinstance(hint, RegistryChanged):
            self._registry_changed = True

    async def _read_registry(self, receiver: ReadingReceiver) -> bool:
        """Read the home's id and what all homes call its repositories; False while the registry cannot be read."""
        if self._registry_changed:
            self._registry_changed = False
            try:
                own: str | None = await self._registry.read(registry_identity.registry_id)
                self._own = own or ""
                names = await self._registry.read(worktrees_source.list_identities, self._common_dirs, self._own)
            except ImiError as error:
                self._registry_changed = True
                receiver.set_failure(self.name, "the registry", error.sentence)
                return False
            receiver.update(identities=tuple(sorted(names.items())))
        return True

    async def _follow(self, receiver: ReadingReceiver, address: redis_url.RedisAddress, states: HomeStates) -> None:
        from imi_monitor.links import redis_link
        from imi_monitor.links.presence_keys import TeamKeys
        from imi_monitor.links.presence_reader import PresenceReader

        link, blocking = redis_link.RedisLink(address), redis_link.RedisLink(address, blocking=True)
        reader = PresenceReader(link, blocking, TeamKeys(self._settings.text("team.name")))
        pause, note, checked = redis_link.RetryPause(), None, False
        try:
            while True:
                try:
                    if not checked:
                        note, checked = await link.check_server(), True
                    changed = await reader.follow()
                    await self._read_registry(receiver)
                except redis_link.FAULTS as error:
                    checked = False
                    reader.forget()
                    sentence = f"{address.shown} {redis_link.fault_of(error)}"
                    receiver.set_failure(self.name, "the team's Redis", sentence)
                    self._report(receiver, states, reader, (), connected=False)
                    await asyncio.sleep(pause.next())
                else:
                    pause.reset()
                    receiver.set_healthy(self.name, f"{address.shown} {note}" if note else None)
                    self._report(receiver, states, reader, changed, connected=True)
        finally:
            await link.close()
            await blocking.close()

    def _report(
        self,
        receiver: ReadingReceiver,
        states: HomeStates,
        reader: PresenceReader,
        changed: Collection[str],
        *,
        connected: bool,
    ) -> None:
        read = {one.ident: PublishedRows(one.description, one.fields, one.age) for one in reader.homes.values()}
        homes = states.states(read, changed, connected=connected)
        labels = {one.id: one.label for one in homes}
        if labels != self._labels:
            self._labels = labels
            receiver.update(team_events=self._feed.events(labels))
        receiver.update(homes=homes)

    async def _follow_events(self, receiver: ReadingReceiver, address: redis_url.RedisAddress) -> None:
        """Follow the team's feed from its last entries on; after a loss of the server's data from its new beginning."""
        from imi_monitor.links import redis_link, retry_loop
        from imi_monitor.links.presence_keys import TeamKeys

        blocking, key = redis_link.RedisLink(address, blocking=True), TeamKeys(self._settings.text("team.name")).feed
        at: str | None = None

        async def read() -> None:
            nonlocal at
            first = at is None
            entries = await (blocking.newest(key, MOST) if at is None else blocking.read_after(key, at))
            if self._feed.add(fields.get("event", "") for _, fields in entries):
                receiver.update(team_events=self._feed.events(self._labels))
            if entries:
                at = entries[-1][0]
            elif first:
                at = _START
            elif redis_link.entry_order(await blocking.last_entry(key)) < redis_link.entry_order(at or _START):
                at = None

        def report(why: str | None) -> None:
            if why is None:
                receiver.set_healthy(_EVENTS)
            else:
                receiver.set_failure(_EVENTS, "events of other machines", why)

        try:
            await retry_loop.repeat(read, address, report)
        finally:
            await blocking.close()


def make_source(context: SourceContext) -> HomesSource | None:
    return HomesSource(context) if context.settings.text("servers.redis_url") else None
