"""What is said of a sink: whether it needs attention, and why, in one sentence."""

from __future__ import annotations

from imi_monitor.model import times
from imi_monitor.model.text import count, safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime

    from imi_monitor.model.snapshot import SinkState

LONGEST_WAIT = 24 * 3600.0  # seconds that an event may wait for a sink
NAMES = {"history": "history", "redis": "Redis", "amqp": "RabbitMQ", "postgres": "PostgreSQL"}


def name(sink: str) -> str:
    return NAMES.get(sink, safe(sink, 20))


def needs_attention(one: SinkState, now: datetime) -> bool:
    """Whether events wait for too long, are refused or were lost."""
    return bool(one.problem or one.parked or one.dropped or _waits_long(one, now))


def sentence(one: SinkState, now: datetime, why: str | None = None) -> str:
    """`3,204 events wait, the oldest for 2h; RabbitMQ at … cannot be reached`; `why` replaces the recorded reason."""
    parts = []
    if one.backlog:
        waits = "waits for" if one.backlog == 1 else "wait, the oldest for"
        parts.append(f"{count(one.backlog, 'event')} {waits} {times.age_of(one.waiting_since, now)}")
    if one.parked:
        parts.append(f"{count(one.parked, 'event')} refused: `imi archive` tells why")
    if one.dropped:
        parts.append(f"{count(one.dropped, 'event')} deleted before it had them")
    text = "; ".join(parts) or "has every event"
    why = why or one.problem
    return f"{text}; {safe(why, 300)}" if why else text


def _waits_long(one: SinkState, now: datetime) -> bool:
    since = times.parse(one.waiting_since)
    return since is not None and (now - since).total_seconds() > LONGEST_WAIT
