"""`imi events --from amqp`: what passes the exchange of the team's RabbitMQ, from imi and from other programs."""

from __future__ import annotations

import json

from imi_monitor.actions import time_format
from imi_monitor.links import server_url
from imi_monitor.model import event_text
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.snapshot import RegistryEvent
from imi_monitor.model.text import safe
from imi_monitor.sinks import amqp_sink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.links.amqp_link import AmqpLink, IncomingMessage

_PAUSE = 2.0  # seconds until the next attempt
_MOST_BYTES = 256 << 10  # of a message that is read


def follow(context: Context, kinds: tuple[str, ...]) -> None:
    """Print messages as they come, until Ctrl-C; only of these kinds, if there are any."""
    import asyncio

    settings = context.settings
    if not settings.text("servers.amqp_url"):
        raise Refused("this home has no RabbitMQ: set servers.amqp_url in the config file", code="no-broker")
    address = server_url.parse_amqp(settings.text("servers.amqp_url"), insecure=settings.flag("team.insecure"))
    try:
        from imi_monitor.links import amqp_link
    except ImportError as error:
        raise UsageError(amqp_sink.MISSING, code="no-library") from error

    async def run() -> None:
        problem = ""
        while not context.cancelled():
            link = amqp_link.AmqpLink(address)
            try:
                await link.open(settings.text("servers.amqp_exchange"))
                if problem:
                    context.notify(f"RabbitMQ at {address.shown} answers again")
                    problem = ""
                await _print_messages(context, link, kinds)
            except amqp_link.FAULTS as error:
                sentence = f"RabbitMQ at {address.shown} {amqp_link.fault_of(error)}"
                if sentence != problem:
                    problem = sentence
                    context.notify(f"{sentence} (waiting for it)")
                await asyncio.sleep(_PAUSE)
            finally:
                await link.close()

    asyncio.run(run())


async def _print_messages(context: Context, link: AmqpLink, kinds: tuple[str, ...]) -> None:
    from fnmatch import fnmatchcase

    queue = await link.bind_own_queue(("#",))
    async for one in link.messages(queue):
        event = read_message(one)
        if not kinds or any(fnmatchcase(str(event["type"]), kind) for kind in kinds):
            context.emit(line(event), event)
        await link.acknowledge(one)


def read_message(one: IncomingMessage) -> dict[str, object]:
    """A message in one form: CloudEvents, Bloodbank's envelope, or anything else as its `data`."""
    body: object = None
    if len(one.body) <= _MOST_BYTES:
        try:
            body = json.loads(one.body)
        except (ValueError, RecursionError):
            body = one.body.decode("utf-8", "replace")
    fields = body if isinstance(body, dict) else {}

    def first(*names: str) -> str | None:
        return next((str(fields[name]) for name in names if isinstance(fields.get(name), str)), None)

    data = fields.get("data", fields.get("payload", body))
    return {
        "key": one.key,
        "id": first("id", "event_id") or one.id,
        "type": first("type", "event_type", "event") or one.type or one.key,
        "time": first("time", "timestamp", "ts"),
        "source": first("source"),
        "subject": first("subject"),
        "agent": first("agent"),
        "data": data,
    }


def line(event: dict[str, object]) -> str:
    """`14:02:09 claude-1 claimed feat-x`, or of another program its type and data."""
    time, kind = event["time"], str(event["type"])
    moment = time_format.clock(time if isinstance(time, str) else None)
    if "/imi/" in str(event["source"]):
        repo, _, worktree = str(event["subject"] or "").partition("/")
        agent = event["agent"]
        shown = RegistryEvent(
            0, kind, "", repo or None, worktree or None, str(agent) if agent else None, json.dumps(event["data"])
        )
        return f"{moment} {event_text.sentence(shown)}"
    return f"{moment} {safe(kind, 80)} {safe(json.dumps(event['data']), 300)}"
