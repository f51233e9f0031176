"""Restoring one worktree step by step: what refuses it, what a failure leaves, and what recovery makes of a crash."""

from __future__ import annotations

import errno
import os
import shutil
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from imi_monitor.actions import recovery
from imi_monitor.actions.context import Context
from imi_monitor.actions.removal import restore, trash_folder
from imi_monitor.actions.removal.trash_folder import TrashedWorktree
from imi_monitor.fast.frozen_dataclass import replace
from imi_monitor.model.errors import Refused, RegistryError
from imi_monitor.store import db, events, operations, trash, worktrees
from tests.actions.removal_kit import assert_same, fingerprint, remove, undo
from tests.audit_events import at_event, fail
from tests.git.git_kit import open_git
from tests.helpers import Repo
from tests.limits import wait_pid


@pytest.fixture
def tree(repo: Repo) -> Repo:
    made = repo.worktree("feat-x")
    made.write("work.py", "x\n")
    made.commit("work")
    return made


def entry_of(context: Context) -> trash.TrashEntry:
    (entry,) = trash.list_kept(context.connection)
    return entry


@pytest.fixture
def trashed(repo: Repo, tree: Repo) -> TrashedWorktree:
    remove(repo, "feat-x")
    with Context(str(repo.path)) as context:
        return TrashedWorktree.of(entry_of(context).data)


def killed(repo: Repo, moment: Callable[[Callable[[], object]], AbstractContextManager[Any]]) -> None:
    """`imi undo` in a process that is killed at this moment."""
    pid = os.fork()
    if pid == 0:
        try:
            with moment(partial(os.kill, os.getpid(), signal.SIGKILL)):
                undo(repo)
        finally:
            os._exit(1)
    assert os.WIFSIGNALED(wait_pid(pid))


def recovered(repo: Repo) -> list[str]:
    with Context(str(repo.path)) as context:
        lines = recovery.recover(context)
        assert operations.list_unfinished(context.connection) == []
    return lines


def at_the_rename(trashed: TrashedWorktree, deed: Callable[[], object]) -> AbstractContextManager[list[Any]]:
    return at_event("os.rename", deed, when=lambda source, *_: source == trashed.folder)


def after_the_rename(trashed: TrashedWorktree, deed: Callable[[], object]) -> AbstractContextManager[list[Any]]:
    return at_event("open", deed, when=lambda *_: os.path.exists(trashed.path))


class TestRefused:
    """By `refuse_restore`, which the preview asks before anything is done."""

    def refusal(self, repo: Repo, trashed: TrashedWorktree) -> str | None:
        with Context(str(repo.path)) as context:
            try:
                restore.refuse_restore(context, trashed)
            except Refused as error:
                return error.code
        return None

    def test_for_what_is_missing_or_in_the_way(self, repo: Repo, trashed: TrashedWorktree, tmp_path: Path) -> None:
        folder, path, record = Path(trashed.folder), Path(trashed.path), Path(trashed.admin_dir)
        assert self.refusal(repo, trashed) is None
        assert self.refusal(repo, replace(trashed, common_dir="/nowhere/.git")) == "repository-gone"
        path.symlink_to("dangling")
        assert self.refusal(repo, trashed) == "exists"
        path.unlink()
        (record / "HEAD.lock").touch()
        assert self.refusal(repo, trashed) == "git-busy"
        (record / "HEAD.lock").unlink()
        folder.rename(tmp_path / "aside")
        assert self.refusal(repo, trashed) == "trash-gone"
        folder.mkdir()
        assert self.refusal(repo, trashed) == "exchanged"
        folder.rmdir()
        (tmp_path / "aside").rename(folder)
        shutil.rmtree(trashed.copy)
        assert self.refusal(repo, trashed) is None
        shutil.rmtree(record)
        assert self.refusal(repo, trashed) == "admin-gone"

    @pytest.mark.parametrize("active", [True, False])
    @pytest.mark.parametrize("there", [True, False])
    def test_for_another_worktree_of_the_name(
        self, repo: Repo, trashed: TrashedWorktree, tmp_path: Path, active: bool, there: bool
    ) -> None:
        place = tmp_path / "elsewhere" / "feat-x"
        if there:
            place.mkdir(parents=True)
        with Context(str(repo.path)) as context:
            row = {"branch": "feat/x", "kind": "feat", "path": str(place)}
            db.transact(context.connection, worktrees.register, "app", "feat-x", **row)
            if not active:
                db.transact(context.connection, worktrees.close, "app", "feat-x", "removed")
        assert self.refusal(repo, trashed) == ("exists" if active and there else None)

    @pytest.mark.parametrize("what", ["restored", "busy"])
    def test_in_the_transaction_that_begins_it(self, repo: Repo, trashed: TrashedWorktree, what: str) -> None:
        """Another imi was faster; the branch and the folder stay as they are."""
        repo.git("branch", "-q", "-D", "feat/x")
        with Context(str(repo.path)) as context:
            entry = entry_of(context)
            if what == "restored":
                db.transact(context.connection, trash.mark_restored, entry.id)
            else:
                db.transact(context.connection, operations.begin, "remove", "app", "feat-x", {})
            with pytest.raises(Refused) as refused:
                restore.restore_worktree(context, entry, agent="me")
        assert refused.value.code == ("trash-gone" if what == "restored" else "busy")
        assert Path(trashed.folder).is_dir() and repo.git("branch", "--list", "feat/x") == ""


