"""The steps of a removal between its verdict and its record: what it says, what stops it at each step, and what a failure or a
crash leaves to the next command."""

from __future__ import annotations

import errno
import json
import os
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from imi_monitor import host
from imi_monitor.actions import recovery
from imi_monitor.actions import worktree_lookup as targets
from imi_monitor.actions.context import Context
from imi_monitor.actions.removal import inspection, safe_removal, trash_note
from imi_monitor.model.errors import GitError, ImiError, Refused, RegistryError
from imi_monitor.store import claims, db, events, operations, trash, worktrees
from tests.actions.removal_kit import act, assert_same, fingerprint, note_of, register, remove, undo
from tests.audit_events import at_event, fail
from tests.helpers import Repo, imi
from tests.limits import wait_pid


@pytest.fixture
def tree(repo: Repo) -> Repo:
    return repo.worktree("feat-x")


def refusal(repo: Repo, **values: Any) -> Refused:
    with pytest.raises(Refused) as refused:
        remove(repo, "feat-x", **values)
    return refused.value


def at_the_rename(tree: Repo, deed: Callable[[], object], **options: Any) -> AbstractContextManager[list[Any]]:
    """As the folder is about to move: everything is written, nothing has moved."""
    return at_event("os.rename", deed, when=lambda source, *_: source == str(tree.path), **options)


def after_the_rename(tree: Repo, deed: Callable[[], object]) -> AbstractContextManager[list[Any]]:
    return at_event("open", deed, when=lambda *_: not tree.path.exists())


def killed(repo: Repo, moment: Callable[[Callable[[], object]], AbstractContextManager[Any]], **values: Any) -> None:
    """Remove `feat-x` in a process that is killed at this moment."""
    pid = os.fork()
    if pid == 0:
        try:
            with moment(partial(os.kill, os.getpid(), signal.SIGKILL)):
                remove(repo, "feat-x", **values)
        finally:
            os._exit(1)
    assert os.WIFSIGNALED(wait_pid(pid))


def recovered(repo: Repo) -> list[str]:
    with Context(str(repo.path)) as context:
        lines = recovery.recover(context)
        assert operations.list_unfinished(context.connection) == []
    return lines


def claim_of(repo: Repo) -> claims.Claim:
    with Context(str(repo.path)) as context:
        return claims.current(context.connection, "app", "feat-x")


class TestWhatIsSaid:
    def test_one_reason_is_the_sentence(self, repo: Repo, tree: Repo) -> None:
        tree.write("new.py", "x\n")
        refused = refusal(repo)
        assert (refused.code, refused.sentence) == (
            "untracked",
            "feat-x is not safe to remove: 1 untracked file: new.py",
        )
        assert refused.details == ("to move it to the trash anyway: imi remove feat-x --force",)

        assert refused.data == {
            "worktree_name": "feat-x",
            "repo": None,  # not registered
            "reasons": [
                {
                    "code": "untracked",
                    "sentence": "1 untracked file",
                    "count": 1,
                    "names": ["new.py"],
                    "override": "force",
                }
            ],
        }

    def test_several_are_listed_with_the_notes_below(self, repo: Repo, tree: Repo) -> None:
        tree.write("work.py", "x\n")
        tree.commit("work")
        tree.write("README.md", "changed\n")
        for number in range(6):
            tree.write(f"new-{number}", "x\n")
        refused = refusal(repo)
        assert (refused.code, refused.sentence) == ("not-safe", "feat-x is not safe to remove, for 2 reasons")
        sha = tree.git("rev-parse", "HEAD")[:10]
        assert [*refused.details] == [
            "- 1 uncommitted change: README.md",
            "- 6 untracked files: new-0, new-1, new-2, new-3, new-4 and 1 more",
            f"note: 1 commit not in main; branch feat/x is kept: {sha} work",
            "to move it to the trash anyway: imi remove feat-x --force",
        ]

    def test_all_names_of_a_few_are_shown(self, repo: Repo, tree: Repo) -> None:
        for number in range(5):
            tree.write(f"new-{number}", "x\n")
        assert refusal(repo).sentence.endswith("5 untracked files: new-0, new-1, new-2, new-3, new-4")

    def test_a_reason_without_names_has_none(self, repo: Repo, tree: Repo) -> None:
        repo.git("worktree", "lock", str(tree.path))
        refused = refusal(repo)
        assert refused.sentence.endswith("it is locked (no reason given); the lock comes back with `imi undo`")
        assert (refused.data or {})["reasons"][0]["count"] == 1  # type: ignore[index]

    def test_the_way_out_is_the_weakest_that_suffices(self, repo: Repo, tree: Repo) -> None:
        act("claim", cwd=repo.path, name="feat-x", agent="claude-1")
        assert refusal(repo).details[-1].endswith("imi remove feat-x --force --yes-really feat-x")
        (repo.path / ".git" / "worktrees" / "feat-x" / "HEAD.lock").touch()
        assert refusal(repo).details[-1] == "this cannot be overridden"


