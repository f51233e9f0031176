"""Attribution: a change or a commit belongs to the owner of the worktree's claim at that moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model import times
from imi_monitor.model.snapshot import Key


@dataclass(frozen=True, slots=True)
class ClaimPeriod:
    """The time for which one owner held a worktree; `until` is None while the claim holds."""

    key: Key
    agent: str
    since: str
    until: str | None


def periods_by_worktree(periods: Iterable[ClaimPeriod]) -> dict[Key, list[ClaimPeriod]]:
    """Return the claim periods of each worktree, oldest first."""
    found: dict[Key, list[ClaimPeriod]] = {}
    for period in sorted(periods, key=lambda one: one.since):
        found.setdefault(period.key, []).append(period)
    return found


def holder_at(periods: Mapping[Key, Sequence[ClaimPeriod]], key: Key, moment: str, *, grain: float = 0.0) -> str | None:
    """Return the owner of the worktree at that moment; None when it was free or the moment cannot be parsed.

    `grain` is the precision of the moment in seconds: git stores whole seconds.
    """
    at = times.parse(moment)
    if at is None:
        return None
    for period in reversed(periods.get(key, ())):
        since = times.parse(period.since)
        if since is not None and since <= at + timedelta(seconds=grain):
            return period.agent if _covers(period.until, at) else None
    return None


def _covers(until: str | None, at: datetime) -> bool:
    end = times.parse(until)
    return until is None or (end is not None and at <= end)
