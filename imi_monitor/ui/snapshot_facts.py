"""What rows, filter and order ask about a worktree, worked out once for each snapshot: pure functions of what is known."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from functools import cached_property, lru_cache

from imi_monitor.model import attention, times
from imi_monitor.model.agent import Agent
from imi_monitor.model.snapshot import Key, Snapshot, Worktree

BUSY_SECONDS = 60.0  # a worktree in which a file changed so lately is being worked in
moment = lru_cache(4096)(times.parse)  # the same few hundred are asked about every second
_LASTING = ("hits", "agents", "standings")  # what time alone does not change


class SnapshotFacts:
    """A snapshot with who looks at it and when; `me` is the agent that the dashboard would claim for."""

    def __init__(self, snapshot: Snapshot, now: datetime, me: str = "") -> None:
        self.snapshot = snapshot
        self.now = now
        self.me = me

    @cached_property
    def hits(self) -> dict[Key, int]:
        """With how many others a worktree really conflicts; those with none are left out."""
        counts: dict[Key, int] = {}
        for one in self.snapshot.collisions:
            if one.conflicts:
                for key in (one.left, one.right):
                    if key is not None:
                        counts[key] = counts.get(key, 0) + 1
        return counts

    @cached_property
    def agents(self) -> dict[Key, tuple[Agent, ...]]:
        """Who matters in each worktree, who needs a person first; worktrees without anybody are left out."""
        by_key: dict[Key, list[Agent]] = {}
        for agent in self.snapshot.agents:
            if agent.key is not None:
                by_key.setdefault(agent.key, []).append(agent)
        return {key: attention.relevant_agents(found) for key, found in by_key.items()}

    @cached_property
    def standings(self) -> Counter[str]:
        """How many agents stand how; without those whose place another has taken."""
        homeless = [agent for agent in self.snapshot.agents if agent.key is None]
        return Counter(attention.standing(agent) for found in (*self.agents.values(), homeless) for agent in found)

    def at(self, now: datetime) -> SnapshotFacts:
        """The same snapshot a little later."""
        later = SnapshotFacts(self.snapshot, now, self.me)
        for name in _LASTING:
            if name in self.__dict__:
                later.__dict__[name] = self.__dict__[name]
        return later

    def agents_in(self, tree: Worktree) -> tuple[Agent, ...]:
        return self.agents.get(tree.key, ()) if self.agents else ()

    def hits_of(self, tree: Worktree) -> int:
        return self.hits.get(tree.key, 0) if self.hits else 0

    def stands(self, tree: Worktree, *standings: str) -> bool:
        """Whether an agent there stands so."""
        return any(attention.standing(agent) in standings for agent in self.agents_in(tree))

    def waits_since(self, tree: Worktree) -> str | None:
        """Since when an agent there waits for a person, the most patient one; None when nobody does."""
        first = next(iter(self.agents_in(tree)), None)
        return (first.truth.since or "~") if first and attention.standing(first) == attention.ASKS else None

    def claim_state(self, tree: Worktree) -> str:
        return tree.claim.state if tree.claim else "free"

    def busy(self, tree: Worktree) -> bool:
        return self._busy_for(tree) > 0

    def _busy_for(self, tree: Worktree) -> float:
        """For how many seconds more, if no other file changes there."""
        changed = moment(tree.last_change.at) if tree.last_change else None
        return 0.0 if changed is None else BUSY_SECONDS - (self.now - changed).total_seconds()

    @cached_property
    def busy_ends(self) -> list[float]:
        """Of all that are busy: in how many seconds they are not any more."""
        return [left for left in map(self._busy_for, self.snapshot.worktrees) if left > 0]

    def needs_somebody(self, tree: Worktree) -> bool:
        """Whether a person has to look: an agent that asks, broke or intrudes, a lost claim, a conflict, a collision, or
        something that cannot be read."""
        return bool(
            tree.missing
            or tree.failure is not None
            or (tree.claim is not None and tree.claim.state in ("dead", "stale"))
            or (tree.git is not None and tree.git.conflicted)
            or (self.hits and self.hits_of(tree))
            or (self.agents and any(map(attention.needs_attention, self.agents_in(tree))))
        )
