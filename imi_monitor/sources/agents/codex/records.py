"""Parses the lines of a Codex rollout, of any version, into `RolloutItem`s. Nothing here keeps a state.

Three generations are read: `item_completed` (0.16x), `user_message` / `agent_message` events (0.3x to 0.15x), and bare
items without an envelope (2025 and before).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from imi_monitor.model.agent import AgentEvent, ToolCall
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.codex.record_types import (
    ModelRetry,
    Payload,
    RolloutItem,
    ThreadContext,
    TurnBegan,
    UnknownRecord,
    command,
    content,
    error_text,
    finished,
    id_of_line,
    patched_files,
    question,
    token_items,
    tool_of,
)

# The types stand first in a line, before anything long: records that cannot matter are not parsed.
_HEAD = re.compile(rb'"type":\s*"(\w+)"(?:,\s*"payload":\s*\{\s*"type":\s*"(\w+)")?')
_IGNORED = frozenset({b"world_state", b"retained_context", b"inter_agent_communication", b"compacted_history"})
_IGNORED_PAYLOADS = frozenset(
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


def parse(line: bytes, fallback_at: str) -> list[RolloutItem]:
    """Return what one line says. `fallback_at`: the time of a record without one."""
    head = _HEAD.search(line[:400])
    if head and (head[1] in _IGNORED or head[2] in _IGNORED_PAYLOADS):
        return []
    whole = fields.record(line)
    if whole is None:
        return [UnknownRecord("a line that is no record")]
    at = fields.moment(whole.get("timestamp")) or fallback_at
    kind = whole.get("type")
    payload = whole.get("payload")
    if not isinstance(payload, dict):
        return _bare(whole, kind, at, line)
    if not isinstance(kind, str) or kind not in _KNOWN:
        return [UnknownRecord(str(kind)[:40])]
    if kind == "event_msg":
        return event_items(payload, at, line)
    if kind == "response_item":
        return response_items(payload, at, line)
    return _envelope(kind, payload, at, line)


def _envelope(kind: str, payload: Payload, at: str, line: bytes) -> list[RolloutItem]:
    if kind == "session_meta":
        meta = _meta(payload)
        return [meta, AgentEvent("started", f"{meta.id}:started", meta.started_at or at, meta.originator)]
    if kind == "turn_context":
        return [_turn_context(payload)]
    if kind == "token_usage_record":
        return token_items(fields.table(payload.get("thread_token_usage")), fields.table(payload.get("usage")), None)
    if kind == "compacted":
        return [AgentEvent("compacted", id_of_line("compacted", line), at)]
    return []


# -- envelopes: session, turn context, tokens ------------------------------------------------------------------------


def _meta(payload: Payload) -> ThreadContext:
    source = payload.get("source")
    inside = fields.table(source)
    parent = fields.text(payload.get("parent_thread_id")) or _parent(inside)
    return ThreadContext(
        id=fields.text(payload.get("id")) or fields.text(payload.get("session_id")),
        cwd=fields.path(payload.get("cwd")),
        version=fields.text(payload.get("cli_version"), 40),
        branch=fields.text(fields.table(payload.get("git")).get("branch"), 250),
        started_at=fields.moment(payload.get("timestamp")),
        parent=parent,
        originator=fields.text(payload.get("originator"), 60),
        child=bool(inside) or parent is not None,
    )


def _parent(source: object, depth: int = 0) -> str | None:
    """The thread that started it, at any depth of the source."""
    inside = fields.table(source)
    found = fields.text(inside.get("parent_thread_id"))
    if found or depth > 3:
        return found
    return next((name for name in (_parent(one, depth + 1) for one in inside.values()) if name), None)


def _turn_context(payload: Payload) -> ThreadContext:
    mode = payload.get("collaboration_mode")
    return ThreadContext(
        cwd=fields.path(payload.get("cwd")),
        model=fields.text(payload.get("model"), 100),
        policy=fields.text(payload.get("approval_policy"), 40),
        mode=fields.text(fields.table(mode).get("mode") or mode, 40),
    )


# -- rollouts of 2025 and before: bare items --------------------------------------------------------------------------


def _bare(whole: Payload, kind: object, at: str, line: bytes) -> list[RolloutItem]:
    if kind is None and fields.text(whole.get("id")) and whole.get("record_type") is None:
        return [
            ThreadContext(
                id=fields.text(whole.get("id")),
                started_at=fields.moment(whole.get("timestamp")),
                branch=fields.text(fields.table(whole.get("git")).get("branch"), 250),
            )
        ]
    if kind is None and "record_type" in whole:
        return []
    if kind == "message":
        return _bare_message(whole, at, line)
    if kind in ("function_call", "function_call_output", "local_shell_call", "reasoning"):
        return response_items(whole, at, line)
    return [UnknownRecord(str(kind)[:40])]


def _bare_message(whole: Payload, at: str, line: bytes) -> list[RolloutItem]:
    text = content(whole.get("content"))
    if text is None:
        return []
    if whole.get("role") == "user":
        place = _CWD.search(text)
        if place:
            return [ThreadContext(cwd=place[1] or place[2])]
        return [] if text.startswith("<") else [AgentEvent("prompt", id_of_line("prompt", line), at, text)]
    return [AgentEvent("message", id_of_line("message", line), at, text)] if whole.get("role") == "assistant" else []


# -- events: turns, prompts, messages, tools, questions, errors --------------------------------------------------------


def event_items(payload: Payload, at: str, line: bytes) -> list[RolloutItem]:
    kind = payload.get("type")
    reader = _EVENTS.get(kind) if isinstance(kind, str) else None
    return reader(payload, at, line) if reader else []


def _began(payload: Payload, at: str, line: bytes) -> list[RolloutItem]:
    mode = fields.text(payload.get("collaboration_mode_kind"), 40)
    return [TurnBegan(at, mode, fields.number(payload.get("model_context_window")))]


def _complete(payload: Payload, at: str, line: bytes) -> list[RolloutItem]:
    turn = fields.text(payload.get("turn_id"), 100) or id_of_line("", line)
    if payload.get("error"):
        return [AgentEvent("failed", f"{turn}:failed", at, error_text(payload["error"]))]
    return [AgentEvent("completed", f"{turn}:completed", at, fields.text(payload.get("last_agent_message")))]


def _aborted(payload: Payload, at: str, line: bytes) -> list[RolloutItem]:
    turn = fields.text(payload.get("turn_id"), 100) or id_of_line("", line)
    return [AgentEvent("cancelled", f"{turn}:cancelled", at, fields.text(payload.get("reason"), 100))]


def _error(payload: Payload, at: str, line: bytes) -> list[RolloutItem]:
    return [AgentEvent("failed", id_of_line("failed", line), at, error_text(payload))]


def _retry(payload: Payload, at: str, line: bytes) -> list[RolloutItem]:
    return [ModelRetry(at, error_text(payload) or "it tries again")]


def _tokens(payload: Payload, at: str, line: bytes) -> list[RolloutItem]:
    info = fields.table(payload.get("info"))
    total, last = fields.table(info.get("total_token_usage")), fields.table(info.get("last_token_usage"))
    return token_items(total, last, info.get("model_context_window"))


def _prompted(payload: Payload, at: str, line: bytes) -> list[RolloutItem]:
    text = fields.text(payload.get("message"))
    return [AgentEvent("prompt", id_of_line("prompt", line), at, text)] if text else []


def _said(payload: Payload, at: str, line: bytes) -> list[RolloutItem]:
    text = fields.text(payload.get("message"))
    return [AgentEvent("message", id_of_line("message", line), at, text)] if text else []


def _asks(payload: Payload, at: str, line: bytes) -> list[RolloutItem]:
    """An approval or a question; most versions do not record them."""
    call = fields.text(payload.get("call_id") or payload.get("id"), 100) or id_of_line("", line)
    if "questions" in payload:
        tool = ToolCall("Question", fields.one_line(question(payload)), call)
        return [AgentEvent("waits", f"{call}:waits", at, question(payload), tool)]
    what = command(payload.get("command")) or ", ".join(map(str, fields.table(payload.get("changes"))))
    tool = ToolCall("Edit" if "changes" in payload else "Bash", fields.one_line(what), call)
    reason = fields.text(payload.get("reason")) or fields.text(payload.get("message"))
    return [
        AgentEvent("waits", f"{call}:waits", at, f"permission for {tool}" + (f": {reason}" if reason else ""), tool)
    ]


def _begins(payload: Payload, at: str, line: bytes) -> list[RolloutItem]:
    call = fields.text(payload.get("call_id"), 100)
    if call is None:
        return []
    tool = ToolCall("Bash", fields.one_line(command(payload.get("command"))), call)
    if "changes" in payload:
        tool = ToolCall("Edit", fields.one_line(next(iter(fields.table(payload["changes"])), None)), call)
    elif "invocation" in payload:
        tool = ToolCall(_invoked(payload), None, call)
    return [AgentEvent("tool_started", f"{call}:started", at, tool=tool)]


def _invoked(payload: Payload) -> str:
    call = fields.table(payload.get("invocation"))
    return ".".join(filter(None, (fields.text(call.get("server"), 60), fields.text(call.get("tool"), 60)))) or "tool"


def _ends(payload: Payload, at: str, line: bytes) -> list[RolloutItem]:
    call = fields.text(payload.get("call_id"), 100)
    if call is None:
        return []
    code, success = payload.get("exit_code"), payload.get("success")
    result = fields.table(payload.get("result"))
    ok = code == 0 if code is not None else success is not False and "Err" not in result
    output = (
        fields.text(payload.get("aggregated_output"))
        or fields.text(payload.get("stdout"))
        or fields.text(result.get("Err"))
    )
    return [finished(call, at, output, ok, tuple(map(str, fields.table(payload.get("changes")))))]


def _completed_item(payload: Payload, at: str, line: bytes) -> list[RolloutItem]:
    item = fields.table(payload.get("item"))
    kind, ident = item.get("type"), fields.text(item.get("id"), 100) or id_of_line("", line)
    if kind in ("UserMessage", "AgentMessage", "Plan"):
        name = {"UserMessage": "prompt", "AgentMessage": "message"}.get(kind, "plan")
        text = content(item.get("content")) or fields.text(item.get("text"))
        return [AgentEvent(name, f"{ident}:{name}", at, text)] if text else []
    if kind in ("CommandExecution", "FileChange", "McpToolCall"):
        return [_ended_item(item, ident, at)]
    if kind == "ContextCompaction":
        return [AgentEvent("compacted", f"{ident}:compacted", at)]
    return []


def _ended_item(item: Payload, ident: str, at: str) -> AgentEvent:
    status, code = item.get("status"), item.get("exit_code")
    ok = status in ("completed", None) and code in (0, None)
    output = (
        fields.text(item.get("aggregated_output")) or fields.text(item.get("stdout")) or fields.text(item.get("stderr"))
    )
    return finished(ident, at, output, ok, tuple(map(str, fields.table(item.get("changes")))) if ok else ())


_EVENTS: dict[str, Callable[[Payload, str, bytes], list[RolloutItem]]] = {
    "task_started": _began,
    "turn_started": _began,
    "task_complete": _complete,
    "turn_complete": _complete,
    "turn_aborted": _aborted,
    "error": _error,
    "stream_error": _retry,
    "token_count": _tokens,
    "user_message": _prompted,
    "agent_message": _said,
    "item_completed": _completed_item,
    "exec_approval_request": _asks,
    "apply_patch_approval_request": _asks,
    "request_user_input": _asks,
    "request_permissions": _asks,
    "elicitation_request": _asks,
    "exec_command_begin": _begins,
    "patch_apply_begin": _begins,
    "mcp_tool_call_begin": _begins,
    "exec_command_end": _ends,
    "patch_apply_end": _ends,
    "mcp_tool_call_end": _ends,
    "shutdown_complete": lambda payload, at, line: [AgentEvent("ended", id_of_line("ended", line), at)],
}


# -- the conversation with the model: tool calls and their results -----------------------------------------------------

_EXIT = re.compile(r"(?:exited with code|[Ee]xit code:?)\s*(-?\d+)")


def response_items(payload: Payload, at: str, line: bytes) -> list[RolloutItem]:
    kind = payload.get("type")
    call = fields.text(payload.get("call_id"), 100) or fields.text(payload.get("id"), 100)
    if call is None:
        return []
    if kind in ("function_call", "custom_tool_call", "local_shell_call"):
        return [_called(payload, call, at)]
    if kind in ("function_call_output", "custom_tool_call_output"):
        return [_answered(payload, call, at)]
    return []


def _called(payload: Payload, call: str, at: str) -> RolloutItem:
    name = fields.text(payload.get("name"), 100) or "local_shell"
    raw = fields.text(payload.get("arguments") or payload.get("input"), 1 << 20)
    arguments = fields.table(payload.get("action")) or (fields.record(raw) if raw and raw.startswith("{") else None)
    tool = tool_of(name, arguments or {}, raw if arguments is None else None, call)
    if name == "request_user_input":
        return AgentEvent("waits", f"{call}:waits", at, question(arguments or {}), tool)
    escalated = (arguments or {}).get("sandbox_permissions") == "require_escalated"
    escalated = escalated or (arguments or {}).get("with_escalated_permissions") is True
    reason = fields.text((arguments or {}).get("justification")) or "more rights than its sandbox has"
    patch = raw if arguments is None else command(arguments.get("cmd", arguments.get("command")))
    return AgentEvent(
        "tool_started", f"{call}:started", at, reason if escalated else None, tool, files=patched_files(patch)
    )


def _answered(payload: Payload, call: str, at: str) -> AgentEvent:
    output = payload.get("output")
    inside = fields.table(output) or _wrapped(output)
    text = fields.text(inside.get("output")) or content(inside.get("content")) or (None if inside else content(output))
    code = fields.table(inside.get("metadata")).get("exit_code")
    if code is not None:
        return finished(call, at, text, code == 0)
    return finished(call, at, text or content(output), _succeeded(text or "", inside.get("success")))


def _wrapped(output: object) -> Payload:
    """Return the output inside JSON, the form of the versions of 2025."""
    if not isinstance(output, str) or not output.startswith('{"output"'):
        return {}
    return fields.record(output) or {}


def _succeeded(output: str, success: object) -> bool | None:
    if "aborted by user" in output[-200:]:
        return None
    code = _EXIT.search(output[:2000])
    return success is not False and (code is None or int(code[1]) == 0)
