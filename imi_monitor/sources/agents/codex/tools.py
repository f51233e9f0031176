"""What Codex calls its tools, and what people call them: `exec_command` is a shell, `apply_patch` an edit."""

from __future__ import annotations

import re
from typing import Any

from imi_monitor.model.agent import ToolCall
from imi_monitor.sources.agents import loose

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
        return ToolCall("Bash", loose.one_line(patch), call)
    if name == "apply_patch":
        return _edit(raw or loose.text(arguments.get("input"), 1 << 20) or "", call)
    if name == "request_user_input":
        return ToolCall("Question", loose.one_line(question(arguments)), call)
    return ToolCall(_NAMES.get(name, name), loose.one_line(raw or _told(arguments)), call)


def command(value: object) -> str | None:
    """A command as a person would type it, from a line or from words; the login shell around it is left out."""
    if isinstance(value, str):
        return value or None
    words = [word for word in loose.rows(value) if isinstance(word, str)]
    if len(words) >= 3 and _LOGIN_SHELL.search(words[0]) and words[1].startswith("-"):
        return words[2]
    return " ".join(words) or None


def question(arguments: dict[str, Any]) -> str | None:
    asked = [loose.text(loose.table(one).get("question")) for one in loose.rows(arguments.get("questions"))]
    return "; ".join(one for one in asked if one) or None


def answers(output: str | None) -> str | None:
    """What a person answered; as it was written where it is not what we know."""
    told = loose.table((loose.record(output) or {}).get("answers")) if output else {}
    words = [str(word) for one in told.values() for word in loose.rows(loose.table(one).get("answers"))]
    return loose.text("; ".join(words)) or output


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
    return ToolCall({"Add": "Write", "Delete": "Delete"}.get(kind, "Edit"), (loose.one_line(name) or "") + more, call)


def _told(arguments: dict[str, Any]) -> str | None:
    """What an unknown tool works on: the first text among its arguments."""
    return next((value for value in arguments.values() if isinstance(value, str) and value), None)
