"""The format of a Claude Code transcript: lines that matter, tool calls, files written and tokens.

Most bytes of a transcript are copies of what was sent to the model. Such lines are recognised by their first bytes and
not parsed. Every other line is parsed, so that a new kind of record is not overlooked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from imi_monitor.model.agent import AgentEvent, ToolCall
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.foreign_files import WrittenFiles
from imi_monitor.sources.agents.session_reducer import TokenCounts

JsonObject: TypeAlias = dict[str, Any]

_USELESS = tuple(
    b'{"type":"' + kind
    for kind in (b'mode"', b"atis-", b"api-", b'last-prompt"', b'tools-used"', b'file-history-snapshot"', b'progress"')
)
_SESSION_ID = re.compile(r"[A-Za-z0-9_-]{1,100}\Z")
_BEGINNINGS = (b'{"parentUuid":', b'{"type":')
_ATTACHMENT = b'"attachment":{'
_HEAD = 200  # bytes that contain the kind of a record


def matters(line: bytes) -> bool:
    """True if the record may matter. Inside a JSON string quotes are escaped, so no text can look like these bytes."""
    return not line.startswith(_USELESS) and _ATTACHMENT not in line[:_HEAD]


def parse(line: bytes) -> JsonObject | None:
    """The record; None if it is not readable. A record that follows a line torn by a crash is recovered."""
    whole = fields.record(line)
    if whole is None:
        start = max(line.rfind(beginning) for beginning in _BEGINNINGS)
        whole = fields.record(line[start:]) if start > 0 else None
    return whole


def session_id(value: object) -> str | None:
    """A session id. It is also a file name, so nothing that could lead to another folder."""
    return value if isinstance(value, str) and _SESSION_ID.match(value) else None


def rows(value: object) -> list[JsonObject]:
    return [one for one in fields.rows(value) if isinstance(one, dict)]


def text_of(content: object) -> str | None:
    """The text of a message, given as one string or as blocks."""
    if isinstance(content, list):
        content = "\n".join(
            one["text"][: fields.MOST_TEXT] for one in rows(content) if isinstance(one.get("text"), str)
        )
    return fields.text(content)


# -- tools ------------------------------------------------------------------------------------------------------------

QUESTION: Final = "AskUserQuestion"
PLAN: Final = "ExitPlanMode"
ENTER_PLAN: Final = "EnterPlanMode"

_WRITES: Final = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})
_PATHS: Final = ("file_path", "notebook_path", "path")
_TARGETS: Final = (
    *_PATHS,
    "command",
    "pattern",
    "query",
    "url",
    "description",
    "skill",
    "subject",
    "task_id",
    "prompt",
)
_LONGEST_TARGET: Final = 160


def tool_of(block: JsonObject, cwd: str | None) -> ToolCall:
    """The call in a `tool_use` block."""
    name = fields.text(block.get("name"), 80) or "?"
    return ToolCall(name, _target(name, fields.table(block.get("input")), cwd), fields.text(block.get("id"), 200))


def choices_of(block: JsonObject) -> tuple[str, ...]:
    """The options of the first question."""
    first = next(iter(rows(fields.table(block.get("input")).get("questions"))), {})
    labels = (fields.text(one.get("label"), 200) for one in rows(first.get("options")))
    return tuple(one for one in labels if one)


def question_of(block: JsonObject) -> str | None:
    """The text of a question to the person."""
    questions = rows(fields.table(block.get("input")).get("questions"))
    texts = [fields.text(one.get("question"), 300) for one in questions]
    return "; ".join(one for one in texts if one) or None


def plan_of(block: JsonObject) -> str | None:
    return fields.text(fields.table(block.get("input")).get("plan"))


def written_file(tool: ToolCall | None, arguments: Mapping[str, object], result: JsonObject) -> str | None:
    """The absolute path of the file that a finished call wrote; None if it wrote none."""
    reported = fields.path(result.get("filePath"))
    if reported is not None and "structuredPatch" in result:
        return reported
    if tool is not None and tool.name in _WRITES:
        return next((path for name in _PATHS if (path := fields.path(arguments.get(name)))), reported)
    return None


def _target(name: str, arguments: JsonObject, cwd: str | None) -> str | None:
    for key in _TARGETS:
        found = fields.path(arguments.get(key))
        if found is not None:
            short = _relative(found, cwd) if key in _PATHS else found.splitlines()[0]
            return short[:_LONGEST_TARGET]
    return question_of({"input": arguments}) if name == QUESTION else None


def _relative(path: str, cwd: str | None) -> str:
    return path if cwd is None else path.removeprefix(cwd.rstrip("/") + "/")


# -- tool calls -------------------------------------------------------------------------------------------------------

_MOST_CALLS = 200  # open calls and background tasks that are kept; only a broken file has more


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A tool call without a result."""

    tool: ToolCall
    at: str
    question: str | None  # what the tool asks the person; None: the tool is no question
    arguments: JsonObject


