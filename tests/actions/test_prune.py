"""`imi prune`: missing, merged and orphaned worktrees with their reasons; a dry run changes nothing; nothing is lost."""

from __future__ import annotations

import shutil
import sqlite3

import pytest

from imi_monitor import paths
from imi_monitor.model import times
from imi_monitor.model.pull_request import PullRequest
from imi_monitor.store import db, pull_requests
from tests.helpers import Repo, git, imi, tree_hash


def dump(path: str) -> list[str]:
    connection = sqlite3.connect(path)
    try:
        return [line for line in connection.iterdump() if "INSERT INTO" in line and "operations" not in line]
    finally:
        connection.close()


@pytest.fixture
def world(repo: Repo) -> Repo:
    """One of each: merged, squash-merged, new, dirty and merged, missing, orphaned."""
    for name in ("merged", "squashed", "fresh", "dirty", "gone", "orphan"):
        assert imi("feat", name, cwd=repo.path).code == 0
    for name in ("merged", "squashed", "dirty"):
        other = tree(repo, name)
        other.write(f"{name}.txt", f"{name}\n")
        other.commit(f"{name} one")
        other.write(f"{name}.txt", f"{name} two\n")
        other.commit(f"{name} two")
    for name in ("merged", "dirty"):
        repo.git("merge", "-q", "--no-edit", "--no-ff", f"feat/{name}")
    repo.git("merge", "-q", "--squash", "feat/squashed")
    repo.git("commit", "-q", "-m", "squashed")
    tree(repo, "dirty").write("README.md", "not committed\n")
    shutil.rmtree(tree(repo, "gone").path)
    shutil.rmtree(repo.path / ".git" / "worktrees" / "feat-orphan")
    return repo


def tree(repo: Repo, name: str) -> Repo:
    return Repo(repo.path.parent / "app.worktrees" / f"feat-{name}")


def test_a_dry_run_of_prune_changes_nothing(world: Repo) -> None:
    files, rows = tree_hash(world.path.parent, skip=("home",)), dump(paths.default_database())
    ran = imi("prune", "--dry-run", "--json", cwd=world.path)
    assert ran.code == 0, ran
    assert {f["name"]: f["kind"] for f in ran.data["pruned"]} == {
        "feat-merged": "merged",
        "feat-squashed": "merged",
        "feat-gone": "missing",
    }
    assert {f["name"] for f in ran.data["kept"]} == {"feat-dirty", "feat-orphan"}
    after = {k: v for k, v in tree_hash(world.path.parent, skip=("home",)).items() if not k.startswith("home/")}
    assert after == {k: v for k, v in files.items() if not k.startswith("home/")}
    assert dump(paths.default_database()) == rows


def test_prune_does_what_the_dry_run_announced(world: Repo) -> None:
    promised = imi("prune", "--dry-run", "--json", cwd=world.path).data["pruned"]
    ran = imi("prune", "--json", cwd=world.path)
    assert ran.data["pruned"] == promised
    for name in ("merged", "squashed"):
        assert not tree(world, name).path.exists()
        assert world.git("rev-parse", "--verify", f"feat/{name}"), "the branch stays"
    for name in ("fresh", "dirty", "orphan"):
        assert tree(world, name).path.is_dir()
    assert "feat-gone" not in imi("list", "--json", cwd=world.path).out
    assert "nothing to prune" not in imi("prune", cwd=world.path).out, "dirty and orphan are still told"
    assert imi("feat", "gone", cwd=world.path).code == 0, "its name and branch are free again"


def test_pruned_worktrees_come_back(world: Repo) -> None:
    assert imi("prune", cwd=world.path).code == 0
    for name in ("feat-merged", "feat-squashed"):
        assert imi("undo", name, cwd=world.path).code == 0
    assert git("status", "--porcelain", cwd=tree(world, "merged").path) == ""


def test_a_claim_and_a_lock_protect(repo: Repo) -> None:
    for name in ("claimed", "locked"):
        assert imi("feat", name, cwd=repo.path).code == 0
    assert imi("claim", "claimed", "--agent", "a1", cwd=repo.path).code == 0
    repo.git("worktree", "lock", tree(repo, "locked").path)
    for name in ("claimed", "locked"):
        shutil.rmtree(tree(repo, name).path)
    ran = imi("prune", "--agent", "me", "--json", cwd=repo.path)
    kept = {finding["name"]: finding["keep"] for finding in ran.data["kept"]}
    assert "a1" in kept["feat-claimed"] and "locked" in kept["feat-locked"]
    assert "feat-claimed" in repo.git("worktree", "list")


