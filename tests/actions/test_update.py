"""`imi update --rebase` and `--undo`: files, index and branch move together, or nothing does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from imi_monitor.actions.action import Outcome
from imi_monitor.model.errors import GitError, Refused, UsageError
from tests.actions.removal_kit import act, admin_of
from tests.git.git_kit import commit_id, commit_on_main
from tests.helpers import Repo, imi, tree_hash


@pytest.fixture
def feat(repo: Repo) -> Repo:
    """A worktree with two commits of its own, and a trunk that has gone on."""
    made = repo.worktree("feat-x")
    made.write("own.py", "one\n")
    made.commit("own: one\n\nwith a body\n")
    made.write("own.py", "one\ntwo\n")
    made.commit("own: two")
    commit_on_main(repo, "trunk.py", "trunk\n")
    imi("claims", cwd=repo.path)
    return made


def update(feat: Repo, **values: Any) -> Outcome:
    return act("update", cwd=feat.path, name="feat-x", **values)


def state(feat: Repo) -> tuple[str, str, bytes]:
    return commit_id(feat), tree_hash(feat.path), (admin_of(feat.path) / "index").read_bytes()


def history(feat: Repo) -> list[str]:
    return feat.git("log", "--format=%an %ae %at %s/%b", "main..HEAD").splitlines()


def test_a_rebase_makes_the_same_commits_again_and_is_taken_back(feat: Repo, repo: Repo) -> None:
    before, was = history(feat), commit_id(feat)
    outcome = update(feat, rebase=True)
    assert outcome.lines == [
        "updated feat/x with 1 commit of main: makes 2 commits again on it",
        "`imi update feat-x --undo` undoes it",
    ]
    assert history(feat) == before and feat.git("merge-base", "HEAD", "main") == commit_id(repo)
    assert feat.git("status", "--porcelain") == "" and (feat.path / "trunk.py").read_text() == "trunk\n"
    assert feat.git("rev-parse", "HEAD~2") == commit_id(repo)
    assert (
        "rebased feat-x" in imi("events", cwd=repo.path).out or "feat-x was rebased" in imi("events", cwd=repo.path).out
    )
    assert update(feat, undo=True).data["after"] == was == commit_id(feat)
    assert feat.git("status", "--porcelain") == "" and not (feat.path / "trunk.py").exists()
    assert update(feat, undo=True).data["before"] == was, "what was taken back comes again"
    assert (feat.path / "trunk.py").exists()


def test_a_merge_is_taken_back_too(feat: Repo) -> None:
    before = commit_id(feat), tree_hash(feat.path)
    update(feat)
    assert (feat.path / "trunk.py").exists()
    update(feat, undo=True)
    assert (commit_id(feat), tree_hash(feat.path)) == before


def test_a_commit_whose_change_the_trunk_has_is_left_out(feat: Repo, repo: Repo) -> None:
    repo.git("cherry-pick", "feat/x~1")
    outcome = update(feat, rebase=True)
    assert "makes 1 commit again and leaves 1 out, whose changes the trunk has" in outcome.lines[0]
    assert history(feat)[0].endswith("own: two/") and len(history(feat)) == 1


def test_a_conflict_names_commit_and_files_and_changes_nothing(feat: Repo, repo: Repo) -> None:
    commit_on_main(repo, "own.py", "theirs\n")
    before = state(feat)
    with pytest.raises(
        Refused, match=r"commit 1 of 2 \(\w{8} own: one\) conflicts with the trunk in 1 file: nothing was"
    ) as no:
        update(feat, rebase=True)
    assert no.value.details == ("own.py",) and state(feat) == before


def test_what_a_rebase_cannot_do_is_refused(feat: Repo, repo: Repo) -> None:
    with pytest.raises(UsageError, match="exclude each other"):
        update(feat, rebase=True, undo=True)
    with pytest.raises(Refused, match="no update of imi"):
        update(feat, undo=True)
    feat.git("merge", "-q", "main")
    commit_on_main(repo, "trunk.py", "more\n")
    with pytest.raises(Refused, match="merges of its own"):
        update(feat, rebase=True)


def test_an_ignored_file_in_the_way_is_not_overwritten(feat: Repo, repo: Repo) -> None:
    feat.write(".gitignore", "trunk.py\nfolder\n")
    feat.commit("ignore it")
    feat.write("trunk.py", "my own notes\n")
    before = state(feat)
    with pytest.raises(Refused, match=r"trunk\.py is in the way"):
        update(feat, rebase=True)
    assert state(feat) == before and (feat.path / "trunk.py").read_text() == "my own notes\n"


def test_a_failure_in_the_middle_brings_the_files_back(feat: Repo) -> None:
    before = commit_id(feat), tree_hash(feat.path)
    lock = feat.path.parent / "app/.git/refs/heads/feat/x.lock"
    lock.write_text("")  # git has written the files when it finds the branch locked
    with pytest.raises(GitError):
        update(feat, rebase=True)
    lock.unlink()
    assert (commit_id(feat), tree_hash(feat.path)) == before and feat.git("status", "--porcelain") == ""


def test_the_setting_chooses_and_a_pushed_branch_is_warned_of(tmp_path: Path) -> None:
    shared = Repo.create_with_origin(tmp_path / "app", tmp_path / "origin.git")
    feat = shared.worktree("feat-x")
    feat.write("own.py", "one\n")
    feat.commit("own")
    feat.git("push", "-q", "-u", "origin", "feat/x")
    commit_on_main(shared, "trunk.py", "trunk\n")
    shared.git("push", "-q", "origin", "main")
    config = Path.home() / ".config/iMi/config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text('[git]\nupdate = "rebase"\n')
    outcome = update(feat)
    assert outcome.data["how"] == "rebase" and "has to be forced, which imi never does" in outcome.warnings[0]
    assert os.path.exists(feat.path / "trunk.py")
    with pytest.raises(Refused):
        act("push", cwd=feat.path, name="feat-x")
