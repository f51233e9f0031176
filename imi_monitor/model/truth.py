"""One state from many witnesses: who is believed, and why the others are not.

Three rules, from what the real programs do (most of them were learnt from tools that show the wrong thing):
- Being alive comes first. A killed agent's records say "running" for ever.
- A standing reading of an authority (its live registry, its daemon) decides what the agent does; what happened tells
  only the rest: which tool, why it ended.
- Without one, what happened last decides, and a better source where two speak of the same moment. A source that cannot
  tell two states apart may be refined by a lesser one that can. Nobody speaking is unknown, never idle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache

from imi_monitor.model import times
from imi_monitor.model.agent import (
    CANCELLED,
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

_AUTHORITIES = ("registry", "socket")
_SAME_MOMENT = timedelta(milliseconds=50)
_LAGS = timedelta(seconds=1)  # how far an agent's records may be behind its registry
_FOLLOWS = timedelta(milliseconds=300)  # how far a title may be behind what happened
_SILENT = timedelta(minutes=10)  # work that nobody confirms is believed for so long


def decide(evidence: Iterable[Evidence], alive: bool | None, now: datetime, *, last_alive: str | None = None) -> Truth:
    """What is so `now`. `alive`: the process is proven to live, proven dead, or nobody knows; `last_alive`: until when
    it was seen."""
    ordered = sorted(evidence, key=_newest_first)
    happened = [one for one in ordered if not one.standing]
    if alive is False:
        return _after_the_end(ordered, happened, last_alive)
    authority = next((one for name in _AUTHORITIES for one in ordered if one.standing and one.source == name), None)
    if authority is not None:
        return _by_authority(authority, ordered, happened, now)
    return _by_what_happened(ordered, happened, alive, now)


def reports_rest(evidence: Iterable[Evidence]) -> bool:
    """Whether somebody who knows says that its turn is over: its records may follow, so what is so may change with time."""
    return any(one.standing and one.state in RESTING for one in evidence)


def _after_the_end(ordered: Sequence[Evidence], happened: Sequence[Evidence], last_alive: str | None) -> Truth:
    """The process is gone: what was finished before stays finished, everything else died with it."""
    last = happened[0] if happened else None
    if last is not None and last.state in RESTING:
        confidence = LIKELY if last.or_else else EXACT
        return _truth(last, ordered, "the process has ended", confidence, ended=True)
    witness = last or (ordered[0] if ordered else None)
    since = last_alive or (witness.at if witness else None)
    why = "the process is gone: what it did last is over"
    rejected = tuple(RejectedEvidence(one, why) for one in ordered)
    return Truth(
        DEAD,
        since,
        "process",
        EXACT,
        "its process is gone",
        witness.tool if witness else None,
        rejected=rejected,
        ended=True,
    )


def _by_authority(
    authority: Evidence, ordered: Sequence[Evidence], happened: Sequence[Evidence], now: datetime
) -> Truth:
    last = happened[0] if happened else None
    if authority.state in WORKING:
        return _working(authority, ordered, last)
    if authority.state == WAITING:
        helper = next((one for one in happened if one.tool and (one.state == WAITING or WAITING in one.or_else)), None)
        return _truth(authority, ordered, _outranked(authority), EXACT, helper=helper)
    if authority.state in RESTING:
        return _resting(authority, ordered, last, now)
    return _truth(authority, ordered, _outranked(authority), EXACT)


def _working(authority: Evidence, ordered: Sequence[Evidence], last: Evidence | None) -> Truth:
    """It works: on what, and whether it only plans, is told by what happened last."""
    if last is None or last.state not in WORKING:
        return _truth(authority, ordered, _outranked(authority), EXACT)
    truth = _truth(authority, ordered, _outranked(authority), EXACT, helper=last)
    return replace(truth, state=last.state, since=max(authority.at, last.at, key=_moment))


def _resting(authority: Evidence, ordered: Sequence[Evidence], last: Evidence | None, now: datetime) -> Truth:
    """Its turn is over: well, badly or by a person's hand is told by what happened last."""
    if last is not None and last.state in RESTING:
        truth = _truth(authority, ordered, _outranked(authority), EXACT, helper=last)
        return replace(truth, state=last.state, since=last.at, detail=last.detail, tool=None)
    if last is None or last.state not in WORKING | {WAITING}:
        return _truth(authority, ordered, _outranked(authority), EXACT)
    # A record that may have been the last one was; a hook that may have been was not: the end has a hook of its own.
    if authority.state in last.or_else and (last.source == "transcript" or CANCELLED not in last.or_else):
        return _truth(authority, ordered, _outranked(authority), EXACT)
    if now - _moment(authority.at) < _LAGS:  # its record of the end may come in a moment
        return _truth(last, ordered, "its records may follow in a moment", LIKELY)
    truth = _truth(authority, ordered, "its turn ended without a record of it", LIKELY)
    return replace(truth, state=CANCELLED, detail="stopped without a word (Esc, or a retry given up)")


