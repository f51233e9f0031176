"""PostgreSQL as a sink: the archive of a team, in the schema `imi`. Prompts only with `team.share = "prompts"`."""

from __future__ import annotations

import json

from imi_monitor.fast.frozen_dataclass import replace
from imi_monitor.links import server_url
from imi_monitor.model import history_words
from imi_monitor.model.errors import UsageError
from imi_monitor.sinks import envelope
from imi_monitor.sinks.sink import Sink
from imi_monitor.store import events

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from imi_monitor.config import Settings
    from imi_monitor.links.postgres_link import ArchivedEvent, PostgresLink
    from imi_monitor.store.event_batches import OutgoingEvent

NAME = "postgres"
HOURS: int | None = None
MISSING = "the Python package psycopg is missing: install imi-monitor[team]"


def is_wanted(settings: Settings) -> bool:
    return bool(settings.text("servers.postgres_url"))


def make_sink(settings: Settings, _: str) -> Sink:
    address = server_url.parse_postgres(settings.text("servers.postgres_url"), insecure=settings.flag("team.insecure"))
    try:
        from imi_monitor.links import postgres_link
    except ImportError as error:
        raise UsageError(MISSING, code="no-library") from error
    link = postgres_link.PostgresLink(address)
    return PostgresSink(link, f"PostgreSQL at {address.shown}", settings.text("team.share"))


class PostgresSink(Sink):
    name = NAME

    def __init__(self, link: PostgresLink, label: str, share: str) -> None:
        from imi_monitor.links import postgres_link

        self.faults = postgres_link.FAULTS
        self.label = label
        self._fault_of = postgres_link.fault_of
        self._row = postgres_link.ArchivedEvent
        self._link, self._share = link, share

    async def open(self, registry: str) -> int:
        return await self._link.open(registry)

    async def deliver(self, batch: Sequence[OutgoingEvent]) -> Mapping[int, str]:
        refused: dict[int, str] = {}
        rows: list[ArchivedEvent] = []
        for one in batch:
            try:
                rows.append(self._archived(one))
            except ValueError as error:
                refused[one.event.seq] = str(error)
        return refused | (await self._link.insert(rows) if rows else {})

    async def close(self) -> None:
        await self._link.close()

    def fault_of(self, error: Exception) -> str:
        return self._fault_of(error)

    def _archived(self, one: OutgoingEvent) -> ArchivedEvent:
        event, text = one.event, envelope.plain_text
        data = envelope.shared_data(one, self._share)
        words = history_words.of_event(replace(events.to_model(event), data=json.dumps(data)))
        return self._row(
            event.id,
            one.registry,
            event.seq,
            text(event.type),
            text(event.host),
            None if event.repo_name is None else text(event.repo_name),
            None if event.worktree_name is None else text(event.worktree_name),
            None if event.agent_id is None else text(event.agent_id),
            event.epoch,
            json.dumps(data),
            envelope.moment(event.occurred_at),
            text(words)[: 32 << 10],
        )
