"""Branches read and changed: exact names, compare-and-swap, and commits that only one branch has. R5."""

from __future__ import annotations

from pathlib import Path

import pytest

from imi_monitor.git import refs
from imi_monitor.git.commits import list_commits
from imi_monitor.git.remotes import remotes
from imi_monitor.git.update_ref import create_branch, delete_branch, delete_remote_branch, move_branch
from imi_monitor.model.errors import GitError, Refused, UsageError
from tests.git.git_kit import commit_id, commit_on_main, make_branch, open_git
from tests.helpers import Repo, git


def heads(repo: Repo) -> str:
    return repo.git("for-each-ref", "refs/heads")


# --- reading ----------------------------------------------------------------------------------------------------------


def test_a_branch_is_not_confused_with_a_tag_of_the_same_name(cloned: Repo) -> None:
    git_ = open_git(cloned)
    make_branch(cloned, "feat/x", ("f", "f"))
    cloned.git("tag", "feat/x", "main")
    cloned.git("tag", "refs/heads/ghost", "main")  # rev-parse would find it as refs/heads/ghost
    cloned.git("tag", "-a", "-m", "v", "v1", "main")
    assert refs.branch_sha(git_, "feat/x") == commit_id(cloned, "refs/heads/feat/x")
    assert refs.branch_sha(git_, "ghost") is None
    assert refs.branch_sha(git_, "feat") is None
    assert refs.resolve(git_, "refs/tags/v1") == commit_id(cloned, "main")
    assert refs.resolve(git_, "HEAD") == commit_id(cloned)
    assert refs.resolve(git_, cloned.git("rev-parse", "HEAD^{tree}")) is None
    assert refs.branches(git_) == {"main": commit_id(cloned), "feat/x": commit_id(cloned, "refs/heads/feat/x")}


def test_all_branch_names_that_git_allows_are_listed(repo: Repo) -> None:
    packed = f"{commit_id(repo)} refs/heads/".encode()
    odd = [b"-f", b"caf\xff", "a\u202eb".encode(), b"--upload-pack=touch x"]
    with (repo.path / ".git/packed-refs").open("wb") as file:
        file.writelines(packed + name.replace(b" ", b"_") + b"\n" for name in odd)
    assert len(refs.branches(open_git(repo))) == 5
    assert "caf\udcff" in refs.branches(open_git(repo))
    for name in refs.branches(open_git(repo)):
        if name != "main":
            with pytest.raises(UsageError):
                refs.branch_sha(open_git(repo), name)


def test_five_hundred_branches_with_their_upstreams(cloned: Repo) -> None:
    tip = commit_id(cloned)
    lines = "".join(f"create refs/heads/many/{number:03} {tip}\n" for number in range(500))
    (cloned.path.parent / "refs").write_text(lines)
    git("-c", "alias.x=!git update-ref --stdin < ../refs", "x", cwd=cloned.path)
    commit_on_main(cloned, "a", "a")
    make_branch(cloned, "gone", start="origin/main")
    cloned.git("config", "branch.gone.remote", "origin")
    cloned.git("config", "branch.gone.merge", "refs/heads/gone")
    found = refs.tracking(open_git(cloned))
    assert len(found) == 502
    assert found["main"] == refs.Branch("main", commit_id(cloned), "refs/remotes/origin/main", False, 1, 0)
    assert found["gone"] == refs.Branch("gone", tip, "refs/remotes/origin/gone", True, None, None)
    assert found["many/007"] == refs.Branch("many/007", tip, None, False, None, None)


def test_remotes_and_their_branches(cloned: Repo, tmp_path: Path) -> None:
    cloned.git("remote", "add", "Fork.of/me", str(tmp_path / "elsewhere"))
    cloned.git("update-ref", "refs/remotes/origin/feat/x", "HEAD")
    assert remotes(open_git(cloned)) == {
        "origin": str(tmp_path / "origin.git"),
        "Fork.of/me": str(tmp_path / "elsewhere"),
    }
    assert sorted(refs.remote_branches(open_git(cloned), "origin")) == ["feat/x", "main"]
    assert refs.remote_branches(open_git(cloned), "nobody") == {}


def test_a_repository_without_remotes(repo: Repo) -> None:
    assert remotes(open_git(repo)) == {}


def test_the_trunk_is_the_configured_then_the_remotes_default_branch(cloned: Repo) -> None:
    git_ = open_git(cloned)
    assert refs.default_branch(git_, "origin", None) == "main"
    cloned.git("branch", "production")
    cloned.git("push", "-q", "origin", "production")
    cloned.git("remote", "set-head", "origin", "production")
    assert refs.default_branch(git_, "origin", None) == "production"
    assert refs.default_branch(git_, "origin", "main") == "main"
    assert refs.default_branch(git_, "origin", "nonsense") == "production"
    assert refs.default_branch(git_, "nobody", None) == "main"


