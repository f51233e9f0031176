"""The log of a branch in pages: its own commits first, then the history it shares with the trunk."""

from __future__ import annotations

from pathlib import Path

import pytest

from imi_monitor.git import commit_log
from imi_monitor.git.commit_log import LogTips
from imi_monitor.model.commit_graph import CommitLogEntry
from imi_monitor.model.errors import UsageError
from tests.git.git_kit import commit_id, commit_on_main, make_branch, open_git
from tests.helpers import Repo, git


def pages(repo: Repo, trunk: str | None, size: int) -> list[CommitLogEntry]:
    here = open_git(repo)
    tips = commit_log.log_tips(here, trunk)
    found: list[CommitLogEntry] = []
    seen = (0, 0)
    for _ in range(100):
        page = commit_log.log_page(here, tips, seen, size)
        found += page.entries
        seen = page.seen
        assert len(page.entries) <= size
        if not page.more:
            return found
    raise AssertionError("it never ends")


@pytest.fixture
def history(repo: Repo) -> Repo:
    """`feat/x` with three commits of its own, the trunk merged into it between them, and the trunk one ahead."""
    other = repo.worktree("feat-x")
    other.write("1", "1")
    other.commit("own 1")
    commit_on_main(repo, "theirs", "x", "trunk 1")
    other.git("merge", "-q", "--no-ff", "-m", "own merge", "main")
    other.write("2", "2")
    other.commit("own 2")
    commit_on_main(repo, "theirs", "y", "trunk 2")
    return other


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 50])
def test_a_log_has_own_commits_first_then_common_ones(history: Repo, size: int) -> None:
    found = pages(history, "refs/heads/main", size)
    assert [(entry.subject, entry.own) for entry in found] == [
        ("own 2", True),
        ("own merge", True),
        ("own 1", True),
        ("trunk 1", False),
        ("second", False),
        ("first", False),
    ]
    assert len(found[1].parents) == 2 and found[0].parents == (found[1].sha,)
    assert found[0].refs == ("feat/x",)


def test_a_log_on_the_trunk_and_without_a_trunk(history: Repo, repo: Repo) -> None:
    assert [entry.own for entry in pages(repo, "refs/heads/main", 2)] == [False] * 4
    assert [entry.own for entry in pages(repo, None, 2)] == [True] * 4


def test_a_log_of_unborn_and_unrelated_branches(tmp_path: Path, repo: Repo) -> None:
    git("init", "-q", "-b", "main", str(tmp_path / "r"), cwd=tmp_path)
    assert pages(Repo(tmp_path / "r"), "refs/heads/main", 5) == []
    repo.git("checkout", "-q", "--orphan", "alone")
    repo.git("commit", "-q", "-m", "alone")
    assert [(entry.subject, entry.own) for entry in pages(repo, "refs/heads/main", 5)] == [("alone", True)]


def test_a_log_of_hostile_commits(repo: Repo) -> None:
    tree, parent = repo.git("rev-parse", "HEAD^{tree}"), commit_id(repo)
    made = (
        f"tree {tree}\nparent {parent}\nauthor \x1b[31mEve [/b] <e@x> 99999999999999999 +0000\n"
        f"committer E <e@x> 99999999999999999 +0000\n\nsub\x1b]52;c;aGk=\x07ject [/nope] \u202e\x01\nmore\n\nbody\n"
    )
    (repo.path / "raw").write_bytes(made.encode() + b"\xff\xfe")
    sha = repo.git("hash-object", "-t", "commit", "-w", "--literally", "raw")
    (repo.path / "long").write_bytes(
        f"tree {tree}\nparent {sha}\nauthor A <a@x> 1 +0000\ncommitter A <a@x> 1 +0000\n\n".encode() + b"x" * 3_000_000
    )
    repo.git("update-ref", "refs/heads/main", repo.git("hash-object", "-t", "commit", "-w", "long"))
    found = pages(repo, None, 10)
    assert len(found) == 4 and len(found[0].subject) < 5000, "a subject of 3 MB is cut, not refused"
    assert "\x1b" in found[1].subject, "unchanged: the display sanitises it"


def test_replacements_and_user_settings_do_not_change_a_log(repo: Repo) -> None:
    before = pages(repo, None, 10)
    repo.git("replace", commit_id(repo), commit_id(repo, "HEAD~1"))
    for key, value in {
        "log.showSignature": "true",
        "log.decorate": "full",
        "color.ui": "always",
        "log.date": "raw",
    }.items():
        git("config", "--global", key, value, cwd=repo.path)
    assert [entry.sha for entry in pages(repo, None, 10)] == [entry.sha for entry in before]


def test_only_full_ids_reach_git(repo: Repo) -> None:
    make_branch(repo, "side", ("x", "x"))
    for bad in ("--all", "HEAD", "main"):
        with pytest.raises(UsageError):
            commit_log.log_page(open_git(repo), LogTips(bad, None, None), (0, 0), 5)
        with pytest.raises(UsageError):
            commit_log.log_page(open_git(repo), LogTips(commit_id(repo), (bad,), None), (0, 0), 5)
