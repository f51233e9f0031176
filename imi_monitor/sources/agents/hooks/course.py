"""The course of one session as its hooks tell it: which calls are open, what is asked, how the last turn ended.

It is a function of the records alone, in their order: who starts later, or missed some, comes to the same. `needed` names
the records it rests on; all others could be forgotten without changing anything, and are, when they are old.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from imi_monitor.sources.agents.hooks import records as kinds
from imi_monitor.sources.agents.hooks.records import Record

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
class Course:
    """Fed record by record. `anchor` is the one that tells what the main thread does."""

    anchor: Record | None = None
    before_compaction: Record | None = None
    closed: Record | None = None  # the call that the anchor ended, or the one before the compaction
    calls: dict[str, Record] = field(default_factory=dict)
    asks: dict[str, Record] = field(default_factory=dict)
    helpers: dict[str, Record] = field(default_factory=dict)
    started: Record | None = None
    prompt: Record | None = None
    said: Record | None = None
    idle: Record | None = None
    ended: Record | None = None
    latest: Record | None = None

    def feed(self, record: Record) -> None:
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

    def _follows_an_error(self, record: Record) -> bool:
        """opencode is idle after an error too: the error tells more."""
        follows = record.kind == kinds.OVER and record.cli == "opencode" and self.anchor is not None
        return follows and self.anchor is not None and self.anchor.kind in (kinds.FAILED, kinds.CANCELLED)

    def _rests(self, record: Record) -> None:
        """Nothing runs any more; how the turn ended is for the anchor to tell, if it knows."""
        self._close_turn(record)
        if record.kind == kinds.IDLE:
            self.idle = record
        else:
            self.ended = record

    def _main(self, record: Record) -> None:
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

    def _turn(self, record: Record) -> None:
        self._close_turn(record)
        if record.kind == kinds.PROMPT:
            self.prompt = record
        elif record.kind == kinds.STARTED:
            self.started = record
        elif record.kind == kinds.OVER and record.text:
            self.said = record

    def _close_turn(self, record: Record) -> None:
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

    def _open(self, record: Record) -> None:
        key = _key(record)
        self.calls.pop(key, None)  # the newest stands last
        self.asks.pop(key, None)  # that was for another call which looked the same
        self.calls[key] = record

    def _ask(self, record: Record) -> None:
        if record.ask == "notification":
            if self.asks:  # it comes seconds after what it is about
                return
            key = record.ask
        else:
            call = self.call_of(record)
            key = record.ask or (_key(call) if call else f"{record.helper}:{record.name}")
        self.asks[key] = record

    def call_of(self, record: Record) -> Record | None:
        """The open call that a permission is for: the same input, else the last of its name, else the last."""
        mine = [one for one in self.calls.values() if one.helper == record.helper]
        if record.tool is None:
            return mine[-1] if mine else None
        named = [one for one in mine if one.tool is not None and one.tool.name == record.tool.name]
        same = [one for one in named if one.inputs == record.inputs]
        return next(reversed(same or named), None)

    def _close(self, record: Record) -> Record | None:
        """The call is over, and with it what was asked for it."""
        key = _key(record) if record.tool is not None and record.tool.id else None
        if key is None or key not in self.calls:
            call = None if key is not None else self.call_of(record)
            key = _key(call) if call is not None else key
        self.asks.pop("notification", None)
        for name in [name for name, one in self.asks.items() if name == key or _same(one, record)]:
            del self.asks[name]
        return self.calls.pop(key, None) if key is not None else None

    def _of_helper(self, record: Record) -> None:
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


def _key(record: Record) -> str:
    """Calls without an id of their own are told apart by what they do."""
    if record.tool is None:
        return record.name
    return f"{record.helper}:{record.tool.id or f'{record.tool.name}:{record.inputs}'}"


def _same(ask: Record, after: Record) -> bool:
    """A permission names no call: it is the one of this tool with this input in this thread."""
    if ask.tool is None or after.tool is None:
        return False
    if ask.tool.id and after.tool.id:
        return ask.tool.id == after.tool.id
    return (ask.helper, ask.tool.name, ask.inputs) == (after.helper, after.tool.name, after.inputs)
