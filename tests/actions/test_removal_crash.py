"""R2 and D3: `imi remove`, `imi undo` and `imi trash purge` are killed or fail at every single step. After the next command
the worktree is whole, in exactly one place, and the registry has that place. R8: the same when the registry is lost with the
process; then the note decides."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from imi_monitor.actions import recovery
from imi_monitor.actions.context import Context
from imi_monitor.actions.removal.trash_folder import TrashedWorktree
from imi_monitor.git import git_admin_dir, layout
from imi_monitor.store import claims, operations, trash, worktrees
from tests.actions.removal_kit import act, assert_same, fingerprint, remove, set_registry_aside, trash_root, undo
from tests.audit_events import at_event
from tests.helpers import ROOT, Repo, imi_argv, tree_hash
from tests.limits import LIMIT, wait_pid

MOST_STEPS = 120


@pytest.fixture
def tree(repo: Repo) -> Repo:
    """A registered worktree with staged, changed, untracked and ignored work in it."""
    made = repo.worktree("feat-x")
    made.write("README.md", "changed\n")
    made.write("staged.py", "in the index alone\n")
    made.git("add", "staged.py")
    made.write(".env", "TOKEN=1\n")
    made.write("notes.txt", "new\n")
    remove(repo, "feat-x", force=True)
    undo(repo)
    return made


def step(repo: Repo, number: int, how: str, verb: str, name: str = "feat-x") -> int:
    argv = [sys.executable, "-m", "tests.actions.crash_child", str(number), how, verb, name]
    done = subprocess.run(
        argv,
        cwd=repo.path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode


def settled(repo: Repo, tree: Repo, before: dict[str, Any]) -> str:
    """Recover, and check that everything agrees; gives where the worktree is: "place" or "trash"."""
    with Context(str(repo.path)) as context:
        recovery.recover(context)
        left = operations.list_unfinished(context.connection)
        assert left == [], [(op.kind, op.data) for op in left]
        kept = trash.list_kept(context.connection, "app")
        row = worktrees.get(context.connection, "app", "feat-x")
        claim = claims.current(context.connection, "app", "feat-x")
        assert claim.agent_id is None, claim.agent_id
        again = recovery.recover(context)
    assert again == []
    listed = repo.git("worktree", "list", "--porcelain")
    assert "prunable" not in listed
    in_place = tree.path.is_dir()
    assert in_place == (not kept)
    assert row is None or row.active == in_place
    if in_place:
        assert_same(fingerprint(repo, tree.path), before)
        assert not [path for path in (repo.path / ".git" / "imi").rglob("*") if not path.is_dir()]
        return "place"
    assert len(kept) == 1
    folder = Path(str(kept[0].data["trash_dir"])) / "worktree"
    assert tree_hash(folder) == before["files"]
    assert f"worktree {folder}" in listed
    return "trash"


# Every step is tried in the long form; the short one takes every STRIDE-th, from another start in each run.
STRIDE = 5


def test_killed_at_some_steps_of_remove(repo: Repo, tree: Repo) -> None:  # R2, K3
    kill_remove(repo, tree, random.randint(1, STRIDE), STRIDE)


def test_killed_at_some_steps_of_undo(repo: Repo, tree: Repo) -> None:  # R2, K3
    kill_undo(repo, tree, random.randint(1, STRIDE), STRIDE)


def test_killed_at_some_steps_of_purge(repo: Repo, tree: Repo) -> None:  # R2, K3
    kill_purge(repo, tree, random.randint(1, STRIDE), STRIDE)


@pytest.mark.parametrize("verb", ["remove", "undo"])
def test_an_error_at_some_steps(repo: Repo, tree: Repo, verb: str) -> None:  # D3
    fail_at(repo, tree, verb, "ENOSPC", random.randint(1, STRIDE), STRIDE)


@pytest.mark.parametrize("verb", ["remove", "undo"])
def test_killed_at_some_steps_and_the_registry_lost(repo: Repo, tree: Repo, tmp_path: Path, verb: str) -> None:  # R8
    kill_and_lose(repo, tree, tmp_path, verb, random.randint(1, STRIDE), STRIDE)


@pytest.mark.soak
@pytest.mark.parametrize("verb", ["remove", "undo"])
def test_killed_at_every_step_and_the_registry_lost(repo: Repo, tree: Repo, tmp_path: Path, verb: str) -> None:  # R8
    kill_and_lose(repo, tree, tmp_path, verb, 1, 1)


@pytest.mark.soak
@pytest.mark.parametrize("verb", ["undo", "repair"])
def test_the_restore_from_a_note_killed_at_every_step(repo: Repo, tree: Repo, tmp_path: Path, verb: str) -> None:  # R8
    """The adoption itself, and the restore after it; then the registry is lost once more."""
    kill_and_lose(repo, tree, tmp_path, verb, 1, 1, adopting=True)


@pytest.mark.parametrize("verb", ["undo", "repair"])
def test_the_restore_from_a_note_killed_at_some_steps(repo: Repo, tree: Repo, tmp_path: Path, verb: str) -> None:  # R8
    kill_and_lose(repo, tree, tmp_path, verb, random.randint(1, STRIDE), STRIDE, adopting=True)


def kill_and_lose(
    repo: Repo, tree: Repo, tmp_path: Path, verb: str, start: int, stride: int, *, adopting: bool = False
) -> None:
    """Kill the verb at a step and set the registry aside; `repair` and `undo` with a new one bring the worktree back."""
    before = fingerprint(repo, tree.path)
    aside = tmp_path / "aside"
    aside.mkdir()
    for number in range(start, MOST_STEPS, stride):
        if verb != "remove":
            remove(repo, "feat-x", force=True)
        if adopting:
            set_registry_aside(aside)
        code = step(repo, number, "kill", verb)
        set_registry_aside(aside)
        recovered_by_note(repo, tree, before)
        if code == 0:
            return
        assert code == -signal.SIGKILL
    pytest.fail("never came to the end")


def recovered_by_note(repo: Repo, tree: Repo, before: dict[str, Any]) -> None:
    for folder in trash_root(repo).glob("*"):  # as if the crash was long ago
        os.utime(folder, (1, 1))
    act("repair", cwd=repo.path, path=[])
    if not tree.path.exists():
        (entry,) = act("trash list", cwd=repo.path).data["entries"]  # type: ignore[misc,attr-defined]
        assert entry["listed"] and entry["restorable"], entry
        undo(repo)
    assert_same(fingerprint(repo, tree.path), before)
    assert "prunable" not in repo.git("worktree", "list", "--porcelain")
    assert not [path for path in (repo.path / ".git" / "imi").rglob("*") if not path.is_dir()]
    assert not trash_root(repo).exists()


@pytest.mark.soak
@pytest.mark.parametrize("kill", ["remove", "undo", "purge"])
def test_killed_at_every_step(repo: Repo, tree: Repo, kill: str) -> None:  # R2, K3
    {"remove": kill_remove, "undo": kill_undo, "purge": kill_purge}[kill](repo, tree, 1, 1)


@pytest.mark.soak
@pytest.mark.parametrize("error", ["ENOSPC", "EIO", "EACCES", "EXDEV"])
@pytest.mark.parametrize("verb", ["remove", "undo"])
def test_an_error_at_every_step(repo: Repo, tree: Repo, verb: str, error: str) -> None:  # D3
    fail_at(repo, tree, verb, error, 1, 1)


def kill_remove(repo: Repo, tree: Repo, start: int, stride: int) -> None:
    before = fingerprint(repo, tree.path)
    for number in range(start, MOST_STEPS, stride):
        code = step(repo, number, "kill", "remove")
        if settled(repo, tree, before) == "trash":
            undo(repo)
            assert_same(fingerprint(repo, tree.path), before)
        if code == 0:
            return
        assert code == -signal.SIGKILL
    pytest.fail("never came to the end")


def kill_undo(repo: Repo, tree: Repo, start: int, stride: int) -> None:
    before = fingerprint(repo, tree.path)
    for number in range(start, MOST_STEPS, stride):
        remove(repo, "feat-x", force=True)
        code = step(repo, number, "kill", "undo")
        if settled(repo, tree, before) == "trash":
            undo(repo)
            assert_same(fingerprint(repo, tree.path), before)
        if code == 0:
            return
        assert code == -signal.SIGKILL
    pytest.fail("never came to the end")


def fail_at(repo: Repo, tree: Repo, verb: str, error: str, start: int, stride: int) -> None:
    before = fingerprint(repo, tree.path)
    for number in range(start, MOST_STEPS, stride):
        if verb == "undo":
            remove(repo, "feat-x", force=True)
        code = step(repo, number, error, verb)
        assert code in (0, 3, 4)
        place = settled(repo, tree, before)
        if verb == "remove" and code == 3:
            assert place == "place"  # refused means that nothing happened
        if not tree.path.exists():
            undo(repo)
        if code == 0:
            return
    pytest.fail("never came to the end")


@pytest.mark.parametrize(
    ("head", "reached"),
    [("branch", "the folder is back"), ("branch", "the pointer is back"), ("detached", "the folder is back")],
)
def test_killed_while_a_removal_is_reverted(repo: Repo, tree: Repo, head: str, reached: str) -> None:  # R2
    """The folder is in its place again, but git's record of it is still the one of the trash."""
    if head == "detached":
        tree.git("checkout", "-q", "--detach")
    before = fingerprint(repo, tree.path)
    pid = os.fork()
    if pid == 0:
        die = partial(os.kill, os.getpid(), signal.SIGKILL)
        try:
            with at_event("open", die, when=lambda *_: not tree.path.exists()):
                remove(repo, "feat-x", force=True)
        finally:
            os._exit(1)
    assert os.WIFSIGNALED(wait_pid(pid))
    with Context(str(repo.path)) as context:
        (operation,) = operations.list_unfinished(context.connection)
        trashed = TrashedWorktree.of(operation.data)
        git_admin_dir.detach_head(
            context.git(layout.repository_at(trashed.common_dir)).at(trashed.admin_dir, None), trashed.sha
        )
        git_admin_dir.write_pointer(trashed.admin_dir, trashed.pointer)
        os.rename(trashed.folder, trashed.path)
        if reached == "the pointer is back":
            git_admin_dir.write_pointer(trashed.admin_dir, trashed.gitdir)
    assert settled(repo, tree, before) == "place"


