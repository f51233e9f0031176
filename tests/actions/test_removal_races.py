"""R3: simultaneous writers, removals, claims, `git worktree prune` and `git gc`: nothing is lost, nothing is done twice, and
a change after the verdict stops the move."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from imi_monitor import host
from imi_monitor.actions.context import Context
from imi_monitor.config import database_path
from imi_monitor.model.errors import ImiError, Refused
from imi_monitor.store import claims, db, operations, trash, worktrees
from tests.actions.removal_kit import act, assert_same, fingerprint, force, process_inside, remove, undo
from tests.audit_events import at_event
from tests.helpers import ROOT, Repo, git, imi_argv
from tests.limits import LIMIT, join, read_line, read_rest


@pytest.fixture
def tree(repo: Repo) -> Repo:
    made = repo.worktree("feat-x")
    remove(repo, "feat-x")
    undo(repo)
    return made


def before_the_move(deed: Callable[[], object]) -> AbstractContextManager[object]:
    """Let something happen after the verdict and the reservation of the claim, before the move: as the trash is prepared."""
    return at_event("os.mkdir", deed, when=lambda path, *_: "/imi/trash/" in str(path))


def after_the_move(tree: Repo, deed: Callable[[], object]) -> AbstractContextManager[object]:
    """Let something happen as soon as the folder is in the trash, before git's records say so."""
    return at_event("open", deed, when=lambda *_: not tree.path.exists())


def refused_and_unharmed(repo: Repo, tree: Repo, code: str, **values: Any) -> Refused:
    with pytest.raises(Refused) as refused:
        remove(repo, "feat-x", **values)
    assert refused.value.code == code
    assert tree.path.is_dir()
    with Context(str(repo.path)) as context:
        assert operations.list_unfinished(context.connection) == []
        assert trash.list_kept(context.connection) == []
    assert "locked" not in repo.git("worktree", "list", "--porcelain")
    return refused.value


def test_a_file_written_after_the_verdict_stops_the_removal(repo: Repo, tree: Repo) -> None:
    with before_the_move(lambda: tree.write("just-now.py", "x\n")):
        refused_and_unharmed(repo, tree, "changed")
    assert (tree.path / "just-now.py").read_text() == "x\n"