def test_the_event_names_the_worktree_and_what_was_overridden(repo: Repo, tree: Repo) -> None:
    tree.write("work.py", "x\n")
    tree.commit("work")  # only a note
    remove(repo, "feat-x")
    undo(repo)
    tree.write("new.py", "x\n")
    remove(repo, "feat-x", force=True)
    with Context(str(repo.path)) as context:
        found = [one for one in events.list_events(context.connection) if one.type == "worktree.removed"]
        (entry,) = trash.list_kept(context.connection)
    unforced, forced = (json.loads(one.data) for one in found)
    overridden = forced["overridden"]
    assert unforced["overridden"] == [] and "untracked" in overridden and overridden == entry.data["overridden"]
    assert forced == {
        "path": str(tree.path),
        "branch": "feat/x",
        "commit": repo.git("rev-parse", "feat/x"),
        "how": "removed",
        "trash_id": entry.id,
        "overridden": overridden,
    }


def test_what_changed_between_the_lookup_and_the_inspection_is_removed_as_it_is(repo: Repo, tree: Repo) -> None:
    """A dialog looks the worktree up, and an agent commits to another branch before the inspection."""
    with Context(str(repo.path)) as context:
        found = targets.find_worktree(context, "feat-x")
        tree.git("checkout", "-q", "-b", "feat/later")
        tree.write("new.py", "x\n")
        sha = tree.commit("later")
        before = fingerprint(repo, tree.path)
        trashed = safe_removal.remove_worktree(context, found, agent="me").trashed
    assert (trashed.branch, trashed.sha) == ("feat/later", sha)
    undo(repo)
    assert_same(fingerprint(repo, tree.path), before)


def test_the_note_says_when_it_was_removed(repo: Repo, tree: Repo) -> None:
    remove(repo, "feat-x")
    with Context(str(repo.path)) as context:
        (entry,) = trash.list_kept(context.connection)
    note = trash_note.read_note(str(note_of(repo, entry.id).parent))
    assert (note.state, note.process) == ("removed", None) and note.removed_at


class TestChangedSinceTheInspection:
    """The caller's inspection, as of a dialog that was open for long, is compared with what is there now."""

    @pytest.mark.parametrize(
        ("what", "code"), [("commit", "changed"), ("lock", "changed"), ("claim", "claim-changed"), (".git", "tampered")]
    )
    @pytest.mark.parametrize("registered", [True, False])
    def test_it_is_not_removed(self, repo: Repo, tree: Repo, what: str, code: str, registered: bool) -> None:
        if registered:
            act("claim", cwd=repo.path, name="feat-x", agent="me")
            act("release", cwd=repo.path, name="feat-x", agent="me")
        with Context(str(repo.path)) as context:
            found = targets.find_worktree(context, "feat-x")
            inspected = inspection.inspect_worktree(context, found, "me")
            assert (found.repo_name is not None) == registered
            if what == "commit":
                tree.git("commit", "-q", "--allow-empty", "-m", "just now")
            elif what == "lock":
                repo.git("worktree", "lock", "--reason", "mine", str(tree.path))
            elif what == "claim":
                act("claim", cwd=repo.path, name="feat-x", agent="claude-1")
            else:
                (tree.path / ".git").unlink()
            with pytest.raises(Refused) as refused:
                safe_removal.remove_worktree(context, found, agent="me", inspected=inspected)
        assert refused.value.code == code
        assert (tree.path / "README.md").exists()
        assert claim_of(repo).agent_id == ("claude-1" if what == "claim" else None)
        if what == "lock":
            assert (repo.path / ".git" / "worktrees" / "feat-x" / "locked").read_text().strip() == "mine"


