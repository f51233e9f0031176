"""R5: no branch is deleted unless asked for, proven to be merged, and still where it was; no remote branch but by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from imi_monitor.git import update_ref
from imi_monitor.model.errors import Refused
from tests.actions.removal_kit import act, refs, remove, undo
from tests.helpers import Repo, git


@pytest.fixture
def tree(cloned: Repo) -> Repo:
    """A worktree of a clone with one commit of its own, pushed."""
    made = cloned.worktree("feat-x")
    made.write("work.py", "one\ntwo\n")
    made.commit("work")
    made.git("push", "-q", "-u", "origin", "feat/x")
    return made


def merge(repo: Repo, how: str) -> None:
    if how == "merge":
        repo.git("merge", "-q", "--no-ff", "-m", "merged", "feat/x")
    elif how == "squash":
        repo.git("merge", "-q", "--squash", "feat/x")
        repo.git("commit", "-qm", "squashed")
    else:
        repo.write("other.py", "meanwhile\n")
        repo.commit("meanwhile")
        repo.git("cherry-pick", "feat/x")
    repo.git("push", "-q", "origin", "main")


def not_removed(repo: Repo, code: str, **values: Any) -> None:
    before = refs(repo)
    with pytest.raises(Refused) as refused:
        remove(repo, "feat-x", **values)
    assert refused.value.code == code
    assert refs(repo) == before
    assert (repo.path.parent / "feat-x" / "work.py").exists()


@pytest.mark.parametrize("how", ["merge", "squash", "rebase", "unmerged"])
@pytest.mark.parametrize("verb", ["remove", "close"])
def test_a_removal_keeps_every_branch_by_default(cloned: Repo, tree: Repo, how: str, verb: str) -> None:
    if how != "unmerged":
        merge(cloned, how)
    before = refs(cloned)
    act(verb, cwd=cloned.path, name="feat-x", force=True)
    assert refs(cloned) == before
    assert "feat/x" in git("branch", cwd=cloned.path.parent / "origin.git")


@pytest.mark.parametrize("how", ["merge", "squash", "rebase"])
def test_a_merged_branch_is_deleted_on_request_and_restored_by_undo(cloned: Repo, tree: Repo, how: str) -> None:
    merge(cloned, how)
    before = refs(cloned)
    outcome = remove(cloned, "feat-x", delete_branch=True)
    assert outcome.data["branch_deleted"] is True
    assert cloned.git("branch", "--list", "feat/x") == ""
    assert "feat/x" in git("branch", cwd=cloned.path.parent / "origin.git")
    undo(cloned)
    assert refs(cloned) == before
    assert tree.git("status", "--porcelain", "--branch").startswith("## feat/x...origin/feat/x")


@pytest.mark.parametrize("overrides", [{}, {"force": True}, {"force": True, "yes_really": "feat-x"}])
def test_an_unmerged_branch_is_never_deleted(cloned: Repo, tree: Repo, overrides: dict[str, Any]) -> None:
    not_removed(cloned, "not-merged", delete_branch=True, **overrides)


def test_a_branch_with_commits_after_its_merge_is_not_deleted(cloned: Repo, tree: Repo) -> None:
    merge(cloned, "squash")
    tree.write("more.py", "x\n")
    tree.commit("more")
    not_removed(cloned, "not-merged", delete_branch=True)


def test_a_deleted_upstream_is_no_proof_of_a_merge(cloned: Repo, tree: Repo) -> None:  # disaster 16 of the field
    git("branch", "-q", "-D", "feat/x", cwd=cloned.path.parent / "origin.git")
    cloned.git("fetch", "-q", "--prune")
    assert "gone" in cloned.git("branch", "-vv")
    not_removed(cloned, "not-merged", delete_branch=True)


def test_a_branch_that_moves_between_verdict_and_deletion_is_kept(
    cloned: Repo, tree: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge(cloned, "merge")
    real = update_ref.delete_branch

    def moved_first(git_: Any, branch: str, sha: str) -> None:
        other = cloned.git("commit-tree", "-m", "just now", "-p", branch, f"{branch}^{{tree}}")
        cloned.git("update-ref", f"refs/heads/{branch}", other)
        real(git_, branch, sha)

    monkeypatch.setattr(update_ref, "delete_branch", moved_first)
    outcome = remove(cloned, "feat-x", delete_branch=True)
    assert outcome.exit_status == 1
    assert "has moved" in outcome.warnings[0]
    assert outcome.data["branch_deleted"] is False
    assert cloned.git("log", "-1", "--format=%s", "feat/x") == "just now"


def test_a_branch_checked_out_in_a_second_worktree_is_not_deleted(cloned: Repo, tree: Repo) -> None:
    merge(cloned, "merge")
    cloned.git("worktree", "add", "-q", "-f", str(cloned.path.parent / "again"), "feat/x")
    not_removed(cloned, "checked-out", delete_branch=True)


def test_a_detached_worktree_has_no_branch_to_delete(cloned: Repo, tree: Repo) -> None:
    merge(cloned, "merge")
    tree.git("checkout", "-q", "--detach")
    not_removed(cloned, "no-branch", delete_branch=True)


def test_a_branch_is_not_proven_merged_by_itself(repo: Repo) -> None:
    """No remote, no trunk but the one checked out: a branch equal to the trunk is merged, one ahead is not."""
    tree = repo.worktree("feat-x")
    assert remove(repo, "feat-x", delete_branch=True).data["branch_deleted"] is True
    undo(repo)
    tree.write("work.py", "x\n")
    tree.commit("work")
    with pytest.raises(Refused, match="not proven to be merged"):
        remove(repo, "feat-x", delete_branch=True)


class TestRemote:
    def origin(self, cloned: Repo) -> str:
        return git("branch", "--format=%(refname:short) %(objectname)", cwd=cloned.path.parent / "origin.git")

    def test_merged(self, cloned: Repo, tree: Repo) -> None:
        merge(cloned, "squash")
        outcome = remove(cloned, "feat-x", delete_remote="origin", delete_branch=True)
        assert outcome.data["remote_branch_deleted"] is True, outcome.warnings
        assert "feat/x" not in self.origin(cloned)

    @pytest.mark.parametrize("ahead", [True, False])
    def test_only_the_remote_one(self, cloned: Repo, tree: Repo, ahead: bool) -> None:
        """What the local branch has beyond it needs no proof: that branch is kept."""
        merge(cloned, "merge")
        if ahead:
            tree.write("more.py", "x\n")
            tree.commit("more")
        remove(cloned, "feat-x", delete_remote="origin")
        assert "feat/x" not in self.origin(cloned)
        assert cloned.git("branch", "--list", "feat/x") != ""

    def test_unmerged(self, cloned: Repo, tree: Repo) -> None:
        before = self.origin(cloned)
        not_removed(cloned, "not-merged", delete_remote="origin", force=True)
        assert self.origin(cloned) == before

    def test_the_remote_one_is_ahead(self, cloned: Repo, tree: Repo) -> None:
        """What is here is merged, but a colleague has pushed more, and we know."""
        merge(cloned, "merge")
        self.colleague(cloned)
        cloned.git("fetch", "-q")
        not_removed(cloned, "not-merged", delete_remote="origin", delete_branch=True)

    def test_moved_there_since_the_last_fetch(self, cloned: Repo, tree: Repo) -> None:
        merge(cloned, "merge")
        self.colleague(cloned)
        before = self.origin(cloned)
        outcome = remove(cloned, "feat-x", delete_remote="origin")
        assert outcome.exit_status == 1
        assert outcome.data["remote_branch_deleted"] is False
        assert self.origin(cloned) == before

    def test_the_trunk_there(self, cloned: Repo, tree: Repo) -> None:
        tree.git("branch", "-q", "--set-upstream-to", "origin/main")
        merge(cloned, "merge")
        not_removed(cloned, "trunk", delete_remote="origin")

    @pytest.mark.parametrize("remote", ["nowhere", "upstream"])
    def test_no_such_remote(self, cloned: Repo, tree: Repo, remote: str) -> None:
        merge(cloned, "merge")
        not_removed(cloned, "no-branch", delete_remote=remote)

    def colleague(self, cloned: Repo) -> None:
        path = cloned.path.parent / "colleague"
        git("clone", "-q", "-b", "feat/x", str(cloned.path.parent / "origin.git"), str(path), cwd=cloned.path.parent)
        colleague = Repo(path)
        colleague.write("theirs.py", "x\n")
        colleague.commit("theirs")
        colleague.git("push", "-q")


def test_close_changes_to_the_trunk_and_reports_closed(cloned: Repo, tree: Repo) -> None:
    outcome = act("close", cwd=cloned.path, name="feat-x")
    assert outcome.path == str(cloned.path)
    assert outcome.data["trunk_path"] == str(cloned.path)
    assert act("trash list", cwd=cloned.path).data["entries"][0]["how"] == "closed"  # type: ignore[index]


def test_unmerged_commits_are_a_note_of_the_removal(cloned: Repo) -> None:
    tree = cloned.worktree("feat-x")
    tree.write("work.py", "x\n")
    tree.commit("work")
    outcome = act("remove", cwd=cloned.path, name="feat-x", dry_run=True)
    assert "note: 1 commit not in main; branch feat/x is kept" in outcome.lines[1]
    assert "note: 1 commit on no remote; branch feat/x is kept" in outcome.lines[2]
    assert tree.path.is_dir()


def test_a_dry_run_names_the_branches_and_the_proof(cloned: Repo, tree: Repo) -> None:
    merge(cloned, "merge")
    lines = remove(cloned, "feat-x", dry_run=True, delete_branch=True, delete_remote="origin").lines
    assert [line for line in lines if "would delete" in line] == [
        "would delete branch feat/x, which is merged (ancestor)",
        "would delete feat/x on origin",
    ]
    assert not [line for line in remove(cloned, "feat-x", dry_run=True).lines if "would delete" in line]
    (only,) = [
        line for line in remove(cloned, "feat-x", dry_run=True, delete_branch=True).lines if "would delete" in line
    ]
    assert "branch feat/x" in only


def test_the_outcome_names_what_was_deleted(cloned: Repo, tree: Repo) -> None:
    merge(cloned, "merge")
    sha = tree.git("rev-parse", "HEAD")[:10]
    outcome = remove(cloned, "feat-x", delete_branch=True, delete_remote="origin")
    told = [line for line in outcome.lines if line.startswith("deleted ")]
    assert len(told) == 2 and told[0].startswith(f"deleted branch feat/x (it was {sha}, merged: ")
    assert told[1] == f"deleted feat/x on origin (it was {sha})"
    assert (outcome.data["branch_deleted"], outcome.data["remote_branch_deleted"]) == (True, True)


@pytest.mark.parametrize("upstream", ["origin/other-name", "elsewhere/main", None])
def test_the_remote_branch_is_the_upstream_there_or_has_the_same_name(
    cloned: Repo, tree: Repo, upstream: str | None
) -> None:
    merge(cloned, "merge")
    tree.git("push", "-q", "origin", "feat/x:other-name")
    cloned.git("remote", "add", "elsewhere", str(cloned.path.parent / "origin.git"))
    cloned.git("fetch", "-q", "elsewhere")
    if upstream is None:
        tree.git("branch", "-q", "--unset-upstream")
    else:
        tree.git("branch", "-q", "--set-upstream-to", upstream)
    remove(cloned, "feat-x", delete_remote="origin")
    left = git("branch", "--format=%(refname:short)", cwd=cloned.path.parent / "origin.git").split()
    gone = "other-name" if upstream == "origin/other-name" else "feat/x"
    assert sorted({"feat/x", "other-name", "main"} - set(left)) == [gone]


@pytest.mark.parametrize("state", ["unborn", "unreadable"])
def test_without_a_known_commit_there_is_no_branch_to_delete(cloned: Repo, tree: Repo, state: str) -> None:
    if state == "unborn":
        tree.git("checkout", "-q", "--orphan", "fresh")
    else:
        (cloned.path / ".git" / "worktrees" / "feat-x" / "index").write_bytes(b"corrupt")
    not_removed(cloned, "no-branch", delete_branch=True, force=True, yes_really="feat-x")


def test_a_refusal_names_the_trunk(cloned: Repo, tree: Repo) -> None:
    with pytest.raises(Refused, match="branch feat/x is not proven to be merged into origin/main, so"):
        remove(cloned, "feat-x", delete_branch=True)


def test_without_a_branch_of_the_trunk_s_name_nothing_is_proven(tmp_path: Path) -> None:
    repo = Repo.create(tmp_path / "app", branch="one")
    repo.git("checkout", "-q", "-b", "two")
    repo.worktree("feat-x")
    repo.git("checkout", "-q", "--detach")
    with pytest.raises(Refused, match="is not proven to be merged into main, so"):
        remove(repo, "feat-x", delete_branch=True)
