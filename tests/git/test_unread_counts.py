"""Counts of what is unread are kept by content: any change is counted again, and nothing else is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from imi_monitor.git import git_status, unread_counts, worktree_review
from imi_monitor.git.unread_counts import UnreadQuery
from tests.git.git_kit import commit_id, open_git
from tests.helpers import Repo, imi


def query(repo: Repo, kept: frozenset[tuple[str, str]] = frozenset()) -> UnreadQuery:
    git = open_git(repo)
    found = git_status.read_status(git)
    entries = tuple((one.path, one.index, one.tree) for one in found.entries)
    return UnreadQuery(git, found.oid, commit_id(repo, "main"), entries, kept)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The worktrees whose diff was read. Files that were just written count as old, so that a test need not wait."""
    found: list[str] = []
    real = worktree_review.read_review

    def noting(git, trunk, kept):  # type: ignore[no-untyped-def]
        found.append(git.work_tree)
        return real(git, trunk, kept)

    monkeypatch.setattr(worktree_review, "read_review", noting)
    monkeypatch.setattr(unread_counts, "_FRESH", -1.0)
    return found


def test_only_what_changed_is_counted_again(repo: Repo, counted: list[str]) -> None:
    feat = repo.worktree("feat-x")
    assert unread_counts.count([query(feat)], 9.0) == [{"unread": 0, "total": 0, "partial": False}]
    assert counted == [], "nothing differs, so no diff is read"
    changes = (
        lambda: feat.write("README.md", "hello\nmore\n"),
        lambda: feat.write("new/file.txt", "new\n"),
        lambda: feat.write("new/file.txt", "old\n"),
        lambda: feat.git("add", "README.md"),
        lambda: feat.commit("all of it"),
        lambda: os.unlink(feat.path / "README.md"),
    )
    for number, change in enumerate(changes, 1):
        change()
        first = unread_counts.count([query(feat)], 9.0)
        assert len(counted) == number, f"change {number} was not seen"
        assert unread_counts.count([query(feat)], 9.0) == first and len(counted) == number
    review = worktree_review.read_review(open_git(feat), "refs/heads/main", ())
    part = frozenset({(review.files[0].file.path, review.files[0].parts[0])})
    counted.clear()
    [after] = unread_counts.count([query(feat, part)], 9.0)
    assert after == {"unread": 1, "total": 2, "partial": False} and len(counted) == 1


def test_a_file_that_was_just_written_is_not_kept(
    repo: Repo, counted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unread_counts, "_FRESH", 60.0)
    feat = repo.worktree("feat-x")
    feat.write("README.md", "other\n")
    for _ in range(2):
        unread_counts.count([query(feat)], 9.0)
    assert len(counted) == 2


def test_without_time_left_only_kept_counts_are_known(repo: Repo, counted: list[str]) -> None:
    feat = repo.worktree("feat-x")
    feat.write("README.md", "other\n")
    assert unread_counts.count([query(feat)], -1.0) == [None] and counted == []
    known = unread_counts.count([query(feat)], 9.0)
    assert unread_counts.count([query(feat)], -1.0) == known != [None]


def test_a_damaged_file_is_counted_again(repo: Repo, counted: list[str]) -> None:
    feat = repo.worktree("feat-x")
    feat.write("README.md", "other\n")
    known = unread_counts.count([query(feat)], 9.0)
    Path(unread_counts._file(open_git(feat).admin_dir)).write_text('{"stamp": 1', encoding="utf-8")
    assert unread_counts.count([query(feat)], 9.0) == known and len(counted) == 2


def test_imi_status_has_the_counts(repo: Repo) -> None:
    feat = repo.worktree("feat-x")
    feat.write("README.md", "other\n")
    feat.write("new.txt", "new\n")
    expected = [{"unread": 0, "total": 0, "partial": False}, {"unread": 2, "total": 2, "partial": False}]
    assert [one["unread"] for one in imi("status", "--json", cwd=repo.path).data["worktrees"]] == expected
    assert imi("read", "x", "new.txt", cwd=repo.path).code == 0
    rows = imi("status", "x", "--json", "--unread", cwd=repo.path).data["worktrees"]
    assert [one["unread"] for one in rows] == [{"unread": 1, "total": 2, "partial": False}]
