"""Decides one state of an agent from all evidence, and says why the other evidence was rejected.

Four rules, derived from the behaviour of the real programs:
- The process comes first: the records of a killed agent say "running" for ever.
- A process begins with no open turn: what was recorded before it began and had not ended was cut off.
- Standing evidence of an authority (the agent's live registry, its daemon) decides the state; events only add the details:
  which tool, why it ended.
- Without an authority the newest event decides; of events at the same moment, the one from the better source. Evidence that
  cannot distinguish two states may be refined by a lesser source that can. Without evidence the state is unknown, never idle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache

from imi_monitor.model import times
from imi_monitor.model.agent import (
    CANCELLED,
    COMPLETED,
    DEAD,
    EXACT,
    GUESS,
    LIKELY,
    RESTING,
    SOURCES,
    UNKNOWN,
    WAITING,
    WORKING,
    Evidence,
    RejectedEvidence,
    Truth,
)

CUT_OFF = "cut off when its former process ended"
_AUTHORITIES = ("registry", "socket")
_SAME_MOMENT = timedelta(milliseconds=50)
_RECORD_LAG = timedelta(seconds=1)  # how far an agent's records may lag behind its registry
_TITLE_LAG = timedelta(milliseconds=300)  # how far a terminal title may lag behind an event
_SILENT = timedelta(minutes=10)  # how long a working state without further evidence is believed
_PROCESS_SLACK = timedelta(seconds=2)  # how far the start time of a process may differ from its records' clock


def decide(
    evidence: Iterable[Evidence],
    alive: bool | None,
    now: datetime,
    *,
    last_alive: str | None = None,
    process_began: str | None = None,
    tied: bool = False,
    former: Truth | None = None,
) -> Truth:
    """Return the state at `now`.

    `alive` is True if the process is proven alive, False if proven dead, None if unknown; `last_alive` is when it was
    last seen alive. `process_began` is when the process that holds the session now began. `tied`: the session may
    belong to another process, so nothing about it is exact. `former`: the truth when its process was last seen alive.
    """
    began = _moment(process_began) if process_began is not None else None
    ordered = sorted((_unless_cut_off(one, began) for one in evidence), key=_newest_first)
    events = [one for one in ordered if not one.standing]
    if alive is False:
        return _unless_tied(_of_dead_process(ordered, events, now, last_alive, former), tied)
    authority = next((one for name in _AUTHORITIES for one in ordered if one.standing and one.source == name), None)
    if authority is not None:
        return _by_authority(authority, ordered, events, now)
    return _unless_tied(_by_events(ordered, events, alive, now), tied)


def _unless_tied(found: Truth, tied: bool) -> Truth:
    return replace(found, confidence=LIKELY) if tied and found.confidence == EXACT else found


def _unless_cut_off(one: Evidence, began: datetime | None) -> Evidence:
    """Return what an event from before the process began says now: the turn is over."""
    open_states = WORKING | {WAITING}
    may_be_open = one.state in open_states or bool(open_states & one.or_else)
    if began is None or one.standing or not may_be_open or _moment(one.at) >= began - _PROCESS_SLACK:
        return one
    says = f"{one.says}; the process that holds the session began later"
    if one.state in open_states:  # exact as far as the clock was not set: what it says may still be so
        return replace(one, state=CANCELLED, says=says, detail=CUT_OFF, or_else=frozenset({one.state}))
    return replace(one, state=COMPLETED, says=says, detail=None, or_else=frozenset({CANCELLED}))


def reports_rest(evidence: Iterable[Evidence]) -> bool:
    """Return whether standing evidence says that the turn is over: its records may follow, so the state may change alone."""
    return any(one.standing and one.state in RESTING for one in evidence)


def _of_dead_process(
    ordered: Sequence[Evidence], events: Sequence[Evidence], now: datetime, last_alive: str | None, former: Truth | None
) -> Truth:
    """Return the state of an ended process: a finished turn stays finished, any other state becomes DEAD.

    What an authority said last decides whether a turn was open: its reading stays behind when the process is killed.
    Where records cannot distinguish it, what the process was seen to do at last decides: its title, its children.
    """
    last = events[0] if events else None
    left = next((one for one in ordered if one.standing and one.source in _AUTHORITIES), None)
    if left is not None and left.state in RESTING:
        found = _resting(left, ordered, last, now)
        if found.state in RESTING:
            return replace(found, ended=True)
    died_at_work = left is not None and last is not None and _moment(left.at) > _moment(last.at)
    seen_at_work = last is not None and former is not None and _was_at_work_after(former, last)
    at_rest = last if last is not None and last.state in RESTING else None
    if at_rest is not None and not (died_at_work or seen_at_work):
        confidence = LIKELY if at_rest.or_else else EXACT
        return _truth(at_rest, ordered, "the process has ended", confidence, ended=True)
    newest = last or (ordered[0] if ordered else None)
    since = last_alive or (newest.at if newest else None)
    why = "the process is gone, so its last activity is over"
    rejected = tuple(RejectedEvidence(one, why) for one in ordered)
    return Truth(
        DEAD,
        since,
        "process",
        LIKELY if seen_at_work and at_rest is not None else EXACT,
        "its process is gone",
        newest.tool if newest else None,
        rejected=rejected,
        ended=True,
    )


def _was_at_work_after(former: Truth, last: Evidence) -> bool:
    """Whether the process was seen to do what its last record may mean after that record, and not only before it."""
    if former.state not in last.or_else - RESTING:
        return False
    return any(_moment(one.read_at or one.at) > _moment(last.at) for one in former.used)


def _by_authority(authority: Evidence, ordered: Sequence[Evidence], events: Sequence[Evidence], now: datetime) -> Truth:
    last = events[0] if events else None
    if authority.state in WORKING:
        return _working(authority, ordered, last)
    if authority.state == WAITING:
        question = next((one for one in events if one.tool and (one.state == WAITING or WAITING in one.or_else)), None)
        return _truth(authority, ordered, _outranked(authority), EXACT, supplement=question)
    if authority.state in RESTING:
        return _resting(authority, ordered, last, now)
    return _truth(authority, ordered, _outranked(authority), EXACT)


def _working(authority: Evidence, ordered: Sequence[Evidence], last: Evidence | None) -> Truth:
    """Return a working state; the newest event adds the tool and whether it only plans."""
    if last is None or last.state not in WORKING:
        return _truth(authority, ordered, _outranked(authority), EXACT)
    truth = _truth(authority, ordered, _outranked(authority), EXACT, supplement=last)
    return replace(truth, state=last.state, since=max(authority.at, last.at, key=_moment))


def _resting(authority: Evidence, ordered: Sequence[Evidence], last: Evidence | None, now: datetime) -> Truth:
    """Return the end of a turn; the newest event says whether it completed, failed or was cancelled."""
    if last is not None and last.state in RESTING:
        truth = _truth(authority, ordered, _outranked(authority), EXACT, supplement=last)
        return replace(truth, state=last.state, since=last.at, detail=last.detail, tool=None)
    if last is None or last.state not in WORKING | {WAITING}:
        return _truth(authority, ordered, _outranked(authority), EXACT)
    # A transcript record that may be the last one was the last one; a hook was not, because the end has its own hook.
    if authority.state in last.or_else and (last.source == "transcript" or CANCELLED not in last.or_else):
        return _truth(authority, ordered, _outranked(authority), EXACT)
    if abs(now - _moment(authority.at)) < _RECORD_LAG:  # the record of the end may still follow
        return _truth(last, ordered, "its records may follow in a moment", LIKELY)
    truth = _truth(authority, ordered, "its turn ended without a record of it", LIKELY)
    return replace(truth, state=CANCELLED, detail="stopped without a record (Esc, or a retry given up)")


def _by_events(ordered: Sequence[Evidence], events: Sequence[Evidence], alive: bool | None, now: datetime) -> Truth:
    last = _newest_event(events)
    standing = [one for one in ordered if one.standing]
    if last is None:
        return _by_standing_evidence(standing, ordered)
    refined = _refined(last, ordered)
    if refined is not None:
        return _truth(refined, ordered, "it cannot distinguish these two states", LIKELY, supplement=last)
    if last.state in WORKING | {WAITING} and alive is None and abs(now - _moment(last.at)) > _SILENT:
        silent = f"no newer evidence for {int(_SILENT.total_seconds() // 60)} minutes"
        future = "its newest evidence is from the future, so the clock was set back"
        why = f"{silent if now > _moment(last.at) else future}, and no process is known"
        return Truth(
            UNKNOWN,
            last.at,
            last.source,
            GUESS,
            "silent",
            rejected=tuple(RejectedEvidence(one, why) for one in ordered),
        )
    why = "newer evidence, or a better source, contradicts it"
    open_unproven = alive is None and last.state in WORKING | {WAITING}  # its process may have been killed
    return _truth(last, ordered, why, LIKELY if last.or_else or open_unproven else EXACT)


def _newest_event(events: Sequence[Evidence]) -> Evidence | None:
    """Return the newest event; of several at the same moment, the one from the best source."""
    if not events:
        return None
    newest = _moment(events[0].at)
    return min((one for one in events if newest - _moment(one.at) <= _SAME_MOMENT), key=_rank)


def _refined(last: Evidence, ordered: Sequence[Evidence]) -> Evidence | None:
    """Return evidence that distinguishes states which the better source cannot; it may itself be refined."""
    found: Evidence | None = None
    for _ in ordered:
        now = found or last
        better = next((one for one in sorted(ordered, key=_rank) if one is not now and _can_refine(one, now)), None)
        if better is None or better is last:
            break
        found = better
    return found


def _can_refine(one: Evidence, last: Evidence) -> bool:
    if one.state not in last.or_else or (one.source == "process" and one.read_at is None):
        return False
    if one.standing:  # a reading from before the event cannot include it
        return one.read_at is None or _moment(one.read_at) - _moment(last.at) > _TITLE_LAG
    if one.source == "permission":  # it is present only while the dialog is open
        return True
    if abs(_moment(last.at) - _moment(one.at)) <= _SAME_MOMENT:
        return True
    # both are about the same end of a turn, and this one distinguishes how it ended
    return {one.state, last.state} <= RESTING and abs(_moment(last.at) - _moment(one.at)) < _RECORD_LAG


def _by_standing_evidence(standing: Sequence[Evidence], ordered: Sequence[Evidence]) -> Truth:
    best = min(standing, key=_rank, default=None)
    if best is None:
        return Truth(UNKNOWN, None, None, GUESS, "no evidence of what it does")
    return _truth(best, ordered, _outranked(best), GUESS if best.source == "process" else LIKELY)


def _truth(
    used: Evidence,
    ordered: Sequence[Evidence],
    why_not: str,
    confidence: str,
    *,
    supplement: Evidence | None = None,
    ended: bool = False,
) -> Truth:
    """Return the truth decided by `used`; `supplement` adds the tool, and the detail if its state is the same."""
    accepted = (used,) if supplement is None else (used, supplement)
    rejected = tuple(
        RejectedEvidence(one, "it says the same" if one.state == used.state else why_not)
        for one in ordered
        if not any(one is other for other in accepted)
    )
    detail = used.detail or (supplement.detail if supplement and supplement.state == used.state else None)
    tool = used.tool or (supplement.tool if supplement else None)
    return Truth(used.state, used.at, used.source, confidence, detail, tool, accepted, rejected, ended)


def _outranked(best: Evidence) -> str:
    return f"the {best.source} ranks above it"


def _newest_first(one: Evidence) -> tuple[float, int]:
    return -_moment(one.at).timestamp(), _rank(one)


def _rank(one: Evidence) -> int:
    return SOURCES.index(one.source) if one.source in SOURCES else len(SOURCES)


@lru_cache(maxsize=1024)  # the same few moments are compared many times
def _moment(at: str) -> datetime:
    return times.parse(at) or datetime.fromtimestamp(0, tz=times.now().tzinfo)
