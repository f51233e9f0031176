"""Claude's tools: what a call is aimed at, in a few words, and which files it wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from imi_monitor.model.agent import ToolCall
from imi_monitor.sources.agents import loose
from imi_monitor.sources.agents.claude.records import Record, rows

QUESTION: Final = "AskUserQuestion"
PLAN: Final = "ExitPlanMode"
ENTER_PLAN: Final = "EnterPlanMode"
ASKS: Final = frozenset({QUESTION, PLAN})  # tools that are a question to the person

_WRITES: Final = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})
_PATHS: Final = ("file_path", "notebook_path", "path")
_AIMS: Final = (*_PATHS, "command", "pattern", "query", "url", "description", "skill", "subject", "task_id", "prompt")
_LONGEST: Final = 160


def tool_of(block: Record, cwd: str | None) -> ToolCall:
    """The call in a `tool_use` block."""
    name = loose.text(block.get("name"), 80) or "?"
    return ToolCall(name, _target(name, loose.table(block.get("input")), cwd), loose.text(block.get("id"), 200))


def question_of(block: Record) -> str | None:
    """What a question to the person asks."""
    asked = [loose.text(one.get("question"), 300) for one in rows(loose.table(block.get("input")).get("questions"))]
    return "; ".join(one for one in asked if one) or None


def plan_of(block: Record) -> str | None:
    return loose.text(loose.table(block.get("input")).get("plan"))


def written_file(tool: ToolCall | None, arguments: Mapping[str, object], result: Record) -> str | None:
    """The file that a finished call wrote, absolute; None when it wrote none."""
    told = loose.path(result.get("filePath"))
    if told is not None and "structuredPatch" in result:
        return told
    if tool is not None and tool.name in _WRITES:
        return next((path for name in _PATHS if (path := loose.path(arguments.get(name)))), told)
    return None


def _target(name: str, arguments: Record, cwd: str | None) -> str | None:
    for key in _AIMS:
        found = loose.path(arguments.get(key))
        if found is not None:
            short = _relative(found, cwd) if key in _PATHS else found.splitlines()[0]
            return short[:_LONGEST]
    return question_of({"input": arguments}) if name == QUESTION else None


def _relative(path: str, cwd: str | None) -> str:
    inside = cwd is not None and path.startswith(cwd.rstrip("/") + "/")
    return path[len(cwd.rstrip("/")) + 1 :] if inside and cwd is not None else path
