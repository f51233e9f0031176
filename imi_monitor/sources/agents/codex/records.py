"""Lines of a Codex rollout, of any version, as the few things that we understand of them.

Three generations are read: `item_completed` (0.16x), `user_message` / `agent_message` events (0.3x to 0.15x), and bare
items without an envelope (2025 and before). Nothing here remembers anything: a line in, what it says out.
"""

from __future__ import annotations

import re

from imi_monitor.model.agent import AgentEvent
from imi_monitor.sources.agents import loose
from imi_monitor.sources.agents.codex.calls import response
from imi_monitor.sources.agents.codex.events import event
from imi_monitor.sources.agents.codex.items import Context, Item, Payload, Strange, content, unnamed, usage

# The types come first in a line, before anything long: what cannot matter is not parsed.
_HEAD = re.compile(rb'"type":\s*"(\w+)"(?:,\s*"payload":\s*\{\s*"type":\s*"(\w+)")?')
_IDLE = frozenset({b"world_state", b"retained_context", b"inter_agent_communication", b"compacted_history"})
_IDLE_INSIDE = frozenset(
    {
        b"thread_settings_applied",
        b"reasoning",
        b"agent_reasoning",
        b"agent_reasoning_raw_content",
        b"ghost_snapshot",
        b"turn_diff",
        b"agent_message_delta",
        b"exec_command_output_delta",
    }
)
_KNOWN = frozenset(
    {
        "session_meta",
        "turn_context",
        "world_state",
        "response_item",
        "event_msg",
        "token_usage_record",
        "compacted",
        "retained_context",
        "inter_agent_communication",
    }
)
_CWD = re.compile(r"<cwd>([^<]+)</cwd>|Current working directory: (\S+)")


def read(line: bytes, otherwise_at: str) -> list[Item]:
    """What one line says. `otherwise_at`: its moment when it tells none."""
    head = _HEAD.search(line[:400])
    if head and (head[1] in _IDLE or head[2] in _IDLE_INSIDE):
        return []
    whole = loose.record(line)
    if whole is None:
        return [Strange("a line that is no record")]
    at = loose.moment(whole.get("timestamp")) or otherwise_at
    kind = whole.get("type")
    payload = whole.get("payload")
    if not isinstance(payload, dict):
        return _bare(whole, kind, at, line)
    if not isinstance(kind, str) or kind not in _KNOWN:
        return [Strange(str(kind)[:40])]
    if kind == "event_msg":
        return event(payload, at, line)
    if kind == "response_item":
        return response(payload, at, line)
    return _frame(kind, payload, at, line)


def _frame(kind: str, payload: Payload, at: str, line: bytes) -> list[Item]:
    if kind == "session_meta":
        meta = _meta(payload)
        return [meta, AgentEvent("started", f"{meta.id}:started", meta.started_at or at, meta.originator)]
    if kind == "turn_context":
        return [_turn_context(payload)]
    if kind == "token_usage_record":
        return usage(loose.table(payload.get("thread_token_usage")), loose.table(payload.get("usage")), None)
    if kind == "compacted":
        return [AgentEvent("compacted", unnamed("compacted", line), at)]
    return []


# -- the frame: who, where, how ---------------------------------------------------------------------------------------


def _meta(payload: Payload) -> Context:
    source = payload.get("source")
    inside = loose.table(source)
    parent = loose.text(payload.get("parent_thread_id")) or _parent(inside)
    return Context(
        id=loose.text(payload.get("id")) or loose.text(payload.get("session_id")),
        cwd=loose.path(payload.get("cwd")),
        version=loose.text(payload.get("cli_version"), 40),
        branch=loose.text(loose.table(payload.get("git")).get("branch"), 250),
        started_at=loose.moment(payload.get("timestamp")),
        parent=parent,
        originator=loose.text(payload.get("originator"), 60),
        child=bool(inside) or parent is not None,
    )


def _parent(source: object, depth: int = 0) -> str | None:
    """The thread it was started by, however deep the source hides it."""
    inside = loose.table(source)
    found = loose.text(inside.get("parent_thread_id"))
    if found or depth > 3:
        return found
    return next((name for name in (_parent(one, depth + 1) for one in inside.values()) if name), None)


def _turn_context(payload: Payload) -> Context:
    mode = payload.get("collaboration_mode")
    return Context(
        cwd=loose.path(payload.get("cwd")),
        model=loose.text(payload.get("model"), 100),
        policy=loose.text(payload.get("approval_policy"), 40),
        mode=loose.text(loose.table(mode).get("mode") or mode, 40),
    )


# -- rollouts of 2025 and before: bare items --------------------------------------------------------------------------


def _bare(whole: Payload, kind: object, at: str, line: bytes) -> list[Item]:
    if kind is None and loose.text(whole.get("id")) and whole.get("record_type") is None:
        return [
            Context(
                id=loose.text(whole.get("id")),
                started_at=loose.moment(whole.get("timestamp")),
                branch=loose.text(loose.table(whole.get("git")).get("branch"), 250),
            )
        ]
    if kind is None and "record_type" in whole:
        return []
    if kind == "message":
        return _bare_message(whole, at, line)
    if kind in ("function_call", "function_call_output", "local_shell_call", "reasoning"):
        return response(whole, at, line)
    return [Strange(str(kind)[:40])]


def _bare_message(whole: Payload, at: str, line: bytes) -> list[Item]:
    said = content(whole.get("content"))
    if said is None:
        return []
    if whole.get("role") == "user":
        place = _CWD.search(said)
        if place:
            return [Context(cwd=place[1] or place[2])]
        return [] if said.startswith("<") else [AgentEvent("prompt", unnamed("prompt", line), at, said)]
    return [AgentEvent("message", unnamed("message", line), at, said)] if whole.get("role") == "assistant" else []
