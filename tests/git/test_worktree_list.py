"""Worktrees listed and made. A1."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from imi_monitor.git.refs import branch_sha
from imi_monitor.git.worktree_add import AddFailed, add_worktree
from imi_monitor.git.worktree_list import list_worktrees
from imi_monitor.model.errors import GitError, Refused
from tests.git.git_kit import commit_id, make_branch, open_git
from tests.helpers import Repo, git, tree_hash

# --- listing ----------------------------------------------------------------------------------------------------------


def test_every_state_of_a_worktree_is_listed(repo: Repo) -> None:
    plain, held, lost, loose = (repo.worktree(name) for name in ("feat-a", "feat-b", "feat-c", "feat-d"))
    repo.git("worktree", "lock", "--reason", "on a\nstick", str(held.path))
    lost.path.rename(repo.path.parent / "elsewhere")
    loose.git("checkout", "-q", "--detach")
    main, a, b, c, d = list_worktrees(open_git(repo))
    assert (main.path, main.branch, main.main, main.admin_dir) == (
        str(repo.path),
        "main",
        True,
        str(repo.path / ".git"),
    )
    assert (a.path, a.branch, a.head) == (str(plain.path), "feat/a", commit_id(plain))
    assert (a.main, a.bare, a.detached, a.locked, a.prunable) == (False, False, False, None, None)
    assert a.admin_dir == str(repo.path / ".git/worktrees/feat-a")
    assert b.locked == "on a\nstick"
    assert c.prunable
    assert c.admin_dir == str(repo.path / ".git/worktrees/feat-c")
    assert (d.detached, d.branch) == (True, None)
    # the list is the same from wherever it is asked
    assert list_worktrees(open_git(plain)) == [main, a, b, c, d]


def test_the_admin_directory_is_not_derived_from_the_name(repo: Repo) -> None:
    repo.worktree("one/same", "feat/1")
    repo.worktree("two/same", "feat/2")
    _, first, second = list_worktrees(open_git(repo))
    assert [os.path.basename(one.admin_dir or "") for one in (first, second)] == ["same", "same1"]
    for one in (first, second):
        assert (Path(one.admin_dir or "") / "gitdir").read_text().strip() == f"{one.path}/.git"


def test_a_copied_admin_directory_is_not_taken_for_the_real_one(repo: Repo) -> None:
    tree = repo.worktree("feat-x")
    for copy in ("aaa", "zzz"):
        shutil.copytree(repo.path / ".git/worktrees/feat-x", repo.path / ".git/worktrees" / copy)
    real = {one.admin_dir for one in list_worktrees(open_git(repo)) if one.path == str(tree.path)}
    assert real == {str(repo.path / ".git/worktrees/feat-x")}


def test_bare_and_unborn_worktrees_are_listed(cloned: Repo, tmp_path: Path) -> None:
    bare = tmp_path / "worktrees" / "bare.git"
    git("clone", "-q", "--bare", str(tmp_path / "origin.git"), str(bare), cwd=tmp_path)
    git("worktree", "add", "-q", "-b", "x", str(tmp_path / "x"), cwd=bare)
    for where in (bare, tmp_path / "x"):
        main, x = list_worktrees(open_git(where))
        assert (main.path, main.bare, main.main, main.branch, main.head) == (str(bare), True, True, None, None)
        assert (x.path, x.bare, x.main, x.branch) == (str(tmp_path / "x"), False, False, "x")
    git("init", "-q", "-b", "main", str(tmp_path / "new"), cwd=tmp_path)
    (only,) = list_worktrees(open_git(tmp_path / "new"))
    assert (only.branch, only.head, only.main, only.bare) == ("main", None, True, False)


def test_worktrees_at_unusual_paths_are_listed(repo: Repo) -> None:
    odd = os.fsdecode(os.path.join(os.fsencode(repo.path.parent), b"caf\xff two\nlines"))
    os.mkdir(odd)
    add_worktree(open_git(repo), odd + "/x", new_branch="odd")
    assert list_worktrees(open_git(repo))[1].path == odd + "/x"
    assert list_worktrees(open_git(repo))[1].admin_dir == str(repo.path / ".git/worktrees/x")


def test_a_repository_that_is_broken_is_an_error_not_an_empty_list(repo: Repo) -> None:
    git_ = open_git(repo)
    (repo.path / ".git/HEAD").unlink()
    with pytest.raises(GitError):
        list_worktrees(git_)


# --- adding -----------------------------------------------------------------------------------------------------------


def test_add_worktree_with_a_new_branch_from_a_start(repo: Repo) -> None:
    seen: list[str] = []
    path = str(repo.path.parent / "deep/er/feat-x")
    start = commit_id(repo, "HEAD~1")
    admin = add_worktree(open_git(repo), path, new_branch="feat/x", start=start, on_progress=seen.append)
    assert admin == str(repo.path / ".git/worktrees/feat-x")
    assert git("symbolic-ref", "HEAD", cwd=Path(path)) == "refs/heads/feat/x"
    assert commit_id(Repo(Path(path))) == start
    assert git("status", "--porcelain", cwd=Path(path)) == ""
    assert any(line.startswith("Updating files: 100%") for line in seen), seen


def test_only_a_remote_branch_of_the_same_name_becomes_the_upstream(cloned: Repo, tmp_path: Path) -> None:
    make_branch(cloned, "feat/theirs", ("a", "a"))
    cloned.git("push", "-q", "origin", "feat/theirs")
    cloned.git("branch", "-q", "-D", "feat/theirs")
    cloned.git("config", "branch.autoSetupMerge", "always")
    cloned.git("config", "worktree.guessRemote", "true")
    git_ = open_git(cloned)
    add_worktree(git_, str(tmp_path / "a"), new_branch="feat/mine", start="refs/remotes/origin/main")
    add_worktree(git_, str(tmp_path / "b"), new_branch="feat/local", start="refs/heads/main")
    add_worktree(git_, str(tmp_path / "c"), new_branch="feat/theirs", start="refs/remotes/origin/feat/theirs")
    upstreams = cloned.git("for-each-ref", "--format=%(refname:short) %(upstream:short)", "refs/heads").split("\n")
    assert [line.strip() for line in upstreams] == [
        "feat/local",
        "feat/mine",
        "feat/theirs origin/feat/theirs",
        "main origin/main",
    ]


def test_add_worktree_on_an_existing_branch(repo: Repo, tmp_path: Path) -> None:
    tip = make_branch(repo, "feat/x", ("a", "a"))
    repo.git("tag", "feat/x", "main")  # the short name alone would be ambiguous
    add_worktree(open_git(repo), str(tmp_path / "x"), branch="feat/x")
    assert git("symbolic-ref", "HEAD", cwd=tmp_path / "x") == "refs/heads/feat/x"
    assert commit_id(Repo(tmp_path / "x")) == tip
    assert git("status", "--porcelain", cwd=tmp_path / "x") == ""


def test_add_worktree_detached_and_from_a_bare_repository(cloned: Repo, tmp_path: Path) -> None:
    add_worktree(open_git(tmp_path / "origin.git"), str(tmp_path / "x"), detach=True, start="refs/heads/main")
    assert git("rev-parse", "--abbrev-ref", "HEAD", cwd=tmp_path / "x") == "HEAD"
    assert commit_id(Repo(tmp_path / "x")) == commit_id(cloned)


def test_add_worktree_in_an_unborn_repository_is_an_error(tmp_path: Path) -> None:
    git("init", "-q", "-b", "main", str(tmp_path / "new"), cwd=tmp_path)
    with pytest.raises(GitError, match="no commit to start from") as failed:
        add_worktree(open_git(tmp_path / "new"), str(tmp_path / "x"), new_branch="feat/x")
    assert failed.value.code == "unborn"


@pytest.mark.parametrize(
    ("act", "code"),
    [
        (partial(add_worktree, new_branch="taken"), "branch-exists"),
        (partial(add_worktree, branch="nowhere"), "no-ref"),
        (partial(add_worktree, branch="main"), "checked-out"),
        (partial(add_worktree, new_branch="x", start="refs/heads/nowhere"), "no-ref"),
        (partial(add_worktree, new_branch="taken/x"), "git"),
    ],
)
def test_a_refused_worktree_changes_nothing(repo: Repo, act: Callable[..., str], code: str) -> None:
    repo.git("branch", "taken", "HEAD~1")
    before = tree_hash(repo.path)
    with pytest.raises((Refused, GitError)) as failed:
        act(open_git(repo), str(repo.path.parent / "feat-x"))
    assert failed.value.code == code
    assert not (repo.path.parent / "feat-x").exists()
    assert tree_hash(repo.path) == before


@pytest.mark.parametrize("kind", ["directory", "file", "dangling link"])
def test_an_existing_path_is_never_used(repo: Repo, kind: str) -> None:
    path = repo.path.parent / "feat-x"
    if kind == "directory":
        path.mkdir()
    elif kind == "file":
        path.write_text("mine")
    else:
        path.symlink_to("nowhere")
    with pytest.raises(Refused) as refused:
        add_worktree(open_git(repo), str(path), new_branch="feat/x")
    assert refused.value.code == "path-exists"
    assert branch_sha(open_git(repo), "feat/x") is None


def test_a_path_that_is_still_registered_is_refused_not_forced(repo: Repo) -> None:
    tree = repo.worktree("feat-x")
    tree.path.rename(repo.path.parent / "moved")
    with pytest.raises(AddFailed) as failed:
        add_worktree(open_git(repo), str(tree.path), new_branch="feat/y")
    assert failed.value.code == "registered"


def test_a_failed_worktree_reports_what_is_left(repo: Repo, tmp_path: Path) -> None:
    folder = tmp_path / "read-only"
    folder.mkdir()
    git_ = open_git(repo)
    blob = repo.git("rev-parse", "HEAD:src/api.py")
    (repo.path / ".git/objects" / blob[:2] / blob[2:]).unlink()  # the checkout cannot succeed
    path = folder / "new" / "feat-x"
    with pytest.raises(AddFailed) as failed:
        add_worktree(git_, str(path), new_branch="feat/x")
    left = failed.value.left
    assert (left.branch, left.sha) == ("feat/x", commit_id(repo))
    assert branch_sha(git_, "feat/x") == left.sha
    assert left.path == (str(path) if path.exists() else None)
    assert left.folder == (str(folder / "new") if (folder / "new").exists() else None)
    known = [one for one in list_worktrees(git_) if one.path == str(path)]
    assert left.admin_dir == (known[0].admin_dir if known else None)


def test_a_cancelled_worktree_reports_what_is_left(repo: Repo, tmp_path: Path) -> None:
    for number in range(300):
        repo.write(f"many/{number}", "x")
    repo.commit("many")
    seen: list[str] = []
    with pytest.raises(AddFailed) as failed:
        add_worktree(
            open_git(repo),
            str(tmp_path / "x"),
            new_branch="feat/x",
            on_progress=seen.append,
            cancelled=lambda: bool(seen),
        )
    left = failed.value.left
    assert failed.value.code == "cancelled"
    assert (left.branch is not None) == (branch_sha(open_git(repo), "feat/x") is not None)
    assert (left.path is not None) == (tmp_path / "x").exists()
    assert (left.admin_dir is not None) == (repo.path / ".git/worktrees/x").exists()


def test_add_worktree_runs_no_program_of_the_repository(repo: Repo, tmp_path: Path) -> None:  # G1
    canary = tmp_path / "canary"
    hook = repo.path / ".git/hooks/post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {canary}\n")
    hook.chmod(0o755)
    repo.git("config", "filter.evil.smudge", f"touch {canary}; cat")
    repo.git("config", "core.fsmonitor", f"touch {canary}")
    repo.write(".gitattributes", "* filter=evil\n")
    git("-c", "core.fsmonitor=false", "-c", "filter.evil.smudge=cat", "add", "-A", cwd=repo.path)
    git("-c", "core.fsmonitor=false", "commit", "-qm", "lure", cwd=repo.path)
    canary.unlink(missing_ok=True)
    add_worktree(open_git(repo), str(tmp_path / "x"), new_branch="feat/x")
    assert not canary.exists()
    git("worktree", "add", "-q", str(tmp_path / "y"), cwd=repo.path)
    assert canary.exists()  # plain git does run it
