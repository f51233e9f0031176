"""Big 3's records of its agents: `registry.json` names them, one operator log tells what became of a task. Pure.

`agents/<tool>/registry.json` is `{"agents": {NAME: {session_id, tool, type, created_at, working_dir, operator_files[]}}}`. An
operator log is Markdown: task and moment at its head, then the updates, each with a status; output of the agent comes last.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from imi_monitor.model import board, times

TOOLS = ("claude_code", "gemini", "agent_zero")
_FIELD = re.compile(r"^(?:- )?\*\*(?P<name>Task|Created|Status|Error|Timestamp):\*\*[ \t]*(?P<text>.*)$", re.MULTILINE)
_OUTPUT = "\n### Output"
_MOST_AGENTS = 500
_MOST_FILES = 200


@dataclass(frozen=True, slots=True)
class RegisteredAgent:
    """One agent of a registry. None: it does not say. `logs`: the names of its operator logs, in their order."""

    name: str
    session: str | None
    kind: str | None
    created_at: str | None
    folder: str | None
    logs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OperatorTask:
    """What an operator log tells; `status` is one of an item."""

    task: str | None
    status: str
    error: str | None
    created_at: str | None
    updated_at: str | None


def read_registry(text: str) -> list[RegisteredAgent]:
    """The agents of a registry; ValueError if it is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError("it is no JSON, or only a part of it") from error
    agents = found.get("agents") if isinstance(found, dict) else None
    if not isinstance(agents, dict):
        raise ValueError("it has no agents")
    named = [(name, one) for name, one in agents.items() if isinstance(one, dict) and is_plain(name)]
    return [_agent(name, one) for name, one in named[:_MOST_AGENTS]]


def is_plain(name: str) -> bool:
    """Whether a name can be that of a folder or file beside the registry."""
    return 0 < len(name) <= 200 and "/" not in name and not name.startswith(".") and name.isprintable()


def _agent(name: str, one: Mapping[str, object]) -> RegisteredAgent:
    files = one.get("operator_files")
    paths = [path for path in files if isinstance(path, str)] if isinstance(files, list) else []
    logs = [path.replace("\\", "/").rpartition("/")[2] for path in paths]  # only names: they lie beside the registry
    return RegisteredAgent(
        name,
        _text(one.get("session_id")) or _text(one.get("context_id")),
        _text(one.get("type")),
        _moment(_text(one.get("created_at"))),
        _text(one.get("working_dir")),
        tuple(log for log in logs if is_plain(log))[-_MOST_FILES:],
    )


def read_log(text: str) -> OperatorTask:
    """The task and its last status. What stands in the output of the agent does not count."""
    told, _, _ = text.partition(_OUTPUT)
    fields: dict[str, str] = {}
    for found in _FIELD.finditer(told):
        name = found["name"]
        if name not in ("Task", "Created") or name not in fields:  # the head names them once, a prompt may repeat them
            fields[name] = found["text"].strip()
    status = _status(fields.get("Status", ""))
    error = fields.get("Error") if status == board.FAILED else None
    created = _moment(fields.get("Created"))
    return OperatorTask(
        fields.get("Task") or None, status, error or None, created, _moment(fields.get("Timestamp")) or created
    )


def _status(sentence: str) -> str:
    words = sentence.lower()
    if "completed" in words:
        return board.COMPLETED
    if "failed" in words:
        return board.FAILED
    return board.IN_PROGRESS if "dispatched" in words else board.PENDING


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _moment(text: str | None) -> str | None:
    known = times.parse(text) if text else None
    return None if known is None else times.stamp(known)