def test_the_trunk_without_a_remote_or_a_commit(tmp_path: Path) -> None:
    git("init", "-q", "-b", "stem", str(tmp_path / "new"), cwd=tmp_path)
    made = Repo(tmp_path / "new")
    assert refs.default_branch(open_git(made)) == "stem"
    made.git("checkout", "-q", "-b", "master")
    made.write("a", "a")
    made.commit("a")
    made.git("checkout", "-q", "-b", "feat")
    assert refs.default_branch(open_git(made)) == "master"


def test_commits_that_only_one_branch_has(repo: Repo) -> None:
    tip = make_branch(repo, "feat", ("a", "a"), ("b", "b"))
    found = refs.commits_only_on(open_git(repo), "refs/heads/feat", "refs/heads/main", "refs/heads/no-such")
    assert found == [(tip, "feat 1: b"), (commit_id(repo, f"{tip}~1"), "feat 0: a")]
    assert refs.commits_only_on(open_git(repo), tip, "refs/heads/feat") == []
    with pytest.raises(GitError):
        refs.commits_only_on(open_git(repo), "refs/heads/no-such", "refs/heads/main")


@pytest.mark.parametrize("trusted", [False, True])
def test_reading_refs_never_uses_the_network(repo: Repo, tmp_path: Path, trusted: bool) -> None:
    """In a partial clone git fetches a missing object in the middle of an answer, by the command it configures."""
    missing = commit_on_main(repo, "a", "a")
    tip = commit_on_main(repo, "b", "b")
    for key, value in (
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", str(tmp_path)),
        ("remote.origin.uploadpack", f"touch {tmp_path}/canary; git-upload-pack"),
    ):
        repo.git("config", key, value)
    (repo.path / ".git/objects" / missing[:2] / missing[2:]).unlink()
    with pytest.raises(GitError):
        list_commits(open_git(repo, trusted=trusted), tip, options=("--not", "--remotes", "--not"))
    assert not (tmp_path / "canary").exists()


def test_subjects_keep_unusual_characters(repo: Repo) -> None:
    commit_on_main(repo, "a", "a", "line\u2028separator \x1b[31m and \x85")
    (commit,) = list_commits(open_git(repo), commit_id(repo), f"^{commit_id(repo, 'HEAD~1')}")
    assert commit.subject == "line\u2028separator \x1b[31m and \x85"


def test_a_forged_date_does_not_break_the_list(repo: Repo) -> None:
    raw = repo.git("cat-file", "commit", "HEAD").replace("+0000", "+0000")
    lines = [
        line if not line.startswith("committer ") else "committer T <t> 99999999999999 +0000"
        for line in raw.split("\n")
    ]
    (repo.path.parent / "commit").write_text("\n".join([*lines, ""]))
    forged = repo.git("hash-object", "-t", "commit", "-w", "--literally", "../commit")
    assert list_commits(open_git(repo), forged)[0].sha == forged


# --- changing ---------------------------------------------------------------------------------------------------------


def test_create_branch_makes_only_a_new_branch(repo: Repo) -> None:
    git_, tip = open_git(repo), commit_id(repo)
    create_branch(git_, "feat/x", tip)
    assert refs.branch_sha(git_, "feat/x") == tip
    for name, code in (("feat/x", "branch-exists"), ("feat", "name-clash"), ("feat/x/y", "name-clash")):
        before = heads(repo)
        with pytest.raises(Refused) as refused:
            create_branch(git_, name, commit_id(repo, "HEAD~1"))
        assert refused.value.code == code
        assert heads(repo) == before
    with pytest.raises(GitError):
        create_branch(git_, "tree", repo.git("rev-parse", "HEAD^{tree}"))


def test_delete_branch_needs_the_expected_commit(repo: Repo) -> None:
    git_ = open_git(repo)
    seen = make_branch(repo, "feat", ("a", "a"))
    repo.git("update-ref", "refs/heads/feat", "main")  # an agent commits meanwhile
    with pytest.raises(Refused, match="has moved") as refused:
        delete_branch(git_, "feat", seen)
    assert refused.value.code == "moved"
    assert refs.branch_sha(git_, "feat") == commit_id(repo)
    delete_branch(git_, "feat", commit_id(repo))
    assert refs.branch_sha(git_, "feat") is None
    with pytest.raises(Refused) as refused:
        delete_branch(git_, "feat", seen)
    assert refused.value.code == "gone"


