"""`imi trash`: what is listed, what a purge takes, and that nothing is ever purged early, whatever the clock says (R6)."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from imi_monitor import host
from imi_monitor.actions import recovery
from imi_monitor.actions.action import Outcome
from imi_monitor.actions.context import Context
from imi_monitor.actions.removal import grace_period
from imi_monitor.config import database_path
from imi_monitor.model import times
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.store import db, operations, trash
from tests.actions.removal_kit import act, assert_same, fingerprint, process_inside, remove, trash_root, undo
from tests.audit_events import at_event
from tests.helpers import Repo, git, imi, set_clock

DAY = 86400.0


class Machine:
    """The two clocks of a machine: one that can be set to anything, one that only runs while it is on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall = times.now()
        self.up = 1000.0
        self.boots = 1
        set_clock(monkeypatch, lambda: self.wall)
        monkeypatch.setattr(host, "uptime", lambda: self.up)
        real = host.boot()
        monkeypatch.setattr(host, "boot", lambda: f"boot-{self.boots}/" + real.partition("/")[2])
        monkeypatch.setattr(host, "is_alive", lambda *_: True)  # who lives is not what is tested here

    def runs(self, days: float) -> None:
        self.wall += timedelta(days=days)
        self.up += days * DAY

    def is_off(self, days: float) -> None:
        self.wall += timedelta(days=days)
        self.boots += 1
        self.up = 30.0

    def clock_jumps(self, days: float) -> None:
        self.wall += timedelta(days=days)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def purge(repo: Repo, *which: str, **values: Any) -> Outcome:
    return act("trash purge", cwd=repo.path, which=list(which), wait=True, **values)


def removed(repo: Repo, name: str = "feat-x") -> str:
    repo.worktree(name)
    return str(remove(repo, name).data["trash_id"])


def would(repo: Repo, **values: Any) -> Any:
    return purge(repo, **values).data["would_purge"]


class TestGrace:
    """R6."""

    def test_after_thirty_days_and_not_before(self, repo: Repo, machine: Machine) -> None:  # R6
        which = removed(repo)
        machine.runs(29.99)
        assert would(repo) == []
        machine.runs(0.02)
        assert would(repo) == [which]

    @pytest.mark.parametrize("days", [365.0, 31.0])
    def test_a_clock_that_jumped_ahead(self, repo: Repo, machine: Machine, days: float) -> None:  # R6
        removed(repo)
        machine.runs(1)
        machine.clock_jumps(days)
        assert would(repo) == []
        machine.runs(28)
        assert would(repo) == []
        assert purge(repo, yes=True).data["purged"] == []

    @pytest.mark.parametrize("days", [365.0, 31.0])
    def test_a_clock_that_jumped_ahead_while_it_was_off(self, repo: Repo, machine: Machine, days: float) -> None:
        """As with an empty battery: nothing but the time seen running can tell."""
        removed(repo)
        machine.runs(1)
        machine.is_off(days)
        assert would(repo) == []
        machine.runs(5)
        assert purge(repo, yes=True).data["purged"] == []

    @pytest.mark.parametrize("days", [-365.0, -1.0])
    def test_a_clock_that_was_set_back(self, repo: Repo, machine: Machine, days: float) -> None:
        """Removed in the future: the age is unknown, so it stays."""
        removed(repo)
        machine.clock_jumps(days)
        machine.runs(0.5)
        assert would(repo) == []
        listed = act("trash list", cwd=repo.path)
        assert "date in the future" in listed.lines[0]

    def test_removed_while_the_clock_was_wrong(self, repo: Repo, machine: Machine) -> None:
        """A year behind when it was removed, right again since."""
        machine.clock_jumps(-365)
        removed(repo)
        machine.clock_jumps(365)
        machine.runs(10)
        assert would(repo) == []

    def test_switched_off_every_night(self, repo: Repo, machine: Machine) -> None:
        """Each boot is noted when imi is called in it; the nights do not count, so it takes longer, never less."""
        which = removed(repo)
        days = 0
        while not would(repo):
            machine.is_off(0.5)
            machine.runs(0.5)
            days += 1
        assert 55 <= days <= 65
        assert would(repo) == [which]

    def test_the_time_of_a_boot_counts_once(self, repo: Repo, machine: Machine) -> None:
        removed(repo)
        for _ in range(40):
            machine.runs(0.5)
            with Context(str(repo.path)) as context:
                recovery.recover(context)
                (entry,) = trash.list_kept(context.connection)
        assert grace_period.proven_age(entry) == pytest.approx(20 * DAY)

    def test_noted_at_most_once_an_hour(self, repo: Repo, machine: Machine) -> None:
        removed(repo)
        machine.runs(1)
        with Context(str(repo.path)) as context:
            grace_period.record_running_time(context)
            before = context.connection.total_changes
            machine.runs(0.5 / 24)
            grace_period.record_running_time(context)
            assert context.connection.total_changes == before
            machine.runs(0.6 / 24)
            grace_period.record_running_time(context)
            assert context.connection.total_changes == before + 1

    def test_an_unreadable_date(self, repo: Repo, machine: Machine) -> None:
        removed(repo)
        machine.runs(400)
        connection = db.connect(database_path(None))
        connection.execute("UPDATE trash SET removed_at = 'soon'")
        connection.close()
        assert would(repo) == []


