"""Commits: each is one event with the owner of that moment, also those that were made while nothing looked."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from imi_monitor.git.reflog import ReflogEntry, read_reflog
from imi_monitor.git.runner import Git, git_version
from imi_monitor.model import times
from imi_monitor.model.snapshot import Key
from imi_monitor.sources.commits_source import CommitsSource, commits_behind
from imi_monitor.sources.hints import GitStateRead, RosterRead
from imi_monitor.sources.source import RosterEntry
from imi_monitor.store import db, events
from imi_monitor.store.async_registry import open_registry
from imi_monitor.store.commit_records import CommitPosition
from tests.helpers import Repo, imi
from tests.limits import LIMIT
from tests.ui.snapshot_builder import state

KEY = Key("here", "app", "feat-x")


def registry_path() -> str:
    return str(Path(os.environ["HOME"]) / ".config" / "iMi" / "iMi.db")


@pytest.fixture
def tree(tmp_path: Path) -> Repo:
    """A worktree that imi made."""
    repo = Repo.create(tmp_path / "app")
    assert imi("add", "feat", "x", cwd=repo.path).code == 0
    return Repo(tmp_path / "app.worktrees" / "feat-x")


def admin_dir(tree: Repo) -> str:
    return tree.git("rev-parse", "--absolute-git-dir").strip()


def observe(tree: Repo) -> None:
    """What the engine does when it has read the worktree: a new process each time."""
    common = tree.git("rev-parse", "--path-format=absolute", "--git-common-dir").strip()
    entry = RosterEntry(
        KEY, str(tree.path), admin_dir(tree), common, "feat", "feat/x", None, False, False, None, None, False
    )
    head = tree.git("rev-parse", "HEAD").strip()

    async def work() -> None:
        async with open_registry(registry_path()) as registry:
            source = CommitsSource(registry)
            source.handle_hint(RosterRead((entry,)))
            source.handle_hint(GitStateRead(KEY, state(head=head, branch="feat/x")))
            task = asyncio.create_task(source.run(None))  # type: ignore[arg-type]
            async with asyncio.timeout(LIMIT):
                while source.pending:
                    await asyncio.sleep(0.01)
            task.cancel()

    asyncio.run(work())


def recorded() -> list[tuple[str | None, str | None]]:
    with closing(db.connect(registry_path())) as connection:
        found = events.list_events(connection, kinds=("worktree.commit",))
        return [(one.agent_id, str(events.data_of(one)["subject"])) for one in found]


def test_each_commit_is_recorded_once_with_its_holder(tree: Repo) -> None:  # S2.58
    tree.git("commit", "-q", "--allow-empty", "-m", "by nobody")
    observe(tree)
    assert imi("claim", "feat-x", "--agent", "claude-1", cwd=tree.path).code == 0
    tree.git("commit", "-q", "--allow-empty", "-m", "first")
    tree.git("commit", "-q", "--allow-empty", "-m", "second, while nothing looked; password=hunter2supersecret")
    observe(tree)
    observe(tree)
    tree.git("checkout", "-q", "HEAD~1")
    tree.git("checkout", "-q", "feat/x")
    observe(tree)
    assert recorded() == [
        (None, "by nobody"),
        ("claude-1", "first"),
        ("claude-1", "second, while nothing looked; password=***"),
    ]
    (tree.path / "f").write_text("x")
    tree.git("add", "f")
    assert imi("commit", "feat-x", "-m", "by imi", "--agent", "claude-1", cwd=tree.path).code == 0
    observe(tree)
    assert recorded()[3:] == [("claude-1", "by imi")]
    assert "claude-1 committed in feat-x: by imi" in imi("events", cwd=tree.path).out


def test_commits_of_a_repository_with_a_reftable_are_recorded(tmp_path: Path) -> None:
    if git_version() < (2, 45, 0):
        pytest.skip("git below 2.45 has no reftable")
    repo = Repo(tmp_path / "app")
    repo.path.mkdir()
    repo.git("init", "-q", "--ref-format=reftable")
    repo.git("commit", "-q", "--allow-empty", "-m", "begin")
    tree = repo.worktree("feat-x")
    assert imi("claim", "feat-x", "--agent", "claude-1", cwd=tree.path).code == 0
    tree.git("commit", "-q", "--allow-empty", "-m", "in a table")
    observe(tree)
    tree.git("commit", "-q", "--allow-empty", "-m", "again")
    observe(tree)
    observe(tree)
    assert recorded() == [("claude-1", "in a table"), ("claude-1", "again")]


def entry(number: int, what: str) -> ReflogEntry:
    return ReflogEntry(f"{number:040x}", 1_700_000_000 + number, what)


def shas(found: Sequence[object]) -> list[int]:
    return [int(one.sha, 16) for one in found]  # type: ignore[attr-defined]


def test_only_what_was_made_here_is_a_commit() -> None:
    kinds = {
        "commit: one": True,
        "commit (amend): one": True,
        "commit (merge): one": True,
        "cherry-pick: one": True,
        "revert: one": True,
        "merge feat/y: Merge made by the 'ort' strategy.": True,
        "merge origin/main: Fast-forward": False,
        "checkout: moving from a to b": False,
        "reset: moving to HEAD~1": False,
        "pull: Fast-forward": False,
        "rebase (finish): returning to refs/heads/x": False,
    }
    assert {what: entry(1, what).is_new_commit for what in kinds} == kinds


def test_a_shortened_reflog_is_read_from_its_moment() -> None:
    log = [entry(number, "commit: x") for number in range(1, 10)]
    never = "2000-01-01T00:00:00"
    found, position = commits_behind(log, None, never)
    assert shas(found) == list(range(1, 10)) and position.head == log[-1].new
    moment = times.stamp(datetime.fromtimestamp(log[5].at, UTC))
    assert shas(commits_behind(log, CommitPosition(log[5].new, moment), never)[0]) == [7, 8, 9]
    assert shas(commits_behind(log[7:], CommitPosition(log[5].new, moment), never)[0]) == [8, 9]
    assert commits_behind(log, None, "2999-01-01T00:00:00")[0] == [], "what is older than imi's knowledge is history"


def test_a_reflog_that_is_odd_harms_nothing(tmp_path: Path) -> None:
    git = Git(str(tmp_path))
    assert read_reflog(git) == []
    logs = tmp_path / "logs"
    logs.mkdir()
    good = f"{'0' * 40} {'a' * 40} A B <a@b> 1700000000 +0000\tcommit: ok\n"
    (logs / "HEAD").write_bytes(b"garbage\n" + b"\xff\xfe x y z\n" + good.encode() + good.encode()[:60])
    assert [one.subject for one in read_reflog(git)] == ["ok"]
    (logs / "HEAD").unlink()
    os.mkfifo(logs / "HEAD")
    assert read_reflog(git) == []
    (tmp_path / "reftable").mkdir()
    assert read_reflog(git) == [], "git cannot read it either"
