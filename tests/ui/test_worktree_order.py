"""Sorts and groups of the worktree list."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from imi_monitor.model.snapshot import DiskUse, UnreadChanges, Worktree
from imi_monitor.ui.snapshot_facts import SnapshotFacts
from imi_monitor.ui.worktree_order import GROUPS, SORTS, GroupHeading, WorktreeOrder, next_in
from tests.ui import sample_agents, sample_snapshots, snapshot_builder

MAIN = snapshot_builder.tree("main")
HELD = snapshot_builder.tree("feat-b", by="claude-1", git=snapshot_builder.dirty(2, trunk_ahead=1), changed=30)
ALSO = snapshot_builder.tree("feat-a", by="claude-2", git=snapshot_builder.state(trunk_ahead=7), changed=2)
LOST = snapshot_builder.tree("fix-z", by="codex-1", how="dead")
FREE = snapshot_builder.tree("aiops-c", git=snapshot_builder.dirty(5))
ALL = (MAIN, HELD, ALSO, LOST, FREE)
SIZES = {FREE: 9_000, MAIN: 70, ALSO: None}  # the others are not measured yet
FACTS = snapshot_builder.facts(
    *ALL,
    disk=tuple(DiskUse(tree.key, size, 0) for tree, size in SIZES.items()),
    unread=tuple(UnreadChanges(tree.key, size, size) for tree, size in SIZES.items()),
)


def names(order: WorktreeOrder) -> list[str]:
    return [tree.key.worktree for tree in order.sorted(FACTS, ALL)]


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("attention", ["fix-z", "feat-a", "feat-b", "aiops-c", "main"]),
        ("name", ["aiops-c", "feat-a", "feat-b", "fix-z", "main"]),
        ("change", ["feat-a", "feat-b", "aiops-c", "fix-z", "main"]),
        ("ahead", ["feat-a", "feat-b", "aiops-c", "fix-z", "main"]),
        ("dirty", ["aiops-c", "feat-b", "feat-a", "fix-z", "main"]),
        ("owner", ["feat-b", "feat-a", "fix-z", "aiops-c", "main"]),
        ("type", ["aiops-c", "feat-a", "feat-b", "fix-z", "main"]),
        ("disk", ["aiops-c", "main", "feat-a", "feat-b", "fix-z"]),
        ("unread", ["aiops-c", "main", "feat-a", "feat-b", "fix-z"]),
    ],
)
def test_every_sort_of_the_worktree_list(sort: str, expected: list[str]) -> None:
    assert names(WorktreeOrder(sort)) == expected


def test_sorting_does_not_depend_on_the_input_order() -> None:
    for sort in SORTS:
        orders = {
            tuple(t.key.worktree for t in WorktreeOrder(sort).sorted(FACTS, shuffled))
            for shuffled in itertools.permutations(ALL)
        }
        assert len(orders) == 1, sort


def test_backwards_reverses_every_sort() -> None:
    assert names(WorktreeOrder("name", backwards=True)) == list(reversed(names(WorktreeOrder("name"))))
    assert names(WorktreeOrder("dirty", backwards=True))[-1] == "aiops-c"


def test_unread_worktrees_are_not_sorted_as_clean_or_level() -> None:
    unknown = snapshot_builder.tree("feat-0", git=None)
    facts = snapshot_builder.facts(unknown, MAIN, disk=(DiskUse(MAIN.key, 0, 0),))
    for sort in ("ahead", "dirty", "disk"):
        assert [tree.key.worktree for tree in WorktreeOrder(sort).sorted(facts, (unknown, MAIN))] == ["main", "feat-0"]


def test_groups_have_headings_and_fold() -> None:
    rows = WorktreeOrder(group="type").arranged(FACTS, ALL, folded={"feat"})
    shown = [(row.group, row.count, row.folded) if isinstance(row, GroupHeading) else row.key.worktree for row in rows]
    assert shown == [
        ("aiops", 1, False),
        "aiops-c",
        ("feat", 2, True),
        ("fix", 1, False),
        "fix-z",
        ("main", 1, False),
        "main",
    ]


def test_grouping_keeps_every_worktree() -> None:
    for group in GROUPS:
        rows = WorktreeOrder(group=group).arranged(FACTS, ALL)
        assert sorted(row.key.worktree for row in rows if isinstance(row, Worktree)) == sorted(
            t.key.worktree for t in ALL
        )


def test_next_in_wraps_around() -> None:
    assert [next_in(["a", "b"], now) for now in ("a", "b", "gone")] == ["b", "a", "a"]


def test_worktrees_with_the_longest_waiting_agent_come_first() -> None:
    facts = SnapshotFacts(sample_agents.trouble(), sample_snapshots.NOW)
    trees = facts.snapshot.worktrees
    for shuffled in itertools.permutations(trees):
        ordered = [tree.key.worktree for tree in WorktreeOrder("attention").sorted(facts, shuffled)]
        assert ordered == ["review-123", "feat-ui", "devops-ci", "feat-api", "fix-bug", "trunk-main"]


def test_worktrees_in_use_come_before_unused_ones() -> None:
    lived_in, left, empty = (
        snapshot_builder.tree("zz"),
        snapshot_builder.tree("feat-y"),
        snapshot_builder.tree("feat-0"),
    )
    agents = (replace(sample_agents.UNCLAIMED, key=lived_in.key), replace(sample_agents.ENDED, key=left.key))
    facts = snapshot_builder.facts(lived_in, left, empty, agents=agents)
    ordered = WorktreeOrder("attention").sorted(facts, (left, empty, lived_in))
    assert [tree.key.worktree for tree in ordered] == ["zz", "feat-0", "feat-y"]
