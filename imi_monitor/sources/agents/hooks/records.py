"""Parses the event files of the spool: one event of a hook of Claude, Codex, Gemini or opencode as one `HookRecord`.

Payloads are foreign: a value of an unexpected type is unknown, never an exception. An unknown kind of event only shows
that the session lives.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from imi_monitor.model import times
from imi_monitor.model.agent import ToolCall
from imi_monitor.sources.agents import fields

_TARGETS: Final = (
    "file_path",
    "notebook_path",
    "filePath",
    "absolute_path",
    "path",
    "command",
    "pattern",
    "query",
    "url",
    "description",
    "prompt",
)
_PATHS: Final = frozenset(_TARGETS[:5])
_WRITES: Final = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit", "write_file", "replace", "write", "edit"})

NOTIFICATION: Final = "notification"  # the id of a question that only a notification shows
STOPPED: Final = "imi:stopped"  # the id of imi's own record that the user stopped the turn, for which no hook fires

# The kind of a record: what it changes in the state of its session.
STARTED, PROMPT, BUSY, BEFORE, AFTER, ASKS, ANSWERED, OVER, FAILED, CANCELLED, IDLE = (
    "started",
    "prompt",
    "busy",
    "before",
    "after",
    "asks",
    "answered",
    "over",
    "failed",
    "cancelled",
    "idle",
)
HELPER_STARTED, HELPER_OVER, COMPACTS, COMPACTED, ENDED, OTHER = (
    "helper started",
    "helper over",
    "compacts",
    "compacted",
    "ended",
    "other",
)


@dataclass(frozen=True, slots=True)
class HookRecord:
    """One event. `ns`: when its file was completed; with `name`, the order of events."""

    name: str
    ns: int
    cli: str
    event: str
    session: str
    kind: str = OTHER
    cwd: str | None = None
    pid: int | None = None
    host: str = ""
    helper: str | None = None  # the subagent it is about
    tool: ToolCall | None = None
    inputs: str = ""  # the tool's input, to find the call of a permission
    text: str | None = None  # prompt, message, reason, question
    ask: str | None = None  # the agent's id of the question
    ok: bool | None = None
    planning: bool = False
    machine: bool = False  # a prompt that no person typed
    background: int = 0
    model: str | None = None
    title: str | None = None
    parent: str | None = None
    tmux: str | None = None
    zellij: str | None = None
    files: tuple[str, ...] = ()

    @property
    def at(self) -> str:
        seconds, rest = divmod(self.ns, 1_000_000_000)
        return times.stamp(datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000))

    @property
    def order(self) -> tuple[int, str]:
        return self.ns, self.name


def _with_tool(raw: HookRecord, payload: Mapping[str, Any]) -> HookRecord:
    name = fields.text(payload.get("tool_name"), 80)
    if name is None:
        return raw
    given = payload.get("tool_input")
    tool = ToolCall(name, _target(given, raw.cwd), fields.text(payload.get("tool_use_id"), 200))
    return replace(raw, tool=tool, inputs=_fingerprint(given))


def _target(given: object, cwd: str | None) -> str | None:
    for key in _TARGETS if isinstance(given, dict) else ():
        found = fields.path(given.get(key)) if isinstance(given, dict) else None
        if found:
            short = _inside(found, cwd) if key in _PATHS else " ".join(found.split())
            return short[:160]
    return None


def _inside(path: str, cwd: str | None) -> str:
    root = (cwd or "").rstrip("/") + "/"
    return path.removeprefix(root) if root != "/" else path


def _fingerprint(given: object) -> str:
    """Return a hash that is equal for a call and its permission; only the permission's input may have a description."""
    if not isinstance(given, dict):
        return ""
    try:
        return json.dumps({key: value for key, value in given.items() if key != "description"}, sort_keys=True)[:4096]
    except RecursionError:
        return ""


def _written_files(made: HookRecord, given: object) -> tuple[str, ...]:
    if made.tool is None or made.tool.name not in _WRITES or not isinstance(given, dict):
        return ()
    path = next((found for key in _TARGETS[:5] if (found := fields.path(given.get(key)))), None)
    return () if path is None else (os.path.join(made.cwd or "/", path),)


def _question(given: object) -> str | None:
    asked = given.get("questions") if isinstance(given, dict) else None
    text = (
        [fields.text(one.get("question"), 300) for one in asked if isinstance(one, dict)]
        if isinstance(asked, list)
        else []
    )
    return "; ".join(one for one in text if one)[:600] or None


def _count(value: object) -> int | None:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10 else None


END: Final = b"\nimi-end\n"
_MAGIC: Final = "imi-hook"
_FORMAT: Final = "1"