def test_a_lock_laid_during_the_removal_stops_it(repo: Repo, tree: Repo) -> None:
    """Between the description of what moves and the move."""

    def lock() -> None:
        repo.git("worktree", "lock", "--reason", "mine", str(tree.path))

    with at_event("os.mkdir", lock, when=lambda path, *_: "/imi/trash/" in str(path)) as met:
        refused = refusal(repo, force=True)
    assert met and (refused.code, "git's record of feat-x changed meanwhile" in refused.sentence) == ("changed", True)
    assert (repo.path / ".git" / "worktrees" / "feat-x" / "locked").read_text().strip() == "mine"


@pytest.mark.parametrize("why", ["of a pull request", "not trusted"])
def test_pre_remove_commands_run_only_where_they_may(repo: Repo, own_home: Path, why: str) -> None:
    name = "review-123" if why == "of a pull request" else "feat-x"
    repo.worktree(name)
    settings = own_home / ".config" / "iMi" / "config.toml"
    settings.parent.mkdir(parents=True)
    mark = repo.path.parent / "it-ran"
    settings.write_text(f'[repositories.app]\npre_remove = "touch {mark}"\n')
    assert imi("list", cwd=repo.path).code == 0
    if why == "of a pull request":
        assert imi("trust", cwd=repo.path).code == 0
        act("claim", cwd=repo.path, name=name, agent="me")
    outcome = remove(repo, name, agent="me")
    assert not mark.exists()
    if why == "of a pull request":
        assert outcome.warnings == ["pre_remove commands were not run, because the worktree holds a pull request"]


