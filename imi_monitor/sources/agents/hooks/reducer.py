"""Folds the hook events of one session into its open calls, its questions and the end of its last turn.

The result depends on the records and their order alone: a monitor that starts later comes to the same. `needed` names the
records that the result rests on; the files of all others may be deleted when they are old.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from imi_monitor.model.agent import (
    CANCELLED,
    COMPLETED,
    FAILED,
    NOTHING_ASKED,
    PLANNING,
    RUNNING,
    WAITING,
    AgentEvent,
    Evidence,
    ToolCall,
)
from imi_monitor.sources.agents.hooks import records as kinds
from imi_monitor.sources.agents.hooks.records import HookRecord

_SETS = frozenset(
    {
        kinds.STARTED,
        kinds.PROMPT,
        kinds.BUSY,
        kinds.BEFORE,
        kinds.AFTER,
        kinds.ANSWERED,
        kinds.OVER,
        kinds.FAILED,
        kinds.CANCELLED,
        kinds.COMPACTS,
    }
)
ENDS_TURN = frozenset({kinds.STARTED, kinds.OVER, kinds.FAILED, kinds.CANCELLED})


@dataclass
class HookReducer:
    """`anchor` is the record that decides the state of the main thread."""

    anchor: HookRecord | None = None
    before_compaction: HookRecord | None = None
    closed: HookRecord | None = None  # the call that the anchor ended, or the one before the compaction
    calls: dict[str, HookRecord] = field(default_factory=dict)
    asks: dict[str, HookRecord] = field(default_factory=dict)
    helpers: dict[str, HookRecord] = field(default_factory=dict)
    started: HookRecord | None = None
    prompt: HookRecord | None = None
    said: HookRecord | None = None
    idle: HookRecord | None = None
    ended: HookRecord | None = None
    latest: HookRecord | None = None

    def add(self, record: HookRecord) -> None:
        self.latest = record
        if record.helper is not None:
            self._add_of_helper(record)
            return
        if record.kind == kinds.COMPACTED:
            self._after_compaction()
            return
        if record.kind == kinds.ASKS:
            self._ask(record)
            return
        if record.kind in (kinds.IDLE, kinds.ENDED):
            self._rest(record)
        elif record.kind in _SETS and not self._follows_error(record):
            self._add_of_main(record)

    def needed(self) -> set[str]:
        """The names of the records that the result rests on."""
        single = (
            self.anchor,
            self.before_compaction,
            self.closed,
            self.started,
            self.prompt,
            self.said,
            self.idle,
            self.ended,
            self.latest,
        )
        many = (*self.calls.values(), *self.asks.values(), *self.helpers.values())
        return {one.name for one in (*single, *many) if one is not None}

    # -- the main thread ----------------------------------------------------------------------------------------------

    def _follows_error(self, record: HookRecord) -> bool:
        """opencode reports idle after an error, too; the error says more."""
        follows = record.kind == kinds.OVER and record.cli == "opencode" and self.anchor is not None
        return follows and self.anchor is not None and self.anchor.kind in (kinds.FAILED, kinds.CANCELLED)

    def _rest(self, record: HookRecord) -> None:
        """Record that nothing runs any more. If the anchor is the end of a turn, it says how the turn ended."""
        self._close_turn(record)
        if record.kind == kinds.IDLE:
            self.idle = record
        else:
            self.ended = record

    def _add_of_main(self, record: HookRecord) -> None:
        before = self.anchor
        if record.kind == kinds.COMPACTS:
            twice = before is not None and before.kind == kinds.COMPACTS
            self.before_compaction = self.before_compaction if twice else before
        else:
            self.before_compaction = self.closed = None
        if record.kind == kinds.BEFORE:
            self._open(record)
        elif record.kind == kinds.AFTER:
            self.closed = self._close(record)
        elif record.kind == kinds.ANSWERED:
            self.asks.pop(record.ask or "", None)
        elif record.kind in ENDS_TURN or record.kind == kinds.PROMPT:
            self._turn(record)
        if record.kind != kinds.COMPACTS:
            self.idle = self.ended = None
        self.anchor = record

    def _turn(self, record: HookRecord) -> None:
        self._close_turn(record)
        if record.kind == kinds.PROMPT:
            self.prompt = record
        elif record.kind == kinds.STARTED:
            self.started = record
        elif record.kind == kinds.OVER and record.text:
            self.said = record

    def _close_turn(self, record: HookRecord) -> None:
        """Drop the calls and questions of a turn that ended."""
        new_process = record.kind in (kinds.STARTED, kinds.ENDED)
        of_helpers = {} if new_process else {key: one for key, one in self.asks.items() if one.helper is not None}
        typed = record.kind == kinds.PROMPT and not record.machine  # no person types a prompt while a dialog is open
        self.asks = {} if typed else of_helpers
        self.calls = {} if new_process else {key: one for key, one in self.calls.items() if one.helper is not None}
        if new_process:
            self.helpers = {}

    def _after_compaction(self) -> None:
        if self.anchor is not None and self.anchor.kind == kinds.COMPACTS:
            self.anchor, self.before_compaction = self.before_compaction, None

    # -- calls and questions ------------------------------------------------------------------------------------------

    def _open(self, record: HookRecord) -> None:
        key = _key(record)
        self.calls.pop(key, None)  # the newest comes last
        self.asks.pop(key, None)  # it was for an earlier call that looked the same
        self.calls[key] = record

    def _ask(self, record: HookRecord) -> None:
        if record.ask == kinds.NOTIFICATION:
            if self.asks:  # a notification follows its permission by seconds
                return
            key = record.ask
        else:
            call = self.call_of(record)
            key = record.ask or (_key(call) if call else f"{record.helper}:{record.name}")
        self.asks[key] = record

    def call_of(self, record: HookRecord) -> HookRecord | None:
        """The open call of a permission: one with the same input, else the last of the same tool, else the last."""
        mine = [one for one in self.calls.values() if one.helper == record.helper]
        if record.tool is None:
            return mine[-1] if mine else None
        named = [one for one in mine if one.tool is not None and one.tool.name == record.tool.name]
        same = [one for one in named if one.inputs == record.inputs]
        return next(reversed(same or named), None)

    def _close(self, record: HookRecord) -> HookRecord | None:
        """End a call and its questions; returns the record of its start."""
        key = _key(record) if record.tool is not None and record.tool.id else None
        if key is None or key not in self.calls:
            call = None if key is not None else self.call_of(record)
            key = _key(call) if call is not None else key
        self.asks.pop(kinds.NOTIFICATION, None)
        for name in [name for name, one in self.asks.items() if name == key or _same(one, record)]:
            del self.asks[name]
        return self.calls.pop(key, None) if key is not None else None

    def _add_of_helper(self, record: HookRecord) -> None:
        """Take in an event of a subagent: of its events only the questions concern the person."""
        helper = record.helper or ""
        if record.kind == kinds.HELPER_STARTED:
            self.helpers[helper] = record
        elif record.kind == kinds.HELPER_OVER:
            self.helpers.pop(helper, None)
            self.calls = {key: one for key, one in self.calls.items() if one.helper != helper}
            self.asks = {key: one for key, one in self.asks.items() if one.helper != helper}
        elif record.kind == kinds.BEFORE:
            self._open(record)
        elif record.kind == kinds.AFTER:
            self._close(record)
        elif record.kind == kinds.ASKS:
            self._ask(record)


def _key(record: HookRecord) -> str:
    """A key for the call; calls without an id are distinguished by tool and input."""
    if record.tool is None:
        return record.name
    return f"{record.helper}:{record.tool.id or f'{record.tool.name}:{record.inputs}'}"


def _same(ask: HookRecord, after: HookRecord) -> bool:
    """True if the permission belongs to the call: by id, else by thread, tool and input."""
    if ask.tool is None or after.tool is None:
        return False
    if ask.tool.id and after.tool.id:
        return ask.tool.id == after.tool.id
    return (ask.helper, ask.tool.name, ask.inputs) == (after.helper, after.tool.name, after.inputs)


# -- evidence ---------------------------------------------------------------------------------------------------------

_ENDS: Final = frozenset({CANCELLED, COMPLETED, FAILED})  # Esc and some failures fire no hook
_BAD_ENDS: Final = frozenset({CANCELLED, FAILED})
_CERTAIN: Final[frozenset[str]] = frozenset()
_REPORTS_ENDS: Final = frozenset({"opencode"})  # its plugin receives every end

_AnchorState = tuple[str, str | None, frozenset[str]]  # state, detail, other states with the same records


def evidence_of(reducer: HookReducer) -> tuple[Evidence, ...]:
    """The evidence for the current state; an open question outranks everything else."""
    if reducer.asks:
        return (_question_evidence(min(reducer.asks.values(), key=lambda one: one.order), reducer),)
    rest, anchor = reducer.ended or reducer.idle, reducer.anchor
    known = anchor is not None and anchor.kind in ENDS_TURN and not anchor.background
    if rest is not None and not known and (anchor is None or rest.order > anchor.order):
        return (_rest(rest),)
    return () if anchor is None else (_anchor_evidence(anchor, reducer),)


def _anchor_evidence(anchor: HookRecord, reducer: HookReducer) -> Evidence:
    state, detail, or_else = _anchor_state(anchor)
    works = state in (RUNNING, PLANNING)
    tool = anchor.tool if anchor.kind == kinds.BEFORE else _open_tool(reducer) if works else None
    says = f"hook {anchor.event}{f' ({tool})' if tool else ''} of {anchor.cli}"
    return Evidence("hook", state, anchor.at, says, detail, tool, or_else=or_else)


def _open_tool(reducer: HookReducer) -> ToolCall | None:
    mine = [one.tool for one in reducer.calls.values() if one.helper is None]
    return mine[-1] if mine else None


def _anchor_state(anchor: HookRecord) -> _AnchorState:
    if anchor.kind in ENDS_TURN:
        return _end_state(anchor)
    unreported = _CERTAIN if anchor.cli in _REPORTS_ENDS else _ENDS
    if anchor.kind == kinds.COMPACTS:
        return RUNNING, "compacting", unreported
    planning = anchor.planning and anchor.cli == "claude"  # Codex reports `default` while it plans
    return PLANNING if planning else RUNNING, anchor.text if anchor.event == "retry" else None, unreported


def _end_state(anchor: HookRecord) -> _AnchorState:
    gemini = anchor.cli == "gemini"  # it reports an end also after a cancel or a failure, without saying which
    match anchor.kind:
        case kinds.STARTED:
            return COMPLETED, NOTHING_ASKED, _CERTAIN
        case kinds.FAILED:
            return FAILED, anchor.text, frozenset({CANCELLED}) if gemini else _CERTAIN
        case kinds.CANCELLED:
            return CANCELLED, anchor.text, frozenset({RUNNING}) if gemini else _CERTAIN
    if anchor.background:
        return RUNNING, f"{anchor.background} in the background", frozenset({COMPLETED})
    return COMPLETED, None, _BAD_ENDS if gemini or anchor.cli == "opencode" else _CERTAIN


def _rest(rest: HookRecord) -> Evidence:
    """The agent rests, and no event says how its turn ended."""
    says = f"hook {rest.event} of {rest.cli}{f' ({rest.text})' if rest.text else ''}"
    if rest.kind == kinds.IDLE:
        return Evidence("hook", COMPLETED, rest.at, says, or_else=_BAD_ENDS)
    why = f"the session ended in a turn ({rest.text or '?'})"
    return Evidence("hook", CANCELLED, rest.at, says, why, or_else=frozenset({COMPLETED, FAILED}))


def _question_evidence(ask: HookRecord, reducer: HookReducer) -> Evidence:
    """An answer fires no hook; the question stays open until its call ends."""
    or_else = _CERTAIN if ask.cli in _REPORTS_ENDS else _ENDS | {RUNNING}
    last = next(reversed([one for one in reducer.calls.values() if one.helper == ask.helper]), None)
    tool = ask.tool or (last.tool if last else None)
    says = f"hook {ask.event} of {ask.cli}{' (a subagent)' if ask.helper else ''}: {ask.text or '?'}"
    return Evidence("permission", WAITING, ask.at, says[:300], ask.text, tool, or_else=or_else)


# -- events -----------------------------------------------------------------------------------------------------------


def events_of(record: HookRecord, asked_for: HookRecord | None = None) -> list[AgentEvent]:
    """Return what a record adds to the events of its session; ids of calls equal those of the transcript.

    Only what a transcript does not contain: starts, ends, waiting, and Gemini's starts of tools. `asked_for`: the call of a
    permission, which does not name it.
    """
    named = next((one.tool.id for one in (record, asked_for) if one and one.tool and one.tool.id), None)
    call = named or f"hook-{record.ns}"
    match record.kind:
        case kinds.STARTED:
            return [_event(record, "started", f"hook-{record.ns}:started")]
        case kinds.ENDED:
            return [_event(record, "ended", f"hook-{record.ns}:ended")]
        case kinds.ASKS if record.ask != kinds.NOTIFICATION:
            return [_event(record, "waits", f"{record.ask or call}:waits")]
        case kinds.ANSWERED:
            return [_event(record, "answered", f"{record.ask or call}:answered")]
        case kinds.BEFORE if record.cli == "gemini":  # its chat contains a call only when that has ended
            return [_event(record, "tool_started", f"{call}:started")]
    return []


def _event(record: HookRecord, kind: str, ident: str) -> AgentEvent:
    return AgentEvent(kind, ident, record.at, record.text, record.tool, files=record.files, subagent=record.helper)
