"""Events of a Codex rollout: turns, prompts, messages, what tools did, questions, errors."""

from __future__ import annotations

from collections.abc import Callable

from imi_monitor.model.agent import AgentEvent, ToolCall
from imi_monitor.sources.agents import loose
from imi_monitor.sources.agents.codex.items import Began, Item, Payload, Retry, content, finished, unnamed, usage, why
from imi_monitor.sources.agents.codex.tools import command, question


def event(payload: Payload, at: str, line: bytes) -> list[Item]:
    kind = payload.get("type")
    reader = _EVENTS.get(kind) if isinstance(kind, str) else None
    return reader(payload, at, line) if reader else []


def _began(payload: Payload, at: str, line: bytes) -> list[Item]:
    mode = loose.text(payload.get("collaboration_mode_kind"), 40)
    return [Began(at, mode, loose.number(payload.get("model_context_window")))]


def _complete(payload: Payload, at: str, line: bytes) -> list[Item]:
    turn = loose.text(payload.get("turn_id"), 100) or unnamed("", line)
    if payload.get("error"):
        return [AgentEvent("failed", f"{turn}:failed", at, why(payload["error"]))]
    return [AgentEvent("completed", f"{turn}:completed", at, loose.text(payload.get("last_agent_message")))]


def _aborted(payload: Payload, at: str, line: bytes) -> list[Item]:
    turn = loose.text(payload.get("turn_id"), 100) or unnamed("", line)
    return [AgentEvent("cancelled", f"{turn}:cancelled", at, loose.text(payload.get("reason"), 100))]


def _error(payload: Payload, at: str, line: bytes) -> list[Item]:
    return [AgentEvent("failed", unnamed("failed", line), at, why(payload))]


def _retry(payload: Payload, at: str, line: bytes) -> list[Item]:
    return [Retry(at, why(payload) or "it tries again")]


def _tokens(payload: Payload, at: str, line: bytes) -> list[Item]:
    info = loose.table(payload.get("info"))
    total, last = loose.table(info.get("total_token_usage")), loose.table(info.get("last_token_usage"))
    return usage(total, last, info.get("model_context_window"))


def _prompted(payload: Payload, at: str, line: bytes) -> list[Item]:
    said = loose.text(payload.get("message"))
    return [AgentEvent("prompt", unnamed("prompt", line), at, said)] if said else []


def _said(payload: Payload, at: str, line: bytes) -> list[Item]:
    said = loose.text(payload.get("message"))
    return [AgentEvent("message", unnamed("message", line), at, said)] if said else []


def _asks(payload: Payload, at: str, line: bytes) -> list[Item]:
    """An approval or a question that was written down: some versions do, most do not."""
    call = loose.text(payload.get("call_id") or payload.get("id"), 100) or unnamed("", line)
    if "questions" in payload:
        tool = ToolCall("Question", loose.one_line(question(payload)), call)
        return [AgentEvent("waits", f"{call}:waits", at, question(payload), tool)]
    asked = command(payload.get("command")) or ", ".join(map(str, loose.table(payload.get("changes"))))
    tool = ToolCall("Edit" if "changes" in payload else "Bash", loose.one_line(asked), call)
    reason = loose.text(payload.get("reason")) or loose.text(payload.get("message"))
    return [
        AgentEvent("waits", f"{call}:waits", at, f"permission for {tool}" + (f": {reason}" if reason else ""), tool)
    ]


def _begins(payload: Payload, at: str, line: bytes) -> list[Item]:
    call = loose.text(payload.get("call_id"), 100)
    if call is None:
        return []
    tool = ToolCall("Bash", loose.one_line(command(payload.get("command"))), call)
    if "changes" in payload:
        tool = ToolCall("Edit", loose.one_line(next(iter(loose.table(payload["changes"])), None)), call)
    elif "invocation" in payload:
        tool = ToolCall(_invoked(payload), None, call)
    return [AgentEvent("tool_started", f"{call}:started", at, tool=tool)]


def _invoked(payload: Payload) -> str:
    call = loose.table(payload.get("invocation"))
    return ".".join(filter(None, (loose.text(call.get("server"), 60), loose.text(call.get("tool"), 60)))) or "tool"


def _ends(payload: Payload, at: str, line: bytes) -> list[Item]:
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
    return [finished(call, at, told, ok, tuple(map(str, loose.table(payload.get("changes")))))]


def _completed_item(payload: Payload, at: str, line: bytes) -> list[Item]:
    item = loose.table(payload.get("item"))
    kind, ident = item.get("type"), loose.text(item.get("id"), 100) or unnamed("", line)
    if kind in ("UserMessage", "AgentMessage", "Plan"):
        name = {"UserMessage": "prompt", "AgentMessage": "message"}.get(kind, "plan")
        said = content(item.get("content")) or loose.text(item.get("text"))
        return [AgentEvent(name, f"{ident}:{name}", at, said)] if said else []
    if kind in ("CommandExecution", "FileChange", "McpToolCall"):
        return [_ended_item(item, ident, at)]
    if kind == "ContextCompaction":
        return [AgentEvent("compacted", f"{ident}:compacted", at)]
    return []


def _ended_item(item: Payload, ident: str, at: str) -> AgentEvent:
    status, code = item.get("status"), item.get("exit_code")
    ok = status in ("completed", None) and code in (0, None)
    told = loose.text(item.get("aggregated_output")) or loose.text(item.get("stdout")) or loose.text(item.get("stderr"))
    return finished(ident, at, told, ok, tuple(map(str, loose.table(item.get("changes")))) if ok else ())


_EVENTS: dict[str, Callable[[Payload, str, bytes], list[Item]]] = {
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
    "shutdown_complete": lambda payload, at, line: [AgentEvent("ended", unnamed("ended", line), at)],
}
