"""Every command in every odd repository: a correct answer or one clear sentence, no traceback, no half-done change."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.odd_repositories import BUILDERS
from tests.helpers import Ran, Repo, fill, git, imi, imi_argv

COMMANDS: list[list[str]] = [
    ["list"],
    ["status"],
    ["go", "old"],
    ["trunk"],
    ["feat", "new-thing"],
    ["claim", "new-thing", "--agent", "a1"],
    ["verify-lock", "new-thing", "--agent", "a1"],
    ["claims"],
    ["release", "new-thing", "--agent", "a1"],
    ["sync", "--check"],
    ["prune", "--dry-run"],
    ["repair", "--dry-run"],
    ["merge", "new-thing", "--dry-run"],
    ["rename", "new-thing", "newer-thing"],
    ["remove", "newer-thing"],
    ["undo"],
    ["trash", "list"],
    ["trust", "--show"],
    ["events"],
    ["review", "7"],
]
# What `imi feat new-thing` must do; the others make a worktree.
REFUSED = {"unborn": "commit", "outside_any": "not inside a git repository"}


def assert_clear(ran: Ran, what: str) -> None:
    assert ran.code in (0, 1, 2), f"{what}: {ran}"
    if ran.code and not ran.out:
        first, *more = ran.err.splitlines()
        assert first.startswith("imi: ") and 10 < len(first) < 700, f"{what}: {ran.err}"
        assert all(line.startswith("  ") for line in more), f"{what}: {ran.err}"
    assert "something went wrong inside imi" not in ran.err, f"{what}: {ran.err}"
    assert all(char.isprintable() or char == "\n" for char in ran.out + ran.err), what


@pytest.mark.parametrize("kind", BUILDERS)
def test_every_command_handles_odd_repositories(kind: str, tmp_path: Path) -> None:
    where = BUILDERS[kind](tmp_path)
    for words in COMMANDS:
        ran = imi(*words, cwd=where)
        assert_clear(ran, f"{kind}: {' '.join(words)}")
        if words[0] == "feat":
            check_feat(kind, ran, where)
    # nothing was lost on the way: the repository still is what git calls one
    if kind not in ("outside_any", "cluster_folder"):
        git("rev-parse", "--git-dir", cwd=where)


def check_feat(kind: str, ran: Ran, where: Path) -> None:
    if kind in REFUSED:
        assert ran.code == 1 and REFUSED[kind] in ran.err, ran
        return
    assert ran.code == 0, f"{kind}: {ran}"
    path = Path(ran.out.splitlines()[-1])
    assert path.is_dir()
    assert git("branch", "--show-current", cwd=path) == "feat/new-thing"
    assert git("status", "--porcelain", "--ignore-submodules=all", cwd=path) == ""


@pytest.mark.parametrize("kind", ["plain", "unborn", "outside_any", "prunable_worktree", "bare_with_worktrees"])
def test_json_output_is_one_object_in_odd_repositories(kind: str, tmp_path: Path) -> None:
    where = BUILDERS[kind](tmp_path)
    for words in COMMANDS:
        ran = imi(*words, "--json", cwd=where)
        if words[0] == "events":
            assert all(json.loads(line) for line in ran.out.splitlines())
            continue
        envelope = ran.json
        assert {"schema", "success", "data", "error"} <= set(envelope), words
        assert envelope["success"] is (ran.code == 0), (words, ran)
        assert (envelope["error"] is None) or not envelope["success"], words
        assert ran.err == "", words


def test_a_repository_deleted_while_in_use_is_an_error_in_a_sentence(tmp_path: Path) -> None:
    made = Repo.create(tmp_path / "app")
    other = made.worktree("feat-x")
    assert imi("claim", "feat-x", "--agent", "a1", cwd=other.path).code == 0
    shutil.rmtree(made.path)
    for words in COMMANDS:
        assert_clear(imi(*words, cwd=other.path), " ".join(words))


def test_a_deleted_current_folder_is_an_error_in_a_sentence(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f"cd {gone} && rmdir {gone} && exec {shlex.join(imi_argv('list'))}"
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 1, done
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1 and "no longer exists" in done.stderr, done.stderr


def test_two_repositories_of_one_name_are_told_apart(tmp_path: Path) -> None:
    first = Repo.create(tmp_path / "one" / "app")
    second = Repo.create(tmp_path / "two" / "app")
    for made in (first, second):
        assert imi("feat", "same", cwd=made.path).code == 0
    assert imi("claim", "same", "--agent", "a1", cwd=first.path).code == 0
    free = imi("claim", "same", "--agent", "a2", cwd=second.path)
    assert free.code == 0, "the other repository's worktree of that name is another worktree"
    outside = imi("go", "feat-same", cwd=tmp_path)
    assert outside.code == 1 and "app" in outside.err
    chosen = imi("remove", "feat-same", "--repo", str(second.path), "--agent", "a2", cwd=tmp_path)
    assert chosen.code == 0, chosen
    assert (tmp_path / "one" / "app.worktrees" / "feat-same").is_dir()
    assert not (tmp_path / "two" / "app.worktrees" / "feat-same").exists()


def test_repo_option_works_outside_of_any_repository(tmp_path: Path) -> None:
    made = Repo.create(tmp_path / "app")
    ran = imi("feat", "x", "--repo", str(made.path), cwd=tmp_path)
    assert ran.code == 0
    assert imi("list", "--repo", "app", cwd=tmp_path).out.count("feat-x") >= 1
    wrong = imi("list", "--repo", "nope", cwd=tmp_path)
    assert wrong.code == 1 and "nope" in wrong.err and "app" in wrong.err


def mounted(kind: str, folder: Path) -> bool:
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", kind, "imi-test", str(folder)], capture_output=True, check=False
    )
    return done.returncode == 0


def test_a_full_disk_is_an_error_in_a_sentence(tmp_path: Path) -> None:
    small = tmp_path / "small"
    if os.geteuid() != 0 or not mounted("size=2m", small):
        pytest.skip("needs root to mount a small tmpfs")
    try:
        made = Repo.create(small / "app")
        made.git("config", "user.email", "a@example.invalid")
        filler = small / "filler"
        fill(filler)
        ran = imi("feat", "big", cwd=made.path)
        assert_clear(ran, "feat on a full disk")
        assert ran.code == 1 and "space" in ran.err, ran
        assert "feat/big" not in made.git("branch", "--list")
        assert not (small / "app.worktrees" / "feat-big").exists()
        filler.unlink()
        assert imi("feat", "big", cwd=made.path).code == 0
    finally:
        subprocess.run(["umount", "-l", str(small)], check=False)


def test_a_read_only_disk_is_an_error_in_a_sentence(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    if os.geteuid() != 0 or not mounted("size=8m", disk):
        pytest.skip("needs root to mount a tmpfs")
    try:
        made = Repo.create(disk / "app")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True, capture_output=True)
        for words in COMMANDS:
            ran = imi(*words, cwd=made.path)
            assert_clear(ran, " ".join(words))
        assert imi("list", cwd=made.path).code == 0, "reading works"
        assert imi("feat", "x", cwd=made.path).code == 1
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)
