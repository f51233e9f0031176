"""What a hook of any agent told, in one form, and how to read the fields of what they send.

Payloads are foreign: a wrong type is an unknown value, never an exception.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from imi_monitor.model import times
from imi_monitor.model.agent import ToolCall
from imi_monitor.sources.agents import loose

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

# What a record does to the course of its session.
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
class Record:
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


def with_tool(raw: Record, payload: Mapping[str, Any]) -> Record:
    name = loose.text(payload.get("tool_name"), 80)
    if name is None:
        return raw
    given = payload.get("tool_input")
    tool = ToolCall(name, _target(given, raw.cwd), loose.text(payload.get("tool_use_id"), 200))
    return replace(raw, tool=tool, inputs=_fingerprint(given))


def _target(given: object, cwd: str | None) -> str | None:
    for key in _AIMS if isinstance(given, dict) else ():
        found = loose.path(given.get(key)) if isinstance(given, dict) else None
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


def written(made: Record, given: object) -> tuple[str, ...]:
    if made.tool is None or made.tool.name not in _WRITES or not isinstance(given, dict):
        return ()
    path = next((found for key in _AIMS[:5] if (found := loose.path(given.get(key)))), None)
    return () if path is None else (os.path.join(made.cwd or "/", path),)


def question(given: object) -> str | None:
    asked = given.get("questions") if isinstance(given, dict) else None
    said = (
        [loose.text(one.get("question"), 300) for one in asked if isinstance(one, dict)]
        if isinstance(asked, list)
        else []
    )
    return "; ".join(one for one in said if one)[:600] or None


def payload_of(body: bytes) -> dict[str, Any]:
    return loose.record(body) or {}


def number(value: object) -> int | None:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10 else None