@contextmanager
def process_writing(file: Path, cwd: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has a new file open for writing."""
    with file.open("w") as output:
        child = subprocess.Popen(["sleep", "600"], cwd=cwd, stdout=output)
    try:
        yield child
    finally:
        child.kill()
        child.wait(60)


@pytest.mark.parametrize("inside", [True, False])
def test_a_writer_that_does_not_pause_is_named_with_its_file(repo: Repo, tree: Repo, inside: bool) -> None:
    """Even `--yes-really` never wins against it, so a person has to know what to stop."""
    with ExitStack() as stack:
        started: list[subprocess.Popen[bytes]] = []

        def write() -> None:
            writing = process_writing(tree.path / "out\x1b.log", tree.path if inside else repo.path)
            started.append(stack.enter_context(writing))

        with before_the_move(write):
            refused = refused_and_unharmed(repo, tree, "changed", **force("feat-x"))
    writer = {"pid": started[0].pid, "command": "sleep", "file": f"{tree.path}/out\\x1b.log"}
    assert refused.data is not None and refused.data["files"] == ["out\\x1b.log"]
    assert refused.data["writers"] == [writer]
    assert (
        f"({started[0].pid}) writes out\\x1b.log; run the command again when nothing writes there" in refused.sentence
    )


def test_a_writer_without_an_open_file_is_named_by_its_place(repo: Repo, tree: Repo) -> None:
    with ExitStack() as stack:

        def write() -> None:
            tree.write("new.py", "x\n")
            stack.enter_context(process_inside(tree.path))

        with before_the_move(write):
            refused = refused_and_unharmed(repo, tree, "changed", **force("feat-x"))
    assert "(new.py): sleep (" in refused.sentence and ") works there; run" in refused.sentence


def test_a_writer_that_nothing_shows_is_called_unknown(repo: Repo, tree: Repo) -> None:
    with before_the_move(lambda: tree.write("new.py", "x\n")):
        refused = refused_and_unharmed(repo, tree, "changed")
    assert "its writer has ended, or belongs to another user, container or machine" in refused.sentence


def test_a_commit_after_the_verdict_stops_the_removal(repo: Repo, tree: Repo) -> None:
    with before_the_move(lambda: tree.git("commit", "-q", "--allow-empty", "-m", "just now")):
        refused_and_unharmed(repo, tree, "changed")


def test_a_git_file_changed_after_the_verdict_stops_the_removal(repo: Repo, tree: Repo) -> None:
    def tamper() -> None:
        (tree.path / ".git").write_text(f"gitdir: {repo.path}/.git\n")

    with before_the_move(tamper):
        refused_and_unharmed(repo, tree, "changed")


def test_a_folder_exchanged_after_the_verdict_stops_the_removal(repo: Repo, tree: Repo, tmp_path: Path) -> None:
    def exchange() -> None:
        tree.path.rename(tmp_path / "moved")
        tree.path.mkdir()
        (tree.path / ".git").write_text((tmp_path / "moved" / ".git").read_text())
        for name in ("README.md", ".gitignore", "src"):
            os.rename(tmp_path / "moved" / name, tree.path / name)

    with before_the_move(exchange):
        refused_and_unharmed(repo, tree, "changed")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_a_process_started_inside_after_the_verdict_stops_the_removal(repo: Repo, tree: Repo) -> None:
    inside: list[subprocess.Popen[bytes]] = []
    try:
        with before_the_move(lambda: inside.append(subprocess.Popen(["sleep", "60"], cwd=tree.path))):
            refused_and_unharmed(repo, tree, "changed", force=True)
    finally:
        inside[0].kill()
        inside[0].wait(LIMIT)


def grant(agent: str, **options: Any) -> int | None:
    connection = db.connect(database_path(None))
    try:
        wanted = claims.ClaimRequest(agent, host.identify_process(None))
        return db.transact(connection, claims.grant, "app", "feat-x", wanted, **options)
    finally:
        connection.close()


def test_a_claim_between_verdict_and_reservation_stops_the_removal(
    repo: Repo, tree: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = db.transact
    granted: list[int | None] = []

    def transact(connection: Any, work: Any, *args: Any, **options: Any) -> Any:
        if work.__name__ == "_begin" and not granted:
            granted.append(0)
            granted[0] = grant("claude-1")
        return real(connection, work, *args, **options)

    monkeypatch.setattr(db, "transact", transact)
    refused_and_unharmed(repo, tree, "claim-changed", **force("feat-x"))
    assert granted[0] is not None
    connection = db.connect(database_path(None))
    assert claims.current(connection, "app", "feat-x").agent_id == "claude-1"
    connection.close()


def test_a_row_that_was_given_to_another_folder_meanwhile_stays_open(repo: Repo, tree: Repo) -> None:
    """iMi shares the registry and writes its rows by name."""

    def write_row(path: str) -> None:
        connection = db.connect(database_path(None))
        db.transact(connection, worktrees.register, "app", "feat-x", branch="feat/x", kind="feat", path=path)
        connection.close()

    with before_the_move(lambda: write_row("/elsewhere/feat-x")):
        remove(repo, "feat-x")
    assert not tree.path.exists()
    connection = db.connect(database_path(None))
    row = worktrees.get(connection, "app", "feat-x")
    connection.close()
    assert row is not None
    assert (row.path, bool(row.active), row.closed_how) == ("/elsewhere/feat-x", True, None)


@pytest.mark.parametrize("when", ["before the look", "after the look"])
def test_a_folder_exchanged_at_the_move_stops_the_removal(repo: Repo, tree: Repo, tmp_path: Path, when: str) -> None:
    """Also at the moment between the check of the inode and the rename."""

    def exchange() -> None:
        tree.path.rename(tmp_path / "aside")
        tree.path.mkdir()
        (tree.path / "mine").write_text("work\n")

    copying = at_event("os.mkdir", exchange, when=lambda path, *_: str(path).endswith("/admin"))
    renaming = at_event("os.rename", exchange, when=lambda source, *_: source == str(tree.path))
    with copying if when == "before the look" else renaming as met:
        refusal = refused_and_unharmed(repo, tree, "changed")
    assert met
    assert ("is not the folder that was inspected" in refusal.sentence) == (when == "before the look")
    assert os.listdir(tree.path) == ["mine"]
    assert (tmp_path / "aside" / "README.md").exists()


@pytest.mark.parametrize("when", ["before the move", "after the move"])
def test_a_takeover_during_the_removal_stops_it(
    repo: Repo, tree: Repo, when: str
) -> None:  # C4: a remover stopped past a takeover
    def take_over() -> None:
        connection = db.connect(database_path(None))
        standing = claims.current(connection, "app", "feat-x")
        connection.close()
        assert grant("claude-1", replaces=standing, ended="forced") is not None

    before = fingerprint(repo, tree.path)
    moving = at_event("os.rename", lambda: None, when=lambda source, *_: source == str(tree.path))
    with before_the_move(take_over) if when == "before the move" else after_the_move(tree, take_over), moving as moved:
        refused_and_unharmed(repo, tree, "claim-changed")
    assert bool(moved) == (when == "after the move")
    assert_same(fingerprint(repo, tree.path), before)
    connection = db.connect(database_path(None))
    assert claims.current(connection, "app", "feat-x").agent_id == "claude-1"
    connection.close()


def together(*deeds: Callable[[], object]) -> list[ImiError | None]:
    """Run all at once; returns the refusal of each."""
    barrier = threading.Barrier(len(deeds))
    results: list[ImiError | None] = [None] * len(deeds)

    def run(index: int, deed: Callable[[], object]) -> None:
        barrier.wait(LIMIT)
        try:
            deed()
        except ImiError as error:
            results[index] = error

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(deeds)]
    for thread in threads:
        thread.start()
    for thread in threads:
        join(thread)
    return results


def test_two_simultaneous_removals_remove_once(repo: Repo, tree: Repo) -> None:
    two_removers(repo, tree, 8)


@pytest.mark.soak
def test_two_simultaneous_removals_remove_once_long(repo: Repo, tree: Repo) -> None:
    two_removers(repo, tree, 300)


def two_removers(repo: Repo, tree: Repo, rounds: int) -> None:
    before = fingerprint(repo, tree.path)
    for _ in range(rounds):
        results = together(*[lambda: remove(repo, "feat-x", **force("feat-x"))] * 3)
        assert results.count(None) == 1, results
        undo(repo)
        assert_same(fingerprint(repo, tree.path), before)
        with pytest.raises(Refused, match="nothing"):
            undo(repo)


def test_two_simultaneous_undos_restore_once(repo: Repo, tree: Repo) -> None:
    before = fingerprint(repo, tree.path)
    for _ in range(5):
        which = str(remove(repo, "feat-x").data["trash_id"])
        results = together(*[lambda which=which: undo(repo, which)] * 3)  # type: ignore[misc]
        assert results.count(None) == 1, results
        assert_same(fingerprint(repo, tree.path), before)


def test_of_a_removal_and_a_claim_exactly_one_wins(repo: Repo, tree: Repo) -> None:
    claimers(repo, tree, 8)


@pytest.mark.soak
def test_of_a_removal_and_a_claim_exactly_one_wins_long(repo: Repo, tree: Repo) -> None:
    claimers(repo, tree, 300)


def claimers(repo: Repo, tree: Repo, rounds: int) -> None:
    """Exactly one of both succeeds: never a removed worktree with a claim, never neither."""
    outcomes = set()
    for number in range(rounds):
        pause = (number % 8) * 0.01

        def claim(pause: float = pause) -> None:
            time.sleep(pause)
            act("claim", cwd=repo.path, name="feat-x", agent="claude-1")

        removal, claiming = together(lambda: remove(repo, "feat-x"), claim)
        assert (removal is None) != (claiming is None), (removal, claiming)
        outcomes.add(removal is None)
        if removal is None:
            undo(repo)
        else:
            act("release", cwd=repo.path, name="feat-x", agent="claude-1")
        assert tree.path.is_dir()
    assert outcomes


def test_a_git_that_begins_to_write_head_at_the_move_stops_the_removal(repo: Repo, tree: Repo) -> None:
    """The lock files are listed before; a commit or a checkout may begin between that and our change of HEAD."""
    before, lock = fingerprint(repo, tree.path), repo.path / ".git" / "worktrees" / "feat-x" / "HEAD.lock"
    locking = at_event("open", lambda: lock.write_text("theirs\n"), when=lambda path, *_: path == str(lock))
    with locking as met, pytest.raises(ImiError) as refused:
        remove(repo, "feat-x")
    assert met and refused.value.code == "busy" and str(lock) in refused.value.sentence
    assert lock.read_text() == "theirs\n"
    lock.unlink()
    assert_same(fingerprint(repo, tree.path), before)


def test_a_git_that_begins_to_write_head_at_the_restore_keeps_its_lock(repo: Repo, tree: Repo) -> None:
    before, lock = fingerprint(repo, tree.path), repo.path / ".git" / "worktrees" / "feat-x" / "HEAD.lock"
    remove(repo, "feat-x")
    locking = at_event("open", lambda: lock.write_text("theirs\n"), when=lambda path, *_: path == str(lock))
    with locking as met, pytest.raises(ImiError) as refused:
        undo(repo)
    assert met and refused.value.code == "busy" and str(lock) in refused.value.sentence
    assert lock.read_text() == "theirs\n"
    lock.unlink()
    act("list", cwd=repo.path)  # the next command completes it
    assert_same(fingerprint(repo, tree.path), before)


WRITER = """
import os, sys
number = 0
while True:
    name = f"written-{number}"
    with open(name if sys.argv[1] == "inside" else os.path.join(sys.argv[1], name), "x") as file:
        file.write("x" * 100)
    print(name, flush=True)
    number += 1
"""


@pytest.mark.parametrize("how", ["inside", "by path"])
def test_files_written_during_a_removal_are_kept(repo: Repo, tree: Repo, how: str) -> None:  # R3
    """Every acknowledged file exists afterwards: the folder is moved, not emptied."""
    argument = "inside" if how == "inside" else str(tree.path)
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, argument],
        cwd=tree.path if how == "inside" else repo.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert child.stdout is not None
    written = [read_line(child.stdout).strip() for _ in range(20)]
    removed = None
    for _ in range(50):  # it changes all the time, which the last look notices
        try:
            removed = remove(repo, "feat-x", **force("feat-x"))
            break
        except Refused as error:
            assert error.code == "changed"
            child.send_signal(19)  # SIGSTOP: let one look be the same as the one before
            remove_paused = threading.Timer(0.15, child.send_signal, (18,))
            remove_paused.start()
    if removed is None:
        child.send_signal(18)
    child.kill()
    written += read_rest(child.stdout).split()
    child.wait(LIMIT)
    child.stdout.close()
    assert removed is not None
    folder = Path(str(removed.data["trash_path"]))
    lost = [name for name in written if not (folder / name).exists()]
    assert lost == []
    undo(repo)
    assert (tree.path / written[0]).read_text() == "x" * 100


@pytest.mark.parametrize("command", [["worktree", "prune", "--expire=now"], ["gc", "--auto", "-q"]])
def test_removal_and_undo_beside_a_git_that_prunes_all_the_time(
    repo: Repo, tree: Repo, command: list[str]
) -> None:  # R3
    git_cleaning(repo, tree, command, 8)


@pytest.mark.soak
def test_removal_and_undo_beside_a_git_that_prunes_all_the_time_long(repo: Repo, tree: Repo) -> None:
    git_cleaning(repo, tree, ["worktree", "prune", "--expire=now"], 300)


def git_cleaning(repo: Repo, tree: Repo, command: list[str], rounds: int) -> None:
    tree.write("staged.py", "in the index alone\n")
    tree.git("add", "staged.py")
    repo.git("config", "gc.auto", "1")
    repo.git("reflog", "expire", "--expire=never", "--expire-unreachable=never", "--all")
    before = fingerprint(repo, tree.path)
    # a process of its own: one that we start ourselves is for a moment our copy, with what we have open in the worktree
    cleaner = subprocess.Popen(
        ["sh", "-c", 'while [ ! -e stop ]; do git "$@"; done', "sh", *command],
        cwd=repo.path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(rounds):
            remove(repo, "feat-x", force=True)
            undo(repo)
    finally:
        (repo.path / "stop").touch()
        cleaner.wait(LIMIT)
        (repo.path / "stop").unlink()
    assert_same(fingerprint(repo, tree.path), before)


def test_an_operation_of_a_living_process_is_left_alone(repo: Repo, tree: Repo) -> None:
    """A stopped removal belongs to a living process: it is not recovered, and other operations on the worktree are refused."""
    script = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from imi_monitor.actions.removal import trash_folder\n"
        "from tests.actions.removal_kit import act\n"
        "real = trash_folder.move_to_trash\n"
        "def take_away(*args):\n"
        "    os.kill(os.getpid(), signal.SIGSTOP)\n"
        "    real(*args)\n"
        "trash_folder.move_to_trash = take_away\n"
        "act('remove', cwd=Path.cwd(), name='feat-x')\n"
    )
    child = subprocess.Popen([sys.executable, "-c", script], cwd=repo.path, env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        deadline = time.monotonic() + 30
        while not host.is_suspended(child.pid):
            assert child.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        with pytest.raises(Refused) as refused:
            remove(repo, "feat-x", **force("feat-x"))
        assert refused.value.code == "busy"
        claimed = subprocess.run(
            imi_argv("claim", "feat-x", "--agent", "claude-1"),
            cwd=repo.path,
            capture_output=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert claimed.returncode == 1
        assert tree.path.is_dir()
    finally:
        child.send_signal(18)  # SIGCONT
    assert child.wait(LIMIT) == 0
    assert not tree.path.exists()
    undo(repo)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_a_process_inside_moves_with_the_worktree_into_the_trash(repo: Repo, tree: Repo) -> None:
    with process_inside(tree.path) as child:
        removed = remove(repo, "feat-x", **force("feat-x"))
        assert os.readlink(f"/proc/{child.pid}/cwd") == removed.data["trash_path"]
        undo(repo)
        assert os.readlink(f"/proc/{child.pid}/cwd") == str(tree.path)


def test_prune_between_the_move_and_the_new_pointer(repo: Repo, tree: Repo) -> None:  # R3
    """R3: without the lock this would be the end of git's record."""
    index = repo.path / ".git" / "worktrees" / "feat-x" / "index"
    inode = index.stat().st_ino

    def prune() -> None:
        git("worktree", "prune", "--expire=now", cwd=repo.path)
        assert index.stat().st_ino == inode

    with after_the_move(tree, prune) as met:
        remove(repo, "feat-x")
    assert met
    listed = repo.git("worktree", "list", "--porcelain")
    assert "locked imi trash " in listed and "imi undo brings it back" in listed
    assert "feat-x" not in str(act("list", cwd=repo.path).data)
    undo(repo)
    assert "feat-x" in str(act("list", cwd=repo.path).data)


def test_a_record_pruned_during_the_removal_is_restored(repo: Repo, tree: Repo) -> None:
    """A prune that looked for the lock before it was laid: the links to git's files put them back."""
    before = fingerprint(repo, tree.path)
    admin_dir = repo.path / ".git" / "worktrees" / "feat-x"
    with after_the_move(tree, lambda: shutil.rmtree(admin_dir)) as met:
        remove(repo, "feat-x")
    assert met
    undo(repo)
    assert_same(fingerprint(repo, tree.path), before)