def parse(name: str, ns: int, data: bytes) -> HookRecord | None:
    """The event; None if the file is not complete or has an unknown format."""
    if not data.endswith(END):
        return None
    head, found, body = data[: -len(END)].partition(b"\n\n")
    lines = head.decode("utf-8", "replace").split("\n")
    words = lines[0].split(" ")
    if not found or len(words) < 3 or words[:2] != [_MAGIC, _FORMAT]:
        return None
    payload = fields.record(body) or {}
    env = dict(line.partition("=")[::2] for line in lines[1:])
    session = fields.text(payload.get("session_id"), 200) or (
        env.get("GEMINI_SESSION_ID") if words[2] == "gemini" else None
    )
    if words[2] not in _TRANSLATE or not session:
        return None
    parent_pid = _count(words[3]) if len(words) > 3 else None
    pane = env.get("ZELLIJ_PANE_ID")
    raw = HookRecord(
        name,
        ns,
        words[2],
        fields.text(payload.get("hook_event_name"), 80) or "?",
        session,
        pid=(_count(env.get("CLAUDE_PID")) if words[2] == "claude" else parent_pid),
        host=env.get("host", ""),
        tmux=env.get("TMUX_PANE") or None,
        zellij=f"{env.get('ZELLIJ_SESSION_NAME', '')}:{pane}" if pane else None,
    )
    return _of_payload(raw, payload)


def body_of(data: bytes) -> bytes:
    """Return what the agent gave the hook, in a complete file."""
    return data[: -len(END)].partition(b"\n\n")[2]


def of_claude(name: str, at: str, payload: Mapping[str, Any]) -> HookRecord | None:
    """The event that Claude gives a hook, received at this time; None if it names no session."""
    session, when = fields.text(payload.get("session_id"), 200), times.parse(at)
    if session is None or when is None:
        return None
    event = fields.text(payload.get("hook_event_name"), 80) or "?"
    return _of_payload(HookRecord(name, int(when.timestamp() * 1e9), "claude", event, session), payload)


def _of_payload(raw: HookRecord, payload: Mapping[str, Any]) -> HookRecord:
    known = replace(
        raw,
        cwd=fields.path(payload.get("cwd")),
        helper=fields.text(payload.get("agent_id"), 200),
        model=fields.text(payload.get("model"), 100),
        planning=payload.get("permission_mode") == "plan",
    )
    return _TRANSLATE[raw.cli](known, payload)


# -- Claude, and Codex with the same events ---------------------------------------------------------------------------


def _claude(raw: HookRecord, payload: Mapping[str, Any]) -> HookRecord:
    handler = _CLAUDE_EVENTS.get(raw.event)
    return handler(raw, payload) if handler else raw


def _session_start(raw: HookRecord, payload: Mapping[str, Any]) -> HookRecord:
    how = fields.text(payload.get("source"), 40)
    # after a compaction the session goes on; Codex reports its start only with the first prompt
    kind = OTHER if how == "compact" or raw.cli == "codex" else STARTED
    return replace(raw, kind=kind, text=how, title=fields.text(payload.get("session_title"), 200))


def _prompt(raw: HookRecord, payload: Mapping[str, Any]) -> HookRecord:
    text = fields.text(payload.get("prompt"))
    source = payload.get("source")
    machine = bool(text and text.startswith("<task-notification>")) or (isinstance(source, str) and source == "system")
    return replace(raw, kind=PROMPT, text=text, machine=machine)


def _before(raw: HookRecord, payload: Mapping[str, Any]) -> HookRecord:
    made = _with_tool(raw, payload)
    if raw.cli == "codex" and made.tool is not None and made.tool.name == "request_user_input":
        return replace(made, kind=ASKS, ask=made.tool.id, text=_question_text(payload))
    return replace(made, kind=BEFORE)


def _after(raw: HookRecord, payload: Mapping[str, Any]) -> HookRecord:
    made = replace(_with_tool(raw, payload), kind=AFTER, ok=not raw.event.endswith("Failure"))
    if payload.get("is_interrupt") is True and raw.helper is None:
        return replace(made, kind=CANCELLED, text="the tool was interrupted")
    return replace(made, files=_written_files(made, payload.get("tool_input"))) if made.ok else made


def _asks(raw: HookRecord, payload: Mapping[str, Any]) -> HookRecord:
    made = _with_tool(raw, payload)
    name = made.tool.name if made.tool else "?"
    if name == "AskUserQuestion":
        text = _question_text(payload)
    elif name == "ExitPlanMode":
        text = "plan"
    else:
        text = f"permission for {made.tool}"
    return replace(made, kind=ASKS, text=text)


def _question_text(payload: Mapping[str, Any]) -> str:
    return f"question: {_question(payload.get('tool_input')) or '?'}"


def _notification(raw: HookRecord, payload: Mapping[str, Any]) -> HookRecord:
    what = payload.get("notification_type")
    if what in ("permission_prompt", "worker_permission_prompt", "elicitation_dialog", "agent_needs_input"):
        return replace(raw, kind=ASKS, text=fields.text(payload.get("message"), 300) or "an answer", ask=NOTIFICATION)
    return replace(raw, kind=IDLE) if what == "idle_prompt" else raw


def _stop(raw: HookRecord, payload: Mapping[str, Any]) -> HookRecord:
    tasks = payload.get("background_tasks")
    running = [one for one in tasks if _still_runs(one)] if isinstance(tasks, list) else []
    return replace(raw, kind=OVER, text=fields.text(payload.get("last_assistant_message")), background=len(running))


def _still_runs(task: object) -> bool:
    return isinstance(task, dict) and task.get("status") in (None, "running", "pending")


