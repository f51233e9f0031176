"""`imi types list|add|remove`, and worktrees of the user's own types."""

from __future__ import annotations

import sqlite3

import pytest

from tests.actions.create_kit import branches, database, query, rows
from tests.helpers import Repo, imi


def names() -> list[str]:
    return [kind["name"] for kind in imi("--json", "types").data["types"]]


def test_the_built_in_types_are_listed_with_their_prefixes() -> None:
    listed = imi("--json", "types", "list").data
    assert listed["count"] == 5
    assert [(k["name"], k["branch_prefix"], k["worktree_prefix"], k["is_builtin"]) for k in listed["types"]] == [
        ("feat", "feat/", "feat-", True),
        ("fix", "fix/", "fix-", True),
        ("aiops", "aiops/", "aiops-", True),
        ("devops", "devops/", "devops-", True),
        ("review", "pr/", "review-", True),
    ]
    assert "folders feat-NAME on branches feat/NAME" in imi("types").out


def test_a_user_type_is_added_used_and_removed(repo: Repo) -> None:
    assert imi("types", "add", "docs", "--description", "words").code == 0
    assert imi("types", "add", "exp", "--branch-prefix", "lab/e-", "--directory-prefix", "e-").code == 0
    assert imi("add", "docs", "guide", cwd=repo.path).code == 0
    assert imi("add", "exp", "one", cwd=repo.path).code == 0
    assert rows() == [("docs-guide", "docs/guide", "docs", "main"), ("e-one", "lab/e-one", "exp", "main")]
    assert {"docs/guide", "lab/e-one"} <= set(branches(repo))
    used = imi("types", "remove", "docs")
    assert (used.code, "still used by app/docs-guide" in used.err) == (1, True)
    connection = sqlite3.connect(database())
    with connection:
        connection.execute("UPDATE worktrees SET active = 0 WHERE worktree_name = 'docs-guide'")
    connection.close()
    assert imi("types", "remove", "docs").code == 0
    assert names() == ["feat", "fix", "aiops", "devops", "review", "exp"]
    assert [kind for (kind,) in query("SELECT type FROM events WHERE type LIKE 'type.%' ORDER BY seq")] == [
        "type.added",
        "type.added",
        "type.removed",
    ]


@pytest.mark.parametrize("name", ["feat", "fix", "aiops", "devops", "review"])
def test_a_built_in_type_cannot_be_removed(name: str) -> None:
    done = imi("types", "remove", name)
    assert (done.code, "is built in" in done.err, name in names()) == (1, True, True)


def test_an_unknown_type_cannot_be_removed() -> None:
    assert imi("types", "remove", "nope").code == 1


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["feat"], 1),
        (["FEAT"], 1),
        (["x", "--directory-prefix", "feat-"], 1),
        (["x", "--directory-prefix", "FIX-"], 1),
        (["trunk"], 2),
        (["pr"], 2),
        (["a b"], 2),
        ([""], 2),
        (["a/b"], 2),
        (["x", "--directory-prefix", ""], 2),
        (["x", "--directory-prefix", "trunk-"], 2),
        (["x", "--directory-prefix", "review-x-"], 2),
        (["x", "--directory-prefix", "../"], 2),
        (["x", "--directory-prefix", ".git/"], 2),
        (["x", "--branch-prefix", "a b/"], 2),
        (["x", "--branch-prefix=-x/"], 2),
        (["x", "--branch-prefix", "refs/heads/"], 2),
        (["x", "--branch-prefix", "a//"], 2),
        (["x", "y"], 2),
    ],
    ids=repr,
)
def test_a_wrong_type_is_refused_in_one_line(words: list[str], code: int) -> None:
    done = imi("types", "add", *words)
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1), done
    assert names() == ["feat", "fix", "aiops", "devops", "review"]
    assert query("SELECT count(*) FROM events") == [(0,)]


def test_a_type_without_a_branch_prefix_makes_plain_branches(repo: Repo) -> None:
    assert imi("types", "add", "spike", "--branch-prefix", "").code == 0
    assert imi("add", "spike", "one", cwd=repo.path).code == 0
    assert rows() == [("spike-one", "one", "spike", "main")]


def test_short_names_find_worktrees_of_user_types(repo: Repo) -> None:
    assert imi("types", "add", "docs").code == 0
    for kind, name in (("docs", "guide"), ("docs", "both"), ("feat", "both")):
        assert imi("add", kind, name, cwd=repo.path).code == 0
    assert imi("claim", "guide", "--agent", "a", cwd=repo.path).code == 0
    assert imi("verify-lock", "docs-guide", "--agent", "a", cwd=repo.path).code == 0
    assert imi("release", "guide", "--agent", "a", cwd=repo.path).code == 0
    assert imi("go", "guide", cwd=repo.path).out.strip().endswith("/docs-guide")
    assert "docs-guide" in imi("events", "--worktree", "guide", cwd=repo.path).out
    assert "docs-manual" in imi("rename", "guide", "manual", cwd=repo.path).out
    two = imi("remove", "both", cwd=repo.path)
    assert (two.code, "feat-both" in two.err, "docs-both" in two.err) == (1, True, True), two
    assert imi("remove", "manual", cwd=repo.path).code == 0
    assert imi("undo", "manual", cwd=repo.path).out.strip().endswith("/docs-manual")


def test_a_built_in_prefix_wins_over_a_user_prefix(repo: Repo) -> None:
    assert imi("types", "add", "docs").code == 0
    for kind in ("docs", "feat"):
        assert imi("add", kind, "both", cwd=repo.path).code == 0
    assert imi("status", "both", cwd=repo.path).out.splitlines()[1].startswith("feat-both ")
    assert imi("claim", "both", "--agent", "a", "--json", cwd=repo.path).data["worktree_name"] == "feat-both"
