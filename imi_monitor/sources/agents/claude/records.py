"""One line of a transcript as a record, when it can matter, and its fields without trust in their types.

Most bytes of a transcript are copies of what was sent to the model. Those lines are known by their first bytes and are
never parsed. What is not known to be useless is parsed: a new kind of record must not hide among them.

Claude's tools: what a call is aimed at, in a few words, and which files it wrote.

The tool calls of one conversation: which are open, what came of them, and what goes on in the background.

Tokens of a session, each message once: Claude writes a line for every block of a message, with the same count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from imi_monitor.model.agent import AgentEvent, ToolCall
from imi_monitor.sources.agents import fields

JsonObject: TypeAlias = dict[str, Any]

_USELESS = tuple(
    b'{"type":"' + kind
    for kind in (b'mode"', b"atis-", b"api-", b'last-prompt"', b'tools-used"', b'file-history-snapshot"', b'progress"')
)
_IDENTITY = re.compile(r"[A-Za-z0-9_-]{1,100}\Z")
_BEGINNINGS = (b'{"parentUuid":', b'{"type":')
_ATTACHMENT = b'"attachment":{'
_HEAD = 200  # bytes in which a record says what it is


def matters(line: bytes) -> bool:
    """Whether a record may say something of the session. Bytes with bare quotes cannot lie inside a JSON string."""
    return not line.startswith(_USELESS) and line.find(_ATTACHMENT, 0, _HEAD) < 0


def parse(line: bytes) -> JsonObject | None:
    """A record; None when it cannot be read. What follows a line torn by a crash is saved."""
    whole = fields.record(line)
    if whole is None:
        start = max(line.rfind(beginning, 1) for beginning in _BEGINNINGS)
        whole = fields.record(line[start:]) if start > 0 else None
    return whole


def identity(value: object) -> str | None:
    """A session's name, which is also a file's: nothing that leads elsewhere."""
    return value if isinstance(value, str) and _IDENTITY.match(value) else None


def rows(value: object) -> list[JsonObject]:
    return [one for one in fields.rows(value) if isinstance(one, dict)]


def text_of(content: object) -> str | None:
    """The text of a message, given as one text or as blocks."""
    if isinstance(content, list):
        content = "\n".join(
            one["text"][: fields.MOST_TEXT] for one in rows(content) if isinstance(one.get("text"), str)
        )
    return fields.text(content)


QUESTION: Final = "AskUserQuestion"
PLAN: Final = "ExitPlanMode"
ENTER_PLAN: Final = "EnterPlanMode"
ASKS: Final = frozenset({QUESTION, PLAN})  # tools that are a question to the person

_WRITES: Final = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})
_PATHS: Final = ("file_path", "notebook_path", "path")
_AIMS: Final = (*_PATHS, "command", "pattern", "query", "url", "description", "skill", "subject", "task_id", "prompt")
_LONGEST: Final = 160


def tool_of(block: JsonObject, cwd: str | None) -> ToolCall:
    """The call in a `tool_use` block."""
    name = fields.text(block.get("name"), 80) or "?"
    return ToolCall(name, _target(name, fields.table(block.get("input")), cwd), fields.text(block.get("id"), 200))


def question_of(block: JsonObject) -> str | None:
    """What a question to the person asks."""
    asked = [fields.text(one.get("question"), 300) for one in rows(fields.table(block.get("input")).get("questions"))]
    return "; ".join(one for one in asked if one) or None


def plan_of(block: JsonObject) -> str | None:
    return fields.text(fields.table(block.get("input")).get("plan"))


def written_file(tool: ToolCall | None, arguments: Mapping[str, object], result: JsonObject) -> str | None:
    """The file that a finished call wrote, absolute; None when it wrote none."""
    told = fields.path(result.get("filePath"))
    if told is not None and "structuredPatch" in result:
        return told
    if tool is not None and tool.name in _WRITES:
        return next((path for name in _PATHS if (path := fields.path(arguments.get(name)))), told)
    return None


def _target(name: str, arguments: JsonObject, cwd: str | None) -> str | None:
    for key in _AIMS:
        found = fields.path(arguments.get(key))
        if found is not None:
            short = _relative(found, cwd) if key in _PATHS else found.splitlines()[0]
            return short[:_LONGEST]
    return question_of({"input": arguments}) if name == QUESTION else None


def _relative(path: str, cwd: str | None) -> str:
    inside = cwd is not None and path.startswith(cwd.rstrip("/") + "/")
    return path[len(cwd.rstrip("/")) + 1 :] if inside and cwd is not None else path


_MOST = 200  # open calls and background tasks that are remembered; more is a broken file


@dataclass(frozen=True, slots=True)
class OpenCall:
    tool: ToolCall
    at: str
    question: str | None  # what it asks a person; None: it asks nothing by itself
    arguments: JsonObject


class ToolCalls:
    """`open`: calls without an answer, oldest first. `background`: tasks that run on, by their id."""

    def __init__(self) -> None:
        self.open: dict[str, OpenCall] = {}
        self.background: dict[str, ToolCall] = {}
        self.files: dict[str, None] = {}

    def start(self, block: JsonObject, at: str, cwd: str | None) -> list[AgentEvent]:
        tool = tool_of(block, cwd)
        if tool.id is None:
            return []
        call = OpenCall(tool, at, _question(tool, block), fields.table(block.get("input")))
        self.open[tool.id] = call
        if len(self.open) > _MOST:
            del self.open[next(iter(self.open))]
        return _started(call, block)

    def finish(self, block: JsonObject, at: str, result: object) -> list[AgentEvent]:
        """The answer to a call stands in the records."""
        ident = fields.text(block.get("tool_use_id"), 200)
        if ident is None:
            return []
        call = self.open.pop(ident, None)
        ok = block.get("is_error") is not True
        self._keep_background(ident, call, fields.table(result))
        path = (
            written_file(call.tool if call else None, call.arguments if call else {}, fields.table(result))
            if ok
            else None
        )
        if path is not None:
            self.files.pop(path, None)
            self.files[path] = None
        tool = call.tool if call else ToolCall("?", None, ident)
        answer = text_of(block.get("content"))
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

    def _keep_background(self, ident: str, call: OpenCall | None, result: JsonObject) -> None:
        task = fields.text(result.get("backgroundTaskId"), 200)
        if task is not None:
            self.background[task] = call.tool if call else ToolCall("Bash", None, ident)
        if len(self.background) > _MOST:
            del self.background[next(iter(self.background))]


def _question(tool: ToolCall, block: JsonObject) -> str | None:
    if tool.name == QUESTION:
        asked = question_of(block)
        return f"question: {asked}" if asked else "question"
    return "plan approval" if tool.name == PLAN else None


def _started(call: OpenCall, block: JsonObject) -> list[AgentEvent]:
    tool, at = call.tool, call.at
    made = [AgentEvent("tool_started", f"{tool.id}:started", at, None, tool)]
    if tool.name == PLAN:
        made.append(AgentEvent("plan", f"{tool.id}:plan", at, plan_of(block), tool))
    if call.question is not None:
        made.append(AgentEvent("waits", f"{tool.id}:waits", at, call.question, tool))
    return made


Key: TypeAlias = tuple[str, str]  # message, request: message numbers alone are not always unique
Counts: TypeAlias = tuple[int, int, int]  # fresh input, output, read from the cache

_REMEMBERED = 512  # lines of one message lie close together


class TokenLedger:
    """What one session and its subagents used. A message is counted once, in whichever of their files it stands, and however
    often: one that is taken up again, or branches off, begins with copies. Of each message a number is kept, no more."""

    def __init__(self) -> None:
        self.counted: Counts = (0, 0, 0)
        self._whose: dict[int, TokenCounter] = {}

    def whose(self, message: int) -> TokenCounter | None:
        return self._whose.get(message)

    def is_of(self, message: int, usage: TokenCounter) -> None:
        self._whose[message] = usage

    def add(self, more: Counts) -> None:
        self.counted = _plus(self.counted, more)

    def leave(self, usage: TokenCounter) -> None:
        """Its part of a file is read anew."""
        self._whose = {message: one for message, one in self._whose.items() if one is not usage}
        self.add((-usage.counted[0], -usage.counted[1], -usage.counted[2]))


class TokenCounter:
    """Of one part of one file; what another part counts already is left to that."""

    def __init__(self, ledger: TokenLedger | None = None) -> None:
        self.context: int | None = None  # tokens in the window after the last answer
        self.counted: Counts = (0, 0, 0)
        self._ledger = ledger or TokenLedger()
        self._last: dict[Key, Counts] = {}

    def take(self, key: Key, usage: JsonObject, *, aside: bool = False) -> None:
        """`aside`: of somebody else, whose window is not this one's."""
        fresh = (fields.number(usage.get("input_tokens")) or 0) + (
            fields.number(usage.get("cache_creation_input_tokens")) or 0
        )
        out, cached = (
            fields.number(usage.get("output_tokens")) or 0,
            fields.number(usage.get("cache_read_input_tokens")) or 0,
        )
        if not (fresh or out or cached):
            return  # written by the program itself, not by a model
        if not aside:
            self.context = fresh + cached + out
        whose = self._ledger.whose(hash(key))
        if whose is None:
            self._ledger.is_of(hash(key), self)
        if whose is None or (whose is self and key in self._last):
            self._count(key, (fresh, out, cached))

    def _count(self, key: Key, counts: Counts) -> None:
        """A later line of a message replaces an earlier one: output is still growing while it streams."""
        before = self._last.get(key, (0, 0, 0))
        best = max(before[0], counts[0]), max(before[1], counts[1]), max(before[2], counts[2])
        more = best[0] - before[0], best[1] - before[1], best[2] - before[2]
        self.counted = _plus(self.counted, more)
        self._ledger.add(more)
        self._last[key] = best
        if len(self._last) > _REMEMBERED:
            del self._last[next(iter(self._last))]


def _plus(left: Counts, right: Counts) -> Counts:
    return left[0] + right[0], left[1] + right[1], left[2] + right[2]
