"""The few things that a line of a Codex rollout can say, whatever version wrote it.

What Codex calls its tools, and what people call them: `exec_command` is a shell, `apply_patch` an edit.
"""

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
    """A turn began."""

    at: str
    mode: str | None = None  # `plan` or another
    window: int | None = None


@dataclass(frozen=True, slots=True)
class ThreadContext:
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
class ThreadTokens:
    """Tokens of the whole thread so far."""

    fresh: int | None = None
    out: int | None = None
    cached: int | None = None
    context: int | None = None
    window: int | None = None


@dataclass(frozen=True, slots=True)
class ModelRetry:
    """The model could not be asked; it tries again."""

    at: str
    why: str


@dataclass(frozen=True, slots=True)
class UnknownRecord:
    """A record which we do not know, or cannot read."""

    what: str


Item = AgentEvent | TurnBegan | ThreadContext | ThreadTokens | ModelRetry | UnknownRecord
Payload = dict[str, Any]


def unnamed(kind: str, line: bytes) -> str:
    """A name for what has none: the same whenever the same line is read."""
    return f"{kind}:{zlib.crc32(line):08x}:{len(line)}"


def finished(call: str, at: str, told: str | None, ok: bool | None, files: tuple[str, ...] = ()) -> AgentEvent:
    """A tool's end; who saw it begin knows its name."""
    return AgentEvent("tool_finished", f"{call}:finished", at, told, ToolCall("", None, call), ok, files)


def content(value: object) -> str | None:
    """The texts of a message, however each block spells its kind."""
    if isinstance(value, str):
        return fields.text(value)
    parts = [fields.text(fields.table(one).get("text")) for one in fields.rows(value)]
    return fields.text("\n".join(one for one in parts if one))


def usage(total: Payload, last: Payload, window: object) -> list[Item]:
    """Tokens as both of the records with them spell it."""
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


def why(error: object) -> str | None:
    """An error's message; some are JSON inside JSON."""
    inside = fields.table(error)
    said = fields.text(error) or fields.text(inside.get("message"))
    hidden = fields.table((fields.record(said) or {}).get("error")) if said and said.startswith("{") else {}
    said = fields.text(hidden.get("message")) or said
    info = inside.get("codex_error_info", inside.get("codexErrorInfo"))
    kind = fields.text(info, 60) or next(iter(fields.table(info)), None)
    return f"{kind}: {said}" if kind and said and kind != "other" else said or (str(kind) if kind else None)


_SHELLS = frozenset({"exec_command", "shell", "shell_command", "local_shell", "container.exec", "unified_exec"})
_NAMES = {
    "apply_patch": "Edit",
    "update_plan": "Plan",
    "request_user_input": "Question",
    "view_image": "View",
    "web_search": "WebSearch",
    "write_stdin": "Bash",
    "spawn_agent": "Agent",
}
_PATCHED = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+)$|^\*\*\* (Move) to: (.+)$", re.MULTILINE)
_LOGIN_SHELL = re.compile(r"(^|/)(ba|z|da|fi)?sh$")


def named(name: str, arguments: dict[str, Any], raw: str | None, call: str | None) -> ToolCall:
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
    return ToolCall(_NAMES.get(name, name), fields.one_line(raw or _told(arguments)), call)


def command(value: object) -> str | None:
    """A command as a person would type it, from a line or from words; the login shell around it is left out."""
    if isinstance(value, str):
        return value or None
    words = [word for word in fields.rows(value) if isinstance(word, str)]
    if len(words) >= 3 and _LOGIN_SHELL.search(words[0]) and words[1].startswith("-"):
        return words[2]
    return " ".join(words) or None


def question(arguments: dict[str, Any]) -> str | None:
    asked = [fields.text(fields.table(one).get("question")) for one in fields.rows(arguments.get("questions"))]
    return "; ".join(one for one in asked if one) or None


def answers(output: str | None) -> str | None:
    """What a person answered; as it was written where it is not what we know."""
    told = fields.table((fields.record(output) or {}).get("answers")) if output else {}
    words = [str(word) for one in told.values() for word in fields.rows(fields.table(one).get("answers"))]
    return fields.text("; ".join(words)) or output


def patched(patch: str | None) -> tuple[str, ...]:
    """The files that a patch writes, as it names them."""
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


def _told(arguments: dict[str, Any]) -> str | None:
    """What an unknown tool works on: the first text among its arguments."""
    return next((value for value in arguments.values() if isinstance(value, str) and value), None)
