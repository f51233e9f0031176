"""Folds the records of one Codex thread into what it does now and what is known of it."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import TypeVar

from imi_monitor.model.agent import (
    CANCELLED,
    COMPLETED,
    FAILED,
    PLANNING,
    RUNNING,
    WAITING,
    AgentEvent,
    Evidence,
    SessionFacts,
    ToolCall,
)
from imi_monitor.sources.agents.codex.record_types import (
    PLAN,
    ModelRetry,
    RolloutItem,
    ThreadContext,
    ThreadTokens,
    TurnBegan,
    UnknownRecord,
    answers,
)
from imi_monitor.sources.agents.codex.records import parse
from imi_monitor.sources.agents.session_reducer import SessionReducer

_MOST_UNMATCHED = 500
_MOST_HEAD = 300  # characters of a result in which a command is said to run on
_RUNS_ON = re.compile(r"^Process running with session ID \d+", re.MULTILINE)
_MARKS_TURNS = re.compile(r"[1-9]|0\.(1[0-9]{2}|[2-9][0-9]{2}|[1-9][0-9]{3})\b")  # versions that record turns
_TITLE_TASK = "Generate a concise, single-line task title"  # a prompt of Codex itself; such a thread is no agent
_ENDS = {"completed": COMPLETED, "failed": FAILED, "cancelled": CANCELLED}
_IN_A_TURN = frozenset({"message", "tool_started", "tool_finished", "waits", "plan"})
_QUIET = 10.0  # seconds after which a message is taken for the end of its turn, in versions that do not record it


class CodexReducer(SessionReducer):
    def __init__(self, label: str, head: ThreadContext | None = None) -> None:
        """`label`: the name of the file, for people. `head`: the first line of the file, which may not be read yet."""
        super().__init__()
        self.context = ThreadContext()
        self.mode: str | None = None
        self.plan: str | None = None
        self.usage = ThreadTokens()
        self.internal = False
        self.at: str | None = None  # of the newest record that matters
        self.unknown: dict[str, None] = {}
        self._label = label
        self._open: dict[str, AgentEvent] = {}
        self._background: dict[str, AgentEvent] = {}  # calls that were answered while their command runs on
        self._unmatched: dict[str, AgentEvent] = {}  # results of unread calls, or second results
        self._end: AgentEvent | None = None
        self._marks_turns = False  # see _MARKS_TURNS
        self._active = False
        self._began_here = False
        self._message_last = False  # the newest record is a message
        self._retry: ModelRetry | None = None
        if head is not None:
            self._set_context(head)
            self._marks_turns = bool(_MARKS_TURNS.match(head.version or ""))

    def add(self, line: bytes, at: str) -> None:
        for item in parse(line, at):
            self._add_item(item)

    def _add_item(self, item: RolloutItem) -> None:
        if isinstance(item, AgentEvent):
            self._add_event(item)
        elif isinstance(item, TurnBegan):
            self._begin_turn(item)
        elif isinstance(item, ThreadContext):
            self._set_context(item)
        elif isinstance(item, ThreadTokens):
            self.usage = _newer(self.usage, item)
        elif isinstance(item, ModelRetry):
            self._retry, self.at = item, item.at
        elif isinstance(item, UnknownRecord) and len(self.unknown) < 20:
            self.unknown[item.what] = None

    def inherit(self, older: CodexReducer) -> None:
        self.context = _newer(older.context, self.context)
        self.usage = _newer(older.usage, self.usage)
        self._inherit_facts(older)
        self.mode = self.mode or older.mode
        self.internal = self.internal or older.internal
        self._marks_turns = self._marks_turns or older._marks_turns
        for call, known in older._open.items():
            if call in self._unmatched:
                self._events.append(self._finish_call(self._unmatched[call], known))
            elif self._end is None and older._active and not self._began_here:
                self._open = {call: known, **self._open}
        if not self._active and self._end is None and older._active:
            self._active, self.at = True, self.at or older.at

    # -- one record -----------------------------------------------------------------------------------------------

    def _begin_turn(self, item: TurnBegan) -> None:
        self._marks_turns = self._active = self._began_here = True
        self._end = self._retry = self.plan = None
        self._open.clear()
        self.mode = item.mode or self.mode
        self.turn_at = self.at = item.at
        self.usage = _newer(self.usage, ThreadTokens(window=item.window))

    def _set_context(self, item: ThreadContext) -> None:
        if item.id and self.context.id and item.id != self.context.id:
            return  # a fork begins with the records of the other thread, its id included
        self.context = _newer(self.context, item)
        self.mode = item.mode or self.mode

    def _add_event(self, item: AgentEvent) -> None:
        self._message_last = item.kind == "message"
        if item.kind in _IN_A_TURN and self._end is None:
            self._active = True  # its begin is not read yet
        if item.kind == "prompt":
            item = self._add_prompt(item)
        elif item.kind in _ENDS:
            self._end_turn(item)
        elif item.kind in ("tool_started", "waits") and item.tool and item.tool.id:
            self._open[item.tool.id] = item
            self._continue_turn(item.at)
            item = replace(item, files=())  # not written yet
        elif item.kind == "tool_finished" and item.tool and item.tool.id:
            known = self._open.pop(item.tool.id, None)
            self._follow_background(item, item.tool.id, known)
            if known is None:
                self._keep_unmatched(item, item.tool.id)
                return
            item = self._finish_call(item, known)
        else:
            self._add_text(item)
        self._events.append(item)

    def _add_prompt(self, item: AgentEvent) -> AgentEvent:
        self.prompt = item.text
        self.internal = self.internal or bool(item.text and item.text.startswith(_TITLE_TASK))
        if not self._marks_turns:
            self._end, self._active = None, True
            self._open.clear()
            self.turn_at = item.at
        self._continue_turn(item.at)
        return item

    def _follow_background(self, item: AgentEvent, call: str, known: AgentEvent | None) -> None:
        """A command that takes long is answered early, and its end is recorded as a second result."""
        if known is not None and _RUNS_ON.search((item.text or "")[:_MOST_HEAD]):
            self._background[call] = known
        else:
            self._background.pop(call, None)

    def _keep_unmatched(self, item: AgentEvent, call: str) -> None:
        """A result without its call: a second result, of an ended turn, or of a call that is not read yet. No event."""
        self.files.add(*item.files)
        if len(self._unmatched) < _MOST_UNMATCHED:
            self._unmatched[call] = item

    def _finish_call(self, item: AgentEvent, known: AgentEvent) -> AgentEvent:
        self._continue_turn(item.at)
        if known.kind == "waits" and known.tool and known.tool.name == "Question":
            call = known.tool.id
            return AgentEvent("answered", f"{call}:answered", item.at, answers(item.text), known.tool)
        files = item.files or (known.files if item.ok else ())
        absolute = tuple(os.path.normpath(os.path.join(self.context.cwd or "/", name)) for name in files)
        self.files.add(*absolute)
        return replace(item, tool=known.tool, files=absolute)

    def _end_turn(self, item: AgentEvent) -> None:
        self._end, self._active, self.at = item, False, item.at
        self._open.clear()
        self._retry = None
        if item.kind == "completed" and item.text:
            self.last_message = item.text

    def _add_text(self, item: AgentEvent) -> None:
        if item.kind == "message":
            self.last_message = item.text
            self._continue_turn(item.at)
        elif item.kind == "plan":
            self.plan = item.text
        elif item.kind == "ended":
            self.ended_at = item.at

    def _continue_turn(self, at: str) -> None:
        """Note activity in the open turn."""
        self._retry = None
        if self._active:
            self.at = at

    # -- the result -----------------------------------------------------------------------------------------------

    @property
    def working(self) -> bool:
        return self._active

    @property
    def only_call(self) -> AgentEvent | None:
        """The open call, if there is only one."""
        return next(iter(self._open.values())) if len(self._open) == 1 else None

    def background(self, since: str | None) -> ToolCall | None:
        """A command that was called since then and runs on after its turn."""
        return next((one.tool for one in self._background.values() if since is None or one.at >= since), None)

    @property
    def asks(self) -> str | None:
        """What a person is asked, or may be asked: a question, or the reason for an approval."""
        last = next(reversed(self._open.values()), None)
        return last.text if last else None

    def evidence(self, quiet: float | None = None) -> Evidence | None:
        """`quiet`: seconds since the last write, for versions that do not record the end of a turn."""
        if self._end is not None:
            return self._end_evidence(self._end)
        if not self._active or self.at is None:
            return None
        asked = next((one for one in reversed(self._open.values()) if one.kind == "waits"), None)
        if asked is not None:
            return self._evidence(WAITING, asked.at, f"{_name(asked.tool)} is not answered", asked.text, asked.tool)
        called = next(reversed(self._open.values()), None)
        if called is not None:
            return self._call_evidence(called)
        if not self._marks_turns and self._message_last:
            return self._message_evidence(quiet)
        what = f"the model is asked again ({self._retry.why})" if self._retry else "its turn is open"
        return self._evidence(self._busy, self.at, what, f"retrying: {self._retry.why}" if self._retry else None)

    @property
    def _busy(self) -> str:
        return PLANNING if self.mode == PLAN else RUNNING

    def _call_evidence(self, called: AgentEvent) -> Evidence:
        """Approvals are not recorded: under a policy that asks for them, an open call may be waiting for one."""
        may_ask = self.context.policy != "never"
        detail = f"may wait for approval: {called.text}" if may_ask and called.text else None
        found = self._evidence(self._busy, called.at, f"{_name(called.tool)} has no result yet", detail, called.tool)
        runs_command = called.tool is not None and called.tool.name == "Bash"
        return replace(found, or_else=frozenset({WAITING}), in_child=runs_command) if may_ask else found

    def _message_evidence(self, quiet: float | None) -> Evidence:
        over = quiet is not None and quiet > _QUIET
        state, other = (COMPLETED, RUNNING) if over else (RUNNING, COMPLETED)
        found = self._evidence(state, self.at or "", "its last record is a message; this version does not say more")
        return replace(found, or_else=frozenset({other, WAITING}))

    def _end_evidence(self, end: AgentEvent) -> Evidence:
        state = _ENDS[end.kind]
        what = {COMPLETED: "its turn is complete", FAILED: "its turn failed", CANCELLED: "its turn was interrupted"}[
            state
        ]
        detail = end.text if state == FAILED else "the plan is ready" if self.plan and state == COMPLETED else None
        return self._evidence(state, end.at, what, detail)

    def _evidence(
        self, state: str, at: str, what: str, detail: str | None = None, tool: ToolCall | None = None
    ) -> Evidence:
        return Evidence("transcript", state, at, f"{self._label} says {what}", detail, tool)

    def facts(self, title: str | None) -> SessionFacts:
        context, usage = self.context, self.usage
        return replace(
            self.known_facts(None),
            version=context.version,
            model=context.model,
            title=title,
            branch=context.branch,
            started_at=context.started_at,
            tokens_in=usage.fresh,
            tokens_out=usage.out,
            tokens_cached=usage.cached,
            context_used=usage.context,
            context_size=usage.window,
            parent=context.parent,
            format_note=self._note(),
        )

    def _note(self) -> str | None:
        if not self.unknown:
            return None
        names = ", ".join(list(self.unknown)[:3])
        return f"unknown (format) codex {self.context.version or '?'}: {names}"


_T = TypeVar("_T", ThreadContext, ThreadTokens)


def _newer(old: _T, new: _T) -> _T:
    """`old` with the known values of `new`."""
    known = {name: getattr(new, name) for name in type(new).__slots__ if getattr(new, name)}
    return replace(old, **known)


def _name(tool: ToolCall | None) -> str:
    return tool.name if tool else "a tool"
