"""Sends the contexts that the team's Redis has not: intent, milestones and panes of each terminal, redacted.

The process with the duties does it; without one, `imi context save` does.
"""

from __future__ import annotations

import json

from imi_monitor import host
from imi_monitor.model import terminal_layout, times
from imi_monitor.model.redact import redact
from imi_monitor.store import contexts, db, notes

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.context import Context
    from imi_monitor.links.context_store import SharedContext
    from imi_monitor.links.redis_link import RedisLink
    from imi_monitor.store.contexts import ContextRow

_MOST_LAYOUT = 16_384


def send_unsent(context: Context) -> str | None:
    """Send them now; returns what was in the way of one."""
    from imi_monitor.actions.team import published_homes

    found = db.read(context.connection, read_unsent)
    if not found:
        return None
    prefix = context.settings.text("context.prefix")

    async def send(link: RedisLink) -> list[tuple[ContextRow, str | None]]:
        from imi_monitor.links.context_store import ContextStore

        store = ContextStore(link, prefix)
        return [(row, await store.put(shared)) for row, shared in found]

    problem = None
    for row, why in published_homes.with_redis(context, send):
        db.transact_unsynced(context.connection, contexts.mark_sent, row.id, row.revision)
        problem = problem or why
    return problem


def read_unsent(connection: sqlite3.Connection) -> list[tuple[ContextRow, SharedContext]]:
    """The contexts that changed since they were sent, as they are sent."""
    return [(row, _shared(connection, row)) for row in contexts.list_unsent(connection)]


def _shared(connection: sqlite3.Connection, row: ContextRow) -> SharedContext:
    from imi_monitor.links.context_store import INTENT_SECONDS, SharedContext

    intent = notes.current_intent(connection, context=row.id)
    reached = notes.list_logged(connection, (notes.MILESTONE,), context=row.id)
    milestones = tuple(
        json.dumps(
            {
                "id": str(one.seq),
                "timestamp": one.made_at,
                "summary": redact(one.text),
                "entry_type": "milestone",
                "artifacts": [redact(name) for name in one.artifact_list],
                "source": "agent",
            }
        )
        for one in reached
    )
    made = times.parse(intent.made_at) if intent is not None else None
    left = INTENT_SECONDS - int((times.now() - made).total_seconds()) if made is not None else 0
    text = redact(intent.text) if intent is not None and left > 0 else ""
    layout = terminal_layout.decode(row.layout)
    fields = {
        "intent": redact(intent.text) if intent is not None else "",
        "milestones": f"[{','.join(milestones)}]",
        "panes": layout.without_places().encode()[:_MOST_LAYOUT] if layout is not None else "",
        "host": host.hostname(),
        "kind": row.kind,
        "name": redact(row.name or ""),
        "folder": terminal_layout.last_part(row.folder or ""),
        "began_at": row.began_at,
        "changed_at": row.changed_at,
        "settled_at": row.settled_at or "",
    }
    return SharedContext(row.id, fields, milestones, text, max(1, left))
