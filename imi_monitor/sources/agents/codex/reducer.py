"""The course of one Codex thread: its records in order, folded into what it does now and what is known of it."""

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
    Item,
    ModelRetry,
    ThreadContext,
    ThreadTokens,
    TurnBegan,
    UnknownRecord,
    answers,
)
from imi_monitor.sources.agents.codex.records import read

_MOST_FILES = 200
_MOST_UNMATCHED = 500
_MOST_NEWS = 5000  # of one look
_TURNS = re.compile(r"[1-9]|0\.(1[0-9]{2}|[2-9][0-9]{2}|[1-9][0-9]{3})\b")  # they write where turns begin and end
_TITLE_TASK = "Generate a concise, single-line task title"  # Codex asks itself so; nobody's agent
_ENDS = {"completed": COMPLETED, "failed": FAILED, "cancelled": CANCELLED}
_IN_A_TURN = frozenset({"message", "tool_started", "tool_finished", "waits", "plan"})
_QUIET = 10.0  # seconds after which an old rollout's last message was the end of its turn


class CodexReducer:
    """Fed with lines, oldest first. `evidence` is what they say now."""

    def __init__(self, label: str) -> None:
        self.context = ThreadContext()
        self.mode: str | None = None
        self.prompt: str | None = None
        self.message: str | None = None
        self.plan: str | None = None
        self.usage = ThreadTokens()
        self.files: dict[str, None] = {}
        self.turn_at: str | None = None
        self.ended_at: str | None = None
        self.internal = False
        self.at: str | None = None  # the last that matters
        self.strange: dict[str, None] = {}
        self._label = label
        self._news: list[AgentEvent] = []
        self._open: dict[str, AgentEvent] = {}
        self._unmatched: dict[str, AgentEvent] = {}  # results of calls which we have not seen, or had a result already
        self._end: AgentEvent | None = None
        self._turns = False  # this version writes where turns begin and end
        self._active = False
        self._began_here = False
        self._said_last = False  # the last thing was a message
        self._retry: ModelRetry | None = None

    def add(self, line: bytes, otherwise_at: str) -> None:
        for item in read(line, otherwise_at):
            self._take(item)

    def _take(self, item: Item) -> None:
        if isinstance(item, AgentEvent):
            self._happened(item)
        elif isinstance(item, TurnBegan):
            self._began(item)
        elif isinstance(item, ThreadContext):
            self._moved(item)
        elif isinstance(item, ThreadTokens):
            self.usage = _newer(self.usage, item)
        elif isinstance(item, ModelRetry):
            self._retry, self.at = item, item.at
        elif isinstance(item, UnknownRecord) and len(self.strange) < 20:
            self.strange[item.what] = None

    def begin(self, head: ThreadContext) -> None:
        """What the file's first line tells; it may lie far before what is read."""
        self._moved(head)
        self._turns = bool(_TURNS.match(head.version or ""))

    def inherit(self, older: CodexReducer) -> None:
        """What was written before the part that was read first."""
        self.context = _newer(older.context, self.context)
        self.usage = _newer(older.usage, self.usage)
        self.mode = self.mode or older.mode
        self.prompt = self.prompt or older.prompt
        self.message = self.message or older.message
        self.turn_at = self.turn_at or older.turn_at
        self.internal = self.internal or older.internal
        self.files = {**older.files, **self.files}
        self._turns = self._turns or older._turns
        for call, known in older._open.items():
            if call in self._unmatched:
                self._news.append(self._finished(self._unmatched[call], known))
            elif self._end is None and older._active and not self._began_here:
                self._open = {call: known, **self._open}
        if not self._active and self._end is None and older._active:
            self._active, self.at = True, self.at or older.at

    def take_news(self) -> tuple[AgentEvent, ...]:
        news, self._news = tuple(self._news[-_MOST_NEWS:]), []
        return news

    # -- one record -----------------------------------------------------------------------------------------------

    def _began(self, item: TurnBegan) -> None:
        self._turns = self._active = self._began_here = True
        self._end = self._retry = self.plan = None
        self._open.clear()
        self.mode = item.mode or self.mode
        self.turn_at = self.at = item.at
        self.usage = _newer(self.usage, ThreadTokens(window=item.window))

    def _moved(self, item: ThreadContext) -> None:
        if item.id and self.context.id and item.id != self.context.id:
            return  # a fork begins with what the other thread said, its name included
        self.context = _newer(self.context, item)
        self.mode = item.mode or self.mode

    def _happened(self, item: AgentEvent) -> None:
        self._said_last = item.kind == "message"
        if item.kind in _IN_A_TURN and self._end is None:
            self._active = True  # where it began lies before what was read
        if item.kind == "prompt":
            item = self._prompted(item)
        elif item.kind in _ENDS:
            self._ended(item)
        elif item.kind in ("tool_started", "waits") and item.tool and item.tool.id:
            self._open[item.tool.id] = item
            self._goes_on(item.at)
            item = replace(item, files=())  # not yet
        elif item.kind == "tool_finished" and item.tool and item.tool.id:
            known = self._open.pop(item.tool.id, None)
            if known is None:
                self._unmatch(item, item.tool.id)
                return
            item = self._finished(item, known)
        else:
            self._said(item)
        self._news.append(item)

    def _prompted(self, item: AgentEvent) -> AgentEvent:
        self.prompt = item.text
        self.internal = self.internal or bool(item.text and item.text.startswith(_TITLE_TASK))
        if not self._turns:
            self._end, self._active = None, True
            self._open.clear()
            self.turn_at = item.at
        self._goes_on(item.at)
        return item

    def _unmatch(self, item: AgentEvent, call: str) -> None:
        """Told before, or of a turn that is over, or of a call that lies before what was read: no news."""
        self._wrote(item.files)
        if len(self._unmatched) < _MOST_UNMATCHED:
            self._unmatched[call] = item

    def _finished(self, item: AgentEvent, known: AgentEvent) -> AgentEvent:
        self._goes_on(item.at)
        if known.kind == "waits" and known.tool and known.tool.name == "Question":
            call = known.tool.id
            return AgentEvent("answered", f"{call}:answered", item.at, answers(item.text), known.tool)
        files = item.files or (known.files if item.ok else ())
        absolute = tuple(os.path.normpath(os.path.join(self.context.cwd or "/", name)) for name in files)
        self._wrote(absolute)
        return replace(item, tool=known.tool, files=absolute)

    def _wrote(self, files: tuple[str, ...]) -> None:
        for name in files:
            self.files.pop(name, None)
            self.files[name] = None
        for name in list(self.files)[:-_MOST_FILES]:
            del self.files[name]

    def _ended(self, item: AgentEvent) -> None:
        self._end, self._active, self.at = item, False, item.at
        self._open.clear()
        self._retry = None
        if item.kind == "completed" and item.text:
            self.message = item.text

    def _said(self, item: AgentEvent) -> None:
        if item.kind == "message":
            self.message = item.text
            self._goes_on(item.at)
        elif item.kind == "plan":
            self.plan = item.text
        elif item.kind == "ended":
            self.ended_at = item.at

    def _goes_on(self, at: str) -> None:
        """Something was done in the turn that is open."""
        self._retry = None
        if self._active:
            self.at = at

    # -- what it says now -----------------------------------------------------------------------------------------

    @property
    def working(self) -> bool:
        return self._active

    @property
    def asks(self) -> str | None:
        """What a person is asked for, or may be: a question, or why it wants more rights."""
        last = next(reversed(self._open.values()), None)
        return last.text if last else None

    def evidence(self, quiet: float | None = None) -> Evidence | None:
        """`quiet`: seconds since anything was written, for versions that do not write where a turn ends."""
        if self._end is not None:
            return self._ending(self._end)
        if not self._active or self.at is None:
            return None
        asked = next((one for one in reversed(self._open.values()) if one.kind == "waits"), None)
        if asked is not None:
            return self._evidence(WAITING, asked.at, f"{_name(asked.tool)} is not answered", asked.text, asked.tool)
        called = next(reversed(self._open.values()), None)
        if called is not None:
            return self._calling(called)
        if not self._turns and self._said_last:
            return self._maybe_over(quiet)
        what = f"the model is asked again ({self._retry.why})" if self._retry else "its turn is open"
        return self._evidence(self._busy, self.at, what, f"retrying: {self._retry.why}" if self._retry else None)

    @property
    def _busy(self) -> str:
        return PLANNING if self.mode == PLAN else RUNNING

    def _calling(self, called: AgentEvent) -> Evidence:
        """The question whether a command may run is not in the file: who asks for approvals may be asking now."""
        may_ask = self.context.policy != "never"
        detail = f"may wait for approval: {called.text}" if may_ask and called.text else None
        found = self._evidence(self._busy, called.at, f"{_name(called.tool)} has no result yet", detail, called.tool)
        return replace(found, or_else=frozenset({WAITING})) if may_ask else found

    def _maybe_over(self, quiet: float | None) -> Evidence:
        over = quiet is not None and quiet > _QUIET
        state, other = (COMPLETED, RUNNING) if over else (RUNNING, COMPLETED)
        found = self._evidence(state, self.at or "", "its last record is a message; this version does not say more")
        return replace(found, or_else=frozenset({other, WAITING}))

    def _ending(self, end: AgentEvent) -> Evidence:
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
        return SessionFacts(
            version=context.version,
            model=context.model,
            title=title,
            branch=context.branch,
            started_at=context.started_at,
            ended_at=self.ended_at,
            turn_at=self.turn_at,
            prompt=self.prompt,
            last_message=self.message,
            tokens_in=usage.fresh,
            tokens_out=usage.out,
            tokens_cached=usage.cached,
            context_used=usage.context,
            context_size=usage.window,
            files=tuple(self.files),
            parent=context.parent,
            format_note=self._note(),
        )

    def _note(self) -> str | None:
        if not self.strange:
            return None
        names = ", ".join(list(self.strange)[:3])
        return f"unknown (format) codex {self.context.version or '?'}: {names}"


_T = TypeVar("_T", ThreadContext, ThreadTokens)


def _newer(old: _T, new: _T) -> _T:
    """What the newer tells, and where it tells nothing what was known."""
    told = {name: getattr(new, name) for name in type(new).__slots__ if getattr(new, name)}
    return replace(old, **told)


def _name(tool: ToolCall | None) -> str:
    return tool.name if tool else "a tool"
