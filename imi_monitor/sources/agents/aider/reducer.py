"""Folds the lines of an aider chat history into what the chat does now.

The history is written for people: `#### ` is a prompt, `> ` is aider itself, the rest is the model. A reply is written
when it is complete, a question only when it is answered. A silent aider may therefore be thinking, asking or done; the
evidence names the likely state and the alternatives. A line of aider's own ends with two spaces, unlike a heading or a
quotation in a reply.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from imi_monitor.model import times
from imi_monitor.model.agent import (
    CANCELLED,
    COMPLETED,
    FAILED,
    NOTHING_ASKED,
    RUNNING,
    WAITING,
    AgentEvent,
    Evidence,
    SessionFacts,
    ToolCall,
)
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.session_reducer import SessionReducer

CHAT_START = b"# aider chat started at "
_QUIET = 3.0  # seconds after a reply after which aider is taken to be at its prompt
_WORKING = ("/ask", "/code", "/architect", "/context", "/run", "/test", "/lint", "/commit", "/web", "/map-refresh", "!")
_COMMANDS = ("/run ", "/test ", "/lint", "!")  # they run in a child process
_QUITS = ("/exit", "/quit")
_TOKENS = re.compile(r"([\d.,]+[kKmM]?) (sent|cache write|cache hit|received)")
_COST = re.compile(r"\$(\d[\d,]*(?:\.\d+)?) session")
_MODEL = re.compile(r"^(?:Main model|Model): (\S+) with ")
_COMMIT = re.compile(r"^Commit ([0-9a-f]{7,40}) ?(.*)$")
_FIRST = re.compile(
    r"^> (Commit [0-9a-f]{7}|Tokens: [\d.,]+[kKmM]? sent)"
)  # a message of several lines: only the last one ends with spaces
_QUESTION = re.compile(r"\((?:Y\)es|D\)on't)\b.*\]: *(\w*)$")
_RETRY = re.compile(r"^Retrying in [\d.]+ seconds")
_ERROR = re.compile(
    r"^(litellm\.\w+|Traceback \(most recent call last\)|Unable to commit: |Exception while updating files)"
)
_PROBLEMS = "# Fix any errors below, if possible."  # of a linter; its words follow, then a question
_LIMITS = ("has hit a token limit!", "reflections allowed, stopping.")
_MAYBE = frozenset({WAITING})
_ANYTHING = frozenset({WAITING, RUNNING})
_MOST_REPLY = 8000


@dataclass(frozen=True, slots=True)
class LastLine:
    """The last line that matters. `kind`: started, prompt, command, reply, report, goes_on, runs, failed, cancelled."""

    kind: str
    says: str
    detail: str | None = None
    tool: ToolCall | None = None


class AiderReducer(SessionReducer):
    """One chat: the lines from its start to the next chat."""

    def __init__(self, folder: str, started: str) -> None:
        super().__init__()
        self.folder = folder
        self.started = started  # as it is written, in local time
        self.started_at = _moment(started)
        self.prompts = 0
        self.tokens: dict[str, int] = {}
        self.left = False
        self.last = LastLine("started", "the chat has begun", NOTHING_ASKED)
        self._reply: list[str] = []
        self._in_prompt = False
        self._in_problems = False

    # -- the result ---------------------------------------------------------------------------------------------------

    def evidence(self, quiet: float, at: str, gone: bool) -> Evidence:
        """`quiet`: seconds since the last write. `gone`: its process has ended."""
        kind = self.last.kind
        if kind in ("failed", "cancelled"):
            return self._evidence(FAILED if kind == "failed" else CANCELLED, at)
        if kind == "started":
            return self._evidence(COMPLETED, at, _MAYBE)
        if kind in ("prompt", "goes_on", "runs"):
            found = self._evidence(RUNNING, at, _MAYBE)
            command = kind == "runs" or (kind == "prompt" and (self.prompt or "").startswith(_COMMANDS))
            return replace(found, in_child=command)  # a question about its output is written when it is answered
        if quiet > _QUIET or gone or self.left:
            detail = (
                None if gone or self.left else "quiet: at its prompt, or asking what is written when it is answered"
            )
            return self._evidence(COMPLETED, at, frozenset() if gone or self.left else _ANYTHING, detail)
        return self._evidence(RUNNING, at, _MAYBE)

    def _evidence(
        self, state: str, at: str, or_else: frozenset[str] = frozenset(), detail: str | None = None
    ) -> Evidence:
        says = f".aider.chat.history.md: {self.last.says}"
        return Evidence("transcript", state, at, says, detail or self.last.detail, self.last.tool, or_else=or_else)

    def facts(self) -> SessionFacts:
        sent = self.tokens.get("sent")
        return replace(
            self.known_facts(None),
            tokens_in=None if sent is None else max(0, sent - self.tokens.get("cache hit", 0)),
            tokens_out=self.tokens.get("received"),
            tokens_cached=self.tokens.get("cache hit"),
        )

    def end(self, key: str, at: str) -> Iterator[AgentEvent]:
        """End the open reply: nothing follows, so a reply without a report of its tokens was whole."""
        yield from self._reply_ends(key, at)

    # -- lines --------------------------------------------------------------------------------------------------------

    def add(self, raw: bytes, key: str, at: str) -> Iterator[AgentEvent]:
        text = raw.decode("utf-8", "replace").rstrip("\r")
        own = text.endswith("  ")
        if own and text.startswith("####"):
            yield from self._prompted(text[4:].strip(), key, at)
            return
        self._in_prompt = False
        if text.startswith("> ") and (own or _FIRST.match(text)):
            yield from self._reply_ends(key, at)
            yield from self._own_line(text[2:].strip(), key, at)
        elif text.startswith("Cost: $") and own:
            self._cost(text)
        elif text.strip():
            self._replied(text)

    def _prompted(self, text: str, key: str, at: str) -> Iterator[AgentEvent]:
        if self._in_prompt:  # a prompt of several lines
            self.prompt = f"{self.prompt}\n{text}"[: fields.MOST_TEXT]
            return
        yield from self._reply_ends(key, at)
        self._in_prompt, self._in_problems = True, False
        command = text.split(" ", 1)[0] if text[:1] in ("/", "!") else None
        self.left = command in _QUITS
        if command is not None and not text.startswith(_WORKING):
            self.last = LastLine("command", f"the command {command}")
            return
        self.prompt, self.prompts = text[: fields.MOST_TEXT], self.prompts + 1
        self.last = LastLine("prompt", "a prompt without an answer yet")
        yield AgentEvent("prompt", f"{key}:prompt", at, self.prompt)

    def _replied(self, text: str) -> None:
        if self.last.kind in ("prompt", "goes_on", "reply") and len(self._reply) < _MOST_REPLY:
            self._reply.append(text)
            self.last = LastLine("reply", "a reply")

    def _reply_ends(self, key: str, at: str) -> Iterator[AgentEvent]:
        if self._reply:
            self.last_message = "\n".join(self._reply)[: fields.MOST_TEXT]
            self._reply = []
            yield AgentEvent("message", f"{key}:message", at, self.last_message)

    def _own_line(self, text: str, key: str, at: str) -> Iterator[AgentEvent]:
        """A line of aider itself."""
        if self._in_problems and not _QUESTION.search(text):
            return
        self._in_problems = text == _PROBLEMS
        if text.startswith("Tokens: "):
            self._tokens(text)
            self.last = LastLine("report", "the reply was whole")
        elif text.startswith("Applied edit to "):
            yield self._edited(text.removeprefix("Applied edit to "), key, at)
        elif match := _COMMIT.match(text):
            self.last = LastLine("report", f"it committed {match[1]}")
            tool = ToolCall("commit", fields.one_line(f"{match[1]} {match[2]}"), key)
            yield AgentEvent("tool_finished", f"{key}:commit", at, None, tool, True)
        elif _RETRY.match(text):
            self.last = LastLine("goes_on", "it tries again", fields.one_line(f"{self.last.detail or ''} {text}"))
        elif _ERROR.match(text) or any(limit in text for limit in _LIMITS):
            self.last = LastLine("failed", "an error", fields.one_line(text, 300))
            yield AgentEvent("failed", f"{key}:failed", at, fields.one_line(text, 300))
        elif text.startswith("^C"):
            self.last = LastLine("cancelled", "stopped by a person", "stopped by a person")
            yield AgentEvent("cancelled", f"{key}:cancelled", at)
        else:
            self._remark(text)

    def _remark(self, text: str) -> None:
        """Other lines of aider; a few show that the turn goes on."""
        if text.startswith("Aider v"):
            self.version = fields.text(text.removeprefix("Aider v").split(" ")[0], 50)
        elif match := _MODEL.match(text):
            self.model = match[1][:100]
        elif text.startswith("Running ") and self.prompts:
            self.last = LastLine(
                "runs", "a command runs", tool=ToolCall("run", fields.one_line(text.removeprefix("Running ")))
            )
        elif match := _QUESTION.search(text):
            self._answered(match[1].lower())
        elif self.last.kind == "runs":
            self.last = LastLine("report", "the command has ended")

    def _answered(self, answer: str) -> None:
        if self.last.kind == "started":
            return
        goes_on = answer[:1] in ("y", "a")
        self.last = LastLine("goes_on" if goes_on else "report", f"a question was answered with {answer or 'nothing'}")

    def _edited(self, path: str, key: str, at: str) -> AgentEvent:
        whole = path if path.startswith("/") else f"{self.folder}/{path}"
        self.files.add(whole)
        self.last = LastLine("report", f"it edited {path[:200]}")
        return AgentEvent(
            "tool_finished", f"{key}:edit", at, None, ToolCall("edit", fields.one_line(path), key), True, (whole,)
        )

    def _tokens(self, text: str) -> None:
        for amount, what in _TOKENS.findall(text):
            count = parse_count(amount)
            if count is not None:
                self.tokens[what] = self.tokens.get(what, 0) + count
        self._cost(text)

    def _cost(self, text: str) -> None:
        match = _COST.search(text)
        if match:
            self.cost = float(match[1].replace(",", ""))


def parse_count(text: str) -> int | None:
    """A number as aider rounds it: `42`, `4.2k`, `1,204`, `1.5M`."""
    factor = {"k": 1000, "m": 1_000_000}.get(text[-1:].lower(), 1)
    try:
        return round(float(text.rstrip("kKmM").replace(",", "")) * factor)
    except ValueError:
        return None


def _moment(started: str) -> str | None:
    try:
        return times.stamp(datetime.strptime(started, "%Y-%m-%d %H:%M:%S").astimezone())
    except (ValueError, OverflowError, OSError):
        return None
