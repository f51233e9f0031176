"""Counts of what is unread are kept by content: any change is counted again, and nothing else is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from imi_monitor.git import git_status, unread_counts, worktree_review
from imi_monitor.git.unread_counts import UnreadQuery
from tests.git.git_kit import commit_id, open_git
from tests.helpers import Repo, imi, shift_clock


def query(repo: Repo, kept: frozenset[tuple[str, str]] = frozenset()) -> UnreadQuery:
    git = open_git(repo)
    found = git_status.read_status(git)
    entries = tuple((one.path, one.index, one.tree) for one in found.entries)
    return UnreadQuery(git, found.oid, commit_id(repo, "main"), entries, kept)


def test_only_what_changed_is_counted_again(
    repo: Repo, count_git: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def counted(*kept: tuple[str, str]) -> tuple[object, int]:
        """The count, and how many git processes it took."""
        asked = query(feat, frozenset(kept))
        before = count_git()
        [found] = unread_counts.count([asked], 9.0)
        return found, count_git() - before

    shift_clock(monkeypatch, 60.0)  # what is written now counts as written a minute ago
    feat = repo.worktree("feat-x")
    assert counted() == ({"unread": 0, "total": 0, "partial": False}, 0), "nothing differs"
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
        first, processes = counted()
        assert processes > 0, f"change {number} was not seen"
        assert counted() == (first, 0)
    review = worktree_review.read_review(open_git(feat), "refs/heads/main", ())
    part = (review.files[0].file.path, review.files[0].parts[0])
    after, processes = counted(part)
    assert after == {"unread": 1, "total": 2, "partial": False} and processes > 0


def test_a_file_that_was_just_written_is_not_kept(
    repo: Repo, count_git: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    feat = repo.worktree("feat-x")
    feat.write("README.md", "other\n")
    shift_clock(monkeypatch, -60.0)
    asked = query(feat)
    for _ in range(2):
        before = count_git()
        unread_counts.count([asked], 9.0)
        assert count_git() > before


def test_without_time_left_only_kept_counts_are_known(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    shift_clock(monkeypatch, 60.0)
    feat = repo.worktree("feat-x")
    feat.write("README.md", "other\n")
    assert unread_counts.count([query(feat)], -1.0) == [None]
    known = unread_counts.count([query(feat)], 9.0)
    assert unread_counts.count([query(feat)], -1.0) == known != [None]
    kept = Path.home() / ".local/state/imi/unread"
    for file in kept.iterdir():
        file.write_text('{"stamp": 1', encoding="utf-8")
    assert unread_counts.count([query(feat)], -1.0) == [None], "a damaged file holds no count"


def test_imi_status_has_the_counts(repo: Repo) -> None:
    feat = repo.worktree("feat-x")
    feat.write("README.md", "other\n")
    feat.write("new.txt", "new\n")
    expected = [{"unread": 0, "total": 0, "partial": False}, {"unread": 2, "total": 2, "partial": False}]
    assert [one["unread"] for one in imi("status", "--json", cwd=repo.path).data["worktrees"]] == expected
    assert imi("read", "x", "new.txt", cwd=repo.path).code == 0
    rows = imi("status", "x", "--json", "--unread", cwd=repo.path).data["worktrees"]
    assert [one["unread"] for one in rows] == [{"unread": 1, "total": 2, "partial": False}]
