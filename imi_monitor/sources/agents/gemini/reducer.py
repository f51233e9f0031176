"""Folds the messages of one Gemini session into what it does now and what is known of it.

A message may be written several times, each time more complete; its tokens and each tool call count once. Tools are
recorded when they have finished. After words of the model the file therefore does not show whether the turn has ended, a
tool runs, or a permission is asked for; the evidence names these alternatives.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from imi_monitor.model.agent import (
    CANCELLED,
    COMPLETED,
    FAILED,
    RUNNING,
    UNKNOWN,
    WAITING,
    AgentEvent,
    Evidence,
    SessionFacts,
    ToolCall,
)
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.session_reducer import MessageTokens, SessionReducer

_NAMES = {
    "run_shell_command": "Bash",
    "write_file": "Write",
    "replace": "Edit",
    "edit": "Edit",
    "read_file": "Read",
    "read_many_files": "Read",
    "list_directory": "List",
    "glob": "Glob",
    "search_file_content": "Grep",
    "grep_search": "Grep",
    "google_web_search": "WebSearch",
    "web_fetch": "WebFetch",
    "save_memory": "Memory",
    "write_todos": "Plan",
    "ask_user": "Question",
    "exit_plan_mode": "Plan",
}
_TARGETS = ("command", "file_path", "absolute_path", "path", "pattern", "query", "url", "prompt")
WRITERS = frozenset({"write_file", "replace"})
_ENDED = frozenset({"success", "error", "cancelled"})
_AFTER_WORDS: Final = frozenset({RUNNING, WAITING, COMPLETED})
_UNPROVEN: Final = "it ended after words of the model; whether it was done is not recorded"
_ANNOTATIONS = frozenset({"summary", "memoryScratchpad"})
_UPDATED = re.compile(rb'"lastUpdated": ?"([^"]+)"')
_TOOL_STARTS = 3.0  # seconds after the model's words in which a tool begins, if there is one


@dataclass(frozen=True, slots=True)
class StartOptions:
    """What the command line of its process rules out."""

    headless: bool = False  # it answers one prompt and ends
    unasking: bool = False  # it never asks whether it may run a tool


class GeminiReducer(SessionReducer):
    def __init__(self, label: str) -> None:
        """`label`: the name of the file, for people."""
        super().__init__()
        self.session: str | None = None
        self.updated_at: str | None = None  # as its records say
        self.annotated = False  # its last record is a summary, which a process of another session may have added
        self.helper = False  # the session of a subagent
        self.unknown: dict[str, None] = {}
        self._label = label
        self._tokens = MessageTokens()
        self._reported: set[str] = set()  # ids of events
        self._line_at = fields.at(0)
        self._last: Evidence | None = None
        self._words_last = False  # the newest record has words of the model
        self._error: str | None = None

    # -- records --------------------------------------------------------------------------------------------------

    def add(self, line: bytes, at: str) -> None:
        self._line_at = at or self._line_at
        self.annotated = False
        head = line[:40]
        if head.startswith((b'{"$set":{"lastUpdated"', b'{"$set": {"lastUpdated"')):
            return  # written after every message
        if b'"$set"' in head and self._last is not None and len(line) > 4096:
            updated = _UPDATED.search(line[-100:])
            self._update(updated and fields.moment(updated[1].decode()))
            return  # the whole history again, without what was cancelled
        record = fields.record(line)
        if record is None:
            self._report_unknown("a line that is no record")
        else:
            self.add_record(record)

    def add_record(self, record: dict[str, Any]) -> None:
        if "$set" in record:
            self._patch(fields.table(record["$set"]))
        elif "$rewindTo" in record:
            return
        elif isinstance(record.get("id"), str) and "type" in record:
            self._add_message(record["id"][:100], record)
        elif isinstance(record.get("sessionId"), str):
            self._add_header(record)
        else:
            self._report_unknown(", ".join(sorted(record))[:40] or "an empty record")

    def _patch(self, values: dict[str, Any]) -> None:
        self._add_header(values)
        self.annotated = values.keys() <= _ANNOTATIONS
        if self._last is None:  # the history of a resumed session
            self.add_messages(fields.rows(values.get("messages")))

    def add_messages(self, found: Iterable[object]) -> None:
        for one in found:
            message = fields.table(one)
            if isinstance(message.get("id"), str):
                self._add_message(message["id"][:100], message)

    def _add_header(self, values: dict[str, Any]) -> None:
        self.session = fields.text(values.get("sessionId"), 100) or self.session
        self.started_at = fields.moment(values.get("startTime")) or self.started_at
        self._update(fields.moment(values.get("lastUpdated")))
        self.helper = self.helper or values.get("kind") == "subagent"
        self.title = fields.one_line(fields.text(values.get("summary"))) or self.title

    def _update(self, at: str | None) -> None:
        if at is not None and at > (self.updated_at or ""):
            self.updated_at = at

    def _report_unknown(self, what: str) -> None:
        if len(self.unknown) < 20:
            self.unknown[what] = None

    def inherit(self, older: GeminiReducer) -> None:
        self._inherit_facts(older)
        self.session = self.session or older.session
        self._update(older.updated_at)
        self.helper = self.helper or older.helper
        self._tokens.inherit(older._tokens)
        self._reported |= older._reported
        self._last = self._last or older._last

    # -- one message ----------------------------------------------------------------------------------------------

    def _add_message(self, ident: str, message: dict[str, Any]) -> None:
        at = (
            fields.moment(message.get("timestamp"))
            or (self._last.at if self._last else self.started_at)
            or self._line_at
        )
        self._update(at)
        kind = message.get("type")
        if kind == "user":
            self._user(ident, message, at)
        elif kind == "gemini":
            self._model(ident, message, at)
        elif kind in ("info", "error", "warning"):
            self._notice(ident, str(kind), _text(message.get("content")) or "", at)
        else:
            self._report_unknown(f"a message of type {str(kind)[:30]}")

    def _user(self, ident: str, message: dict[str, Any], at: str) -> None:
        text = _text(message.get("displayContent")) or _text(message.get("content"))
        answers = [one for one in fields.rows(message.get("content")) if "functionResponse" in fields.table(one)]
        if text and not answers:
            if text.startswith("<session_context>"):
                return
            self.prompt, self.turn_at = text, at
            self._add_event(AgentEvent("prompt", f"{ident}:prompt", at, text))
            self._set(RUNNING, at, "a prompt is not answered yet", or_else=frozenset({WAITING}))
        elif answers and (self._last is None or self._last.state != CANCELLED):
            self._set(RUNNING, at, "a tool's result went to the model", or_else=frozenset({WAITING}))

    def _model(self, ident: str, message: dict[str, Any], at: str) -> None:
        if self._is_replay(message, at):
            return
        self.model = fields.text(message.get("model"), 100) or self.model
        self._count(ident, fields.table(message.get("tokens")))
        text = _text(message.get("content"))
        if text:
            self.last_message = text
            self._add_event(AgentEvent("message", f"{ident}:message", at, text))
        calls = [fields.table(one) for one in fields.rows(message.get("toolCalls"))]
        if calls:
            self._called(calls, at)
        elif text:
            self._set(
                UNKNOWN,
                at,
                "the model said something; whether a tool follows is not recorded",
                "answered, or a tool is running or asked for",
                or_else=_AFTER_WORDS,
            )
            self._words_last = True
        else:
            self._set(RUNNING, at, "the model said nothing: a tool is called", or_else=frozenset({WAITING}))
            if self._last is not None:
                self._last = replace(self._last, in_child=bool(message.get("tokens")))

    def _is_replay(self, message: dict[str, Any], at: str) -> bool:
        """True for a message that is written again, without its tokens, after the turn was cancelled."""
        again = "tokens" in message and message["tokens"] is None and not message.get("toolCalls")
        return again and self._last is not None and self._last.state in (CANCELLED, FAILED) and at <= self._last.at

    def _called(self, calls: list[dict[str, Any]], at: str) -> None:
        open_one = None
        for call in calls:
            tool = tool_of(call)
            when = fields.moment(call.get("timestamp")) or at
            if _status(call) in _ENDED:
                self._finished(call, tool, when)
            else:
                open_one = (call, tool, when)
        if open_one is not None:
            self._open(*open_one)
        elif all(_status(call) == "cancelled" for call in calls):
            self._set(CANCELLED, at, "a tool was cancelled")
        else:
            self._set(RUNNING, at, "a tool has finished", or_else=frozenset({WAITING}))

    def _open(self, call: dict[str, Any], tool: ToolCall, at: str) -> None:
        """An open call; no version is known to write one, but the format has states for it."""
        waits = _status(call) == "awaiting_approval"
        if waits:
            self._add_event(AgentEvent("waits", f"{tool.id}:waits", at, f"permission for {tool}", tool))
        self._add_event(AgentEvent("tool_started", f"{tool.id}:started", at, tool=tool))
        self._set(
            WAITING if waits else RUNNING, at, f"{tool.name} is {_status(call)}", "permission" if waits else None, tool
        )

    def _finished(self, call: dict[str, Any], tool: ToolCall, at: str) -> None:
        status = _status(call)
        name = fields.path(fields.table(call.get("resultDisplay")).get("filePath"))
        files = (
            (os.path.normpath(name),)
            if name and status == "success" and fields.text(call.get("name")) in WRITERS
            else ()
        )
        self.files.add(*files)
        self._add_event(AgentEvent("tool_started", f"{tool.id}:started", at, tool=tool))
        ok = None if status == "cancelled" else status == "success"
        self._add_event(AgentEvent("tool_finished", f"{tool.id}:finished", at, _result(call), tool, ok, files))

    def _notice(self, ident: str, kind: str, text: str, at: str) -> None:
        low = text.lower()
        if kind == "error":
            self._error = _why(text)
            self._add_event(AgentEvent("failed", f"{ident}:failed", at, self._error))
            self._set(FAILED, at, "an error", self._error)
        elif low.startswith("request cancelled"):
            self._add_event(AgentEvent("cancelled", f"{ident}:cancelled", at))
            self._set(CANCELLED, at, "the request was cancelled")
        elif low.startswith("this request failed"):
            if self._last is None or self._last.state != FAILED:
                self._add_event(AgentEvent("failed", f"{ident}:failed", at, text))
            self._set(FAILED, at, "the request failed", self._error or text)
        elif "compress" in low and kind == "info":
            self._add_event(AgentEvent("compacted", f"{ident}:compacted", at, text))

    def _set(
        self,
        state: str,
        at: str,
        what: str,
        detail: str | None = None,
        tool: ToolCall | None = None,
        or_else: frozenset[str] = frozenset(),
    ) -> None:
        self._words_last = False
        if state != FAILED:
            self._error = None
        self._last = Evidence("transcript", state, at, f"{self._label}: {what}", detail, tool, or_else=or_else)

    def _add_event(self, event: AgentEvent) -> None:
        if event.id not in self._reported:
            self._reported.add(event.id)
            self._events.append(event)

    def _count(self, ident: str, tokens: dict[str, Any]) -> None:
        whole, cached = fields.number(tokens.get("input")), fields.number(tokens.get("cached"))
        out = (fields.number(tokens.get("output")) or 0) + (fields.number(tokens.get("thoughts")) or 0)
        self._tokens.add(ident, whole, cached, out, fields.number(tokens.get("total")))

    # -- the result -----------------------------------------------------------------------------------------------

    @property
    def at(self) -> str | None:
        return self._last.at if self._last else None

    def evidence(self, manner: StartOptions, alive: bool | None, now: float) -> Evidence | None:
        """The newest record, refined by what is known of the process. `now`: for an ended process, when it was last seen."""
        last = self._last
        if last is None or not self._words_last:
            return replace(last, or_else=last.or_else - {WAITING}) if last and manner.unasking else last
        quiet = fields.quiet(now, fields.seconds(last.at) or now)
        if manner.headless and (
            alive or quiet > _TOOL_STARTS
        ):  # a headless process ends after its turn: while it runs, a tool runs
            return replace(
                last, state=RUNNING, detail=None, or_else=frozenset(), says=f"{self._label}: it ends by itself"
            )
        if alive is False:
            text = f"{self._label}: the model's words were the last of it"
            return replace(last, state=COMPLETED, detail=_UNPROVEN, says=text, or_else=frozenset({RUNNING}))
        if manner.unasking:
            return self._evidence_unasking(last, quiet)
        return last

    def _evidence_unasking(self, last: Evidence, quiet: float) -> Evidence:
        state, other = (COMPLETED, RUNNING) if quiet > _TOOL_STARTS else (RUNNING, COMPLETED)
        return replace(last, state=state, detail=None, or_else=frozenset({other}))

    def facts(self) -> SessionFacts:
        known = self.known_facts(self._tokens.counted)
        return replace(known, context_used=self._tokens.context, format_note=self._note())

    def _note(self) -> str | None:
        return f"unknown (format) gemini: {', '.join(list(self.unknown)[:3])}" if self.unknown else None


def _text(content: object) -> str | None:
    if isinstance(content, str):
        return fields.text(content)
    parts = [fields.text(fields.table(one).get("text")) for one in fields.rows(content)]
    return fields.text("\n".join(one for one in parts if one))


def _status(call: dict[str, Any]) -> str:
    return fields.text(call.get("status"), 30) or "?"


def tool_of(call: dict[str, Any]) -> ToolCall:
    name = fields.text(call.get("name"), 100) or "tool"
    given = fields.table(call.get("args"))
    target = next((given[key] for key in _TARGETS if isinstance(given.get(key), str)), None)
    target = target or fields.text(call.get("description"))
    return ToolCall(_NAMES.get(name, name), fields.one_line(target), fields.text(call.get("id"), 100))


def _result(call: dict[str, Any]) -> str | None:
    for part in fields.rows(call.get("result")):
        response = fields.table(fields.table(fields.table(part).get("functionResponse")).get("response"))
        found = fields.text(response.get("output")) or fields.text(response.get("error"))
        if found:
            return found
    return fields.text(call.get("resultDisplay"))


def _why(text: str) -> str:
    """`[API Error: {"error": {"message": …}}]` is its message."""
    start, end = text.find("{"), text.rfind("}")
    inside = fields.record(text[start : end + 1]) if 0 <= start < end else None
    found = fields.text(fields.table((inside or {}).get("error")).get("message"))
    return found or text.strip("[]")
