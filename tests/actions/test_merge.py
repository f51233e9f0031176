"""`imi merge`: conflicts are shown before anything changes, and the base is all old or all new."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import Repo, git, imi, tree_hash


@pytest.fixture
def feature(repo: Repo) -> Repo:
    """A worktree `feat-x` with one commit on its branch."""
    other = repo.worktree("feat-x")
    other.write("src/feature.py", "x = 1\n")
    other.commit("a feature")
    return other


def test_a_merge_by_fast_forward(repo: Repo, feature: Repo) -> None:
    dry = imi("merge", "feat-x", "--dry-run", "--json", cwd=repo.path)
    assert (dry.data["fast_forward"], dry.data["commits"], dry.data["merged"]) == (True, 1, False)
    assert not (repo.path / "src/feature.py").exists()
    ran = imi("merge", "feat-x", cwd=repo.path)
    assert ran.code == 0, ran
    assert repo.git("rev-parse", "main") == feature.git("rev-parse", "HEAD")
    assert (repo.path / "src/feature.py").exists()
    assert repo.git("status", "--porcelain") == ""
    assert feature.path.is_dir(), "the worktree stays"
    again = imi("merge", "feat-x", cwd=repo.path)
    assert again.code == 0 and "already merged" in again.out
    events = [e["type"] for e in map(__import__("json").loads, imi("events", "--json", cwd=repo.path).out.splitlines())]
    assert "worktree.merged" in events


def test_a_merge_commit_when_the_base_moved_on(repo: Repo, feature: Repo) -> None:
    repo.write("other.txt", "other\n")
    repo.commit("other")
    ran = imi("merge", "feat-x", "-m", "bring it in", cwd=feature.path)
    assert ran.code == 0, ran
    assert repo.git("log", "-1", "--format=%s") == "bring it in"
    assert len(repo.git("log", "-1", "--format=%P").split()) == 2
    assert repo.git("status", "--porcelain") == ""


def test_conflicts_are_shown_and_nothing_starts(repo: Repo, feature: Repo) -> None:
    feature.write("README.md", "theirs\n")
    feature.commit("theirs")
    repo.write("README.md", "ours\n")
    repo.commit("ours")
    before = tree_hash(repo.path)
    ran = imi("merge", "feat-x", "--json", cwd=repo.path)
    assert ran.code == 1
    assert ran.json["data"]["conflicts"] == ["README.md"]
    assert ran.json["code"] == "conflicts"
    after = {key: value for key, value in tree_hash(repo.path).items() if not key.startswith(".git/objects")}
    assert after == {key: value for key, value in before.items() if not key.startswith(".git/objects")}


@pytest.mark.parametrize("side", ["branch", "base"])
def test_uncommitted_changes_on_either_side_refuse(repo: Repo, feature: Repo, side: str) -> None:
    dirty = feature if side == "branch" else repo
    dirty.write("README.md", "not committed\n")
    ran = imi("merge", "feat-x", cwd=repo.path)
    assert ran.code == 1 and "uncommitted" in ran.err and "README.md" in ran.err
    assert (dirty.path / "README.md").read_text() == "not committed\n"
    assert repo.git("rev-parse", "main") != feature.git("rev-parse", "HEAD")


def test_an_untracked_file_in_the_way_is_not_overwritten(repo: Repo, feature: Repo) -> None:
    repo.write("src/feature.py", "my own\n")
    head = repo.git("rev-parse", "main")
    ran = imi("merge", "feat-x", cwd=repo.path)
    assert ran.code == 1, ran
    assert (repo.path / "src/feature.py").read_text() == "my own\n"
    assert repo.git("rev-parse", "main") == head
    assert imi("doctor", cwd=repo.path).out.count("unfinished") <= 1


def test_an_ignored_file_in_the_way_is_not_overwritten(repo: Repo, feature: Repo) -> None:
    feature.write("secret.sqlite", "tracked there")
    feature.git("add", "-f", "secret.sqlite")
    feature.git("commit", "-q", "-m", "tracks it")
    repo.write("secret.sqlite", "my data")
    assert imi("merge", "feat-x", cwd=repo.path).code == 1
    assert (repo.path / "secret.sqlite").read_text() == "my data"


def test_a_base_that_is_checked_out_nowhere(repo: Repo, feature: Repo) -> None:
    repo.git("branch", "release")
    ran = imi("merge", "feat-x", "--into", "release", cwd=repo.path)
    assert ran.code == 0, ran
    assert repo.git("rev-parse", "release") == feature.git("rev-parse", "HEAD")
    assert repo.git("rev-parse", "main") != repo.git("rev-parse", "release")


def test_a_worktree_of_another_owner_is_not_merged(repo: Repo, feature: Repo) -> None:
    assert imi("claim", "feat-x", "--agent", "claude-1", cwd=repo.path).code == 0
    ran = imi("merge", "feat-x", "--agent", "codex-1", cwd=repo.path)
    assert ran.code == 1 and "claude-1" in ran.err
    assert imi("merge", "feat-x", "--agent", "claude-1", cwd=repo.path).code == 0


def test_refusals_that_say_what_to_do(repo: Repo, feature: Repo) -> None:
    for words, expected in (
        (["merge", "feat-x", "--into", "nowhere"], "no local branch nowhere"),
        (["merge", "feat-x", "--into", "--evil"], "needs a value"),
        (["merge", "app"], "nothing to merge"),
    ):
        ran = imi(*words, cwd=repo.path)
        assert ran.code in (1, 2) and expected in ran.err, ran
    feature.git("switch", "-q", "--detach")
    assert "on no branch" in imi("merge", "feat-x", cwd=repo.path).err


def test_close_puts_it_into_the_trash(repo: Repo, feature: Repo) -> None:
    assert imi("merge", "feat-x", "--close", cwd=repo.path).code == 0
    assert not feature.path.exists()
    assert imi("undo", cwd=repo.path).code == 0
    assert git("status", "--porcelain", cwd=feature.path) == ""


def test_a_merge_without_a_git_identity_is_one_error_line(repo: Repo, feature: Repo, own_home: Path) -> None:
    repo.write("other.txt", "x")
    repo.commit("other")
    (own_home / ".gitconfig").write_text("[user]\n\tuseConfigOnly = true\n")
    ran = imi("merge", "feat-x", cwd=repo.path)
    assert ran.code == 1 and "git config --global user.name" in ran.err
