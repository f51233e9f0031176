"""What a Codex rollout has of the talk with the model: tools it calls, and what they gave back."""

from __future__ import annotations

import re

from imi_monitor.model.agent import AgentEvent
from imi_monitor.sources.agents import loose
from imi_monitor.sources.agents.codex.items import Item, Payload, content, finished
from imi_monitor.sources.agents.codex.tools import command, named, patched, question

_EXIT = re.compile(r"(?:exited with code|[Ee]xit code:?)\s*(-?\d+)")


def response(payload: Payload, at: str, line: bytes) -> list[Item]:
    kind = payload.get("type")
    call = loose.text(payload.get("call_id"), 100) or loose.text(payload.get("id"), 100)
    if call is None:
        return []
    if kind in ("function_call", "custom_tool_call", "local_shell_call"):
        return [_called(payload, call, at)]
    if kind in ("function_call_output", "custom_tool_call_output"):
        return [_answered(payload, call, at)]
    return []


def _called(payload: Payload, call: str, at: str) -> Item:
    name = loose.text(payload.get("name"), 100) or "local_shell"
    raw = loose.text(payload.get("arguments") or payload.get("input"), 1 << 20)
    arguments = loose.table(payload.get("action")) or (loose.record(raw) if raw and raw.startswith("{") else None)
    tool = named(name, arguments or {}, raw if arguments is None else None, call)
    if name == "request_user_input":
        return AgentEvent("waits", f"{call}:waits", at, question(arguments or {}), tool)
    escalated = (arguments or {}).get("sandbox_permissions") == "require_escalated"
    escalated = escalated or (arguments or {}).get("with_escalated_permissions") is True
    may_i = loose.text((arguments or {}).get("justification")) or "more rights than its sandbox has"
    patch = raw if arguments is None else command(arguments.get("cmd", arguments.get("command")))
    return AgentEvent("tool_started", f"{call}:started", at, may_i if escalated else None, tool, files=patched(patch))


def _answered(payload: Payload, call: str, at: str) -> AgentEvent:
    output = payload.get("output")
    inside = loose.table(output) or _wrapped(output)
    told = loose.text(inside.get("output")) or content(inside.get("content")) or (None if inside else content(output))
    code = loose.table(inside.get("metadata")).get("exit_code")
    if code is not None:
        return finished(call, at, told, code == 0)
    return finished(call, at, told or content(output), _went_well(told or "", inside.get("success")))


def _wrapped(output: object) -> Payload:
    """Output inside JSON, as versions of 2025 wrote it."""
    if not isinstance(output, str) or not output.startswith('{"output"'):
        return {}
    return loose.record(output) or {}


def _went_well(told: str, success: object) -> bool | None:
    if "aborted by user" in told[-200:]:
        return None
    code = _EXIT.search(told[:2000])
    return success is not False and (code is None or int(code[1]) == 0)