class TestWhatIsTaken:
    def test_listed_first(self, repo: Repo, machine: Machine) -> None:
        which = removed(repo)
        machine.runs(31)
        for values in ({}, {"dry_run": True}, {"yes": True, "dry_run": True}):
            outcome = purge(repo, **values)
            assert outcome.data["would_purge"] == [which] and outcome.data["purged"] == []
            assert "--yes" in outcome.lines[-1]
        assert trash_root(repo).is_dir()
        assert purge(repo, yes=True).data["purged"] == [which]  # exactly what was listed
        assert not trash_root(repo).exists()

    def test_by_name_and_by_id_however_young(self, repo: Repo) -> None:
        first, second = removed(repo, "feat-a"), removed(repo, "feat-b")
        assert would(repo) == []
        assert purge(repo, "feat-a", second, yes=True).data["purged"] == [first, second]
        with pytest.raises(Refused, match="was purged and cannot be restored"):
            undo(repo, first)

    def test_all(self, repo: Repo) -> None:
        both = {removed(repo, "feat-a"), removed(repo, "feat-b")}
        assert set(would(repo, all=True)) == both  # type: ignore[arg-type]
        assert set(purge(repo, all=True, yes=True).data["purged"]) == both  # type: ignore[call-overload]

    def test_older_than_cannot_be_less_than_the_grace(self, repo: Repo) -> None:
        removed(repo)
        with pytest.raises(UsageError, match=r"less than trash\.keep_days"):
            purge(repo, older_than=3.0)

    def test_older_than_more(self, repo: Repo, machine: Machine) -> None:
        which = removed(repo)
        machine.runs(40)
        assert would(repo, older_than=50.0) == []
        assert would(repo, older_than=35.0) == [which]

    def test_a_repository_that_is_not_there_may_only_be_unmounted(
        self, repo: Repo, tmp_path: Path, machine: Machine
    ) -> None:
        which = removed(repo)
        machine.runs(31)
        repo.path.rename(tmp_path / "unmounted")
        outcome = act("trash purge", cwd=tmp_path, yes=True)
        assert outcome.data["purged"] == [] and "does not exist: name it" in outcome.lines[-1]
        (tmp_path / "unmounted").rename(repo.path)
        undo(repo, which)

    def test_somebody_works_in_it(self, repo: Repo, machine: Machine) -> None:
        removed(repo)
        machine.runs(31)
        folder = Path(str(act("trash list", cwd=repo.path).data["entries"][0]["trash_path"]))  # type: ignore[index]
        with process_inside(folder):
            for which in ([], ["feat-x"]):  # not even when it is named
                outcome = purge(repo, *which, yes=True)
                assert outcome.data["purged"] == []
                assert "runs in it" in outcome.lines[-1]
        assert folder.is_dir()

    def test_a_lock_of_the_user_protects_it_until_it_is_named(self, repo: Repo, machine: Machine) -> None:
        tree = repo.worktree("feat-x")
        repo.git("worktree", "lock", str(tree.path))
        remove(repo, "feat-x", force=True)
        machine.runs(31)
        assert "locked by its user" in purge(repo, yes=True).lines[-1]
        assert len(purge(repo, "feat-x", yes=True).data["purged"]) == 1  # type: ignore[arg-type]

    def test_another_repository_is_left_alone_with_repo(self, repo: Repo, tmp_path: Path) -> None:
        other = Repo.create(tmp_path / "other")
        mine, theirs = removed(repo), removed(other, "feat-z")
        outcome = act("trash purge", cwd=tmp_path, repo=repo.path, which=[], all=True, yes=True, wait=True)
        assert outcome.data["purged"] == [mine]
        undo(other, theirs)


