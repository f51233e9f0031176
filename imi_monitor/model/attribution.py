"""Attribution: a change or a commit belongs to the owner of the worktree's claim at that moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from imi_monitor.model import times
from imi_monitor.model.snapshot import Key


class ClaimPeriod(Protocol):
    """The time for which one owner held a worktree; `until` is None while the claim holds."""

    @property
    def key(self) -> Key: ...
    @property
    def agent(self) -> str: ...
    @property
    def since(self) -> str: ...
    @property
    def until(self) -> str | None: ...


H = TypeVar("H", bound=ClaimPeriod)


def periods_by_worktree(grants: Iterable[H]) -> dict[Key, list[H]]:
    """Return the claim periods of each worktree, oldest first."""
    found: dict[Key, list[H]] = {}
    for grant in grants:
        found.setdefault(grant.key, []).append(grant)
    for held in found.values():
        held.sort(key=lambda grant: grant.since)
    return found


def holder_at(grants: Mapping[Key, Sequence[ClaimPeriod]], key: Key, moment: str, *, grain: float = 0.0) -> str | None:
    """Return the owner of the worktree at that moment; None when it was free or the moment cannot be parsed.

    `grain` is the precision of the moment in seconds: git stores whole seconds.
    """
    at = times.parse(moment)
    if at is None:
        return None
    for grant in reversed(grants.get(key, ())):
        since = times.parse(grant.since)
        if since is not None and since <= at + timedelta(seconds=grain):
            return grant.agent if _covers(grant.until, at) else None
    return None


def _covers(until: str | None, at: datetime) -> bool:
    end = times.parse(until)
    return until is None or (end is not None and at <= end)
