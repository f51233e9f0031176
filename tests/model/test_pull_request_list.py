"""Which pull request a branch belongs to, and the words for its standing."""

from __future__ import annotations

import pytest

from imi_monitor.model.pull_request import PullRequest
from imi_monitor.model.pull_request_list import PullRequestList, described, standing

SHA, OTHER = "a" * 40, "b" * 40


def listed(*pulls: PullRequest) -> PullRequestList:
    return PullRequestList("github.com/acme/app", "gh", pulls=pulls)


def find(pulls: PullRequestList, branch: str = "feat/x", head: str | None = SHA) -> int | None:
    found = pulls.find_branch(branch, head, {"acme/app", "me/app"})
    return found.number if found else None


def test_a_branch_is_found_in_the_own_projects_only() -> None:
    own = PullRequest(1, head="feat/x", is_fork=False, state="OPEN")
    mine = PullRequest(2, head="feat/x", is_fork=True, fork=("Me", "App"), state="OPEN")
    strange = PullRequest(3, head="feat/x", is_fork=True, fork=("eve", "app"), state="OPEN")
    unknown = PullRequest(4, head="feat/x", is_fork=None, state="OPEN")
    assert find(listed(own, strange, unknown)) == 1
    assert find(listed(own, mine, strange)) == 2
    assert find(listed(strange, unknown)) is None
    assert find(listed(own), "feat/y") is None


def test_a_merged_one_belongs_only_to_the_branch_at_its_commit() -> None:
    merged = PullRequest(1, head="feat/x", is_fork=False, state="MERGED", sha=SHA)
    assert find(listed(merged)) == 1
    assert find(listed(merged), head=OTHER) is None and find(listed(merged), head=None) is None
    opened = PullRequest(0, head="feat/x", is_fork=False, state="OPEN")
    assert find(listed(merged, opened)) == 0


@pytest.mark.parametrize(
    ("pull", "words"),
    [
        (PullRequest(7), "#7"),
        (PullRequest(7, state="OPEN", ci="passed", review="approved"), "#7 CI ✓ approved"),
        (PullRequest(7, state="OPEN", ci="failed", review="changes"), "#7 CI ✗ changes asked"),
        (PullRequest(7, state="OPEN", ci="pending", review="needed"), "#7 CI … to review"),
        (PullRequest(7, state="OPEN", ci="none", draft=True, review="needed"), "#7 draft"),
        (PullRequest(7, state="MERGED", ci="passed", review="approved"), "#7 merged"),
        (PullRequest(7, state="CLOSED"), "#7 closed"),
    ],
)
def test_the_standing_in_few_words(pull: PullRequest, words: str) -> None:
    assert standing(pull) == words


def test_texts_of_others_are_safe_to_show() -> None:
    assert described(PullRequest(1, "a\x1b[31m\nb", "e\u202ev")) == "a\\x1b[31m\\x0ab, by e\\u202ev"
    assert described(PullRequest(1)) == ""