class TestFailures:
    def test_a_move_that_fails_is_tried_in_no_other_place(self, repo: Repo, tree: Repo) -> None:
        before = fingerprint(repo, tree.path)
        with at_the_rename(tree, fail(errno.EACCES)) as met:
            refused = refusal(repo)
        assert met and refused.code == "move-failed" and "Permission denied" in refused.sentence
        assert_same(fingerprint(repo, tree.path), before)
        assert not (repo.path / ".git" / "imi").exists() and not (tree.path.parent / ".imi-trash").exists()

    def test_the_owner_keeps_the_claim_and_its_presence_lock(self, cluster: Repo) -> None:
        tree = cluster.worktree("feat-x")
        act("claim", cwd=cluster.path, name="feat-x", agent="claude-1")
        lock = cluster.path.parent / ".iMi" / "presence" / "feat-x.lock"

        def fails() -> None:
            lock.unlink()  # as another command does that sees the worktree reserved
            raise OSError(errno.EIO, "Input/output error")

        with at_the_rename(tree, fails) as met, pytest.raises(Refused):
            remove(cluster, "feat-x", agent="claude-1")
        assert met and "claude-1" in lock.read_text()
        with Context(str(cluster.path)) as context:
            name = targets.find_worktree(context, "feat-x").repo_name
            assert claims.current(context.connection, str(name), "feat-x").agent_id == "claude-1"

    def test_after_the_record_an_interrupt_undoes_nothing(self, cluster: Repo) -> None:
        tree = cluster.worktree("feat-x")
        before = fingerprint(cluster, tree.path)
        act("claim", cwd=cluster.path, name="feat-x", agent="claude-1")
        lock = cluster.path.parent / ".iMi" / "presence" / "feat-x.lock"

        def interrupt() -> None:
            raise KeyboardInterrupt

        at_the_lock = at_event("os.remove", interrupt, when=lambda path, *_: str(path) == str(lock))
        with at_the_lock as met, pytest.raises(KeyboardInterrupt):
            remove(cluster, "feat-x", agent="claude-1")
        assert met and not tree.path.exists() and recovered(cluster) == []
        undo(cluster)
        assert_same(fingerprint(cluster, tree.path), before)

    def test_what_cannot_be_put_back_is_left_to_the_next_command(self, repo: Repo, tree: Repo) -> None:
        tree.write("new.py", "x\n")

        def in_the_way() -> None:
            tree.path.mkdir()
            raise OSError(errno.EIO, "Input/output error")

        with after_the_rename(tree, in_the_way) as met, pytest.raises(ImiError):
            remove(repo, "feat-x", force=True)
        assert met
        tree.path.rmdir()
        (line,) = recovered(repo)
        assert line.startswith("completed the interrupted removal of feat-x")
        undo(repo)
        assert (tree.path / "new.py").exists()

    def test_a_removal_that_another_imi_has_finished_is_recorded_once(self, repo: Repo, tree: Repo) -> None:
        """It took this process for dead, and recovered."""
        before = fingerprint(repo, tree.path)

        def other() -> None:
            with Context(str(repo.path)) as context:
                (operation,) = operations.list_unfinished(context.connection)
                db.transact(context.connection, operations.abandon, operation.id)
                assert "completed" in recovery.recover(context)[0]

        admin = repo.path / ".git" / "worktrees" / "feat-x"
        head = tree.git("rev-parse", "HEAD") + "\n"

        def is_last(path: object, *_: object) -> bool:
            return path == str(admin) and (admin / "HEAD").read_text() == head

        with (
            at_event("open", other, when=is_last) as met,
            pytest.raises(RegistryError, match="another imi finished removing feat-x") as refused,
        ):
            remove(repo, "feat-x")
        assert met and refused.value.code == "registry-changed"
        assert not tree.path.exists()
        undo(repo)
        assert_same(fingerprint(repo, tree.path), before)

    def test_another_operation_on_it_goes_first(self, repo: Repo, tree: Repo) -> None:
        remove(repo, "feat-x")
        undo(repo)
        with Context(str(repo.path)) as context:
            db.transact(context.connection, operations.begin, "restore", "app", "feat-x", {})
            with pytest.raises(Refused, match="another operation on feat-x is running") as refused:
                found = targets.find_worktree(context, "feat-x")
                safe_removal.remove_worktree(context, found, agent="me")
        assert refused.value.code == "busy" and tree.path.is_dir()

    def test_a_row_that_was_closed_before_keeps_how(self, repo: Repo, tree: Repo) -> None:
        with Context(str(repo.path)) as context:
            register(context, repo, tree)
            db.transact(context.connection, worktrees.close, "app", "feat-x", "merged")
            assert claims.current(context.connection, "app", "feat-x").agent_id is None
        remove(repo, "feat-x")
        with Context(str(repo.path)) as context:
            row = worktrees.get(context.connection, "app", "feat-x")
        assert row is not None and row.closed_how == "merged"

    def test_a_row_of_another_place_stays_open(self, repo: Repo, tree: Repo) -> None:
        """Of a worktree of the same name, which git lists no longer."""
        with Context(str(repo.path)) as context:
            found = targets.find_worktree(context, "feat-x")
            register(context, repo, tree)
            context.connection.execute("UPDATE worktrees SET path = ?", (str(tree.path.with_name("elsewhere")),))
            safe_removal.remove_worktree(context, found, agent="me")
            row = worktrees.get(context.connection, "app", "feat-x")
        assert row is not None and row.active and not tree.path.exists()


