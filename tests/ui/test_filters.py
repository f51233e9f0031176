"""The filter of the worktree list: its words, its states, and unknown words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from imi_monitor.model.snapshot import SourceFailure
from imi_monitor.ui.filters import STATES, WorktreeFilter
from imi_monitor.ui.snapshot_facts import SnapshotFacts
from tests.ui import sample_agents, sample_snapshots, snapshot_builder

DIRTY = snapshot_builder.tree("feat-api", by="claude-1", git=snapshot_builder.dirty(), changed=5)
STALE = snapshot_builder.tree("fix-Bug", by="codex-1", how="stale")
DEAD = snapshot_builder.tree("feat-ui", by="gemini-2", how="dead", repo="web")
FREE = snapshot_builder.tree("devops-ci")
GONE = snapshot_builder.tree("feat-gone", missing=True, git=None)
UNKNOWN = snapshot_builder.tree(
    "review-9", git=None, failure=SourceFailure("git status", "no", snapshot_builder.ago(5))
)
ALL = (DIRTY, STALE, DEAD, FREE, GONE, UNKNOWN)
FACTS = snapshot_builder.facts(*ALL, me="claude-1", collisions=(snapshot_builder.conflict(DIRTY, STALE),))


def found(text: str) -> set[str]:
    return {tree.key.worktree for tree in WorktreeFilter(text).apply(FACTS, ALL)}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", {"feat-api", "fix-Bug", "feat-ui", "devops-ci", "feat-gone", "review-9"}),
        ("feat", {"feat-api", "feat-ui", "feat-gone"}),
        ("feat api", {"feat-api"}),
        ("bug", {"fix-Bug"}),
        ("Bug", {"fix-Bug"}),
        ("FEAT", set()),  # an upper-case letter makes the case count
        ("!feat", {"fix-Bug", "devops-ci", "review-9"}),
        ("@codex", {"fix-Bug"}),
        ("@unclaimed", set()),  # no owner is called so
        ("type:feat", {"feat-api", "feat-ui", "feat-gone"}),
        ("repo:web", {"feat-ui"}),
        ("is:dirty", {"feat-api"}),
        ("is:clean", {"fix-Bug", "feat-ui", "devops-ci"}),  # what git could not tell is not clean
        ("is:claimed", {"feat-api", "fix-Bug", "feat-ui"}),
        ("is:free", {"devops-ci", "feat-gone", "review-9"}),
        ("is:unclaimed", {"devops-ci", "feat-gone", "review-9"}),
        ("is:mine", {"feat-api"}),
        ("is:stale", {"fix-Bug"}),
        ("is:dead", {"feat-ui"}),
        ("is:busy", {"feat-api"}),
        ("is:changing", {"feat-api"}),
        ("is:collides", {"feat-api", "fix-Bug"}),
        ("is:missing", {"feat-gone"}),
        ("is:asking", set()),
        ("!is:claimed type:feat", {"feat-gone"}),
        ("fapi", {"feat-api"}),  # no name holds it: its letters in order
        ("fgo", {"feat-gone"}),
        ("  ", {"feat-api", "fix-Bug", "feat-ui", "devops-ci", "feat-gone", "review-9"}),
        ("!", {"feat-api", "fix-Bug", "feat-ui", "devops-ci", "feat-gone", "review-9"}),
    ],
)
def test_worktree_filter_words(text: str, names: set[str]) -> None:
    assert found(text) == names


def test_every_state_of_is_can_be_filtered() -> None:
    for word in STATES:
        assert WorktreeFilter(f"is:{word}").problem == ""


def test_an_unknown_state_is_reported_and_excludes_nothing() -> None:
    wrong = WorktreeFilter("is:dirti feat")
    assert "is:dirti" in wrong.problem and "is:dirty" in wrong.problem
    assert {tree.key.worktree for tree in wrong.apply(FACTS, ALL)} == {"feat-api", "feat-ui", "feat-gone"}
    assert (
        "? lists the words" in WorktreeFilter("is:\x1b[31mx").problem
        and "\x1b" not in WorktreeFilter("is:\x1b[31mx").problem
    )


def test_an_unfinished_filter_word_is_not_an_error() -> None:
    for text in ("is:", "is:d", "is:cl"):
        assert WorktreeFilter(text).problem == "" and len(found(text)) == len(ALL)


def test_worktrees_are_filtered_by_states_of_agents() -> None:
    facts = SnapshotFacts(sample_agents.trouble(), sample_snapshots.NOW)
    trees = facts.snapshot.worktrees

    def those(text: str) -> set[str]:
        return {tree.key.worktree for tree in WorktreeFilter(text).apply(facts, trees)}

    for word in ("is:asks", "is:asking", "is:waiting"):
        assert those(word) == {"feat-ui", "review-123"}
    for word in ("is:works", "is:working"):
        assert those(word) == {"feat-api", "fix-bug"}
    for word in ("is:intrudes", "is:intruded"):
        assert those(word) == {"feat-api"}
    assert those("is:failed") == {"devops-ci"}
    assert those("is:dead") == set(), "whose place another has taken is not what the worktree is about"
    assert those("@gemini") == {"feat-ui"}, "an agent that has left does not count"
    assert those("@aider") == {"devops-ci"} and those("@codex-1") == {"fix-bug"}
    assert those("@codex") == {"feat-api", "fix-bug", "review-123"}
    died = snapshot_builder.facts(DIRTY, agents=(replace(sample_agents.DEAD, key=DIRTY.key),))
    assert [tree.key for tree in WorktreeFilter("is:dead").apply(died, [DIRTY])] == [DIRTY.key]
    stopped = snapshot_builder.facts(DIRTY, agents=(replace(sample_agents.EDITS, key=DIRTY.key, suspended=True),))
    assert WorktreeFilter("is:working").apply(stopped, [DIRTY]) == [], "a suspended agent does not work"
