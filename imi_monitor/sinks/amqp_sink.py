"""RabbitMQ as a sink: each event a persistent message on a topic exchange, confirmed by the broker."""

from __future__ import annotations

from imi_monitor.links import server_url
from imi_monitor.model.errors import UsageError
from imi_monitor.sinks import envelope
from imi_monitor.sinks.sink import Sink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from imi_monitor.config import Settings
    from imi_monitor.links.amqp_link import AmqpLink, OutgoingMessage
    from imi_monitor.store.event_batches import OutgoingEvent

NAME = "amqp"
HOURS: int | None = 24  # of events that a broker gets which is configured for the first time
MISSING = "the Python package aio-pika is missing: install imi-monitor[team]"


def is_wanted(settings: Settings) -> bool:
    return bool(settings.text("servers.amqp_url"))


def make_sink(settings: Settings, _: str) -> Sink:
    address = server_url.parse_amqp(settings.text("servers.amqp_url"), insecure=settings.flag("team.insecure"))
    try:
        from imi_monitor.links import amqp_link
    except ImportError as error:
        raise UsageError(MISSING, code="no-library") from error
    return AmqpSink(amqp_link.AmqpLink(address), f"RabbitMQ at {address.shown}", settings)


class AmqpSink(Sink):
    name = NAME
    hours = HOURS
    batch = 100
    share = 0.9  # most of it is waiting for the broker

    def __init__(self, link: AmqpLink, label: str, settings: Settings) -> None:
        from imi_monitor.links import amqp_link

        self.faults = amqp_link.FAULTS
        self.label = label
        self._fault_of = amqp_link.fault_of
        self._message = amqp_link.OutgoingMessage
        self._link = link
        self._exchange, self._prefix = settings.text("servers.amqp_exchange"), settings.text("servers.amqp_prefix")
        self._envelope, self._share = settings.text("servers.amqp_envelope"), settings.text("team.share")

    async def open(self, registry: str) -> None:
        await self._link.open(self._exchange)

    async def deliver(self, batch: Sequence[OutgoingEvent]) -> Mapping[int, str]:
        refused: dict[int, str] = {}
        messages: list[OutgoingMessage] = []
        for one in batch:
            try:
                messages.append(self._message_of(one))
            except ValueError as error:
                refused[one.event.seq] = str(error)
        returned = await self._link.publish(messages)
        return refused | {one.event.seq: returned[one.event.id] for one in batch if one.event.id in returned}

    async def close(self) -> None:
        await self._link.close()

    def fault_of(self, error: Exception) -> str:
        return self._fault_of(error)

    def _message_of(self, one: OutgoingEvent) -> OutgoingMessage:
        # prompts stay on this machine whatever is shared: only the archive of a team may have them
        level = "titles" if self._share == "prompts" else self._share
        body = envelope.body(one, level, self._envelope)
        key = f"{self._prefix}{one.event.type}"
        if len(key.encode()) > 255:
            raise ValueError("its type is longer than a routing key can be")
        return self._message(one.event.id, one.event.type, key, body, envelope.CONTENT_TYPES[self._envelope])
