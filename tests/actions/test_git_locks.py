"""Lock files of a killed git: one error that names the file and what to do, no partial changes, and the lock stays."""

from __future__ import annotations

import os

import pytest

from imi_monitor.git.lock_files import lock_advice, lock_in_message
from tests.helpers import Repo, git, imi

CASES = [
    ("packed-refs.lock", ("rename", "feat-a", "feat-b")),
    ("index.lock", ("merge", "feat-a")),
    ("HEAD.lock", ("merge", "feat-a")),
    ("refs/heads/main.lock", ("merge", "feat-a")),
    ("refs/heads/feat/new.lock", ("feat", "new")),
    ("refs/heads/feat/a.lock", ("rename", "feat-a", "feat-b")),
    ("config.lock", ("rename", "feat-a", "feat-b")),
    ("worktrees/feat-a/index.lock", ("remove", "feat-a")),
    ("worktrees/feat-a/HEAD.lock", ("remove", "feat-a", "--force")),
    ("worktrees/feat-a/HEAD.lock", ("rename", "feat-a", "feat-b")),
]


def picture(repo: Repo) -> list[str]:
    """All that a verb could have changed."""
    there = repo.path.parent / "feat-a"
    trees = repo.git("worktree", "list", "--porcelain")
    return [trees, repo.git("for-each-ref"), *(git("status", "-b", "--porcelain", cwd=at) for at in (repo.path, there))]


@pytest.mark.parametrize(("name", "words"), CASES, ids=[f"{words[0]} {name}" for name, words in CASES])
def test_the_lock_is_named_and_nothing_is_half_done(repo: Repo, name: str, words: tuple[str, ...]) -> None:
    there = repo.worktree("feat-a")
    there.write("new.txt", "x\n")
    there.commit("new")
    repo.git("pack-refs", "--all")
    lock = repo.write(f".git/{name}", "")
    before = picture(repo)
    ran = imi(*words, cwd=repo.path)
    assert (ran.code, ran.out) == (1, ""), ran
    first = ran.err.splitlines()[0]
    assert first.count(str(lock)) == 1 and "delete that file" in first, ran.err
    assert lock.exists() and picture(repo) == before
    lock.unlink()
    done = imi(*words, cwd=repo.path)
    assert done.code == 0, done


def test_what_is_in_the_trash_stays_there_until_the_lock_is_gone(repo: Repo) -> None:
    there = repo.worktree("feat-a")
    assert imi("remove", "feat-a", cwd=repo.path).code == 0
    lock = repo.write(".git/worktrees/feat-a/HEAD.lock", "")
    for _ in range(2):
        ran = imi("undo", cwd=repo.path)
        assert (ran.code, str(lock) in ran.err, "stays in the trash" in ran.err) == (1, True, True), ran
        assert lock.exists() and not there.path.exists()
    lock.unlink()
    assert imi("undo", cwd=repo.path).code == 0
    assert there.git("branch", "--show-current") == "feat/a"


def test_a_branch_that_cannot_be_deleted_is_told_of(repo: Repo) -> None:
    repo.worktree("feat-a")
    lock = repo.write(".git/packed-refs.lock", "")
    ran = imi("remove", "feat-a", "--delete-branch", cwd=repo.path)
    assert (ran.code, "in the trash, but" in ran.err, str(lock) in ran.err) == (1, True, True), ran
    assert repo.git("branch", "--list", "feat/a")


def test_the_lock_file_in_an_error_of_git_is_named(repo: Repo) -> None:
    lock = repo.write(".git/config.lock", "")
    config = str(lock).removesuffix(".lock")
    for line, named in (
        (
            "fatal: cannot lock ref 'refs/heads/x': Unable to create '/r/.git/refs/heads/x.lock': File exists.",
            "/r/.git/refs/heads/x.lock",
        ),
        ("fatal: Unable to create '/r/a 'b'/index.lock': File exists.", "/r/a 'b'/index.lock"),
        ("error: could not lock config file /r/.git/config: File exists", "/r/.git/config.lock"),
        (f"error: could not lock config file {config}", str(lock)),
        ("error: could not lock config file /no/such/config", None),
        ("error: could not lock config file /r/.git/config: Permission denied", None),
        ("fatal: Unable to create '/r/.git/index.lock': Permission denied", None),
        ("fatal: not a lock", None),
    ):
        assert lock_in_message(["hint: first", line]) == named
    os.utime(lock, (0, 0))
    assert "d ago: another git" in lock_advice(str(lock))
    assert lock_advice("/no/such.lock").startswith("/no/such.lock exists: another git")
