"""Lines of a Codex rollout, of any version, as the few things that we understand of them.

Three generations are read: `item_completed` (0.16x), `user_message` / `agent_message` events (0.3x to 0.15x), and bare
items without an envelope (2025 and before). Nothing here remembers anything: a line in, what it says out.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from imi_monitor.model.agent import Happened, Tool
from imi_monitor.sources.agents import loose
from imi_monitor.sources.agents.codex_tools import command, named, patched, question

PLAN: Final = "plan"


@dataclass(frozen=True, slots=True)
class Began:
    """A turn began."""

    at: str
    mode: str | None = None  # `plan` or another
    window: int | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """Where and how it works from now on; None is unchanged."""

    id: str | None = None
    cwd: str | None = None
    model: str | None = None
    policy: str | None = None  # when it asks for approval
    mode: str | None = None
    version: str | None = None
    branch: str | None = None
    started_at: str | None = None
    parent: str | None = None
    originator: str | None = None
    child: bool = False  # it works for another thread, or for Codex itself


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of the whole thread so far."""

    fresh: int | None = None
    out: int | None = None
    cached: int | None = None
    context: int | None = None
    window: int | None = None


@dataclass(frozen=True, slots=True)
class Retry:
    """The model could not be asked; it tries again."""

    at: str
    why: str


@dataclass(frozen=True, slots=True)
class Strange:
    """A record which we do not know, or cannot read."""

    what: str


Item = Happened | Began | Context | Usage | Retry | Strange
_Payload = dict[str, Any]

# The types come first in a line, before anything long: what cannot matter is not parsed.
_HEAD = re.compile(rb'"type":\s*"(\w+)"(?:,\s*"payload":\s*\{\s*"type":\s*"(\w+)")?')
_IDLE = frozenset({b"world_state", b"retained_context", b"inter_agent_communication", b"compacted_history"})
_IDLE_INSIDE = frozenset({
    b"thread_settings_applied", b"reasoning", b"agent_reasoning", b"agent_reasoning_raw_content", b"ghost_snapshot",
    b"turn_diff", b"agent_message_delta", b"exec_command_output_delta",
})  # fmt: skip
_KNOWN = frozenset({
    "session_meta", "turn_context", "world_state", "response_item", "event_msg", "token_usage_record", "compacted",
    "retained_context", "inter_agent_communication",
})  # fmt: skip
_CWD = re.compile(r"<cwd>([^<]+)</cwd>|Current working directory: (\S+)")
_EXIT = re.compile(r"(?:exited with code|[Ee]xit code:?)\s*(-?\d+)")


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
        return _event(payload, at, line)
    if kind == "response_item":
        return _response(payload, at, line)
    return _frame(kind, payload, at, line)


def _frame(kind: str, payload: _Payload, at: str, line: bytes) -> list[Item]:
    if kind == "session_meta":
        meta = _meta(payload)
        return [meta, Happened("started", f"{meta.id}:started", meta.started_at or at, meta.originator)]
    if kind == "turn_context":
        return [_turn_context(payload)]
    if kind == "token_usage_record":
        return _usage(loose.table(payload.get("thread_token_usage")), loose.table(payload.get("usage")), None)
    if kind == "compacted":
        return [Happened("compacted", _ident("compacted", line), at)]
    return []


def _ident(kind: str, line: bytes) -> str:
    """A name for what has none: the same whenever the same line is read."""
    return f"{kind}:{zlib.crc32(line):08x}:{len(line)}"


# -- the frame: who, where, how ---------------------------------------------------------------------------------------


