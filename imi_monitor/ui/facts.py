"""What rows, filter and order ask about a worktree, worked out once for each snapshot: pure functions of what is known."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from imi_monitor.model import times
from imi_monitor.model.snapshot import Key, Snapshot, Worktree

BUSY_SECONDS = 60.0  # a worktree in which a file changed so lately is being worked in


@dataclass(frozen=True)
class Facts:
    """A snapshot with who looks at it and when."""

    snapshot: Snapshot
    now: datetime
    me: str = ""  # the agent that the dashboard would claim for

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

    def at(self, now: datetime) -> Facts:
        """The same snapshot a little later."""
        later = Facts(self.snapshot, now, self.me)
        later.__dict__["hits"] = self.hits
        return later

    def claim_state(self, tree: Worktree) -> str:
        return tree.claim.state if tree.claim else "free"

    def busy(self, tree: Worktree) -> bool:
        moment = times.parse(tree.last_change.at) if tree.last_change else None
        return moment is not None and (self.now - moment).total_seconds() < BUSY_SECONDS

    def needs_somebody(self, tree: Worktree) -> bool:
        """Whether a person has to look: a lost claim, a conflict, a collision, or something that cannot be read."""
        return bool(
            tree.missing
            or tree.failure is not None
            or self.claim_state(tree) in ("dead", "stale")
            or (tree.git and tree.git.conflicted)
            or self.hits.get(tree.key)
        )
