"""A purge step by step: what it leaves although asked for, what a failure or a crash leaves, and what the sweep deletes."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from imi_monitor.actions import recovery
from imi_monitor.actions.context import Context
from imi_monitor.actions.removal import purge
from imi_monitor.actions.removal.trash_folder import TrashedWorktree
from imi_monitor.config import database_path
from imi_monitor.model.errors import Refused, RegistryError
from imi_monitor.store import db, events, operations, trash
from tests.actions.removal_kit import act, assert_same, fingerprint, remove, trash_root, undo
from tests.audit_events import at_event, fail
from tests.helpers import ROOT, Repo
from tests.limits import LIMIT, wait_pid


@pytest.fixture
def tree(repo: Repo) -> Repo:
    made = repo.worktree("feat-x")
    made.write("work.py", "x\n")
    made.commit("work")
    return made


@pytest.fixture
def trashed(repo: Repo, tree: Repo) -> TrashedWorktree:
    remove(repo, "feat-x")
    with Context(str(repo.path)) as context:
        return TrashedWorktree.of(entry_of(context).data)


def entry_of(context: Context) -> trash.TrashEntry:
    (entry,) = trash.list_kept(context.connection)
    return entry


def purge_it(repo: Repo) -> Any:
    return act("trash purge", cwd=repo.path, which=["feat-x"], yes=True, wait=True)


def purge_entry(repo: Repo) -> None:
    with Context(str(repo.path)) as context:
        purge.purge_entry(context, entry_of(context), agent="me")


def at_the_rename(trashed: TrashedWorktree, deed: Callable[[], object]) -> AbstractContextManager[list[Any]]:
    return at_event("os.rename", deed, when=lambda source, *_: source == trashed.trash_dir)


def after_the_rename(trashed: TrashedWorktree, deed: Callable[[], object]) -> AbstractContextManager[list[Any]]:
    return at_event("open", deed, when=lambda *_: not os.path.exists(trashed.trash_dir))


def settled(repo: Repo) -> list[str]:
    """What recovery says; afterwards the sweeper has ended, too."""
    with Context(str(repo.path)) as context:
        lines = recovery.recover(context)
        deadline = time.monotonic() + LIMIT
        while operations.list_unfinished(context.connection):
            assert time.monotonic() < deadline
            time.sleep(0.02)
    return lines


def killed(repo: Repo, moment: Callable[[Callable[[], object]], AbstractContextManager[Any]]) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            with moment(partial(os.kill, os.getpid(), signal.SIGKILL)):
                purge_it(repo)
        finally:
            os._exit(1)
    assert os.WIFSIGNALED(wait_pid(pid))


def nothing_is_left(repo: Repo) -> None:
    assert not (repo.path / ".git" / "imi").exists()
    assert not (repo.path / ".git" / "worktrees" / "feat-x").exists()
    with Context(str(repo.path)) as context:
        assert trash.list_kept(context.connection) == []


def test_the_event_names_what_was_kept(repo: Repo, tree: Repo) -> None:
    tree.git("checkout", "-q", "--detach")
    tree.write("work.py", "only here\n")
    tree.commit("only here")
    identity = remove(repo, "feat-x", force=True).data["trash_id"]
    act("trash purge", cwd=repo.path, which=["feat-x"], yes=True, wait=True, agent="claude-1")
    with Context(str(repo.path)) as context:
        last = events.list_events(context.connection)[-1]
    assert (last.type, last.worktree_name) == ("worktree.purged", "feat-x")
    assert json.loads(last.data) == {
        "path": str(tree.path),
        "trash_id": identity,
        "kept": [f"refs/imi/kept/{identity}"],
    }


class TestWhatIsLeft:
    def why_not(self, repo: Repo, *, named: bool = False) -> str | None:
        with Context(str(repo.path)) as context:
            (found,) = purge.purge_candidates(context, trash.list_kept(context.connection), named=named, days=0.0)
        return found.why_not

    def test_nothing_stands_against_it(self, repo: Repo, trashed: TrashedWorktree) -> None:
        assert self.why_not(repo) is None and self.why_not(repo, named=True) is None

    @pytest.mark.parametrize("named", [True, False])
    def test_while_another_operation_is_in_progress(self, repo: Repo, trashed: TrashedWorktree, named: bool) -> None:
        with Context(str(repo.path)) as context:
            db.transact(
                context.connection, operations.begin, "restore", "app", "feat-x", {"id": trashed.id, "by": "me"}
            )
            entry = entry_of(context)
        assert self.why_not(repo, named=named) == "another operation on it is in progress"
        with Context(str(repo.path)) as context, pytest.raises(Refused) as refused:
            purge.purge_entry(context, entry, agent="me")
        assert refused.value.code == "busy" and Path(trashed.folder).is_dir()

    def test_that_was_restored_meanwhile(self, repo: Repo, tree: Repo, trashed: TrashedWorktree) -> None:
        with Context(str(repo.path)) as context:
            entry = entry_of(context)
            undo(repo)
            with pytest.raises(Refused) as refused:
                purge.purge_entry(context, entry, agent="me")
        assert refused.value.code == "trash-gone" and tree.path.is_dir()
        assert (repo.path / ".git" / "worktrees" / "feat-x").is_dir()

    def test_no_process_is_started_for_nothing(self, repo: Repo) -> None:
        with at_event("subprocess.Popen", list) as started, Context(str(repo.path)) as context:
            purge.delete_in_background(context, [])
        assert started == []


class TestFailures:
    def test_before_the_rename_nothing_has_changed(self, repo: Repo, tree: Repo) -> None:
        before = fingerprint(repo, tree.path)
        remove(repo, "feat-x")
        with Context(str(repo.path)) as context:
            trashed = TrashedWorktree.of(entry_of(context).data)
        with at_the_rename(trashed, fail(errno.EACCES)) as met, pytest.raises(Refused) as refused:
            purge_entry(repo)
        assert met and refused.value.code == "purge-failed"
        assert refused.value.sentence == "feat-x could not be purged: Permission denied"
        assert settled(repo) == []
        undo(repo)
        assert_same(fingerprint(repo, tree.path), before)

    def test_after_the_rename_the_next_command_completes_it(self, repo: Repo, trashed: TrashedWorktree) -> None:
        with after_the_rename(trashed, fail(errno.EIO)) as met, pytest.raises(Refused, match="could not be purged"):
            purge_entry(repo)
        assert met
        assert settled(repo) == ["completed the interrupted purge of feat-x"]
        nothing_is_left(repo)

    def test_a_restore_that_is_recorded_meanwhile_is_not_overwritten(
        self, repo: Repo, trashed: TrashedWorktree
    ) -> None:
        def other() -> None:
            with Context(str(repo.path)) as context:
                db.transact(context.connection, trash.mark_restored, trashed.id)

        with (
            after_the_rename(trashed, other) as met,
            pytest.raises(RegistryError, match="another imi restored") as refused,
        ):
            purge_entry(repo)
        assert met and refused.value.code == "registry-changed"
        with Context(str(repo.path)) as context:
            entry = trash.get(context.connection, trashed.id)
        assert entry is not None and entry.restored_at is not None

    @pytest.mark.parametrize("lost", ["record", "everything"])
    def test_what_was_deleted_by_hand_is_not_missed(self, repo: Repo, trashed: TrashedWorktree, lost: str) -> None:
        shutil.rmtree(trashed.admin_dir)
        if lost == "everything":
            shutil.rmtree(trash_root(repo))
        assert purge_it(repo).data["purged"] == [trashed.id]
        assert settled(repo) == []
        nothing_is_left(repo)


class TestKilled:
    def test_before_the_rename(self, repo: Repo, trashed: TrashedWorktree) -> None:
        killed(repo, partial(at_the_rename, trashed))
        assert settled(repo) == ["feat-x is still in the trash: its purge was interrupted"]
        undo(repo)

    def test_after_the_rename(self, repo: Repo, trashed: TrashedWorktree) -> None:
        killed(repo, partial(after_the_rename, trashed))
        assert settled(repo) == ["completed the interrupted purge of feat-x"]
        nothing_is_left(repo)

    @pytest.mark.parametrize("how", ["restored", "unknown", "deleted"])
    def test_and_the_entry_is_settled(self, repo: Repo, trashed: TrashedWorktree, how: str) -> None:
        """There is nothing to complete, and git's record stays as it is."""
        killed(repo, partial(at_the_rename, trashed))
        with Context(str(repo.path)) as context:
            if how == "restored":
                db.transact(context.connection, trash.mark_restored, trashed.id)
            elif how == "unknown":
                context.connection.execute("DELETE FROM trash")
            else:
                shutil.rmtree(trash_root(repo))
        assert settled(repo) == (
            ["feat-x is still in the trash: its purge was interrupted"] if how == "deleted" else []
        )
        assert Path(trashed.admin_dir).is_dir()

    def test_while_files_are_deleted(self, repo: Repo, trashed: TrashedWorktree) -> None:
        killed(repo, lambda die: at_event("shutil.rmtree", die))
        assert settled(repo) == ["continues to delete feat-x, which was purged from the trash"]
        nothing_is_left(repo)