class TestKilled:
    def test_before_the_move_it_is_reverted(self, repo: Repo, tree: Repo) -> None:
        tree.write("new.py", "x\n")
        before = fingerprint(repo, tree.path)
        act("claim", cwd=repo.path, name="feat-x", agent="claude-1")
        killed(repo, partial(at_the_rename, tree), force=True, agent="claude-1")
        (line,) = recovered(repo)
        assert line == "reverted an interrupted removal: feat-x is in its old place"
        assert_same(fingerprint(repo, tree.path), before)
        assert claim_of(repo).agent_id == "claude-1"
        assert not (repo.path / ".git" / "imi").exists()

    def test_after_the_move_it_is_completed(self, cluster: Repo) -> None:
        tree = cluster.worktree("feat-x")
        tree.write("new.py", "x\n")
        before = fingerprint(cluster, tree.path)
        act("claim", cwd=cluster.path, name="feat-x", agent="claude-1")
        lock = cluster.path.parent / ".iMi" / "presence" / "feat-x.lock"
        killed(cluster, partial(after_the_rename, tree), force=True, agent="claude-1")
        assert lock.exists()
        (line,) = recovered(cluster)
        with Context(str(cluster.path)) as context:
            (entry,) = trash.list_kept(context.connection)
        assert line == f"completed the interrupted removal of feat-x: `imi undo {entry.id}` restores it"
        assert not lock.exists()
        assert trash_note.read_note(str(note_of(cluster, entry.id).parent)).state == "removed"
        undo(cluster)
        assert_same(fingerprint(cluster, tree.path), before)

    def test_after_a_takeover_it_is_put_back(self, repo: Repo, tree: Repo) -> None:
        """The new owner was told that the worktree is there."""
        tree.write("new.py", "x\n")
        before = fingerprint(repo, tree.path)
        act("claim", cwd=repo.path, name="feat-x", agent="old")
        killed(repo, partial(after_the_rename, tree), force=True, agent="old")
        with Context(str(repo.path)) as context:
            standing = claims.current(context.connection, "app", "feat-x")
            wanted = claims.ClaimRequest("claude-1", host.identify_process(None))
            granted = db.transact(
                context.connection, claims.grant, "app", "feat-x", wanted, replaces=standing, ended="forced"
            )
        assert granted is not None
        (line,) = recovered(repo)
        assert line.startswith("reverted")
        assert_same(fingerprint(repo, tree.path), before)
        assert (claim_of(repo).agent_id, claim_of(repo).epoch) == ("claude-1", granted)

    def test_while_head_is_written_its_lock_goes(self, repo: Repo, tree: Repo) -> None:
        before, lock = fingerprint(repo, tree.path), repo.path / ".git" / "worktrees" / "feat-x" / "HEAD.lock"
        killed(repo, lambda die: at_event("os.rename", die, when=lambda source, *_: str(source) == str(lock)))
        assert lock.exists()
        (line,) = recovered(repo)
        assert line.startswith("completed") and not lock.exists()
        undo(repo)
        assert_same(fingerprint(repo, tree.path), before)

    @pytest.mark.parametrize("known", [True, False])
    def test_and_the_repository_moved(self, repo: Repo, tree: Repo, known: bool) -> None:
        tree.write("new.py", "x\n")
        killed(repo, partial(after_the_rename, tree), force=True)
        moved = Repo(repo.path.rename(repo.path.parent / "elsewhere"))
        with Context(str(moved.path)) as context:
            if known:
                context.connection.execute("UPDATE places SET common_dir = ?", (str(moved.path / ".git"),))
                (line,) = recovery.recover(context)
                assert line.startswith("completed")
            else:
                (line,) = recovery.recover(context)
                assert f"the repository {repo.path}/.git does not exist" in line
                (operation,) = operations.list_unfinished(context.connection)
                with pytest.raises(GitError) as refused:
                    safe_removal.recover(context, operation)
                assert refused.value.code == "repository-gone"
                return
        undo(moved)
        assert (tree.path / "new.py").exists()
