"""The graph beside a log: every commit once, lanes that part and join, in any order of commits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from imi_monitor.model.commit_graph import COMMIT, MERGE, MOST_LANES, CommitGraph


def drawn(*commits: str) -> list[str]:
    """`c:a,b` is commit c with the parents a and b."""
    graph = CommitGraph()
    rows = []
    for commit in commits:
        sha, _, parents = commit.partition(":")
        rows.append(graph.row(sha, [parent for parent in parents.split(",") if parent]))
    return rows


def test_a_linear_history_is_one_lane() -> None:
    assert drawn("c:b", "b:a", "a:") == ["●", "●", "●"]


def test_a_merge_parts_and_joins() -> None:
    assert drawn("m:c,s", "c:a", "s:a", "a:") == ["◉─╮", "● │", "│ ●", "●─╯"]


def test_two_parallel_merges_are_drawn() -> None:
    assert drawn("n:m,t", "m:c,s", "t:c", "s:c", "c:") == ["◉─╮", "◉─┼─╮", "│ ● │", "│ │ ●", "●─┴─╯"]


def test_a_parent_before_its_child_ends_nothing_else() -> None:
    assert drawn("a:", "b:a", "c:b") == ["●", "●", "│ ●"]


def test_an_octopus_merge_is_drawn() -> None:
    assert drawn("m:a,b,c", "a:", "b:", "c:") == ["◉─┬─╮", "● │ │", "  ● │", "    ●"]


@given(st.lists(st.tuples(st.integers(0, 9), st.lists(st.integers(0, 30), max_size=4)), max_size=40))
def test_any_history_is_drawn(commits: list[tuple[int, list[int]]]) -> None:
    graph = CommitGraph()
    for sha, parents in commits:
        row = graph.row(str(sha), [str(parent) for parent in parents])
        assert len(row) <= 2 * MOST_LANES
        assert row.count(COMMIT) + row.count(MERGE) == 1 or row.endswith("…")
