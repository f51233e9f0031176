"""The filter: what its words mean, and that one without a meaning is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from imi_monitor.model.snapshot import Failure
from imi_monitor.ui.facts import Facts
from imi_monitor.ui.filtering import STATES, Filter
from tests.ui import agent_worlds, made, worlds

DIRTY = made.tree("feat-api", by="claude-1", git=made.dirty(), changed=5)
STALE = made.tree("fix-Bug", by="codex-1", how="stale")
DEAD = made.tree("feat-ui", by="gemini-2", how="dead", repo="web")
FREE = made.tree("devops-ci")
GONE = made.tree("feat-gone", missing=True, git=None)
UNKNOWN = made.tree("review-9", git=None, failure=Failure("git status", "no", made.ago(5)))
ALL = (DIRTY, STALE, DEAD, FREE, GONE, UNKNOWN)
FACTS = made.facts(*ALL, me="claude-1", collisions=(made.conflict(DIRTY, STALE),))


def found(text: str) -> set[str]:
    return {tree.key.worktree for tree in Filter(text).apply(FACTS, ALL)}


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
        ("!@human", {"feat-api", "fix-Bug", "feat-ui"}),
        ("type:feat", {"feat-api", "feat-ui", "feat-gone"}),
        ("repo:web", {"feat-ui"}),
        ("is:dirty", {"feat-api"}),
        ("is:clean", {"fix-Bug", "feat-ui", "devops-ci"}),  # what git could not tell is not clean
        ("is:claimed", {"feat-api", "fix-Bug", "feat-ui"}),
        ("is:free", {"devops-ci", "feat-gone", "review-9"}),
        ("is:mine", {"feat-api"}),
        ("is:stale", {"fix-Bug"}),
        ("is:dead", {"feat-ui"}),
        ("is:busy", {"feat-api"}),
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
def test_what_the_words_mean(text: str, names: set[str]) -> None:
    assert found(text) == names


def test_every_state_can_be_asked_for() -> None:
    for word in STATES:
        assert Filter(f"is:{word}").problem == ""


def test_a_state_nobody_knows_is_said_and_leaves_nothing_out() -> None:
    wrong = Filter("is:dirti feat")
    assert "is:dirti" in wrong.problem and "is:dirty" in wrong.problem
    assert {tree.key.worktree for tree in wrong.apply(FACTS, ALL)} == {"feat-api", "feat-ui", "feat-gone"}
    assert "use one of" in Filter("is:\x1b[31mx").problem and "\x1b" not in Filter("is:\x1b[31mx").problem


def test_an_unfinished_word_is_no_mistake() -> None:
    for text in ("is:", "is:d", "is:cl"):
        assert Filter(text).problem == "" and len(found(text)) == len(ALL)


def test_states_of_agents() -> None:
    facts = Facts(agent_worlds.trouble(), worlds.NOW)
    trees = facts.snapshot.worktrees

    def those(text: str) -> set[str]:
        return {tree.key.worktree for tree in Filter(text).apply(facts, trees)}

    assert those("is:asking") == {"feat-ui", "review-123"}
    assert those("is:working") == {"feat-api", "fix-bug"}
    assert those("is:intruded") == {"feat-api"}
    assert those("is:failed") == {"devops-ci"}
    assert those("is:dead") == set(), "whose place another has taken is not what the worktree is about"
    assert those("@gemini") == {"feat-ui"}, "who has left is not there"
    assert those("@aider") == {"devops-ci"} and those("@codex-1") == {"fix-bug"}
    assert those("@codex") == {"feat-api", "fix-bug", "review-123"}
    died = made.facts(DIRTY, agents=(replace(agent_worlds.DEAD, key=DIRTY.key),))
    assert [tree.key for tree in Filter("is:dead").apply(died, [DIRTY])] == [DIRTY.key]
    stopped = made.facts(DIRTY, agents=(replace(agent_worlds.EDITS, key=DIRTY.key, suspended=True),))
    assert Filter("is:working").apply(stopped, [DIRTY]) == [], "who is suspended works at nothing"
