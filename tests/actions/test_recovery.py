"""What recovery does with operations it finds: only abandoned ones, each once, and never in the way of other work."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from imi_monitor import host
from imi_monitor.actions import recovery
from imi_monitor.actions.context import Context
from imi_monitor.actions.removal import safe_removal
from imi_monitor.model.errors import GitError
from imi_monitor.store import db, operations
from tests.actions.removal_kit import act, remove, undo
from tests.helpers import Repo, imi
from tests.limits import LIMIT


def dead_process() -> host.ProcessIdentity:
    child = subprocess.Popen(["sleep", "60"])
    who = host.identify_process(child.pid)
    child.kill()
    child.wait(LIMIT)
    return who


@pytest.fixture
def recovered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The operations of removals that are recovered; the first cannot be."""
    seen: list[str] = []

    def recover(context: Context, operation: operations.Operation) -> str:
        seen.append(operation.id)
        if len(seen) == 1:
            raise GitError("git has its day off")
        db.transact(context.connection, operations.finish, operation.id)
        return "settled"

    monkeypatch.setattr(safe_removal, "recover", recover)
    return seen


def left_behind(context: Context, kind: str, data: dict[str, object], *, dead: bool = True) -> str:
    """An operation of a process that is dead by now (or of ourselves)."""
    identity = db.transact(context.connection, operations.begin, kind, "app", "feat-x", data)
    if dead:
        who = dead_process()
        context.connection.execute(
            "UPDATE operations SET pid = ?, pid_started = ? WHERE id = ?", (who.pid, who.started, identity)
        )
    return identity


def kinds(context: Context) -> list[str]:
    return [op.kind for op in operations.list_unfinished(context.connection)]


def test_of_a_living_process(repo: Repo) -> None:
    with Context(str(repo.path)) as context:
        left_behind(context, "remove", {}, dead=False)
        assert recovery.recover(context) == []
        assert kinds(context) == ["remove"]


def test_of_a_newer_imi(repo: Repo) -> None:
    with Context(str(repo.path)) as context:
        left_behind(context, "teleport", {})
        assert recovery.recover(context) == []
        assert kinds(context) == ["teleport"]


def test_one_that_cannot_be_settled_is_told_and_not_in_the_way(repo: Repo) -> None:
    with Context(str(repo.path)) as context:
        left_behind(context, "remove", {"name": "feat-x"})
        for _ in range(2):
            (line,) = recovery.recover(context)
            assert line.startswith("could not recover the interrupted remove of feat-x yet: the trash entry of feat-x")
        assert kinds(context) == ["remove"]
    repo.worktree("feat-y")
    remove(repo, "feat-y")
    undo(repo)
    assert imi("list", cwd=repo.path).code == 0


def test_a_repository_that_is_gone(repo: Repo, tmp_path: Path) -> None:
    repo.worktree("feat-x")
    remove(repo, "feat-x")
    with Context(str(repo.path)) as context:
        data = context.connection.execute("SELECT data FROM trash").fetchone()[0]
        import json

        left_behind(context, "remove", {**json.loads(data), "epoch": 1, "before": {}})
        repo.path.rename(tmp_path / "gone")
        (line,) = recovery.recover(context)
    assert "does not exist" in line


def test_a_failing_recovery_does_not_stop_the_next_one(repo: Repo, recovered: list[str]) -> None:
    """An error in one does not keep the next from being settled."""
    with Context(str(repo.path)) as context:
        both = {left_behind(context, "remove", {}), left_behind(context, "remove", {})}
        lines = recovery.recover(context)
        assert set(recovered) == both
        assert "git has its day off" in lines[0] and lines[1] == "settled"


def test_adopted_by_exactly_one(repo: Repo) -> None:
    with Context(str(repo.path)) as context:
        left_behind(context, "remove", {})
        (operation,) = operations.list_unfinished(context.connection)
        assert db.transact(context.connection, operations.adopt, operation)
        assert not db.transact(context.connection, operations.adopt, operation)
        (mine,) = operations.list_unfinished(context.connection)
        assert not mine.abandoned


def test_another_recovery_was_faster(repo: Repo, monkeypatch: pytest.MonkeyPatch, recovered: list[str]) -> None:
    with Context(str(repo.path)) as context:
        left_behind(context, "remove", {})
        stale = operations.list_unfinished(context.connection)
        assert db.transact(context.connection, operations.adopt, stale[0])
        monkeypatch.setattr(operations, "list_unfinished", lambda _: stale)  # read before the other adopted it
        assert recovery.recover(context) == [] == recovered


def test_given_up_counts_as_abandoned(repo: Repo) -> None:
    with Context(str(repo.path)) as context:
        identity = left_behind(context, "remove", {}, dead=False)
        db.transact(context.connection, operations.abandon, identity)
        (operation,) = operations.list_unfinished(context.connection)
        assert operation.abandoned


def test_every_kind_that_is_written_can_be_recovered() -> None:
    """The table names a module with `recover` for each kind."""
    from importlib import import_module

    for module in recovery.MODULES.values():
        found: Any = import_module(module)
        assert callable(found.recover), module


def test_the_next_command_reports_a_recovery(repo: Repo) -> None:
    tree = repo.worktree("feat-x")
    tree.write("README.md", "changed\n")
    from tests.actions.test_removal_crash import step

    for number in range(1, 60):  # the first step at which the folder has moved and the registry does not know
        assert step(repo, number, "kill", "remove") != 0
        if not tree.path.exists():
            break
        with Context(str(repo.path)) as context:
            recovery.recover(context)
    done = imi("trash", "list", cwd=repo.path)
    assert "completed the interrupted removal of feat-x: `imi undo" in done.err
    assert "feat-x" in done.out
    act("undo", cwd=repo.path)
    assert (tree.path / "README.md").read_text() == "changed\n"
