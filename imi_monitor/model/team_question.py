"""Questions of one home to another, and the answers: JSON of at most 4 KB. What comes in is untrusted and checked here.

By a question one home may ask another for a claim, for a place in the line of a worktree, and for the renewal and release of
its own claims. Nothing else can be asked.
"""

from __future__ import annotations

import json
from typing import Any

from imi_monitor.fast.frozen_dataclass import dataclass, replace
from imi_monitor.model import names
from imi_monitor.model.home import PROTOCOL
from imi_monitor.model.text import safe

CLAIM, WAIT, LEAVE, RENEW, RELEASE = "claim", "wait", "leave", "renew", "release"
ACTS = (CLAIM, WAIT, LEAVE, RENEW, RELEASE)
GONE = "gone"  # in the place of an answer: the asker does not wait for one any more
PATIENCE = 2.0  # seconds in which a home answers; an older question has no effect
REPEAT = 5.0  # seconds after which a waiter asks again
STAY = 15.0  # seconds that a waiter keeps its place without asking again
_MOST_BYTES, _MOST_NAME, _MOST_AGENT, _MOST_TASK, _MOST_CLAIMS = 4096, 200, 120, 500, 200


def margin(lease: float) -> float:
    """The seconds by which the holder of a lease stops before its home ends it."""
    return lease / 6


def renewal(lease: float) -> float:
    """The seconds after which the holder's home renews a lease."""
    return lease / 3


@dataclass(frozen=True, slots=True)
class HeldClaim:
    """A claim of the asker's home, as a renewal or release names it."""

    repo: str
    worktree: str
    epoch: int


@dataclass(frozen=True, slots=True)
class HomeQuestion:
    """`home` is that of the asker; `number` counts how often a waiter has asked, from 1."""

    id: str
    act: str
    home: str
    repo: str = ""
    worktree: str = ""
    agent: str = ""
    task: str | None = None
    number: int = 1
    claims: tuple[HeldClaim, ...] = ()

    def again(self) -> HomeQuestion:
        return replace(self, number=self.number + 1)

    def encode(self) -> str:
        row: dict[str, object] = {"v": PROTOCOL, "id": self.id, "act": self.act, "from": self.home, "k": self.number}
        if self.repo:
            row |= {"repo": self.repo, "name": self.worktree, "agent": self.agent, "task": self.task}
        if self.claims:
            row["claims"] = [[one.repo, one.worktree, one.epoch] for one in self.claims]
        return json.dumps(row, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class HomeAnswer:
    """What the home decided: `how` is one of HOWS. `owner` and `since` are of the claim that stands in the way."""

    how: str
    epoch: int = 0
    lease: float = 0.0
    number: int = 1  # the repetition of the question that the home had read
    owner: str | None = None
    since: str | None = None
    state: str | None = None
    place: int | None = None  # in the line
    results: tuple[str, ...] = ()  # the results of a renewal or release, one for each claim

    @property
    def granted(self) -> bool:
        return self.how in ("granted", "renewed")

    def encode(self) -> str:
        row: dict[str, object] = {"v": PROTOCOL, "how": self.how, "k": self.number}
        for name in ("epoch", "lease", "owner", "since", "state", "place"):
            value = getattr(self, name)
            if value is not None:
                row[name] = value
        if self.results:
            row["results"] = list(self.results)
        return json.dumps(row, separators=(",", ":"))


HOWS = (
    "granted",
    "renewed",
    "held",
    "queued",
    "waits",
    "no-worktree",
    "ambiguous",
    "missing",
    "newer",
    "done",
    "failed",
)


def read_question(text: str) -> HomeQuestion | None:
    """Parse a question; None if it is malformed. A question of a newer protocol has an empty act."""
    try:
        row = _loads(text)
        ident, home = _ident(row.get("id")), _ident(row.get("from"))
        if row.get("v") != PROTOCOL:
            return HomeQuestion(ident, "", home)
        act, number = row.get("act"), row.get("k")
        if act not in ACTS or not isinstance(number, int) or not 0 < number < 1 << 31:
            return None
        if act in (RENEW, RELEASE):
            return HomeQuestion(ident, act, home, claims=_claims(row.get("claims")))
        if act == LEAVE:
            return HomeQuestion(ident, act, home)
        agent, task = _needed(row, "agent", _MOST_AGENT), row.get("task")
        if names.agent_problem(agent) is not None or agent.startswith(names.OURS):
            return None
        if task is not None and (not isinstance(task, str) or not task.strip() or len(task) > _MOST_TASK):
            return None
        repo, worktree = _needed(row, "repo", _MOST_NAME), _needed(row, "name", _MOST_NAME)
        return HomeQuestion(ident, act, home, repo, worktree, agent, safe(task, _MOST_TASK) if task else None, number)
    except (ValueError, RecursionError):
        return None


def read_answer(text: str) -> HomeAnswer | None:
    """Parse an answer; None if it is malformed."""
    try:
        row = _loads(text)
    except (ValueError, RecursionError):
        return None
    how, results = row.get("how"), row.get("results", [])
    if row.get("v") != PROTOCOL or how not in HOWS or not isinstance(results, list):
        return None
    return HomeAnswer(
        how,
        epoch=_whole(row.get("epoch")) or 0,
        lease=_seconds(row.get("lease")),
        number=_whole(row.get("k")) or 1,
        owner=_text(row.get("owner"), _MOST_NAME),
        since=_text(row.get("since"), 40),
        state=_text(row.get("state"), 20),
        place=_whole(row.get("place")),
        results=tuple(safe(str(one), 60) for one in results[:_MOST_CLAIMS]),
    )


def agent_problem(agent: str) -> str | None:
    """Return what is wrong with the name of an agent that asks another home."""
    return f"is longer than {_MOST_AGENT} characters" if len(agent) > _MOST_AGENT else None


def _loads(text: str) -> dict[str, Any]:
    if len(text) > _MOST_BYTES * 4:
        raise ValueError("too long")
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("no object")
    return found


def _ident(value: object) -> str:
    """An id that is part of a key: letters, digits and dashes."""
    if not isinstance(value, str) or not 8 <= len(value) <= 64 or not value.isascii():
        raise ValueError("no id")
    if not value.replace("-", "").isalnum():
        raise ValueError("no id")
    return value


def _needed(row: dict[str, Any], name: str, most: int) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value or len(value) > most or not value.isprintable():
        raise ValueError(name)
    return value


def _claims(found: object) -> tuple[HeldClaim, ...]:
    if not isinstance(found, list) or not 0 < len(found) <= _MOST_CLAIMS:
        raise ValueError("claims")
    claims = []
    for one in found:
        if not isinstance(one, list) or len(one) != 3 or _whole(one[2]) is None:
            raise ValueError("claims")
        named = {"repo": one[0], "name": one[1]}
        claims.append(HeldClaim(_needed(named, "repo", _MOST_NAME), _needed(named, "name", _MOST_NAME), one[2]))
    return tuple(claims)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else None


def _seconds(value: object) -> float:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 86400
    return float(value) if fits else 0.0  # type: ignore[arg-type]


def _text(value: object, most: int) -> str | None:
    return safe(value, most) if isinstance(value, str) and value else None