def test_staged_changes_and_lone_commits_of_a_missing_one_are_kept(repo: Repo) -> None:
    staged, lone = repo.worktree("feat-staged"), repo.worktree("feat-lone")
    staged.write("only-in-the-index.txt", "precious\n")
    staged.git("add", "-A")
    lone.git("switch", "-q", "--detach")
    lone.write("x", "x")
    sha = lone.commit("on no branch")
    for other in (staged, lone):
        shutil.rmtree(other.path)
    ran = imi("prune", "--json", cwd=repo.path)
    assert [finding["name"] for finding in ran.data["kept"]] == ["feat-staged"]
    assert [finding["name"] for finding in ran.data["pruned"]] == ["feat-lone"]
    assert sha in repo.git("for-each-ref", "refs/imi/kept"), "the commit keeps a ref"


def test_a_disk_that_is_not_mounted_is_not_a_missing_worktree(repo: Repo) -> None:
    disk = repo.path.parent / "disk"
    disk.mkdir()
    repo.git("worktree", "add", "-q", "-b", "feat/far", disk / "feat-far")
    disk.rename(repo.path.parent / "unmounted")
    ran = imi("prune", "--json", cwd=repo.path)
    assert "may not be mounted" in ran.data["kept"][0]["keep"]
    (repo.path.parent / "unmounted").rename(disk)
    assert git("status", "--porcelain", cwd=disk / "feat-far") == ""


# -- merged on the forge ----------------------------------------------------------------------------------------------


def listed(repo: Repo, *pulls: PullRequest) -> None:
    """What a forge has listed, as the registry keeps it."""
    repo.git("remote", "add", "origin", "https://github.com/acme/app.git", check=False)
    connection, now = db.connect(paths.default_database()), times.now()
    key = "github.com/acme/app"
    db.transact(connection, pull_requests.reserve, key, now, 0)
    db.transact(connection, pull_requests.record, key, "gh", pulls, len(pulls), now)
    connection.close()


@pytest.fixture
def landed(repo: Repo) -> Repo:
    """The worktree feat-x with a commit that the local trunk does not have."""
    assert imi("feat", "x", cwd=repo.path).code == 0
    tree(repo, "x").write("x.txt", "x\n")
    tree(repo, "x").commit("x")
    return repo


def merged(repo: Repo, **fields: object) -> PullRequest:
    sha = tree(repo, "x").git("rev-parse", "HEAD")
    known: dict[str, object] = {
        "head": "feat/x",
        "base": "main",
        "is_fork": False,
        "state": "MERGED",
        "sha": sha,
        "landed": "b" * 40,
    }
    return PullRequest(12, **known | fields)  # type: ignore[arg-type]


def test_a_worktree_at_the_end_of_a_merged_pull_request_is_pruned(landed: Repo) -> None:
    assert imi("prune", "--dry-run", "--json", cwd=landed.path).data["pruned"] == []
    head = tree(landed, "x").git("rev-parse", "HEAD")
    listed(landed, merged(landed))
    (found,) = imi("prune", "--json", cwd=landed.path).data["pruned"]
    assert found["kind"] == "merged"
    assert found["reason"].startswith(
        f"pull request 12, which ends at its commit {head[:10]}, was merged into main as "
    )
    assert "(gh, " in found["reason"] and not tree(landed, "x").path.exists()
    assert landed.git("rev-parse", "feat/x") == head, "the branch stays"
    assert imi("undo", cwd=landed.path).code == 0 and tree(landed, "x").path.exists()


@pytest.mark.parametrize(
    "fields",
    [{"state": "OPEN"}, {"state": "CLOSED"}, {"sha": "c" * 40}, {"sha": None}, {"base": "release"}, {"is_fork": None}],
)
def test_any_doubt_about_a_merged_pull_request_keeps_the_worktree(landed: Repo, fields: dict[str, object]) -> None:
    listed(landed, merged(landed, **fields))
    assert imi("prune", "--json", cwd=landed.path).data["pruned"] == [] and tree(landed, "x").path.exists()


def test_work_after_the_merge_keeps_the_worktree(landed: Repo) -> None:
    listed(landed, merged(landed))
    tree(landed, "x").write("more.txt", "not committed\n")
    (kept,) = imi("prune", "--json", cwd=landed.path).data["kept"]
    assert (kept["kind"] == "merged" and "not committed" in kept["keep"]) or "untracked" in kept["keep"]
    tree(landed, "x").commit("more")
    assert imi("prune", "--json", cwd=landed.path).data["kept"] == []
