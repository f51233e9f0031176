"""What the course of a session comes to: one state, how it is known, and which others hooks cannot tell it from."""

from __future__ import annotations

from typing import Final

from imi_monitor.model.agent import CANCELLED, COMPLETED, FAILED, PLANNING, RUNNING, WAITING, Evidence, ToolCall
from imi_monitor.sources.agents.hooks import records as kinds
from imi_monitor.sources.agents.hooks.course import ENDS_TURN, Course
from imi_monitor.sources.agents.hooks.records import Record

_STOPPED: Final = frozenset({CANCELLED, COMPLETED, FAILED})  # Esc, and many a failure, fires no hook
_BADLY: Final = frozenset({CANCELLED, FAILED})
_SURE: Final[frozenset[str]] = frozenset()
_TELLS_ALL: Final = frozenset({"opencode"})  # its plugin hears of every end

_Reading = tuple[str, str | None, frozenset[str]]  # the state, more about it, what it cannot be told from


def evidence_of(course: Course) -> tuple[Evidence, ...]:
    """What is asked stands above whatever else goes on meanwhile."""
    if course.asks:
        return (_waits(min(course.asks.values(), key=lambda one: one.order), course),)
    rest, anchor = course.ended or course.idle, course.anchor
    known = anchor is not None and anchor.kind in ENDS_TURN and not anchor.background
    if rest is not None and not known and (anchor is None or rest.order > anchor.order):
        return (_rests(rest),)
    return () if anchor is None else (_tells(anchor, course),)


def _tells(anchor: Record, course: Course) -> Evidence:
    state, detail, or_else = _reading(anchor)
    works = state in (RUNNING, PLANNING)
    tool = anchor.tool if anchor.kind == kinds.BEFORE else _open_tool(course) if works else None
    says = f"hook {anchor.event}{f' ({tool})' if tool else ''} of {anchor.cli}"
    return Evidence("hook", state, anchor.at, says, detail, tool, or_else=or_else)


def _open_tool(course: Course) -> ToolCall | None:
    mine = [one.tool for one in course.calls.values() if one.helper is None]
    return mine[-1] if mine else None


def _reading(anchor: Record) -> _Reading:
    if anchor.kind in ENDS_TURN:
        return _of_an_end(anchor)
    unheard = _SURE if anchor.cli in _TELLS_ALL else _STOPPED
    if anchor.kind == kinds.COMPACTS:
        return RUNNING, "compacting", unheard
    planning = anchor.planning and anchor.cli == "claude"  # Codex says `default` while it plans
    return PLANNING if planning else RUNNING, anchor.text if anchor.event == "retry" else None, unheard


def _of_an_end(anchor: Record) -> _Reading:
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


def _rests(rest: Record) -> Evidence:
    """The agent rests, and nothing told how its turn ended."""
    says = f"hook {rest.event} of {rest.cli}{f' ({rest.text})' if rest.text else ''}"
    if rest.kind == kinds.IDLE:
        return Evidence("hook", COMPLETED, rest.at, says, or_else=_BADLY)
    why = f"the session ended in a turn ({rest.text or '?'})"
    return Evidence("hook", CANCELLED, rest.at, says, why, or_else=frozenset({COMPLETED, FAILED}))


def _waits(ask: Record, course: Course) -> Evidence:
    """Nothing tells that a person said yes or no until the call is over."""
    or_else = _SURE if ask.cli in _TELLS_ALL else _STOPPED | {RUNNING}
    last = next(reversed([one for one in course.calls.values() if one.helper == ask.helper]), None)
    tool = ask.tool or (last.tool if last else None)
    says = f"hook {ask.event} of {ask.cli}{' (a subagent)' if ask.helper else ''}: {ask.text or '?'}"
    return Evidence("permission", WAITING, ask.at, says[:300], ask.text, tool, or_else=or_else)