def _meta(payload: _Payload) -> Context:
    source = payload.get("source")
    inside = loose.table(source)
    parent = loose.text(payload.get("parent_thread_id")) or _parent(inside)
    return Context(
        id=loose.text(payload.get("id")) or loose.text(payload.get("session_id")),
        cwd=loose.text(payload.get("cwd"), 4096),
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


def _turn_context(payload: _Payload) -> Context:
    mode = payload.get("collaboration_mode")
    return Context(
        cwd=loose.text(payload.get("cwd"), 4096),
        model=loose.text(payload.get("model"), 100),
        policy=loose.text(payload.get("approval_policy"), 40),
        mode=loose.text(loose.table(mode).get("mode") or mode, 40),
    )


def _usage(total: _Payload, last: _Payload, window: object) -> list[Item]:
    whole, cached = loose.number(total.get("input_tokens")), loose.number(total.get("cached_input_tokens"))
    if whole is None:
        return []
    return [
        Usage(
            fresh=max(0, whole - (cached or 0)),
            out=loose.number(total.get("output_tokens")),
            cached=cached,
            context=loose.number(last.get("total_tokens")),
            window=loose.number(window),
        )
    ]


# -- events -----------------------------------------------------------------------------------------------------------


def _event(payload: _Payload, at: str, line: bytes) -> list[Item]:
    kind = payload.get("type")
    reader = _EVENTS.get(kind) if isinstance(kind, str) else None
    return reader(payload, at, line) if reader else []


def _began(payload: _Payload, at: str, line: bytes) -> list[Item]:
    mode = loose.text(payload.get("collaboration_mode_kind"), 40)
    return [Began(at, mode, loose.number(payload.get("model_context_window")))]


def _complete(payload: _Payload, at: str, line: bytes) -> list[Item]:
    turn = loose.text(payload.get("turn_id"), 100) or _ident("", line)
    if payload.get("error"):
        return [Happened("failed", f"{turn}:failed", at, why(payload["error"]))]
    return [Happened("completed", f"{turn}:completed", at, loose.text(payload.get("last_agent_message")))]


def _aborted(payload: _Payload, at: str, line: bytes) -> list[Item]:
    turn = loose.text(payload.get("turn_id"), 100) or _ident("", line)
    return [Happened("cancelled", f"{turn}:cancelled", at, loose.text(payload.get("reason"), 100))]


def _error(payload: _Payload, at: str, line: bytes) -> list[Item]:
    return [Happened("failed", _ident("failed", line), at, why(payload))]


def _retry(payload: _Payload, at: str, line: bytes) -> list[Item]:
    return [Retry(at, why(payload) or "it tries again")]


def _tokens(payload: _Payload, at: str, line: bytes) -> list[Item]:
    info = loose.table(payload.get("info"))
    total, last = loose.table(info.get("total_token_usage")), loose.table(info.get("last_token_usage"))
    return _usage(total, last, info.get("model_context_window"))


def _prompted(payload: _Payload, at: str, line: bytes) -> list[Item]:
    said = loose.text(payload.get("message"))
    return [Happened("prompt", _ident("prompt", line), at, said)] if said else []


def _said(payload: _Payload, at: str, line: bytes) -> list[Item]:
    said = loose.text(payload.get("message"))
    return [Happened("message", _ident("message", line), at, said)] if said else []


def _asks(payload: _Payload, at: str, line: bytes) -> list[Item]:
    """An approval or a question that was written down: some versions do, most do not."""
    call = loose.text(payload.get("call_id") or payload.get("id"), 100) or _ident("", line)
    if "questions" in payload:
        tool = Tool("Question", loose.one_line(question(payload)), call)
        return [Happened("waits", f"{call}:waits", at, question(payload), tool)]
    asked = command(payload.get("command")) or ", ".join(map(str, loose.table(payload.get("changes"))))
    tool = Tool("Edit" if "changes" in payload else "Bash", loose.one_line(asked), call)
    reason = loose.text(payload.get("reason")) or loose.text(payload.get("message"))
    return [Happened("waits", f"{call}:waits", at, f"permission for {tool}" + (f": {reason}" if reason else ""), tool)]


def _begins(payload: _Payload, at: str, line: bytes) -> list[Item]:
    call = loose.text(payload.get("call_id"), 100)
    if call is None:
        return []
    tool = Tool("Bash", loose.one_line(command(payload.get("command"))), call)
    if "changes" in payload:
        tool = Tool("Edit", loose.one_line(next(iter(loose.table(payload["changes"])), None)), call)
    elif "invocation" in payload:
        tool = Tool(_invoked(payload), None, call)
    return [Happened("tool_started", f"{call}:started", at, tool=tool)]


def _invoked(payload: _Payload) -> str:
    call = loose.table(payload.get("invocation"))
    return ".".join(filter(None, (loose.text(call.get("server"), 60), loose.text(call.get("tool"), 60)))) or "tool"


def _ends(payload: _Payload, at: str, line: bytes) -> list[Item]:
    call = loose.text(payload.get("call_id"), 100)
    if call is None:
        return []
    code, success = payload.get("exit_code"), payload.get("success")
    result = loose.table(payload.get("result"))
    ok = code == 0 if code is not None else success is not False and "Err" not in result
    told = (
        loose.text(payload.get("aggregated_output"))
        or loose.text(payload.get("stdout"))
        or loose.text(result.get("Err"))
    )
    return [_finished(call, at, told, ok, tuple(map(str, loose.table(payload.get("changes")))))]


def _completed_item(payload: _Payload, at: str, line: bytes) -> list[Item]:
    item = loose.table(payload.get("item"))
    kind, ident = item.get("type"), loose.text(item.get("id"), 100) or _ident("", line)
    if kind in ("UserMessage", "AgentMessage", "Plan"):
        name = {"UserMessage": "prompt", "AgentMessage": "message"}.get(kind, "plan")
        said = _content(item.get("content")) or loose.text(item.get("text"))
        return [Happened(name, f"{ident}:{name}", at, said)] if said else []
    if kind in ("CommandExecution", "FileChange", "McpToolCall"):
        return [_ended_item(item, ident, at)]
    if kind == "ContextCompaction":
        return [Happened("compacted", f"{ident}:compacted", at)]
    return []


def _ended_item(item: _Payload, ident: str, at: str) -> Happened:
    status, code = item.get("status"), item.get("exit_code")
    ok = status in ("completed", None) and code in (0, None)
    told = loose.text(item.get("aggregated_output")) or loose.text(item.get("stdout")) or loose.text(item.get("stderr"))
    return _finished(ident, at, told, ok, tuple(map(str, loose.table(item.get("changes")))) if ok else ())


def _finished(call: str, at: str, told: str | None, ok: bool | None, files: tuple[str, ...] = ()) -> Happened:
    return Happened("tool_finished", f"{call}:finished", at, told, Tool("", None, call), ok, files)


def _content(value: object) -> str | None:
    """The texts of a message, however each block spells its kind."""
    if isinstance(value, str):
        return loose.text(value)
    parts = [loose.text(loose.table(one).get("text")) for one in loose.rows(value)]
    return loose.text("\n".join(one for one in parts if one))


def why(error: object) -> str | None:
    """An error's message; some are JSON inside JSON."""
    inside = loose.table(error)
    said = loose.text(error) or loose.text(inside.get("message"))
    hidden = loose.table((loose.record(said) or {}).get("error")) if said and said.startswith("{") else {}
    said = loose.text(hidden.get("message")) or said
    info = inside.get("codex_error_info", inside.get("codexErrorInfo"))
    kind = loose.text(info, 60) or next(iter(loose.table(info)), None)
    return f"{kind}: {said}" if kind and said and kind != "other" else said or (str(kind) if kind else None)


_EVENTS: dict[str, Callable[[_Payload, str, bytes], list[Item]]] = {
    "task_started": _began, "turn_started": _began,
    "task_complete": _complete, "turn_complete": _complete,
    "turn_aborted": _aborted, "error": _error, "stream_error": _retry, "token_count": _tokens,
    "user_message": _prompted, "agent_message": _said, "item_completed": _completed_item,
    "exec_approval_request": _asks, "apply_patch_approval_request": _asks, "request_user_input": _asks,
    "request_permissions": _asks, "elicitation_request": _asks,
    "exec_command_begin": _begins, "patch_apply_begin": _begins, "mcp_tool_call_begin": _begins,
    "exec_command_end": _ends, "patch_apply_end": _ends, "mcp_tool_call_end": _ends,
    "shutdown_complete": lambda payload, at, line: [Happened("ended", _ident("ended", line), at)],
}  # fmt: skip


# -- what is sent to the model and comes back: tool calls -------------------------------------------------------------


def _response(payload: _Payload, at: str, line: bytes) -> list[Item]:
    kind = payload.get("type")
    call = loose.text(payload.get("call_id"), 100) or loose.text(payload.get("id"), 100)
    if call is None:
        return []
    if kind in ("function_call", "custom_tool_call", "local_shell_call"):
        return [_called(payload, call, at)]
    if kind in ("function_call_output", "custom_tool_call_output"):
        return [_answered(payload, call, at)]
    return []


def _called(payload: _Payload, call: str, at: str) -> Item:
    name = loose.text(payload.get("name"), 100) or "local_shell"
    raw = loose.text(payload.get("arguments") or payload.get("input"), 1 << 20)
    arguments = loose.table(payload.get("action")) or (loose.record(raw) if raw and raw.startswith("{") else None)
    tool = named(name, arguments or {}, raw if arguments is None else None, call)
    if name == "request_user_input":
        return Happened("waits", f"{call}:waits", at, question(arguments or {}), tool)
    escalated = (arguments or {}).get("sandbox_permissions") == "require_escalated"
    escalated = escalated or (arguments or {}).get("with_escalated_permissions") is True
    may_i = loose.text((arguments or {}).get("justification")) or "more rights than its sandbox has"
    patch = raw if arguments is None else command(arguments.get("cmd", arguments.get("command")))
    return Happened("tool_started", f"{call}:started", at, may_i if escalated else None, tool, files=patched(patch))


def _answered(payload: _Payload, call: str, at: str) -> Happened:
    output = payload.get("output")
    inside = loose.table(output) or _wrapped(output)
    told = loose.text(inside.get("output")) or _content(inside.get("content")) or (None if inside else _content(output))
    code = loose.table(inside.get("metadata")).get("exit_code")
    if code is not None:
        return _finished(call, at, told, code == 0)
    return _finished(call, at, told or _content(output), _went_well(told or "", inside.get("success")))


def _wrapped(output: object) -> _Payload:
    """Output inside JSON, as versions of 2025 wrote it."""
    if not isinstance(output, str) or not output.startswith('{"output"'):
        return {}
    return loose.record(output) or {}


def _went_well(told: str, success: object) -> bool | None:
    if "aborted by user" in told[-200:]:
        return None
    code = _EXIT.search(told[:2000])
    return success is not False and (code is None or int(code[1]) == 0)


# -- rollouts of 2025 and before: bare items --------------------------------------------------------------------------


def _bare(whole: _Payload, kind: object, at: str, line: bytes) -> list[Item]:
    if kind is None and loose.text(whole.get("id")) and whole.get("record_type") is None:
        return [Context(id=loose.text(whole.get("id")), started_at=loose.moment(whole.get("timestamp")),
                        branch=loose.text(loose.table(whole.get("git")).get("branch"), 250))]  # fmt: skip
    if kind is None and "record_type" in whole:
        return []
    if kind == "message":
        return _bare_message(whole, at, line)
    if kind in ("function_call", "function_call_output", "local_shell_call", "reasoning"):
        return _response(whole, at, line)
    return [Strange(str(kind)[:40])]


def _bare_message(whole: _Payload, at: str, line: bytes) -> list[Item]:
    said = _content(whole.get("content"))
    if said is None:
        return []
    if whole.get("role") == "user":
        place = _CWD.search(said)
        if place:
            return [Context(cwd=place[1] or place[2])]
        return [] if said.startswith("<") else [Happened("prompt", _ident("prompt", line), at, said)]
    return [Happened("message", _ident("message", line), at, said)] if whole.get("role") == "assistant" else []