class TestWhatStays:
    def test_branches_and_other_worktrees(self, repo: Repo) -> None:
        other = repo.worktree("feat-y")
        before = fingerprint(repo, other.path)
        tree = repo.worktree("feat-x")
        tree.write("work.py", "x\n")
        sha = tree.commit("work")
        remove(repo, "feat-x")
        purge(repo, "feat-x", yes=True)
        assert repo.git("rev-parse", "feat/x") == sha
        assert not (repo.path / ".git" / "worktrees" / "feat-x").exists()
        after = fingerprint(repo, other.path)
        assert_same({**after, "refs": ""}, {**before, "refs": ""})

    @pytest.mark.parametrize("how", ["detached", "branch deleted meanwhile"])
    def test_commits_that_only_it_had(self, repo: Repo, how: str) -> None:
        tree = repo.worktree("feat-x")
        if how == "detached":
            tree.git("checkout", "-q", "--detach")
        tree.write("work.py", "x\n")
        sha = tree.commit("work")
        which = remove(repo, "feat-x", force=True).data["trash_id"]
        if how != "detached":
            repo.git("branch", "-q", "-D", "feat/x")
        outcome = purge(repo, "feat-x", yes=True)
        assert f"refs/imi/kept/{which}" in outcome.lines[0]
        repo.git("reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all")
        repo.git("gc", "-q", "--prune=now")
        assert repo.git("rev-parse", f"refs/imi/kept/{which}") == sha
        assert repo.git("show", f"{sha}:work.py") == "x"

    def test_no_ref_is_made_without_need(self, repo: Repo) -> None:
        tree = repo.worktree("feat-x")
        tree.git("checkout", "-q", "--detach", "main")
        remove(repo, "feat-x")
        purge(repo, "feat-x", yes=True)
        assert repo.git("for-each-ref", "refs/imi") == ""

    def test_an_autostash_of_a_half_done_rebase(self, repo: Repo) -> None:
        tree = repo.worktree("feat-x")
        tree.write("README.md", "theirs\n")
        tree.commit("theirs")
        repo.write("README.md", "ours\n")
        repo.commit("ours")
        tree.write("src/db.py", "put away by rebase\n")
        tree.git("rebase", "--autostash", "main", check=False)
        sha = (repo.path / ".git" / "worktrees" / "feat-x" / "rebase-merge" / "autostash").read_text().strip()
        remove(repo, "feat-x", force=True)
        purge(repo, "feat-x", yes=True)
        assert sha in repo.git("for-each-ref", "refs/imi/kept")

    def test_an_admin_directory_that_is_another_ones_by_now(self, repo: Repo) -> None:
        """Pruned by hand, and git gave its name to a new worktree: that one is not touched."""
        tree = repo.worktree("feat-x")
        remove(repo, "feat-x")
        import shutil

        shutil.rmtree(repo.path / ".git" / "worktrees" / "feat-x")
        repo.git("worktree", "add", "-q", "-b", "again", str(tree.path))
        before = fingerprint(repo, tree.path)
        purge(repo, "feat-x", yes=True)
        assert_same(fingerprint(repo, tree.path), before)

    def test_what_links_point_to(self, repo: Repo, tmp_path: Path) -> None:
        tree = repo.worktree("feat-x")
        shared = tmp_path / "node_modules"
        shared.mkdir()
        (shared / "precious").write_text("x\n")
        (tree.path / "node_modules").symlink_to(shared)
        locked = tree.path / "build" / "read-only"
        locked.mkdir(parents=True)
        (locked / "file").write_text("x\n")
        (locked / "out").symlink_to(shared)
        locked.chmod(0o500)
        remove(repo, "feat-x", force=True)
        with at_event("os.chmod", lambda: None, when=lambda path, *_: path.endswith("build/read-only")) as opened:
            purge(repo, "feat-x", yes=True)
        assert opened, "root could delete in it without"
        assert (shared / "precious").read_text() == "x\n"
        assert shared.stat().st_mode & 0o777 == 0o755
        assert not trash_root(repo).exists()