class TestFailures:
    def test_before_the_move_it_stays_in_the_trash(self, repo: Repo, trashed: TrashedWorktree) -> None:
        with at_the_rename(trashed, fail(errno.EACCES)) as met, pytest.raises(Refused) as refused:
            undo(repo)
        sentence = "feat-x could not be moved back (Permission denied): it is still in the trash"
        assert met and (refused.value.code, refused.value.sentence) == ("move-failed", sentence)
        assert recovered(repo) == []
        undo(repo)

    def test_after_the_move_the_next_command_completes_it(self, repo: Repo, tree: Repo) -> None:
        before = fingerprint(repo, tree.path)
        remove(repo, "feat-x")
        with Context(str(repo.path)) as context:
            trashed = TrashedWorktree.of(entry_of(context).data)
        with after_the_rename(trashed, fail(errno.EIO)) as met, pytest.raises(Refused) as refused:
            undo(repo)
        sentence = "feat-x is back, but the restore is incomplete (Input/output error): run any imi command"
        assert met and (refused.value.code, refused.value.sentence) == ("move-failed", sentence)
        assert recovered(repo) == ["completed the interrupted restore of feat-x"]
        assert_same(fingerprint(repo, tree.path), before)

    def test_when_git_s_record_is_complete_the_entry_is_left_to_the_next_command(self, repo: Repo, tree: Repo) -> None:
        before = fingerprint(repo, tree.path)
        remove(repo, "feat-x")
        with (
            at_event("os.remove", fail(errno.EIO), when=lambda path, *_: str(path).endswith("/note.json")) as met,
            pytest.raises(Refused, match="the restore is incomplete"),
        ):
            undo(repo)
        assert met and recovered(repo) == ["completed the interrupted restore of feat-x"]
        assert_same(fingerprint(repo, tree.path), before)
        assert not (repo.path / ".git" / "imi").exists()

    def test_one_that_another_imi_has_recorded_is_not_recorded_again(
        self, repo: Repo, tree: Repo, trashed: TrashedWorktree
    ) -> None:
        def other() -> None:
            with Context(str(repo.path)) as context:
                db.transact(context.connection, trash.mark_restored, trashed.id)

        with (
            after_the_rename(trashed, other) as met,
            pytest.raises(RegistryError, match="another imi restored") as refused,
        ):
            undo(repo)
        assert met and refused.value.code == "registry-changed" and tree.path.is_dir()
        assert recovered(repo) == []


class TestKilled:
    def test_before_the_move(self, repo: Repo, trashed: TrashedWorktree) -> None:
        killed(repo, partial(at_the_rename, trashed))
        assert recovered(repo) == ["feat-x is still in the trash: its restore was interrupted"]
        undo(repo)

    @pytest.mark.parametrize("branch", ["stays", "moved", "deleted"])
    def test_after_the_move(self, repo: Repo, tree: Repo, branch: str) -> None:
        before = fingerprint(repo, tree.path)
        remove(repo, "feat-x", agent="claude-1")
        with Context(str(repo.path)) as context:
            trashed = TrashedWorktree.of(entry_of(context).data)
        if branch == "moved":
            repo.git("update-ref", "refs/heads/feat/x", "main")
        elif branch == "deleted":
            repo.git("branch", "-q", "-D", "feat/x")
        killed(repo, partial(after_the_rename, trashed))
        (line,) = recovered(repo)
        detached = f", with HEAD detached: branch feat/x has moved on from {str(trashed.sha)[:10]} to "
        assert line.startswith("completed the interrupted restore of feat-x" + (detached if branch == "moved" else ""))
        assert line.endswith("feat-x") == (branch != "moved")
        if branch == "stays":
            assert_same(fingerprint(repo, tree.path), before)
        assert tree.git("branch", "--show-current") == ("" if branch == "moved" else "feat/x")
        assert tree.git("rev-parse", "HEAD") == trashed.sha
        with Context(str(repo.path)) as context:
            entry = trash.get(context.connection, trashed.id)
            last = events.list_events(context.connection)[-1]
        assert entry is not None and entry.restored_at is not None
        assert (last.type, last.worktree_name) == ("worktree.restored", "feat-x")

    def test_while_head_is_written(self, repo: Repo, tree: Repo) -> None:
        before = fingerprint(repo, tree.path)
        remove(repo, "feat-x")
        lock = str(repo.path / ".git" / "worktrees" / "feat-x" / "HEAD.lock")
        killed(repo, lambda die: at_event("os.rename", die, when=lambda source, *_: str(source) == lock))
        assert os.path.exists(lock)
        assert recovered(repo) == ["completed the interrupted restore of feat-x"]
        assert_same(fingerprint(repo, tree.path), before)

    def test_and_the_folder_was_lost(self, repo: Repo, trashed: TrashedWorktree, tmp_path: Path) -> None:
        killed(repo, partial(after_the_rename, trashed))
        Path(trashed.path).rename(tmp_path / "aside")
        Path(trashed.path).mkdir()
        (line,) = recovered(repo)
        assert line.startswith(f"feat-x is neither in the trash nor at {trashed.path}")
        assert list(Path(trashed.path).iterdir()) == []

    @pytest.mark.parametrize("how", ["restored", "unknown"])
    def test_and_the_entry_is_settled(self, repo: Repo, trashed: TrashedWorktree, how: str) -> None:
        killed(repo, partial(at_the_rename, trashed))
        with Context(str(repo.path)) as context:
            if how == "restored":
                db.transact(context.connection, trash.mark_restored, trashed.id)
            else:
                context.connection.execute("DELETE FROM trash")
        assert recovered(repo) == []


