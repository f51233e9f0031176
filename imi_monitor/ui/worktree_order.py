"""The order and the groups of the worktree list. Ties are sorted by name, so that rows keep their place."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model import attention
from imi_monitor.model.contained_names import in_git
from imi_monitor.model.snapshot import Worktree
from imi_monitor.model.state_words import UNCLAIMED
from imi_monitor.ui.snapshot_facts import SnapshotFacts

RUNS = "runs"  # the group of those without a repository
MEASURES = ("disk", "unread")  # orders that measure something: the list has a column for it
Rank = Callable[[SnapshotFacts, Worktree], Any]


@dataclass(frozen=True, slots=True)
class GroupHeading:
    """The row above the worktrees of one group."""

    group: str
    count: int
    folded: bool


def _attention(facts: SnapshotFacts, tree: Worktree) -> tuple[int, str]:
    """Worktrees with an asking agent, the longest first; others that need attention; in use; the rest; the trunk last."""
    agents = facts.agents_in(tree)
    waits = facts.waits_since(tree) if agents else None
    if waits is not None:
        return 0, waits
    if facts.needs_attention(tree):
        return 1, ""
    in_use = tree.claim or (agents and not all(map(attention.has_ended, agents)))
    return (4 if tree.is_main else 2 if in_use else 3), ""


def _changed(facts: SnapshotFacts, tree: Worktree) -> tuple[int, ...]:
    """Newest change first; without a seen change the last commit counts."""
    commit = tree.git.last_commit.at if tree.git and tree.git.last_commit else ""
    if tree.run is not None:
        commit = (tree.run.files[0].changed_at if tree.run.files else tree.run.since) or ""
    moment = tree.last_change.at if tree.last_change else commit
    return tuple(-ord(char) for char in moment) or (1,)


def _ahead(facts: SnapshotFacts, tree: Worktree) -> int:
    return -((tree.git.trunk_ahead or 0) if tree.git else -1)


def _dirty(facts: SnapshotFacts, tree: Worktree) -> int:
    return -(tree.git.uncommitted if tree.git else -1)


def _disk(facts: SnapshotFacts, tree: Worktree) -> int:
    use = facts.disk_uses.get(tree.key)
    return 1 if use is None or use.size is None else -use.size


def _unread(facts: SnapshotFacts, tree: Worktree) -> int:
    found = facts.unread_changes.get(tree.key)
    return 1 if found is None or found.unread is None else -found.unread


def _repository(tree: Worktree) -> str:
    return tree.key.repo if in_git(tree.key.repo) else ""


def _name(tree: Worktree) -> tuple[str, str]:
    return _repository(tree), tree.key.worktree.lower()


SORTS: dict[str, tuple[str, Rank]] = {
    "attention": ("what needs you first", _attention),
    "name": ("by name", lambda facts, tree: 0),
    "change": ("last change first", _changed),
    "ahead": ("most commits ahead of the trunk first", _ahead),
    "dirty": ("most uncommitted files first", _dirty),
    "owner": ("by owner, unclaimed last", lambda facts, tree: (tree.owner == UNCLAIMED, tree.owner.lower())),
    "type": ("by type", lambda facts, tree: tree.type),
    "disk": ("by disk use, largest first; ignored files count", _disk),
    "unread": ("most unread changes first", _unread),
}
GROUPS: dict[str, tuple[str, Callable[[Worktree], str]]] = {
    "none": ("one list", lambda tree: ""),
    "repository": ("by repository", lambda tree: _repository(tree) or RUNS),
    "type": ("by type", lambda tree: tree.type or "other"),
    "owner": ("by owner", lambda tree: tree.owner),
    "host": ("by the team's host", lambda tree: tree.key.host),
}


@dataclass(frozen=True, slots=True)
class WorktreeOrder:
    """How the list is sorted and grouped."""

    sort: str = "attention"
    backwards: bool = False
    group: str = "none"

    @property
    def measure(self) -> str:
        """What the list has an additional column for: disk, unread, or nothing."""
        return self.sort if self.sort in MEASURES else ""

    def sorted(self, facts: SnapshotFacts, trees: Sequence[Worktree]) -> list[Worktree]:
        rank = SORTS[self.sort][1]
        if not self.backwards:
            return sorted(trees, key=lambda tree: (rank(facts, tree), *_name(tree)))
        named = sorted(trees, key=_name, reverse=self.sort == "name")
        return sorted(named, key=lambda tree: rank(facts, tree), reverse=True)

    def arranged(
        self, facts: SnapshotFacts, trees: Sequence[Worktree], folded: Collection[str] = ()
    ) -> list[Worktree | GroupHeading]:
        """The rows from top to bottom: worktrees, and with groups their headings; of a folded group only the heading."""
        ordered = self.sorted(facts, trees)
        if self.group == "none":
            return list(ordered)
        name = GROUPS[self.group][1]
        groups: dict[str, list[Worktree]] = {}
        for tree in ordered:
            groups.setdefault(name(tree), []).append(tree)
        rows: list[Worktree | GroupHeading] = []
        for group in self._groups(groups):
            rows.append(GroupHeading(group, len(groups[group]), group in folded))
            rows += [] if group in folded else groups[group]
        return rows

    def groups_of(self, trees: Sequence[Worktree]) -> set[str]:
        """The groups of these worktrees; none in one list."""
        return set() if self.group == "none" else set(map(GROUPS[self.group][1], trees))

    def _groups(self, groups: dict[str, list[Worktree]]) -> list[str]:
        """The groups by name; the unclaimed worktrees, the trunk and other types come last."""
        return sorted(groups, key=lambda name: (name in (UNCLAIMED, "trunk", "other", RUNS), name))


def next_in(names: Sequence[str], now: str, step: int = 1) -> str:
    """The name `step` places behind `now`; behind the last comes the first."""
    return names[(names.index(now) + step) % len(names)] if now in names else names[0]