class TestSweep:
    """The process in the background."""

    @pytest.fixture
    def begun(self, repo: Repo) -> dict[str, str]:
        """Operations of purged entries by name, each with a folder to delete."""
        ids = {}
        with Context(str(repo.path)) as context:
            for name in ("one", "two"):
                folder = repo.path.parent / "trash" / f"{name}.purging"
                (folder / "sub").mkdir(parents=True)
                (folder / "sub" / "file").write_text("x\n")
                ids[name] = db.transact(context.connection, purge.begin_sweep, "app", name, name, str(folder))
            for name in ("one", "two"):
                db.transact(context.connection, operations.abandon, ids[name])
            ids["other"] = db.transact(
                context.connection, operations.begin, "teleport", "app", "other", {"aside": str(repo.path)}
            )
            db.transact(context.connection, operations.abandon, ids["other"])
        return ids

    def left(self, repo: Repo) -> list[str]:
        found = sorted(os.listdir(repo.path.parent / "trash")) if (repo.path.parent / "trash").exists() else []
        return [name.removesuffix(".purging") for name in found]

    def test_deletes_what_it_was_started_for(self, repo: Repo, begun: dict[str, str]) -> None:
        seen: list[list[str]] = []
        before = len(os.listdir("/dev/fd"))
        wanted = [begun["one"], begun["other"]]
        purge.sweep(database_path(None), wanted, lambda: seen.append(self.left(repo)))
        assert seen == [["one", "two"]], "started is called before anything is deleted"
        assert self.left(repo) == ["two"]
        assert len(os.listdir("/dev/fd")) == before
        with Context(str(repo.path)) as context:
            unfinished = {operation.id for operation in operations.list_unfinished(context.connection)}
        assert unfinished == {begun["two"], begun["other"]}
        assert (repo.path / "README.md").exists()

    def test_can_be_repeated(self, repo: Repo, begun: dict[str, str]) -> None:
        with Context(str(repo.path)) as context:
            (one,) = [each for each in operations.list_unfinished(context.connection) if each.id == begun["one"]]
            shutil.rmtree(str(one.data["aside"]))
            purge.delete_now(context.connection, one)
            assert begun["one"] not in [each.id for each in operations.list_unfinished(context.connection)]
        assert self.left(repo) == ["two"]

    def test_opens_what_is_closed(self, repo: Repo, begun: dict[str, str]) -> None:
        folder = repo.path.parent / "trash" / "one.purging"
        (folder / "sub").chmod(0o500)
        folder.chmod(0o500)
        opened: list[str] = []

        def is_opened(path: str, *_: object) -> bool:
            opened.append(str(path))
            return False

        with at_event("os.chmod", list, when=is_opened):
            purge.sweep(database_path(None), [begun["one"]], lambda: None)
        assert opened == [str(folder), str(folder / "sub")]
        assert self.left(repo) == ["two"]

    @pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
    def test_is_a_process_of_its_own_that_is_waited_for_until_it_has_begun(
        self, repo: Repo, begun: dict[str, str]
    ) -> None:
        """Closing the terminal does not end it, and no recovery takes its work for abandoned."""
        connection = db.connect(database_path(None))
        connection.execute("BEGIN IMMEDIATE")  # the sweeper has to wait before it adopts anything
        argv = [sys.executable, "-P", "-m", purge.__name__, database_path(None), begun["one"], begun["two"]]
        with subprocess.Popen(argv, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}) as starter:
            deadline = time.monotonic() + LIMIT
            sweeper = 0
            while not sweeper or os.getsid(sweeper) != sweeper:
                assert time.monotonic() < deadline and starter.poll() is None
                children = Path(f"/proc/{starter.pid}/task/{starter.pid}/children").read_text().split()
                sweeper = int(children[0]) if children else 0
                time.sleep(0.01)
            with pytest.raises(subprocess.TimeoutExpired):  # a starter that does not wait would end by itself
                starter.wait(0.5)
            assert self.left(repo) == ["one", "two"]
            connection.execute("ROLLBACK")
            connection.close()
            assert starter.wait(LIMIT) == 0
        settled_by = time.monotonic() + LIMIT
        while self.left(repo) != []:
            assert time.monotonic() < settled_by
            time.sleep(0.01)
