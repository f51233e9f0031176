"""What a sink is: where the relay delivers events. A module of a sink imports its library only in `make_sink`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from imi_monitor.store.async_registry import AsyncRegistry
    from imi_monitor.store.event_batches import OutgoingEvent


class Sink:
    """Delivers events. Each method may raise one of `faults`: the relay records the reason, waits, and tries again."""

    name: str
    label: str  # for people: `RabbitMQ at 127.0.0.1:5672`
    batch = 200  # events delivered together
    faults: tuple[type[Exception], ...] = (OSError,)

    async def open(self, registry: str) -> int | None:
        """Make it ready. Returns the last event of this registry that it has, if it can tell: it may have lost some."""
        return None

    async def deliver(self, events: Sequence[OutgoingEvent]) -> Mapping[int, str]:
        """Deliver all events, and return once they are safe there. The result says why which of them are refused."""
        raise NotImplementedError

    async def deliver_more(self, registry: AsyncRegistry) -> None:
        """Deliver what it takes besides events; called after each round."""

    async def close(self) -> None:
        """Give the connection up; `open` may follow."""

    def fault_of(self, error: Exception) -> str:
        """The end of a sentence that begins with the label: `cannot be reached`. It names no password."""
        return str(error)
