"""Merges previewed, committed in the object store, and fast-forwarded, never half done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from imi_monitor.git.fast_forward import fast_forward
from imi_monitor.git.git_merge import merge_commit, preview_merge
from imi_monitor.git.refs import resolve
from imi_monitor.model.errors import GitError, Refused
from tests.git.git_kit import commit_id, commit_on_main, make_branch, open_git
from tests.helpers import Repo, git, tree_hash

FEAT, MAIN = "refs/heads/feat", "refs/heads/main"


def state(repo: Repo) -> tuple[dict[str, str], str, bytes]:
    """Files, refs and index: what a preview must not touch."""
    files = {name: kept for name, kept in tree_hash(repo.path).items() if not name.startswith(".git/")}
    return files, repo.git("for-each-ref"), (repo.path / ".git/index").read_bytes()


def test_a_preview_without_conflicts_equals_git_merge(repo: Repo) -> None:
    tip = make_branch(repo, "feat", ("new", "x"), ("src/api.py", "changed\n"))
    commit_on_main(repo, "other", "y")
    before = state(repo)
    shown = preview_merge(open_git(repo), MAIN, FEAT)
    assert (shown.tree is not None, shown.conflicts) == (True, ())
    commit = merge_commit(open_git(repo), shown.tree or "", [commit_id(repo), tip], "Merge feat\n\nby imi: ä \udcff")
    assert state(repo) == before
    repo.git("merge", "-q", "--no-ff", "-m", "theirs", "feat")
    assert repo.git("rev-parse", "HEAD^{tree}") == shown.tree
    assert repo.git("rev-list", "--parents", "-1", commit) == f"{commit} {commit_id(repo, 'HEAD~1')} {tip}"
    assert repo.git("log", "-1", "--format=%an %s", commit) == "Test Merge feat"


def test_conflicts_are_listed_and_nothing_changes(repo: Repo) -> None:
    names = ["README.md", "src/db.py", "li\nne", "gone"]
    for name in names:
        repo.write(name, "base\n")
    repo.commit("base")
    repo.git("checkout", "-q", "-b", "feat")
    for name in names:
        repo.write(name, "feat\n")
    repo.commit("feat")
    repo.git("checkout", "-q", "main")
    for name in names[:-1]:
        repo.write(name, "main\n")
    (repo.path / "gone").unlink()
    repo.commit("main")
    before = state(repo)
    shown = preview_merge(open_git(repo), MAIN, FEAT)
    assert shown.tree is None
    assert shown.tree is None
    assert sorted(shown.conflicts) == sorted(names)
    assert len([words for words in shown.messages if words.startswith("CONFLICT")]) == 4
    assert any("modify/delete" in words for words in shown.messages)
    assert state(repo) == before


def test_a_preview_of_unrelated_or_unknown_branches_is_an_error(repo: Repo) -> None:
    repo.git("checkout", "-q", "--orphan", "feat")
    repo.commit("island")
    for side, code in ((FEAT, "unrelated"), ("refs/heads/none", "no-ref")):
        with pytest.raises(GitError) as failed:
            preview_merge(open_git(repo), MAIN, side)
        assert failed.value.code == code


def test_an_old_git_cannot_preview(repo: Repo, shim: Callable[[str], Path]) -> None:
    shim('[ "$1" = version ] && echo git version 2.37.9 || exec "$real_git" "$@"')
    with pytest.raises(GitError) as failed:
        preview_merge(open_git(repo), MAIN, MAIN)
    assert failed.value.code == "git-too-old"


def test_a_preview_runs_no_driver_of_the_repository(repo: Repo, tmp_path: Path) -> None:  # G1
    repo.write(".gitattributes", "README.md merge=evil\n")
    repo.git("config", "merge.evil.driver", f"touch {tmp_path}/canary")
    make_branch(repo, "feat", ("README.md", "feat\n"))
    commit_on_main(repo, "README.md", "main\n")
    assert preview_merge(open_git(repo), MAIN, FEAT).conflicts == ("README.md",)
    assert not (tmp_path / "canary").exists()


def test_a_merge_commit_without_identity_says_what_to_do(repo: Repo, own_home: Path) -> None:
    (own_home / ".gitconfig").write_text("")
    tree = repo.git("rev-parse", "HEAD^{tree}")
    with pytest.raises(GitError, match=r"user\.name") as failed:
        merge_commit(open_git(repo), tree, [commit_id(repo)], "m")
    assert failed.value.code == "no-identity"


def test_the_address_in_the_environment_is_an_identity(
    repo: Repo, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own_home / ".gitconfig").write_text("[user]\n\tname = Me\n")
    monkeypatch.setenv("EMAIL", "me@example.invalid")
    made = merge_commit(open_git(repo), repo.git("rev-parse", "HEAD^{tree}"), [commit_id(repo)], "m")
    assert repo.git("log", "-1", "--format=%an %ae", made) == "Me me@example.invalid"


def test_a_merge_commit_is_not_signed(repo: Repo, tmp_path: Path) -> None:  # G1
    repo.git("config", "commit.gpgSign", "true")
    repo.git("config", "gpg.program", f"{tmp_path}/evil")
    tree = repo.git("rev-parse", "HEAD^{tree}")
    made = merge_commit(open_git(repo), tree, [commit_id(repo)], "m")
    assert "gpgsig" not in repo.git("cat-file", "commit", made)


def test_fast_forward_moves_branch_and_files(repo: Repo) -> None:
    tip = make_branch(repo, "feat", ("new", "x"))
    tree = repo.worktree("wt", "wt")
    fast_forward(open_git(tree), tip)
    assert commit_id(tree) == tip == commit_id(tree, "refs/heads/wt")
    assert (tree.path / "new").read_text() == "x"
    assert tree.git("status", "--porcelain") == ""
    fast_forward(open_git(tree), tip)  # there already
    assert resolve(open_git(repo), MAIN) != tip


@pytest.mark.parametrize("in_the_way", ["changed", "untracked", "ignored", "staged"])
def test_files_in_the_way_stop_a_fast_forward(repo: Repo, in_the_way: str) -> None:
    tip = make_branch(repo, "feat", ("README.md", "feat\n"), ("new", "feat\n"))
    repo.git("checkout", "-q", "feat")
    repo.write(".env", "feat\n")
    repo.git("add", "-f", ".env")
    tip = repo.commit("an ignored file gets tracked")
    repo.git("checkout", "-q", "main")
    repo.write(
        {"changed": "README.md", "untracked": "new", "ignored": ".env", "staged": "README.md"}[in_the_way], "mine\n"
    )
    if in_the_way == "staged":
        repo.git("add", "README.md")
    before = state(repo), commit_id(repo)
    with pytest.raises(Refused) as refused:
        fast_forward(open_git(repo), tip)
    assert refused.value.code == "dirty", refused.value.details
    assert (state(repo), commit_id(repo)) == before


def test_own_commits_stop_a_fast_forward(repo: Repo) -> None:
    tip = make_branch(repo, "feat", ("new", "x"))
    commit_on_main(repo, "other", "y")
    before = state(repo)
    with pytest.raises(Refused) as refused:
        fast_forward(open_git(repo), tip)
    assert refused.value.code == "not-forward"
    assert state(repo) == before


def test_a_running_git_stops_a_fast_forward(repo: Repo) -> None:
    tip = make_branch(repo, "feat", ("new", "x"))
    (repo.path / ".git/index.lock").write_text("")
    with pytest.raises(Refused) as refused:
        fast_forward(open_git(repo), tip)
    assert refused.value.code == "busy"
    assert not (repo.path / "new").exists()


def test_a_fast_forward_ignores_configured_options_and_hooks(repo: Repo, tmp_path: Path) -> None:  # G1
    tip = make_branch(repo, "feat", ("new", "x"))
    repo.git("config", "branch.main.mergeOptions", "--no-commit --squash")
    repo.git("config", "merge.autoStash", "true")
    hook = repo.path / ".git/hooks/post-merge"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/canary\n")
    hook.chmod(0o755)
    fast_forward(open_git(repo), tip)
    assert commit_id(repo) == tip
    assert repo.git("status", "--porcelain") == ""
    assert not (tmp_path / "canary").exists()


def test_a_bare_repository_cannot_fast_forward(cloned: Repo, tmp_path: Path) -> None:
    with pytest.raises(GitError) as failed:
        fast_forward(open_git(tmp_path / "origin.git"), commit_id(cloned))
    assert failed.value.code == "bare"
    git("rev-parse", "main", cwd=tmp_path / "origin.git")
