"""Events as other programs get them: as a CloudEvent 1.0, or in Bloodbank's envelope 1.0.0. And what may leave this machine.

Every text that leaves goes through `shared_data`: redacted, without NUL and half surrogates, which JSON databases refuse, and
cut to size.
"""

from __future__ import annotations

import json
from urllib.parse import quote

from imi_monitor.model import times
from imi_monitor.model.redact import redact
from imi_monitor.store.event_batches import OutgoingEvent

CLOUDEVENTS, BLOODBANK = "cloudevents", "bloodbank"
CONTENT_TYPES = {CLOUDEVENTS: "application/cloudevents+json", BLOODBANK: "application/json"}
LEVELS = ("counts", "names", "titles", "prompts")  # of team.share, each with all of those in front of it
MOST_BYTES = 64 << 10  # of the data of one event
_LONGEST_TEXT = 2048
_MOST_ITEMS = 200
_NAMES = (
    "file",
    "files",
    "path",
    "subject",
    "detail",
    "line",
    "title",
    "artifacts",
    "place",
)  # not shared at the level `counts`
_MESSAGES = ("remark",)  # what is said to an agent is shared as its prompts are


class TooLarge(ValueError):
    """The data of an event is larger than a receiver has to take."""


def shared_data(one: OutgoingEvent, level: str) -> dict[str, object]:
    """The data of an event as it may leave this machine at this level of `team.share`."""
    rank = LEVELS.index(level) if level in LEVELS else 0
    kept = {*(_NAMES if rank < LEVELS.index("names") else ()), *(_MESSAGES if rank < LEVELS.index("prompts") else ())}
    data = {name: _clean(value) for name, value in one.data.items() if name not in kept}
    if one.texts is not None:
        if rank >= LEVELS.index("titles") and one.texts.title:
            data["title"] = _clean(one.texts.title[:120])
        if rank >= LEVELS.index("prompts"):
            data |= {"prompt": _clean(one.texts.prompt), "outcome": _clean(one.texts.outcome)}
    if len(json.dumps(data)) > MOST_BYTES:
        raise TooLarge(f"its data is larger than {MOST_BYTES >> 10} KB")
    return data


def body(one: OutgoingEvent, level: str, kind: str = CLOUDEVENTS) -> bytes:
    """The message of an event."""
    made = bloodbank_envelope(one, level) if kind == BLOODBANK else cloud_event(one, level)
    return json.dumps(made, separators=(",", ":")).encode()


def cloud_event(one: OutgoingEvent, level: str) -> dict[str, object]:
    """A CloudEvent 1.0; attributes that are unknown are left out, as the specification asks."""
    event, data = one.event, shared_data(one, level)
    made: dict[str, object] = {
        "specversion": "1.0",
        "id": event.id,
        "source": source_of(one),
        "type": _text(event.type),
        "time": moment(event.occurred_at),
        "datacontenttype": "application/json",
        "sequence": f"{event.seq:020}",  # the extension compares texts
    }
    subject = "/".join(part for part in (event.repo_name, event.worktree_name) if part)
    more = {
        "subject": _text(subject) or None,
        "repository": _text(one.repository or "") or None,
        "agent": _text(event.agent_id or "") or None,
        "epoch": event.epoch,
        "correlationid": data.get("correlation_id"),
    }
    return {**made, **{name: value for name, value in more.items() if value is not None}, "data": data}


def bloodbank_envelope(one: OutgoingEvent, level: str) -> dict[str, object]:
    """Bloodbank's envelope 1.0.0 (its RabbitMQ era)."""
    event, data = one.event, shared_data(one, level)
    correlation = data.get("correlation_id")
    agent = (
        {"type": "other", "name": _text(event.agent_id), "instance_id": data.get("session")} if event.agent_id else None
    )
    return {
        "event_id": event.id,
        "event_type": _text(event.type),
        "timestamp": moment(event.occurred_at),
        "version": "1.0.0",
        "source": {
            "host": _text(event.host),
            "type": "agent" if event.agent_id else "component",
            "app": "imi",
            "meta": {"registry": one.registry, "sequence": event.seq},
        },
        "correlation_ids": [correlation] if correlation else [],
        "agent_context": agent,
        "payload": {
            "repo_name": _clean(event.repo_name),
            "worktree_name": _clean(event.worktree_name),
            "agent_id": _clean(event.agent_id),
            "epoch": event.epoch,
            **data,
        },
    }


def source_of(one: OutgoingEvent) -> str:
    """Return where the event is from: with its sequence it is unique."""
    return f"//{quote(_text(one.event.host), safe='')}/imi/{quote(one.registry, safe='')}"


def plain_text(text: str) -> str:
    """The text as every database and JSON reader takes it."""
    return _text(text)


def _clean(value: object, depth: int = 0) -> object:
    if isinstance(value, str):
        shown = redact(_text(value))
        return shown if len(shown) <= _LONGEST_TEXT else shown[: _LONGEST_TEXT - 1] + "…"
    if depth > 6:
        return None
    if isinstance(value, dict):
        return {_text(str(name))[:200]: _clean(one, depth + 1) for name, one in list(value.items())[:_MOST_ITEMS]}
    if isinstance(value, list | tuple):
        return [_clean(one, depth + 1) for one in value[:_MOST_ITEMS]]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value


def _text(text: str) -> str:
    return text.replace("\0", "").encode("utf-8", "replace").decode()


def moment(text: str) -> str:
    """The moment as RFC 3339; one that cannot be read is the beginning of time, so that the event is not lost."""
    found = times.parse(text)
    return found.isoformat() if found is not None else "1970-01-01T00:00:00+00:00"