def test_in_the_background(repo: Repo) -> None:
    removed(repo)
    done = imi("trash", "purge", "feat-x", "--yes", cwd=repo.path)
    assert done.code == 0, done.err
    deadline = time.monotonic() + 20
    while trash_root(repo).exists() or _unfinished():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert "feat-x" not in git("worktree", "list", cwd=repo.path)


def test_a_dead_sweeper_is_followed_by_another(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """The background never came: what was purged is out of reach at once, and the next command deletes it."""
    removed(repo)
    with monkeypatch.context() as patched:
        patched.setattr("imi_monitor.actions.removal.purge.delete_in_background", lambda *_: None)
        act("trash purge", cwd=repo.path, which=["feat-x"], yes=True)
    aside = [entry for entry in trash_root(repo).iterdir() if entry.name.endswith(".purging")]
    assert len(aside) == 1
    assert act("trash list", cwd=repo.path).lines == ["the trash is empty"]
    with pytest.raises(Refused):
        undo(repo)
    connection = db.connect(database_path(None))
    connection.execute("UPDATE operations SET pid_started = 'given up'")
    connection.close()
    repo.git("worktree", "add", "-q", "-f", str(repo.path.parent / "feat-x"), "feat/x")
    remove(repo, "feat-x")  # a worktree of the same name need not wait for the deletion
    deadline = time.monotonic() + 20
    while aside[0].exists() or _unfinished():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    undo(repo)


def _unfinished() -> list[operations.Operation]:
    connection = db.connect(database_path(None))
    try:
        return operations.list_unfinished(connection)
    finally:
        connection.close()


def test_the_list(repo: Repo) -> None:
    which = removed(repo)
    outcome = act("trash list", cwd=repo.path)
    assert outcome.lines[0].split()[:2] == [which, "0s"]
    entry = outcome.data["entries"][0]  # type: ignore[index]
    assert entry["branch"] == "feat/x" and entry["purgeable"] is False and entry["restorable"] is True
    assert imi("trash", cwd=repo.path).out.startswith(which)
    assert imi("trash", "list", "--json", cwd=repo.path).data["entries"][0]["id"] == which


def test_restore_is_undo(repo: Repo) -> None:
    which = removed(repo)
    removed(repo, "feat-y")
    assert act("trash restore", cwd=repo.path, which=which).data["worktree_name"] == "feat-x"
    assert os.path.isdir(repo.path.parent / "feat-x")
