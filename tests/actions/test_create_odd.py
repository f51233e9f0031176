"""Creating worktrees in unusual repositories: the right result or one clear error."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.actions.create_kit import branches, picture, rows, worktree_paths
from tests.helpers import Repo, git, imi


def test_a_repository_without_a_commit_gives_one_clear_error(tmp_path: Path) -> None:
    empty = tmp_path / "app"
    git("init", "-q", "-b", "main", str(empty), cwd=tmp_path)
    done = imi("feat", "x", cwd=empty)
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert "has no commit to branch from: make a first one" in done.err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["app", "home"]
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=empty)
    assert imi("feat", "x", cwd=empty).code == 0


def test_a_bare_repository_has_its_worktrees_beside_it(tmp_path: Path) -> None:
    Repo.create_with_origin(tmp_path / "src", tmp_path / "app.git")
    done = imi("feat", "x", cwd=tmp_path / "app.git")
    assert (done.code, done.out.splitlines()[-1]) == (0, str(tmp_path / "app.worktrees" / "feat-x"))
    # its HEAD names main, but no worktree has it checked out
    assert imi("feat", "m", "--branch", "main", cwd=tmp_path / "app.git").code == 0


def test_a_hidden_bare_repository_has_its_worktrees_around_it(tmp_path: Path) -> None:
    Repo.create_with_origin(tmp_path / "src", tmp_path / "app" / ".bare")
    (tmp_path / "app" / ".git").write_text("gitdir: ./.bare\n")
    assert imi("feat", "x", cwd=tmp_path / "app").out.splitlines()[-1] == str(tmp_path / "app" / "feat-x")
    assert imi("feat", "y", cwd=tmp_path / "app" / "feat-x").out.splitlines()[-1] == str(tmp_path / "app" / "feat-y")


def test_a_worktree_can_be_created_beside_a_detached_main_worktree(repo: Repo) -> None:
    repo.git("switch", "-q", "--detach", "main~1")
    assert imi("feat", "x", cwd=repo.path).code == 0
    assert branches(repo)["feat/x"] == branches(repo)["main"]


def test_an_unknown_trunk_gives_an_error_that_names_the_setting(repo: Repo) -> None:
    repo.git("branch", "-m", "main", "one")
    repo.git("branch", "two")
    repo.git("switch", "-q", "--detach")
    done = imi("feat", "x", cwd=repo.path)
    assert (done.code, "--from" in done.err, "git.default_branch" in done.err) == (1, True, True)
    assert imi("feat", "x", "--from", "two", cwd=repo.path).code == 0


def test_shallow_and_sparse_repositories(tmp_path: Path) -> None:
    Repo.create_with_origin(tmp_path / "src", tmp_path / "origin.git")
    git("clone", "-q", "--depth", "1", f"file://{tmp_path}/origin.git", str(tmp_path / "app"), cwd=tmp_path)
    app = Repo(tmp_path / "app")
    app.git("sparse-checkout", "set", "src")
    done = imi("--json", "feat", "x", cwd=app.path)
    path = Path(done.data["worktree_path"])
    assert git("status", "--porcelain", cwd=path) == ""
    assert (path / "src" / "api.py").exists()


def test_a_missing_worktree_is_neither_recreated_nor_pruned(repo: Repo) -> None:
    assert imi("feat", "x", cwd=repo.path).code == 0
    shutil.move(repo.path.parent / "app.worktrees" / "feat-x", repo.path.parent / "moved")
    before = picture(repo)
    done = imi("feat", "x", cwd=repo.path)
    assert (done.code, done.err.count("\n"), "imi repair" in done.err) == (1, 1, True)
    assert picture(repo) == before


def test_the_row_of_a_deleted_worktree_becomes_active_again(repo: Repo) -> None:
    path = Path(imi("feat", "x", cwd=repo.path).out.splitlines()[-1])
    repo.git("worktree", "remove", str(path))
    again = imi("--json", "feat", "x", cwd=repo.path).data
    assert (again["took_over"], again["created"], path.is_dir()) == ("local", True, True)
    assert [name for name, *_ in rows()] == ["feat-x"]


def test_a_foreign_half_made_worktree_is_left_alone(repo: Repo) -> None:
    tree = repo.worktree("feat-x", "topic")
    (repo.path / ".git" / "worktrees" / "feat-x" / "locked").write_text("initializing")
    before = picture(repo)
    done = imi("feat", "x", cwd=repo.path)
    assert (done.code, "left it incomplete" in done.err) == (1, True)
    assert picture(repo) == before
    assert tree.path.is_dir()


def test_an_existing_worktree_of_that_name_elsewhere_is_opened(repo: Repo, tmp_path: Path) -> None:
    git("worktree", "add", "-q", "-b", "other", str(tmp_path / "far" / "feat-x"), cwd=repo.path)
    done = imi("feat", "x", cwd=repo.path)
    assert done.code == 0
    # a worktree of that name exists, wherever it is: it is gone to
    assert done.out.splitlines()[-1] == str(tmp_path / "far" / "feat-x")
    assert len(worktree_paths(repo)) == 2


def test_a_path_that_the_registry_cannot_store_is_refused(tmp_path: Path) -> None:
    made = Repo.create(tmp_path / "caf\udce9" / "app")
    done = imi("feat", "x", cwd=made.path)
    assert (done.code, done.err.count("\n"), "not UTF-8" in done.err) == (1, 1, True)
    assert list(branches(made)) == ["main"]


def test_a_linked_parent_folder_is_resolved_once(repo: Repo, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(tmp_path)
    one = imi("feat", "x", cwd=tmp_path / "alias" / "app")
    two = imi("feat", "x", cwd=repo.path)
    assert one.out.splitlines()[-1] == two.out.splitlines()[-1] == str(tmp_path / "app.worktrees" / "feat-x")


@pytest.mark.parametrize("count", [500])
def test_a_creation_with_many_branches_starts_few_processes(repo: Repo, count: int) -> None:
    lines = "".join(f"create refs/heads/b{n} {branches(repo)['main']}\n" for n in range(count))
    import subprocess

    subprocess.run(["git", "update-ref", "--stdin"], input=lines, text=True, cwd=repo.path, check=True)
    assert imi("feat", "x", cwd=repo.path).code == 0


def test_hooks_and_filters_of_an_untrusted_repository_do_not_run(repo: Repo, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    hook = repo.path / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {canary}\n")
    hook.chmod(0o755)
    repo.write(".gitattributes", "*.py filter=x\n")
    repo.commit("attributes")
    repo.git("config", "filter.x.smudge", f"touch {canary}; cat")
    repo.git("config", "core.fsmonitor", f"touch {canary}")
    assert imi("feat", "x", cwd=repo.path).code == 0
    assert not canary.exists()
    repo.git("worktree", "add", "-q", str(tmp_path / "plain"))
    assert canary.exists()  # what plain git does with them


def test_skipped_filters_are_named_in_a_warning(repo: Repo) -> None:
    repo.write(".gitattributes", "*.py filter=lfs\n")
    repo.commit("attributes")
    repo.git("config", "filter.lfs.smudge", "tr a-z A-Z")
    done = imi("feat", "x", cwd=repo.path)
    assert (done.code, "the repository's filters (lfs) have not run" in done.err) == (0, True)
    assert imi("trust", cwd=repo.path).code == 0
    done = imi("feat", "y", cwd=repo.path)
    assert (done.code, "filters" in done.err) == (0, False)
    assert "DEF API" in (repo.path.parent / "app.worktrees" / "feat-y" / "src" / "api.py").read_text()


def test_a_failing_trusted_hook_is_a_warning_and_the_worktree_stays(repo: Repo) -> None:
    hook = repo.path / ".git" / "hooks" / "post-checkout"
    hook.write_text("#!/bin/sh\necho 'git-lfs is not installed' >&2\nexit 2\n")
    hook.chmod(0o755)
    assert imi("trust", cwd=repo.path).code == 0
    done = imi("feat", "x", cwd=repo.path)
    assert (done.code, "post-checkout hook failed" in done.err, "git-lfs is not installed" in done.err) == (
        0,
        True,
        True,
    )
    assert [name for name, *_ in rows()] == ["feat-x"]