class ToolCalls:
    """The tool calls of one conversation. `open`: without a result, oldest first. `background`: running tasks by id."""

    def __init__(self, files: WrittenFiles) -> None:
        """`files`: what gets the files that they write."""
        self.open: dict[str, OpenCall] = {}
        self.background: dict[str, ToolCall] = {}
        self._files = files

    def start(self, block: JsonObject, at: str, cwd: str | None) -> list[AgentEvent]:
        tool = tool_of(block, cwd)
        if tool.id is None:
            return []
        call = OpenCall(tool, at, _question(tool, block), fields.table(block.get("input")))
        self.open[tool.id] = call
        if len(self.open) > _MOST_CALLS:
            del self.open[next(iter(self.open))]
        return _start_events(call, block)

    def finish(self, block: JsonObject, at: str, result: object) -> list[AgentEvent]:
        """Take in the result of a call."""
        ident = fields.text(block.get("tool_use_id"), 200)
        if ident is None:
            return []
        call = self.open.pop(ident, None)
        ok = block.get("is_error") is not True
        table = fields.table(result)
        self._keep_background(ident, call, table)
        path = written_file(call.tool if call else None, call.arguments if call else {}, table) if ok else None
        if path is not None:
            self._files.add(path)
        tool = call.tool if call else ToolCall("?", None, ident)
        answer = text_of(block.get("content"))
        made = [AgentEvent("tool_finished", f"{ident}:finished", at, answer, tool, ok, (path,) if path else ())]
        if call is not None and call.question is not None:
            made.append(AgentEvent("answered", f"{ident}:answered", at, answer, tool, ok))
        return made

    def drop(self, at: str) -> list[AgentEvent]:
        """End all open calls: the turn was interrupted."""
        dropped = list(self.open.values())
        self.open.clear()
        return [AgentEvent("tool_finished", f"{one.tool.id}:finished", at, None, one.tool, None) for one in dropped]

    def end_background(self, notification: str) -> None:
        """Take in a `<task-notification>`: a background task ended."""
        _, _, behind = notification.partition("<task-id>")
        self.background.pop(behind.partition("</task-id>")[0].strip(), None)

    def inherit(self, older: ToolCalls) -> None:
        """Add what older records say about background tasks."""
        self.background = older.background | self.background

    def _keep_background(self, ident: str, call: OpenCall | None, result: JsonObject) -> None:
        task = fields.text(result.get("backgroundTaskId"), 200)
        if task is not None:
            self.background[task] = call.tool if call else ToolCall("Bash", None, ident)
        if len(self.background) > _MOST_CALLS:
            del self.background[next(iter(self.background))]


def _question(tool: ToolCall, block: JsonObject) -> str | None:
    if tool.name == QUESTION:
        asked = question_of(block)
        return f"question: {asked}" if asked else "question"
    return "plan approval" if tool.name == PLAN else None


def _start_events(call: OpenCall, block: JsonObject) -> list[AgentEvent]:
    tool, at = call.tool, call.at
    made = [AgentEvent("tool_started", f"{tool.id}:started", at, None, tool)]
    if tool.name == PLAN:
        made.append(AgentEvent("plan", f"{tool.id}:plan", at, plan_of(block), tool))
    if call.question is not None:
        made.append(AgentEvent("waits", f"{tool.id}:waits", at, call.question, tool))
    return made


# -- tokens -----------------------------------------------------------------------------------------------------------

MessageKey: TypeAlias = tuple[str, str]  # message, request: message ids alone are not always unique

_REMEMBERED = 512  # the lines of one message lie close together


class TokenLedger:
    """The tokens of one session with its subagents.

    A message counts once, whatever files it stands in: a resumed or forked session begins with copies. Of each message
    only a hash is kept, with the counter that counts it.
    """

    def __init__(self) -> None:
        self.counted: TokenCounts = (0, 0, 0)
        self._counter_of: dict[int, TokenCounter] = {}

    def counter_of(self, message: int) -> TokenCounter | None:
        return self._counter_of.get(message)

    def assign(self, message: int, counter: TokenCounter) -> None:
        self._counter_of[message] = counter

    def add(self, more: TokenCounts) -> None:
        self.counted = _plus(self.counted, more)

    def remove(self, counter: TokenCounter) -> None:
        """Take a counter out again: its part of a file is read anew."""
        self._counter_of = {message: one for message, one in self._counter_of.items() if one is not counter}
        self.add((-counter.counted[0], -counter.counted[1], -counter.counted[2]))


class TokenCounter:
    """The tokens of one part of one file, without messages that another counter of the ledger counts."""

    def __init__(self, ledger: TokenLedger | None = None) -> None:
        self.context: int | None = None  # tokens in the window after the last answer
        self.counted: TokenCounts = (0, 0, 0)
        self._ledger = ledger or TokenLedger()
        self._last: dict[MessageKey, TokenCounts] = {}

    def count(self, key: MessageKey, usage: JsonObject, *, own_window: bool = True) -> None:
        """Add the tokens of a message. `own_window`: False for a subagent's, which fills another context window."""
        fresh = _number(usage, "input_tokens") + _number(usage, "cache_creation_input_tokens")
        out, cached = _number(usage, "output_tokens"), _number(usage, "cache_read_input_tokens")
        if not (fresh or out or cached):
            return  # written by the program itself, not by a model
        if own_window:
            self.context = fresh + cached + out
        counter = self._ledger.counter_of(hash(key))
        if counter is None:
            self._ledger.assign(hash(key), self)
        if counter is None or key in self._last:
            self._add(key, (fresh, out, cached))

    def _add(self, key: MessageKey, counts: TokenCounts) -> None:
        """Claude writes a line for each block of a message, with growing counts: the largest replaces the earlier."""
        before = self._last.get(key, (0, 0, 0))
        best = max(before[0], counts[0]), max(before[1], counts[1]), max(before[2], counts[2])
        more = best[0] - before[0], best[1] - before[1], best[2] - before[2]
        self.counted = _plus(self.counted, more)
        self._ledger.add(more)
        self._last[key] = best
        if len(self._last) > _REMEMBERED:
            del self._last[next(iter(self._last))]


def _number(table: JsonObject, name: str) -> int:
    return fields.number(table.get(name)) or 0


def _plus(left: TokenCounts, right: TokenCounts) -> TokenCounts:
    return left[0] + right[0], left[1] + right[1], left[2] + right[2]
