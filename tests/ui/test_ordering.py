"""Order and groups: what needs a person on top, steady ties, headings that stay."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from imi_monitor.model.snapshot import Worktree
from imi_monitor.ui.facts import Facts
from imi_monitor.ui.ordering import GROUPS, SORTS, Heading, Order, after
from tests.ui import agent_worlds, made, worlds

MAIN = made.tree("main")
HELD = made.tree("feat-b", by="claude-1", git=made.dirty(2, trunk_ahead=1), changed=30)
ALSO = made.tree("feat-a", by="claude-2", git=made.state(trunk_ahead=7), changed=2)
LOST = made.tree("fix-z", by="codex-1", how="dead")
FREE = made.tree("aiops-c", git=made.dirty(5))
ALL = (MAIN, HELD, ALSO, LOST, FREE)
FACTS = made.facts(*ALL)


def names(order: Order) -> list[str]:
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
    ],
)
def test_the_orders(sort: str, expected: list[str]) -> None:
    assert names(Order(sort)) == expected


def test_every_order_is_the_same_however_the_sources_list_them() -> None:
    for sort in SORTS:
        orders = {
            tuple(t.key.worktree for t in Order(sort).sorted(FACTS, shuffled))
            for shuffled in itertools.permutations(ALL)
        }
        assert len(orders) == 1, sort


def test_backwards() -> None:
    assert names(Order("name", backwards=True)) == list(reversed(names(Order("name"))))
    assert names(Order("dirty", backwards=True))[-1] == "aiops-c"


def test_what_was_never_asked_is_not_taken_for_clean_or_level() -> None:
    unknown = made.tree("feat-0", git=None)
    facts = made.facts(unknown, MAIN)
    for sort in ("ahead", "dirty"):
        assert [tree.key.worktree for tree in Order(sort).sorted(facts, (unknown, MAIN))] == ["main", "feat-0"]


def test_groups_have_headings_and_fold() -> None:
    rows = Order(group="type").arranged(FACTS, ALL, folded={"feat"})
    shown = [(row.group, row.count, row.folded) if isinstance(row, Heading) else row.key.worktree for row in rows]
    assert shown == [
        ("aiops", 1, False), "aiops-c", ("feat", 2, True), ("fix", 1, False), "fix-z", ("main", 1, False), "main",
    ]  # fmt: skip


def test_a_group_loses_nobody() -> None:
    for group in GROUPS:
        rows = Order(group=group).arranged(FACTS, ALL)
        assert sorted(row.key.worktree for row in rows if isinstance(row, Worktree)) == sorted(
            t.key.worktree for t in ALL
        )


def test_next_goes_round() -> None:
    assert [after(["a", "b"], now) for now in ("a", "b", "gone")] == ["b", "a", "a"]


def test_who_waits_for_you_comes_first_the_most_patient_of_all() -> None:
    facts = Facts(agent_worlds.trouble(), worlds.NOW)
    trees = facts.snapshot.worktrees
    for shuffled in itertools.permutations(trees):
        ordered = [tree.key.worktree for tree in Order("attention").sorted(facts, shuffled)]
        assert ordered == ["review-123", "feat-ui", "devops-ci", "feat-api", "fix-bug", "trunk-main"]


def test_where_somebody_is_comes_before_where_nobody_is() -> None:
    lived_in, left, empty = made.tree("zz"), made.tree("feat-y"), made.tree("feat-0")
    agents = (replace(agent_worlds.UNCLAIMED, key=lived_in.key), replace(agent_worlds.ENDED, key=left.key))
    facts = made.facts(lived_in, left, empty, agents=agents)
    ordered = Order("attention").sorted(facts, (left, empty, lived_in))
    assert [tree.key.worktree for tree in ordered] == ["zz", "feat-0", "feat-y"]