def kill_purge(repo: Repo, tree: Repo, start: int, stride: int) -> None:
    before = fingerprint(repo, tree.path)
    for number in range(start, MOST_STEPS, stride):
        remove(repo, "feat-x", force=True)
        code = step(repo, number, "kill", "trash purge")
        gone = purge_settled(repo)
        if code == 0:
            assert gone
            return
        assert code == -signal.SIGKILL
        if gone:  # make another, for the next step
            repo.git("worktree", "add", "-q", "-f", str(tree.path), "feat/x")
            tree.write("notes.txt", "new\n")
            before = fingerprint(repo, tree.path)
        else:
            undo(repo)
            assert_same(fingerprint(repo, tree.path), before)
    pytest.fail("never came to the end")


def purge_settled(repo: Repo) -> bool:
    """Whether it is purged; then nothing may be left of it once the background has finished."""
    deadline = time.monotonic() + 20
    while True:
        with Context(str(repo.path)) as context:
            recovery.recover(context)
            left = operations.list_unfinished(context.connection)
            kept = trash.list_kept(context.connection, "app")
        if not left:
            break
        assert time.monotonic() < deadline, [(op.kind, op.pid) for op in left]
        time.sleep(0.02)
    if not kept:
        assert not (repo.path / ".git" / "imi").exists()
        assert "imi trash" not in repo.git("worktree", "list", "--porcelain")
    return not kept


def test_removals_killed_at_random_moments_lose_nothing(repo: Repo, tree: Repo) -> None:  # R2, short
    kills(repo, tree, 15)


@pytest.mark.soak
def test_removals_killed_at_random_moments_lose_nothing_long(repo: Repo, tree: Repo) -> None:  # R2
    kills(repo, tree, 200)


def kills(repo: Repo, tree: Repo, rounds: int) -> None:
    """The real command and its whole process group, killed at random moments."""
    before = fingerprint(repo, tree.path)
    seed = random.randrange(1 << 30)
    generator = random.Random(seed)
    for _ in range(rounds):
        verb = ["remove", "feat-x", "--force"] if tree.path.exists() else ["undo"]
        child = subprocess.Popen(
            imi_argv(*verb),
            cwd=repo.path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            child.wait(generator.uniform(0.05, 0.35))
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
        child.wait(LIMIT)
        settled(repo, tree, before)
    if not tree.path.exists():
        act("undo", cwd=repo.path)
    assert_same(fingerprint(repo, tree.path), before)
