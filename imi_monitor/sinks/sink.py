"""What a sink is: where the relay delivers events. A module of a sink imports its library only in `make_sink`."""

from __future__ import annotations

from datetime import timedelta

from imi_monitor.model import times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from imi_monitor.store.async_registry import AsyncRegistry
    from imi_monitor.store.event_batches import OutgoingEvent


LOST = -1  # instead of an event: the sink has nothing of this registry any more, and takes what a new one gets


class Sink:
    """Delivers events. Each method may raise one of `faults`: the relay records the reason, waits, and tries again."""

    name: str
    label: str  # for people: `RabbitMQ at 127.0.0.1:5672`
    batch = 200  # events delivered together
    share = 0.5  # of the time in which a backlog is delivered; the rest is left to others
    hours: int | None = None  # of events that a sink gets which is new, or lost its data; None: all
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

    @property
    def begins_at(self) -> str | None:
        """The moment of the first event that a new sink gets; None for all."""
        if self.hours is None:
            return None
        return times.stamp(times.now() - timedelta(hours=self.hours))

    def fault_of(self, error: Exception) -> str:
        """The end of a sentence that begins with the label: `cannot be reached`. It names no password."""
        return str(error)
