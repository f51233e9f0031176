"""What a line of a Codex rollout can say, whatever version wrote it, and the names of Codex's tools."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from typing import Any, Final

from imi_monitor.model.agent import AgentEvent, ToolCall
from imi_monitor.sources.agents import fields

PLAN: Final = "plan"


@dataclass(frozen=True, slots=True)
class TurnBegan:
    at: str
    mode: str | None = None  # `plan` or another
    window: int | None = None


@dataclass(frozen=True, slots=True)
class ThreadContext:
    """Where and how the thread works from now on; None: unchanged."""

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
class ThreadTokens:
    """Tokens of the whole thread so far."""

    fresh: int | None = None
    out: int | None = None
    cached: int | None = None
    context: int | None = None
    window: int | None = None


@dataclass(frozen=True, slots=True)
class ModelRetry:
    """The model could not be asked; Codex tries again."""

    at: str
    why: str


@dataclass(frozen=True, slots=True)
class UnknownRecord:
    what: str


RolloutItem = AgentEvent | TurnBegan | ThreadContext | ThreadTokens | ModelRetry | UnknownRecord
Payload = dict[str, Any]


def id_of_line(kind: str, line: bytes) -> str:
    """An id for a record without one: the same whenever the same line is read."""
    return f"{kind}:{zlib.crc32(line):08x}:{len(line)}"


def finished(call: str, at: str, output: str | None, ok: bool | None, files: tuple[str, ...] = ()) -> AgentEvent:
    """The end of a tool call; the record of its start has the tool's name."""
    return AgentEvent("tool_finished", f"{call}:finished", at, output, ToolCall("", None, call), ok, files)


def content(value: object) -> str | None:
    """The text of a message, given as one string or as blocks."""
    if isinstance(value, str):
        return fields.text(value)
    parts = [fields.text(fields.table(one).get("text")) for one in fields.rows(value)]
    return fields.text("\n".join(one for one in parts if one))


def token_items(total: Payload, last: Payload, window: object) -> list[RolloutItem]:
    """Tokens, from either of the two records that contain them."""
    whole, cached = fields.number(total.get("input_tokens")), fields.number(total.get("cached_input_tokens"))
    if whole is None:
        return []
    return [
        ThreadTokens(
            fresh=max(0, whole - (cached or 0)),
            out=fields.number(total.get("output_tokens")),
            cached=cached,
            context=fields.number(last.get("total_tokens")),
            window=fields.number(window),
        )
    ]


def error_text(error: object) -> str | None:
    """The message of an error; some are JSON inside JSON."""
    table = fields.table(error)
    text = fields.text(error) or fields.text(table.get("message"))
    hidden = fields.table((fields.record(text) or {}).get("error")) if text and text.startswith("{") else {}
    text = fields.text(hidden.get("message")) or text
    info = table.get("codex_error_info", table.get("codexErrorInfo"))
    kind = fields.text(info, 60) or next(iter(fields.table(info)), None)
    return f"{kind}: {text}" if kind and text and kind != "other" else text or (str(kind) if kind else None)


# -- tools ------------------------------------------------------------------------------------------------------------

_SHELLS = frozenset({"exec_command", "shell", "shell_command", "local_shell", "container.exec", "unified_exec"})
_NAMES = {
    "apply_patch": "Edit",
    "update_plan": "Plan",
    "request_user_input": "Question",
    "view_image": "View",
    "web_search": "WebSearch",
    "write_stdin": "Input",  # of a command that runs already
    "spawn_agent": "Agent",
}
_PATCHED = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+)$|^\*\*\* (Move) to: (.+)$", re.MULTILINE)
_LOGIN_SHELL = re.compile(r"(^|/)(ba|z|da|fi)?sh$")


def tool_of(name: str, arguments: dict[str, Any], raw: str | None, call: str | None) -> ToolCall:
    """The tool as it is shown. `raw` is the input of a tool that takes no JSON, such as a patch."""
    if name in _SHELLS:
        line = command(arguments.get("cmd", arguments.get("command")))
        patch = raw if line is None else line
        if patch and "*** Begin Patch" in patch:
            return _edit(patch, call)
        return ToolCall("Bash", fields.one_line(patch), call)
    if name == "apply_patch":
        return _edit(raw or fields.text(arguments.get("input"), 1 << 20) or "", call)
    if name == "request_user_input":
        return ToolCall("Question", fields.one_line(question(arguments)), call)
    return ToolCall(_NAMES.get(name, name), fields.one_line(raw or _first_text(arguments)), call)


def command(value: object) -> str | None:
    """A command as a person would type it, from a string or a list of words, without the login shell around it."""
    if isinstance(value, str):
        return value or None
    words = [word for word in fields.rows(value) if isinstance(word, str)]
    if len(words) >= 3 and _LOGIN_SHELL.search(words[0]) and words[1].startswith("-"):
        return words[2]
    return " ".join(words) or None


def question(arguments: dict[str, Any]) -> str | None:
    texts = [fields.text(fields.table(one).get("question")) for one in fields.rows(arguments.get("questions"))]
    return "; ".join(one for one in texts if one) or None


def answers(output: str | None) -> str | None:
    """The answers of a person; the output as it is where it has an unknown form."""
    given = fields.table((fields.record(output) or {}).get("answers")) if output else {}
    words = [str(word) for one in given.values() for word in fields.rows(fields.table(one).get("answers"))]
    return fields.text("; ".join(words)) or output


def patched_files(patch: str | None) -> tuple[str, ...]:
    """The files that a patch writes, by the names in it."""
    if not patch or "*** Begin Patch" not in patch:
        return ()
    return tuple((match[1] or match[3]).strip() for match in _PATCHED.findall(patch))


def _edit(patch: str, call: str | None) -> ToolCall:
    found = _PATCHED.findall(patch)
    if not found:
        return ToolCall("Edit", None, call)
    kind, name = found[0][0], found[0][1].strip()
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return ToolCall({"Add": "Write", "Delete": "Delete"}.get(kind, "Edit"), (fields.one_line(name) or "") + more, call)


def _first_text(arguments: dict[str, Any]) -> str | None:
    """The first string argument of an unknown tool."""
    return next((value for value in arguments.values() if isinstance(value, str) and value), None)
