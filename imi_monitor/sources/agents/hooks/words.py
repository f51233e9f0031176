"""The events of each agent's hooks in our own words: an event file of the spool becomes a `Record`, whoever wrote it.

An unknown event is a sign of life and no more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from imi_monitor.sources.agents import loose
from imi_monitor.sources.agents.hooks.records import (
    AFTER,
    ANSWERED,
    ASKS,
    BEFORE,
    BUSY,
    CANCELLED,
    COMPACTED,
    COMPACTS,
    ENDED,
    FAILED,
    HELPER_OVER,
    HELPER_STARTED,
    IDLE,
    OTHER,
    OVER,
    PROMPT,
    STARTED,
    Record,
    number,
    payload_of,
    question,
    with_tool,
    written,
)

END: Final = b"\nimi-end\n"
_MAGIC: Final = "imi-hook"
_FORMAT: Final = "1"


def parse(name: str, ns: int, data: bytes) -> Record | None:
    """None: it is not whole, or not ours to understand."""
    if not data.endswith(END):
        return None
    head, found, body = data[: -len(END)].partition(b"\n\n")
    lines = head.decode("utf-8", "replace").split("\n")
    words = lines[0].split(" ")
    if not found or len(words) < 3 or words[:2] != [_MAGIC, _FORMAT]:
        return None
    payload = payload_of(body)
    env = dict(line.partition("=")[::2] for line in lines[1:])
    translate = _CLIS.get(words[2])
    session = loose.text(payload.get("session_id"), 200) or (
        env.get("GEMINI_SESSION_ID") if words[2] == "gemini" else None
    )
    if translate is None or not session:
        return None
    parent_pid = number(words[3]) if len(words) > 3 else None
    pane = env.get("ZELLIJ_PANE_ID")
    raw = Record(
        name,
        ns,
        words[2],
        loose.text(payload.get("hook_event_name"), 80) or "?",
        session,
        cwd=loose.path(payload.get("cwd")),
        pid=(number(env.get("CLAUDE_PID")) if words[2] == "claude" else parent_pid),
        host=env.get("host", ""),
        helper=loose.text(payload.get("agent_id"), 200),
        model=loose.text(payload.get("model"), 100),
        planning=payload.get("permission_mode") == "plan",
        tmux=env.get("TMUX_PANE") or None,
        zellij=f"{env.get('ZELLIJ_SESSION_NAME', '')}:{pane}" if pane else None,
    )
    return translate(raw, payload)


# -- Claude, and Codex which speaks alike -----------------------------------------------------------------------------


def _claude(raw: Record, payload: Mapping[str, Any]) -> Record:
    told = _CLAUDE_EVENTS.get(raw.event)
    return told(raw, payload) if told else raw


def _session_start(raw: Record, payload: Mapping[str, Any]) -> Record:
    how = loose.text(payload.get("source"), 40)
    # after a compaction it goes on as before; Codex tells its start only when the first prompt is there
    kind = OTHER if how == "compact" or raw.cli == "codex" else STARTED
    return replace(raw, kind=kind, text=how, title=loose.text(payload.get("session_title"), 200))


def _prompt(raw: Record, payload: Mapping[str, Any]) -> Record:
    said = loose.text(payload.get("prompt"))
    source = payload.get("source")
    machine = bool(said and said.startswith("<task-notification>")) or (isinstance(source, str) and source == "system")
    return replace(raw, kind=PROMPT, text=said, machine=machine)


def _before(raw: Record, payload: Mapping[str, Any]) -> Record:
    made = with_tool(raw, payload)
    if raw.cli == "codex" and made.tool is not None and made.tool.name == "request_user_input":
        return replace(made, kind=ASKS, ask=made.tool.id, text=_asked(payload))
    return replace(made, kind=BEFORE)


def _after(raw: Record, payload: Mapping[str, Any]) -> Record:
    made = replace(with_tool(raw, payload), kind=AFTER, ok=not raw.event.endswith("Failure"))
    if payload.get("is_interrupt") is True and raw.helper is None:
        return replace(made, kind=CANCELLED, text="the tool was interrupted")
    return replace(made, files=written(made, payload.get("tool_input"))) if made.ok else made


def _asks(raw: Record, payload: Mapping[str, Any]) -> Record:
    made = with_tool(raw, payload)
    name = made.tool.name if made.tool else "?"
    if name == "AskUserQuestion":
        said = _asked(payload)
    elif name == "ExitPlanMode":
        said = "plan"
    else:
        said = f"permission for {made.tool}"
    return replace(made, kind=ASKS, text=said)


def _asked(payload: Mapping[str, Any]) -> str:
    return f"question: {question(payload.get('tool_input')) or '?'}"


def _notification(raw: Record, payload: Mapping[str, Any]) -> Record:
    what = payload.get("notification_type")
    if what in ("permission_prompt", "worker_permission_prompt", "elicitation_dialog", "agent_needs_input"):
        return replace(raw, kind=ASKS, text=loose.text(payload.get("message"), 300) or "an answer", ask="notification")
    return replace(raw, kind=IDLE) if what == "idle_prompt" else raw


def _stop(raw: Record, payload: Mapping[str, Any]) -> Record:
    tasks = payload.get("background_tasks")
    running = [one for one in tasks if _still_runs(one)] if isinstance(tasks, list) else []
    return replace(raw, kind=OVER, text=loose.text(payload.get("last_assistant_message")), background=len(running))


def _still_runs(task: object) -> bool:
    return isinstance(task, dict) and task.get("status") in (None, "running", "pending")


def _stop_failure(raw: Record, payload: Mapping[str, Any]) -> Record:
    said = loose.text(payload.get("last_assistant_message"), 300)
    kind = loose.text(payload.get("error"), 100)
    return replace(raw, kind=FAILED, text=said or kind)


def _of_kind(kind: str, about: str = "") -> Callable[[Record, Mapping[str, Any]], Record]:
    return lambda raw, payload: replace(raw, kind=kind, text=loose.text(payload.get(about), 300))


_CLAUDE_EVENTS: Final[Mapping[str, Callable[[Record, Mapping[str, Any]], Record]]] = {
    "SessionStart": _session_start,
    "UserPromptSubmit": _prompt,
    "PreToolUse": _before,
    "PermissionRequest": _asks,
    "PostToolUse": _after,
    "PostToolUseFailure": _after,
    "Notification": _notification,
    "Stop": _stop,
    "StopFailure": _stop_failure,
    "SubagentStart": _of_kind(HELPER_STARTED),
    "SubagentStop": _of_kind(HELPER_OVER),
    "PreCompact": _of_kind(COMPACTS, "trigger"),
    "PostCompact": _of_kind(COMPACTED, "trigger"),
    "SessionEnd": _of_kind(ENDED, "reason"),
}


# -- Gemini -----------------------------------------------------------------------------------------------------------


_NO_ANSWER: Final = "[no response text]"
_CANCELLED_TOOL: Final = re.compile(r"(?i)\bcancelled by (the )?user\b|\[operation cancelled\]")


def _gemini(raw: Record, payload: Mapping[str, Any]) -> Record:
    made = with_tool(raw, payload)
    match raw.event:
        case "SessionStart":
            return replace(raw, kind=STARTED, text=loose.text(payload.get("source"), 40))
        case "BeforeAgent":
            return replace(raw, kind=PROMPT, text=loose.text(payload.get("prompt")))
        case "AfterAgent":  # also after a cancel and a failure
            said = loose.text(payload.get("prompt_response"))
            return replace(raw, kind=FAILED if said == _NO_ANSWER else OVER, text=said)
        case "BeforeTool":
            return replace(made, kind=BEFORE)
        case "AfterTool":
            return _gemini_after(made, payload)
        case "Notification" if payload.get("notification_type") == "ToolPermission":
            details = payload.get("details")
            said = loose.text(details.get("title"), 200) if isinstance(details, dict) else None
            return replace(raw, kind=ASKS, text=said or loose.text(payload.get("message"), 300) or "permission")
        case "SessionEnd":
            return replace(raw, kind=ENDED, text=loose.text(payload.get("reason"), 40))
    return raw


def _gemini_after(made: Record, payload: Mapping[str, Any]) -> Record:
    response = payload.get("tool_response")
    said = loose.text(response.get("llmContent"), 400) if isinstance(response, dict) else None
    if said and _CANCELLED_TOOL.search(said):  # a cancelled tool ends the turn, and nothing else tells so
        return replace(made, kind=CANCELLED, text="the tool was cancelled", ok=None)
    failed = isinstance(response, dict) and bool(response.get("error"))
    done = replace(made, kind=AFTER, ok=not failed)
    return done if failed else replace(done, files=written(done, payload.get("tool_input")))


# -- opencode, by our own plugin --------------------------------------------------------------------------------------

_OPENCODE_KINDS: Final = {
    "session.created": STARTED,
    "busy": BUSY,
    "retry": BUSY,
    "idle": OVER,
    "session.error": FAILED,
    "session.deleted": ENDED,
    "permission.asked": ASKS,
    "permission.replied": ANSWERED,
    "tool.before": BEFORE,
    "tool.after": AFTER,
}


def _opencode(raw: Record, payload: Mapping[str, Any]) -> Record:
    made = replace(
        with_tool(raw, payload),
        kind=_OPENCODE_KINDS.get(raw.event, OTHER),
        ask=loose.text(payload.get("ask"), 200),
        text=loose.text(payload.get("text")),
        title=loose.text(payload.get("title"), 200),
        parent=loose.text(payload.get("parent"), 200),
    )
    if made.kind == FAILED and payload.get("error") == "MessageAbortedError":
        return replace(made, kind=CANCELLED, text="stopped by a person")
    if made.kind == AFTER:
        return replace(made, ok=True, files=written(made, payload.get("tool_input")))
    if made.kind == ASKS:
        return replace(made, text=f"permission for {made.tool or made.text or '?'}")
    return made


_CLIS: Final[Mapping[str, Callable[[Record, Mapping[str, Any]], Record]]] = {
    "claude": _claude,
    "codex": _claude,
    "gemini": _gemini,
    "opencode": _opencode,
}
