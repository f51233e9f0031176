"""What between two snapshots is worth calling somebody back for: an agent asks, one is done, a claim is lost, work collides.

Told by the registry's events and by the two pictures themselves; nothing here knows how it is told.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from imi_monitor.model.snapshot import Collision, EventLine, Key, Snapshot
from imi_monitor.model.text import count, safe

KINDS = ("asking", "finished", "claim_lost", "collision")


@dataclass(frozen=True, slots=True)
class News:
    """One thing that happened. Two that are equal are the same thing."""

    kind: str
    about: tuple[str, ...]
    text: str


def between(before: Snapshot | None, after: Snapshot) -> list[News]:
    """What is new in `after`. Nothing is news in a first picture, nor in one that is still being put together."""
    if before is None or not before.complete:
        return []
    found = [*_by_events(before, after), *_died(before, after), *_collided(before, after)]
    return list(dict.fromkeys(found))


def _by_events(before: Snapshot, after: Snapshot) -> list[News]:
    if not any(health.source == "registry" and health.read_at for health in before.health):
        return []  # not read yet: what it tells first is long past
    last = before.events[-1].seq if before.events else 0
    told = (_of_event(event) for event in after.events if event.seq > last)
    return [news for news in told if news is not None]


def _of_event(event: EventLine) -> News | None:
    data, who = _data(event), safe(event.agent or "somebody", 60)
    where = safe(event.worktree or event.repo or "", 60)
    about = (event.repo or "", event.worktree or "", str(event.seq))
    if event.type == "worktree.released" and data.get("by"):
        return News("claim_lost", about, f"{who} lost {where} to {safe(str(data['by']), 60)}")
    if event.type == "session.ended":
        return News("finished", about, f"{who} is done in {where}")
    if event.type == "session.progress" and data.get("state") == "asking":
        return News("asking", about, f"{who} asks in {where}")
    return None


def _data(event: EventLine) -> dict[str, Any]:
    try:
        found = json.loads(event.data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _died(before: Snapshot, after: Snapshot) -> list[News]:
    """Holders that were alive, and are proven dead now."""
    alive = {tree.key: tree.claim for tree in before.worktrees if tree.claim and tree.claim.state != "dead"}
    return [
        News("claim_lost", (*_key(tree.key), str(tree.claim.epoch)),
             f"{safe(tree.claim.agent, 60)} died holding {safe(tree.key.worktree, 60)}")
        for tree in after.worktrees
        if tree.claim and tree.claim.state == "dead" and (then := alive.get(tree.key)) is not None
        and then.epoch == tree.claim.epoch
    ]  # fmt: skip


def _collided(before: Snapshot, after: Snapshot) -> list[News]:
    """Pairs of worktrees that a trial merge found in conflict, and that it did not before."""
    known = {_pair(one) for one in before.collisions if one.conflicts}
    return [
        News("collision", _pair(one),
             f"{safe(one.left.worktree, 60)} and {safe(one.right.worktree, 60)} conflict in {_files(one)}")
        for one in after.collisions
        if one.conflicts and one.right is not None and _pair(one) not in known
    ]  # fmt: skip


def _files(one: Collision) -> str:
    names = one.conflicts or ()
    return safe(names[0], 60) if len(names) == 1 else count(len(names), "file")


def _pair(one: Collision) -> tuple[str, ...]:
    return (*_key(one.left), *(_key(one.right) if one.right else ()))


def _key(key: Key) -> tuple[str, ...]:
    return (key.host, key.repo, key.worktree)