def _by_what_happened(
    ordered: Sequence[Evidence], happened: Sequence[Evidence], alive: bool | None, now: datetime
) -> Truth:
    last = _last(happened)
    standing = [one for one in ordered if one.standing]
    if last is None:
        return _by_a_guess(standing, ordered)
    refined = _refined(last, ordered)
    if refined is not None:
        return _truth(refined, ordered, "it cannot tell these two apart", LIKELY, helper=last)
    if last.state in WORKING | {WAITING} and alive is None and now - _moment(last.at) > _SILENT:
        why = f"nothing was heard since, and no process is known: {int(_SILENT.total_seconds() // 60)} minutes are over"
        return Truth(
            UNKNOWN,
            last.at,
            last.source,
            GUESS,
            "silent",
            rejected=tuple(RejectedEvidence(one, why) for one in ordered),
        )
    return _truth(
        last, ordered, "something newer, or a better source, says otherwise", LIKELY if last.or_else else EXACT
    )


def _last(happened: Sequence[Evidence]) -> Evidence | None:
    """The newest; of those that speak of the same moment, the best source."""
    if not happened:
        return None
    return min(_together(happened), key=_rank)


def _together(happened: Sequence[Evidence]) -> list[Evidence]:
    """The newest, and what happened at the same moment."""
    newest = _moment(happened[0].at)
    return [one for one in happened if newest - _moment(one.at) <= _SAME_MOMENT]


def _refined(last: Evidence, ordered: Sequence[Evidence]) -> Evidence | None:
    """Another source that tells apart what the better one cannot; and it may be refined in its turn."""
    found: Evidence | None = None
    for _ in ordered:
        now = found or last
        better = next((one for one in sorted(ordered, key=_rank) if one is not now and _can_refine(one, now)), None)
        if better is None or better is last:
            break
        found = better
    return found


def _can_refine(one: Evidence, last: Evidence) -> bool:
    if one.state not in last.or_else or one.source == "process":
        return False
    if one.standing:  # a reading from before what happened knows nothing of it
        return one.read_at is None or _moment(one.read_at) - _moment(last.at) > _FOLLOWS
    if one.source == "permission":  # it is told for as long as it is open
        return True
    if abs(_moment(last.at) - _moment(one.at)) <= _SAME_MOMENT:
        return True
    # two words about the same end: the one that knows which it was
    return {one.state, last.state} <= RESTING and abs(_moment(last.at) - _moment(one.at)) < _LAGS


def _by_a_guess(standing: Sequence[Evidence], ordered: Sequence[Evidence]) -> Truth:
    best = min(standing, key=_rank, default=None)
    if best is None:
        return Truth(UNKNOWN, None, None, GUESS, "nothing tells what it does")
    return _truth(best, ordered, _outranked(best), GUESS if best.source == "process" else LIKELY)


def _truth(
    used: Evidence,
    ordered: Sequence[Evidence],
    why_not: str,
    confidence: str,
    *,
    helper: Evidence | None = None,
    ended: bool = False,
) -> Truth:
    helpers = () if helper is None else (helper,)
    believed = (used, *helpers)
    rejected = tuple(
        RejectedEvidence(one, "it says the same" if one.state == used.state else why_not)
        for one in ordered
        if not any(one is other for other in believed)
    )
    detail = used.detail or (helper.detail if helper and helper.state == used.state else None)
    tool = used.tool or (helper.tool if helper else None)
    return Truth(used.state, used.at, used.source, confidence, detail, tool, believed, rejected, ended)


def _outranked(best: Evidence) -> str:
    return f"the {best.source} ranks above it"


def _newest_first(one: Evidence) -> tuple[float, int]:
    return -_moment(one.at).timestamp(), _rank(one)


def _rank(one: Evidence) -> int:
    return SOURCES.index(one.source) if one.source in SOURCES else len(SOURCES)


@lru_cache(maxsize=1024)  # the same few moments are compared with each other again and again
def _moment(at: str) -> datetime:
    return times.parse(at) or datetime.fromtimestamp(0, tz=times.now().tzinfo)
