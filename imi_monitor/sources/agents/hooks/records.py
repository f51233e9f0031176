"""What a hook of any agent told, in one form, and how to read the fields of what they send.

Payloads are foreign: a wrong type is an unknown value, never an exception.

The events of each agent's hooks in our own words: an event file of the spool becomes a `Record`, whoever wrote it.

An unknown event is a sign of life and no more.
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

_AIMS: Final = (
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
_PATHS: Final = frozenset(_AIMS[:5])
_WRITES: Final = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit", "write_file", "replace", "write", "edit"})

# What a record does to the reducer of its session.
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
    """One event. `ns` is when its file was finished; with `name` it orders them."""

    name: str
    ns: int
    cli: str
    event: str
    session: str
    kind: str = OTHER
    cwd: str | None = None
    pid: int | None = None
    host: str = ""
    helper: str | None = None  # the subagent that it is about
    tool: ToolCall | None = None
    inputs: str = ""  # the tool's input, to find the call that a permission is for
    text: str | None = None  # prompt, message, reason, question
    ask: str | None = None  # the agent's name of what it asks
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


def with_tool(raw: HookRecord, payload: Mapping[str, Any]) -> HookRecord:
    name = fields.text(payload.get("tool_name"), 80)
    if name is None:
        return raw
    given = payload.get("tool_input")
    tool = ToolCall(name, _target(given, raw.cwd), fields.text(payload.get("tool_use_id"), 200))
    return replace(raw, tool=tool, inputs=_fingerprint(given))


def _target(given: object, cwd: str | None) -> str | None:
    for key in _AIMS if isinstance(given, dict) else ():
        found = fields.path(given.get(key)) if isinstance(given, dict) else None
        if found:
            short = _inside(found, cwd) if key in _PATHS else " ".join(found.split())
            return short[:160]
    return None


def _inside(path: str, cwd: str | None) -> str:
    root = (cwd or "").rstrip("/") + "/"
    return path.removeprefix(root) if root != "/" else path


def _fingerprint(given: object) -> str:
    """Equal for the same call; a permission's input may carry a description more than the call's."""
    if not isinstance(given, dict):
        return ""
    try:
        return json.dumps({key: value for key, value in given.items() if key != "description"}, sort_keys=True)[:4096]
    except RecursionError:
        return ""


def written(made: HookRecord, given: object) -> tuple[str, ...]:
    if made.tool is None or made.tool.name not in _WRITES or not isinstance(given, dict):
        return ()
    path = next((found for key in _AIMS[:5] if (found := fields.path(given.get(key)))), None)
    return () if path is None else (os.path.join(made.cwd or "/", path),)


def question(given: object) -> str | None:
    asked = given.get("questions") if isinstance(given, dict) else None
    said = (
        [fields.text(one.get("question"), 300) for one in asked if isinstance(one, dict)]
        if isinstance(asked, list)
        else []
    )
    return "; ".join(one for one in said if one)[:600] or None


def payload_of(body: bytes) -> dict[str, Any]:
    return fields.record(body) or {}


def number(value: object) -> int | None:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10 else None


END: Final = b"\nimi-end\n"
_MAGIC: Final = "imi-hook"
_FORMAT: Final = "1"


def parse(name: str, ns: int, data: bytes) -> HookRecord | None:
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
    session = fields.text(payload.get("session_id"), 200) or (
        env.get("GEMINI_SESSION_ID") if words[2] == "gemini" else None
    )
    if translate is None or not session:
        return None
    parent_pid = number(words[3]) if len(words) > 3 else None
    pane = env.get("ZELLIJ_PANE_ID")
    raw = HookRecord(
        name,
        ns,
        words[2],
        fields.text(payload.get("hook_event_name"), 80) or "?",
        session,
        cwd=fields.path(payload.get("cwd")),
        pid=(number(env.get("CLAUDE_PID")) if words[2] == "claude" else parent_pid),
        host=env.get("host", ""),
        helper=fields.text(payload.get("agent_id"), 200),
        model=fields.text(payload.get("model"), 100),
        planning=payload.get("permission_mode") == "plan",
        tmux=env.get("TMUX_PANE") or None,
        zellij=f"{env.get('ZELLIJ_SESSION_NAME', '')}:{pane}" if pane else None,
    )
    return translate(raw, payload)


# -- Claude, and Codex which speaks alike -----------------------------------------------------------------------------


def _claude(raw: HookRecord, payload: Mapping[str, Any]) -> HookRecord:
    told = _CLAUDE_EVENTS.get(raw.event)
    return told(raw, payload) if told else raw


def _session_start(raw: HookRecord, payload: Mapping[str, Any]) -> HookRecord:
    how = fields.text(payload.get("source"), 40)
    # after a compaction it goes on as before; Codex tells its start only when the first prompt is there
    kind = OTHER if how == "compact" or raw.cli == "codex" else STARTED
    return replace(raw, kind=kind, text=how, title=fields.text(payload.get("session_title"), 200))


def _prompt(raw: HookRecord, payload: Mapping[str, Any]) -> HookRecord:
    said = fields.text(payload.get("prompt"))
    source = payload.get("source")
    machine = bool(said and said.startswith("<task-notification>")) or (isinstance(source, str) and source == "system")
    return replace(raw, kind=PROMPT, text=said, machine=machine)


def _before(raw: HookRecord, payload: Mapping[str, Any]) -> HookRecord:
    made = with_tool(raw, payload)
    if raw.cli == "codex" and made.tool is not None and made.tool.name == "request_user_input":
        return replace(made, kind=ASKS, ask=made.tool.id, text=_asked(payload))
    return replace(made, kind=BEFORE)


def _after(raw: HookRecord, payload: Mapping[str, Any]) -> HookRecord:
    made = replace(with_tool(raw, payload), kind=AFTER, ok=not raw.event.endswith("Failure"))
    if payload.get("is_interrupt") is True and raw.helper is None:
        return replace(made, kind=CANCELLED, text="the tool was interrupted")
    return replace(made, files=written(made, payload.get("tool_input"))) if made.ok else made


def _asks(raw: HookRecord, payload: Mapping[str, Any]) -> HookRecord:
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


def _notification(raw: HookRecord, payload: Mapping[str, Any]) -> HookRecord:
    what = payload.get("notification_type")
    if what in ("permission_prompt", "worker_permission_prompt", "elicitation_dialog", "agent_needs_input"):
        return replace(raw, kind=ASKS, text=fields.text(payload.get("message"), 300) or "an answer", ask="notification")
    return replace(raw, kind=IDLE) if what == "idle_prompt" else raw


def _stop(raw: HookRecord, payload: Mapping[str, Any]) -> HookRecord:
    tasks = payload.get("background_tasks")
    running = [one for one in tasks if _still_runs(one)] if isinstance(tasks, list) else []
    return replace(raw, kind=OVER, text=fields.text(payload.get("last_assistant_message")), background=len(running))


def _still_runs(task: object) -> bool:
    return isinstance(task, dict) and task.get("status") in (None, "running", "pending")


def _stop_failure(raw: HookRecord, payload: Mapping[str, Any]) -> HookRecord:
    said = fields.text(payload.get("last_assistant_message"), 300)
    kind = fields.text(payload.get("error"), 100)
    return replace(raw, kind=FAILED, text=said or kind)


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
    made = with_tool(raw, payload)
    match raw.event:
        case "SessionStart":
            return replace(raw, kind=STARTED, text=fields.text(payload.get("source"), 40))
        case "BeforeAgent":
            return replace(raw, kind=PROMPT, text=fields.text(payload.get("prompt")))
        case "AfterAgent":  # also after a cancel and a failure
            said = fields.text(payload.get("prompt_response"))
            return replace(raw, kind=FAILED if said == _NO_ANSWER else OVER, text=said)
        case "BeforeTool":
            return replace(made, kind=BEFORE)
        case "AfterTool":
            return _gemini_after(made, payload)
        case "Notification" if payload.get("notification_type") == "ToolPermission":
            details = payload.get("details")
            said = fields.text(details.get("title"), 200) if isinstance(details, dict) else None
            return replace(raw, kind=ASKS, text=said or fields.text(payload.get("message"), 300) or "permission")
        case "SessionEnd":
            return replace(raw, kind=ENDED, text=fields.text(payload.get("reason"), 40))
    return raw


def _gemini_after(made: HookRecord, payload: Mapping[str, Any]) -> HookRecord:
    response = payload.get("tool_response")
    said = fields.text(response.get("llmContent"), 400) if isinstance(response, dict) else None
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


def _opencode(raw: HookRecord, payload: Mapping[str, Any]) -> HookRecord:
    made = replace(
        with_tool(raw, payload),
        kind=_OPENCODE_KINDS.get(raw.event, OTHER),
        ask=fields.text(payload.get("ask"), 200),
        text=fields.text(payload.get("text")),
        title=fields.text(payload.get("title"), 200),
        parent=fields.text(payload.get("parent"), 200),
    )
    if made.kind == FAILED and payload.get("error") == "MessageAbortedError":
        return replace(made, kind=CANCELLED, text="stopped by a person")
    if made.kind == AFTER:
        return replace(made, ok=True, files=written(made, payload.get("tool_input")))
    if made.kind == ASKS:
        return replace(made, text=f"permission for {made.tool or made.text or '?'}")
    return made


_CLIS: Final[Mapping[str, Callable[[HookRecord, Mapping[str, Any]], HookRecord]]] = {
    "claude": _claude,
    "codex": _claude,
    "gemini": _gemini,
    "opencode": _opencode,
}
