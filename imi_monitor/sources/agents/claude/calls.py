"""The tool calls of one conversation: which are open, what came of them, and what goes on in the background."""

from __future__ import annotations

from dataclasses import dataclass

from imi_monitor.model.agent import AgentEvent, ToolCall
from imi_monitor.sources.agents import loose
from imi_monitor.sources.agents.claude.records import Record, said
from imi_monitor.sources.agents.claude.tools import PLAN, QUESTION, plan_of, question_of, tool_of, written_file

_MOST = 200  # open calls and background tasks that are remembered; more is a broken file


@dataclass(frozen=True, slots=True)
class Call:
    tool: ToolCall
    at: str
    question: str | None  # what it asks a person; None: it asks nothing by itself
    arguments: Record


class Calls:
    """`open`: calls without an answer, oldest first. `background`: tasks that run on, by their id."""

    def __init__(self) -> None:
        self.open: dict[str, Call] = {}
        self.background: dict[str, ToolCall] = {}
        self.files: dict[str, None] = {}

    def start(self, block: Record, at: str, cwd: str | None) -> list[AgentEvent]:
        tool = tool_of(block, cwd)
        if tool.id is None:
            return []
        call = Call(tool, at, _question(tool, block), loose.table(block.get("input")))
        self.open[tool.id] = call
        if len(self.open) > _MOST:
            del self.open[next(iter(self.open))]
        return _started(call, block)

    def finish(self, block: Record, at: str, result: object) -> list[AgentEvent]:
        """The answer to a call stands in the records."""
        ident = loose.text(block.get("tool_use_id"), 200)
        if ident is None:
            return []
        call = self.open.pop(ident, None)
        ok = block.get("is_error") is not True
        self._keep_background(ident, call, loose.table(result))
        path = (
            written_file(call.tool if call else None, call.arguments if call else {}, loose.table(result))
            if ok
            else None
        )
        if path is not None:
            self.files.pop(path, None)
            self.files[path] = None
        tool = call.tool if call else ToolCall("?", None, ident)
        answer = said(block.get("content"))
        made = [AgentEvent("tool_finished", f"{ident}:finished", at, answer, tool, ok, (path,) if path else ())]
        if call is not None and call.question is not None:
            made.append(AgentEvent("answered", f"{ident}:answered", at, answer, tool, ok))
        return made

    def drop(self, at: str) -> list[AgentEvent]:
        """The turn was broken off: nothing of it runs any more."""
        dropped = list(self.open.values())
        self.open.clear()
        return [AgentEvent("tool_finished", f"{one.tool.id}:finished", at, None, one.tool, None) for one in dropped]

    def over(self, notification: str) -> None:
        """A `<task-notification>` tells that a background task ended."""
        _, _, behind = notification.partition("<task-id>")
        self.background.pop(behind.partition("</task-id>")[0].strip(), None)

    def _keep_background(self, ident: str, call: Call | None, result: Record) -> None:
        task = loose.text(result.get("backgroundTaskId"), 200)
        if task is not None:
            self.background[task] = call.tool if call else ToolCall("Bash", None, ident)
        if len(self.background) > _MOST:
            del self.background[next(iter(self.background))]


def _question(tool: ToolCall, block: Record) -> str | None:
    if tool.name == QUESTION:
        asked = question_of(block)
        return f"question: {asked}" if asked else "question"
    return "plan approval" if tool.name == PLAN else None


def _started(call: Call, block: Record) -> list[AgentEvent]:
    tool, at = call.tool, call.at
    made = [AgentEvent("tool_started", f"{tool.id}:started", at, None, tool)]
    if tool.name == PLAN:
        made.append(AgentEvent("plan", f"{tool.id}:plan", at, plan_of(block), tool))
    if call.question is not None:
        made.append(AgentEvent("waits", f"{tool.id}:waits", at, call.question, tool))
    return made
