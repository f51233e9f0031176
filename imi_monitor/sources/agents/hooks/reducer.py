"""The reducer of one session as its hooks tell it: which calls are open, what is asked, how the last turn ended.

It is a function of the records alone, in their order: who starts later, or missed some, comes to the same. `needed` names
the records it rests on; all others could be forgotten without changing anything, and are, when they are old.

What the reducer of a session comes to: one state, how it is known, and which others hooks cannot tell it from.

What hooks add to the record of a session. What a transcript tells too is not told twice: only starts, ends, waiting,
and what the agent of that name writes down nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from imi_monitor.model.agent import (
    CANCELLED,
    COMPLETED,
    FAILED,
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
    """Fed record by record. `anchor` is the one that tells what the main thread does."""

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

    def feed(self, record: HookRecord) -> None:
        self.latest = record
        if record.helper is not None:
            self._of_helper(record)
            return
        if record.kind == kinds.COMPACTED:
            self._after_compaction()
            return
        if record.kind == kinds.ASKS:
            self._ask(record)
            return
        if record.kind in (kinds.IDLE, kinds.ENDED):
            self._rests(record)
        elif record.kind in _SETS and not self._follows_an_error(record):
            self._main(record)

    def needed(self) -> set[str]:
        """Names of the records without which it would not be what it is."""
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

    def _follows_an_error(self, record: HookRecord) -> bool:
        """opencode is idle after an error too: the error tells more."""
        follows = record.kind == kinds.OVER and record.cli == "opencode" and self.anchor is not None
        return follows and self.anchor is not None and self.anchor.kind in (kinds.FAILED, kinds.CANCELLED)

    def _rests(self, record: HookRecord) -> None:
        """Nothing runs any more; how the turn ended is for the anchor to tell, if it knows."""
        self._close_turn(record)
        if record.kind == kinds.IDLE:
            self.idle = record
        else:
            self.ended = record

    def _main(self, record: HookRecord) -> None:
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
        """A turn begins or is over: nothing of the one before is open."""
        new_process = record.kind in (kinds.STARTED, kinds.ENDED)
        of_helpers = {} if new_process else {key: one for key, one in self.asks.items() if one.helper is not None}
        typed = record.kind == kinds.PROMPT and not record.machine  # nobody types while a dialog is open
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
        self.calls.pop(key, None)  # the newest stands last
        self.asks.pop(key, None)  # that was for another call which looked the same
        self.calls[key] = record

    def _ask(self, record: HookRecord) -> None:
        if record.ask == "notification":
            if self.asks:  # it comes seconds after what it is about
                return
            key = record.ask
        else:
            call = self.call_of(record)
            key = record.ask or (_key(call) if call else f"{record.helper}:{record.name}")
        self.asks[key] = record

    def call_of(self, record: HookRecord) -> HookRecord | None:
        """The open call that a permission is for: the same input, else the last of its name, else the last."""
        mine = [one for one in self.calls.values() if one.helper == record.helper]
        if record.tool is None:
            return mine[-1] if mine else None
        named = [one for one in mine if one.tool is not None and one.tool.name == record.tool.name]
        same = [one for one in named if one.inputs == record.inputs]
        return next(reversed(same or named), None)

    def _close(self, record: HookRecord) -> HookRecord | None:
        """The call is over, and with it what was asked for it."""
        key = _key(record) if record.tool is not None and record.tool.id else None
        if key is None or key not in self.calls:
            call = None if key is not None else self.call_of(record)
            key = _key(call) if call is not None else key
        self.asks.pop("notification", None)
        for name in [name for name, one in self.asks.items() if name == key or _same(one, record)]:
            del self.asks[name]
        return self.calls.pop(key, None) if key is not None else None

    def _of_helper(self, record: HookRecord) -> None:
        """A subagent's doings are its own; only what it asks concerns the person."""
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
    """Calls without an id of their own are told apart by what they do."""
    if record.tool is None:
        return record.name
    return f"{record.helper}:{record.tool.id or f'{record.tool.name}:{record.inputs}'}"


def _same(ask: HookRecord, after: HookRecord) -> bool:
    """A permission names no call: it is the one of this tool with this input in this thread."""
    if ask.tool is None or after.tool is None:
        return False
    if ask.tool.id and after.tool.id:
        return ask.tool.id == after.tool.id
    return (ask.helper, ask.tool.name, ask.inputs) == (after.helper, after.tool.name, after.inputs)


_STOPPED: Final = frozenset({CANCELLED, COMPLETED, FAILED})  # Esc, and many a failure, fires no hook
_BADLY: Final = frozenset({CANCELLED, FAILED})
_SURE: Final[frozenset[str]] = frozenset()
_TELLS_ALL: Final = frozenset({"opencode"})  # its plugin hears of every end

_Reading = tuple[str, str | None, frozenset[str]]  # the state, more about it, what it cannot be told from