def _stop_failure(raw: HookRecord, payload: Mapping[str, Any]) -> HookRecord:
    text = fields.text(payload.get("last_assistant_message"), 300)
    kind = fields.text(payload.get("error"), 100)
    return replace(raw, kind=FAILED, text=text or kind)


def _of_kind(kind: str, about: str = "") -> Callable[[HookRecord, Mapping[str, Any]], HookRecord]:
    return lambda raw, payload: replace(raw, kind=kind, text=fields.text(payload.get(about), 300))


_CLAUDE_EVENTS: Final[Mapping[str, Callable[[HookRecord, Mapping[str, Any]], HookRecord]]] = {
    "SessionStart": _session_start,
    "UserPromptSubmit": _prompt,
    "PreToolUse": _before,
    "PermissionRequest": _asks,
    "PostToolUse": _after,
    "PostToolUseFailure": _after,
    "Notification": _notification,
    "Stop": _stop,
    "StopFailure": _stop_failure,
    STOPPED: _of_kind(CANCELLED, "text"),
    "SubagentStart": _of_kind(HELPER_STARTED),
    "SubagentStop": _of_kind(HELPER_OVER),
    "PreCompact": _of_kind(COMPACTS, "trigger"),
    "PostCompact": _of_kind(COMPACTED, "trigger"),
    "SessionEnd": _of_kind(ENDED, "reason"),
}


# -- Gemini -----------------------------------------------------------------------------------------------------------


_NO_ANSWER: Final = "[no response text]"
_CANCELLED_TOOL: Final = re.compile(r"(?i)\bcancelled by (the )?user\b|\[operation cancelled\]")


def _gemini(raw: HookRecord, payload: Mapping[str, Any]) -> HookRecord:
    made = _with_tool(raw, payload)
    match raw.event:
        case "SessionStart":
            return replace(raw, kind=STARTED, text=fields.text(payload.get("source"), 40))
        case "BeforeAgent":
            return replace(raw, kind=PROMPT, text=fields.text(payload.get("prompt")))
        case "AfterAgent":  # comes after a cancel and a failure, too
            text = fields.text(payload.get("prompt_response"))
            return replace(raw, kind=FAILED if text == _NO_ANSWER else OVER, text=text)
        case "BeforeTool":
            return replace(made, kind=BEFORE)
        case "AfterTool":
            return _gemini_after(made, payload)
        case "Notification" if payload.get("notification_type") == "ToolPermission":
            details = payload.get("details")
            text = fields.text(details.get("title"), 200) if isinstance(details, dict) else None
            return replace(raw, kind=ASKS, text=text or fields.text(payload.get("message"), 300) or "permission")
        case "SessionEnd":
            return replace(raw, kind=ENDED, text=fields.text(payload.get("reason"), 40))
    return raw


def _gemini_after(made: HookRecord, payload: Mapping[str, Any]) -> HookRecord:
    response = payload.get("tool_response")
    text = fields.text(response.get("llmContent"), 400) if isinstance(response, dict) else None
    if text and _CANCELLED_TOOL.search(text):  # a cancelled tool ends the turn without another event
        return replace(made, kind=CANCELLED, text="the tool was cancelled", ok=None)
    failed = isinstance(response, dict) and bool(response.get("error"))
    done = replace(made, kind=AFTER, ok=not failed)
    return done if failed else replace(done, files=_written_files(done, payload.get("tool_input")))


# -- opencode, through imi's plugin -----------------------------------------------------------------------------------

_OPENCODE_KINDS: Final = {
    "session.created": STARTED,
    "busy": BUSY,
    "retry": BUSY,
    "idle": OVER,
    "session.error": FAILED,
    "session.deleted": ENDED,
    "permission.asked": ASKS,
    "permission.replied": ANSWERED,
    "question.asked": ASKS,
    "question.replied": ANSWERED,
    "question.rejected": ANSWERED,
    "tool.before": BEFORE,
    "tool.after": AFTER,
}


def _opencode(raw: HookRecord, payload: Mapping[str, Any]) -> HookRecord:
    made = replace(
        _with_tool(raw, payload),
        kind=_OPENCODE_KINDS.get(raw.event, OTHER),
        ask=fields.text(payload.get("ask"), 200),
        text=fields.text(payload.get("text")),
        title=fields.text(payload.get("title"), 200),
        parent=fields.text(payload.get("parent"), 200),
    )
    if made.kind == FAILED and payload.get("error") == "MessageAbortedError":
        return replace(made, kind=CANCELLED, text="stopped by a person")
    if made.kind == AFTER:
        return replace(made, ok=True, files=_written_files(made, payload.get("tool_input")))
    if made.event == "question.asked":
        return replace(made, text=f"question: {made.text or '?'}")
    if made.kind == ASKS:
        return replace(made, text=f"permission for {made.tool or made.text or '?'}")
    return made


_TRANSLATE: Final[Mapping[str, Callable[[HookRecord, Mapping[str, Any]], HookRecord]]] = {
    "claude": _claude,
    "codex": _claude,
    "gemini": _gemini,
    "opencode": _opencode,
}