def test_in_place_is_a_worktree_that_needs_nothing_more(repo: Repo, trashed: TrashedWorktree, tmp_path: Path) -> None:
    """The trash says so of an entry whose worktree was restored without the registry."""
    path, record = Path(trashed.path), Path(trashed.admin_dir)
    assert not restore.is_in_place(trashed)
    trash_folder.move_back(trashed, open_git(repo), head=trashed.head)
    assert restore.is_in_place(trashed)
    (record / "locked").write_text(f"imi trash {trashed.id}\n")
    assert not restore.is_in_place(trashed)
    (record / "locked").write_text("by its user\n")
    assert restore.is_in_place(trashed)
    gitfile = (path / ".git").read_text()
    (path / ".git").write_text(f"gitdir: {repo.path}/.git\n")
    assert not restore.is_in_place(trashed)
    (path / ".git").write_text(gitfile)
    Path(trashed.folder).mkdir()
    assert not restore.is_in_place(trashed)
    Path(trashed.folder).rmdir()
    shutil.copytree(path, tmp_path / "copy")
    path.rename(tmp_path / "aside")
    (tmp_path / "copy").rename(path)
    assert not restore.is_in_place(trashed)


def test_the_repository_of_an_entry_is_where_it_was_or_where_it_is_known_now(
    repo: Repo, trashed: TrashedWorktree, tmp_path: Path
) -> None:
    other = tmp_path / "elsewhere"
    shutil.copytree(repo.path, other, symlinks=True)
    with Context(str(repo.path)) as context:
        entry = entry_of(context)
        assert restore.trashed_worktree(context, entry) == trashed
        context.connection.execute("UPDATE places SET common_dir = ?", (str(other / ".git"),))
        assert restore.trashed_worktree(context, entry) == trashed, "the copy is another repository"
        repo.path.rename(tmp_path / "gone")
        assert restore.trashed_worktree(context, entry).common_dir == str(other / ".git")
        context.connection.execute("DELETE FROM places")
        assert restore.trashed_worktree(context, entry) == trashed


@pytest.mark.parametrize("state", ["unborn", "detached", "on a branch", "deleted branch"])
def test_only_a_deleted_branch_is_made_again(repo: Repo, tree: Repo, state: str) -> None:
    if state == "unborn":
        tree.git("checkout", "-q", "--orphan", "fresh")
        tree.git("rm", "-rfq", ".")
    elif state == "detached":
        tree.git("checkout", "-q", "--detach")
        tree.git("branch", "-q", "kept")
    remove(repo, "feat-x")
    if state == "deleted branch":
        repo.git("branch", "-q", "-D", "feat/x")
    outcome = undo(repo)
    assert outcome.data["branch_made_again"] == (state == "deleted branch")
    assert outcome.warnings == []


def test_a_branch_that_git_cannot_read_leaves_head_detached(repo: Repo, trashed: TrashedWorktree) -> None:
    git = open_git(repo)
    broken = replace(trashed, branch="no..branch")
    gone, why = restore.branch_state(git, broken)
    assert not gone and why is not None and why.startswith("branch no..branch cannot be restored (")
    assert restore.branch_state(git, trashed) == (False, None)
    assert restore.branch_state(git, replace(trashed, branch="feat/y")) == (True, None)