def evidence_of(reducer: HookReducer) -> tuple[Evidence, ...]:
    """What is asked stands above whatever else goes on meanwhile."""
    if reducer.asks:
        return (_waits(min(reducer.asks.values(), key=lambda one: one.order), reducer),)
    rest, anchor = reducer.ended or reducer.idle, reducer.anchor
    known = anchor is not None and anchor.kind in ENDS_TURN and not anchor.background
    if rest is not None and not known and (anchor is None or rest.order > anchor.order):
        return (_rests(rest),)
    return () if anchor is None else (_tells(anchor, reducer),)


def _tells(anchor: HookRecord, reducer: HookReducer) -> Evidence:
    state, detail, or_else = _reading(anchor)
    works = state in (RUNNING, PLANNING)
    tool = anchor.tool if anchor.kind == kinds.BEFORE else _open_tool(reducer) if works else None
    says = f"hook {anchor.event}{f' ({tool})' if tool else ''} of {anchor.cli}"
    return Evidence("hook", state, anchor.at, says, detail, tool, or_else=or_else)


def _open_tool(reducer: HookReducer) -> ToolCall | None:
    mine = [one.tool for one in reducer.calls.values() if one.helper is None]
    return mine[-1] if mine else None


def _reading(anchor: HookRecord) -> _Reading:
    if anchor.kind in ENDS_TURN:
        return _of_an_end(anchor)
    unheard = _SURE if anchor.cli in _TELLS_ALL else _STOPPED
    if anchor.kind == kinds.COMPACTS:
        return RUNNING, "compacting", unheard
    planning = anchor.planning and anchor.cli == "claude"  # Codex says `default` while it plans
    return PLANNING if planning else RUNNING, anchor.text if anchor.event == "retry" else None, unheard


def _of_an_end(anchor: HookRecord) -> _Reading:
    gemini = anchor.cli == "gemini"  # it tells its turn's end after a cancel and a failure too, without a word which
    match anchor.kind:
        case kinds.STARTED:
            return COMPLETED, "started, nothing asked yet", _SURE
        case kinds.FAILED:
            return FAILED, anchor.text, frozenset({CANCELLED}) if gemini else _SURE
        case kinds.CANCELLED:
            return CANCELLED, anchor.text, frozenset({RUNNING}) if gemini else _SURE
    if anchor.background:
        return RUNNING, f"{anchor.background} in the background", frozenset({COMPLETED})
    return COMPLETED, None, _BADLY if gemini or anchor.cli == "opencode" else _SURE


def _rests(rest: HookRecord) -> Evidence:
    """The agent rests, and nothing told how its turn ended."""
    says = f"hook {rest.event} of {rest.cli}{f' ({rest.text})' if rest.text else ''}"
    if rest.kind == kinds.IDLE:
        return Evidence("hook", COMPLETED, rest.at, says, or_else=_BADLY)
    why = f"the session ended in a turn ({rest.text or '?'})"
    return Evidence("hook", CANCELLED, rest.at, says, why, or_else=frozenset({COMPLETED, FAILED}))


def _waits(ask: HookRecord, reducer: HookReducer) -> Evidence:
    """Nothing tells that a person said yes or no until the call is over."""
    or_else = _SURE if ask.cli in _TELLS_ALL else _STOPPED | {RUNNING}
    last = next(reversed([one for one in reducer.calls.values() if one.helper == ask.helper]), None)
    tool = ask.tool or (last.tool if last else None)
    says = f"hook {ask.event} of {ask.cli}{' (a subagent)' if ask.helper else ''}: {ask.text or '?'}"
    return Evidence("permission", WAITING, ask.at, says[:300], ask.text, tool, or_else=or_else)


def happened_by(record: HookRecord, asked_for: HookRecord | None = None) -> list[AgentEvent]:
    """With ids that are the same at every reading; those of calls are the ones that transcripts lead to as well.

    `asked_for`: the call that a permission is for, as the permission does not name it.
    """
    named = next((one.tool.id for one in (record, asked_for) if one and one.tool and one.tool.id), None)
    call = named or f"hook-{record.ns}"
    match record.kind:
        case kinds.STARTED:
            return [_happened(record, "started", f"hook-{record.ns}:started")]
        case kinds.ENDED:
            return [_happened(record, "ended", f"hook-{record.ns}:ended")]
        case kinds.ASKS if record.ask != "notification":
            return [_happened(record, "waits", f"{record.ask or call}:waits")]
        case kinds.ANSWERED:
            return [_happened(record, "answered", f"{record.ask or call}:answered")]
        case kinds.BEFORE if record.cli == "gemini":  # its chat names a call when it is over
            return [_happened(record, "tool_started", f"{call}:started")]
    return []


def _happened(record: HookRecord, kind: str, ident: str) -> AgentEvent:
    return AgentEvent(kind, ident, record.at, record.text, record.tool, files=record.files, subagent=record.helper)
