"""Events as sinks get them: with their data read, and for those of a session with the session's texts.

The texts (title, last prompt, last message) were redacted when they were recorded. Each sink decides which of them it takes.
"""

from __future__ import annotations

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.store import events, repositories, sink_cursors
from imi_monitor.store.events import Event
from imi_monitor.store.registry_identity import RegistryIdentity

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class SessionTexts:
    """What a session is about, and how it ended."""

    title: str | None
    prompt: str | None
    outcome: str | None


@dataclass(frozen=True, slots=True)
class OutgoingEvent:
    """One event for a sink. `registry` is the id of the registry, in which `event.seq` is unique."""

    registry: str
    event: Event
    data: dict[str, object]
    texts: SessionTexts | None = None
    repository: str | None = None  # what all homes of a team call the event's repository


@dataclass(frozen=True, slots=True)
class PromptRow:
    """A prompt that a person gave an agent."""

    seq: int
    id: str
    at: str
    text: str
    host: str
    session: str
    repo_name: str | None
    worktree_name: str | None
    agent_id: str


@dataclass(frozen=True, slots=True)
class EventBatch:
    """The events behind the cursor of a sink. `last` is the last event of the registry that they were read from."""

    identity: RegistryIdentity
    cursor: int
    events: tuple[OutgoingEvent, ...]
    last: int


def read_batch(connection: sqlite3.Connection, sink: str, limit: int, behind: int | None = None) -> EventBatch:
    """The events behind the cursor of a sink, or behind that event, at most so many."""
    identity = RegistryIdentity(connection)
    cursor = sink_cursors.position(connection, sink)
    found = events.list_events(connection, cursor if behind is None else behind, limit=limit)
    made = outgoing(connection, identity.registry_id or "", found)
    return EventBatch(identity, cursor, made, events.last_seq(connection) if found else cursor)


def outgoing(connection: sqlite3.Connection, registry: str, found: Sequence[Event]) -> tuple[OutgoingEvent, ...]:
    identities = repositories.list_identities(connection, registry) if found else {}
    return tuple(_outgoing(connection, registry, event, identities) for event in found)


def list_prompts(connection: sqlite3.Connection, after: int, limit: int) -> tuple[list[PromptRow], int]:
    """The prompts of all sessions behind this number, at most so many, and the number of the last record of any kind."""
    rows = connection.execute(
        "SELECT e.seq, e.id, e.at, e.text, s.host, s.id, s.repo_name, s.worktree_name,"
        " iif(s.agent_id = s.id, s.cli, s.agent_id)"
        " FROM session_events AS e JOIN sessions AS s ON s.seq = e.session"
        " WHERE e.seq > ? AND e.kind = 'prompt' AND e.text IS NOT NULL ORDER BY e.seq LIMIT ?",
        (after, limit),
    )
    found = [PromptRow(*row) for row in rows]
    return found, int(connection.execute("SELECT coalesce(max(seq), 0) FROM session_events").fetchone()[0])


def _outgoing(
    connection: sqlite3.Connection, registry: str, event: Event, identities: Mapping[str, str]
) -> OutgoingEvent:
    data = events.data_of(event)
    texts = None
    session = data.get("session")
    if event.type == "session.ended" and isinstance(session, str):
        row = connection.execute(
            "SELECT title, prompt, last_message FROM sessions WHERE host = ? AND id = ?", (event.host, session)
        ).fetchone()
        texts = SessionTexts(*row) if row is not None else None
    return OutgoingEvent(registry, event, data, texts, identities.get(event.repo_name or ""))