@pytest.mark.parametrize("wrong", ["", "0" * 40, "HEAD", "abc1234", "A" * 40])
def test_an_expected_commit_must_be_a_full_id(repo: Repo, wrong: str) -> None:
    make_branch(repo, "feat", ("a", "a"))
    with pytest.raises(UsageError):
        delete_branch(open_git(repo), "feat", wrong)
    with pytest.raises(UsageError):
        move_branch(open_git(repo), "feat", commit_id(repo), wrong)
    assert refs.branch_sha(open_git(repo), "feat") is not None


def test_move_branch_needs_the_expected_commit(repo: Repo) -> None:
    git_ = open_git(repo)
    tip = make_branch(repo, "feat", ("a", "a"))
    with pytest.raises(Refused):
        move_branch(git_, "feat", commit_id(repo), commit_id(repo))
    move_branch(git_, "feat", commit_id(repo), tip)
    assert refs.branch_sha(git_, "feat") == commit_id(repo)
    with pytest.raises(Refused):
        move_branch(git_, "main", tip, commit_id(repo))  # checked out here


@pytest.mark.parametrize("state", ["checked out", "rebasing", "bisecting", "missing", "rebasing with others"])
def test_a_checked_out_branch_is_not_changed(repo: Repo, state: str) -> None:
    make_branch(repo, "below", ("below", "x"))
    tree = repo.worktree("feat-x")
    tree.write("README.md", "mine\n")
    tip = tree.commit("mine")
    commit_on_main(repo, "README.md", "theirs\n")
    if state == "rebasing":
        tree.git("rebase", "main", check=False)
    elif state == "bisecting":
        tree.git("bisect", "start", "HEAD", "HEAD~2")
        tree.git("checkout", "-q", "--detach")
    elif state == "missing":
        tree.path.rename(tree.path.parent / "moved")
    elif state == "rebasing with others":
        tree.git("branch", "-f", "below", "HEAD")
        tree.git("rebase", "--update-refs", "main", check=False)
        with pytest.raises(Refused):
            delete_branch(open_git(repo), "below", tip)
    with pytest.raises(Refused) as refused:
        delete_branch(open_git(repo), "feat/x", tip)
    assert refused.value.code == "checked-out"
    assert refs.branch_sha(open_git(repo), "feat/x") == tip


def test_the_head_branch_of_a_bare_repository_is_not_deleted(cloned: Repo, tmp_path: Path) -> None:
    bare = open_git(tmp_path / "origin.git")
    with pytest.raises(Refused) as refused:
        delete_branch(bare, "main", commit_id(cloned))
    assert refused.value.code == "checked-out"


def test_delete_remote_branch_needs_the_expected_commit(cloned: Repo) -> None:
    git_ = open_git(cloned)
    tip = make_branch(cloned, "feat/x", ("a", "a"))
    cloned.git("push", "-q", "origin", "feat/x")
    with pytest.raises(Refused) as refused:
        delete_remote_branch(git_, "origin", "feat/x", commit_id(cloned))
    assert refused.value.code == "moved"
    assert cloned.git("ls-remote", "origin", "refs/heads/feat/x")
    delete_remote_branch(git_, "origin", "feat/x", tip)
    assert cloned.git("ls-remote", "origin", "refs/heads/feat/x") == ""
    assert refs.branch_sha(git_, "feat/x") == tip
    with pytest.raises(Refused):
        delete_remote_branch(git_, "origin", "feat/x", tip)


def test_a_push_to_a_forbidden_address_is_refused(cloned: Repo, tmp_path: Path) -> None:
    tip = make_branch(cloned, "feat/x", ("a", "a"))
    cloned.git("push", "-q", "origin", "feat/x")
    cloned.git("config", "remote.origin.pushurl", f"ext::sh -c touch% {tmp_path}/canary")
    with pytest.raises(Refused) as refused:
        delete_remote_branch(open_git(cloned), "origin", "feat/x", tip)
    assert refused.value.code == "bad-url"
    assert not (tmp_path / "canary").exists()


def test_deleting_runs_no_hook_and_pushes_nothing_else(cloned: Repo, tmp_path: Path) -> None:  # G1
    tip = make_branch(cloned, "feat/x", ("a", "a"))
    cloned.git("push", "-q", "origin", "feat/x")
    cloned.git("tag", "-a", "-m", "mine", "private", tip)
    cloned.git("config", "push.followTags", "true")
    for hook in ("pre-push", "reference-transaction"):
        path = cloned.path / ".git/hooks" / hook
        path.write_text(f"#!/bin/sh\ntouch {tmp_path}/canary\n")
        path.chmod(0o755)
    delete_remote_branch(open_git(cloned), "origin", "feat/x", tip)
    delete_branch(open_git(cloned), "feat/x", tip)
    assert not (tmp_path / "canary").exists()
    assert cloned.git("ls-remote", "--tags", "origin") == ""
