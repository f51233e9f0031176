"""Tasks that other programs publish, in one form: `task.created`, Flume's, and Bloodbank's two.

The contracts are kept loosely out there, so what can be left out may be missing. The texts are data: they are never run.
"""

from __future__ import annotations

import json

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model import board

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

KEYS = ("task.created", "flume.task.created", "agent.task.assigned", "repo.task.created")
"""The routing keys, and the ends of longer ones."""
_LONGEST_ID = 200
_MOST_BYTES = 256 << 10
_MEDIUM_NUMBER = 5  # the medium one of Flume's priorities; a higher number is more urgent


@dataclass(frozen=True, slots=True)
class IncomingTask:
    """One task. `id` is unique in the program that published it; `own`: imi published it itself."""

    id: str
    title: str
    text: str
    priority: str
    repo: str | None
    worktree: str | None
    agent: str | None
    correlation_id: str | None
    own: bool = False


def read_task(body: bytes, key: str, app: str | None = None) -> IncomingTask | None:
    """The task of a message; None if it is none: without a title, without an id, or not readable."""
    if len(body) > _MOST_BYTES:
        return None
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict):
        return None
    data = message.get("data", message.get("payload"))
    if not isinstance(data, dict):
        return None
    title = _text(data, "title", "objective", "task_preview", "description")
    ident = _text(data, "id", "task", "task_id", "ticket_id") or _text(message, "id", "event_id")
    if not title or not ident:
        return None
    provider = _text(data, "provider")
    source = str(message.get("source") or "")
    return IncomingTask(
        id=(f"{provider}:{ident}" if provider else ident)[:_LONGEST_ID],
        title=title,
        text=_text(data, "text", "body", "context") or "",
        priority=_priority(data.get("priority")),
        repo=_text(data, "repo", "repo_name", "repository"),
        worktree=_text(data, "worktree", "worktree_name"),
        agent=_text(data, "agent", "agent_name", "assignee", "agent_id"),
        correlation_id=_text(data, "correlation_id", "correlationId")
        or _text(message, "correlationId", "correlationid"),
        own=app == "imi" or "/imi/" in source,
    )


def _text(fields: Mapping[str, object], *names: str) -> str | None:
    """The first of these fields that is a text with something in it, or a number."""
    for name in names:
        value = fields.get(name)
        if isinstance(value, str) and value.strip():
            return value.strip()
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
    return None


def _priority(value: object) -> str:
    if isinstance(value, str):
        return board.priority_of(value) or board.MEDIUM
    if isinstance(value, int | float) and not isinstance(value, bool):
        return board.HIGH if value > _MEDIUM_NUMBER else board.LOW if value < _MEDIUM_NUMBER else board.MEDIUM
    return board.MEDIUM
