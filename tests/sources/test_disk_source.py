"""Disk use is measured only while it is wanted, again after changes, and is unknown where it cannot be measured."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from imi_monitor import disk_usage
from imi_monitor.git import spawn
from imi_monitor.git.spawn import FinishedProcess
from imi_monitor.model.snapshot import DiskUse
from imi_monitor.sources import disk_source
from imi_monitor.sources.disk_source import DiskSource
from imi_monitor.sources.hints import DiskUseWanted, FilesChanged, RefreshRequested, RosterRead
from imi_monitor.sources.source import RosterEntry
from tests.helpers import Repo, imi
from tests.sources.source_kit import RecordingReceiver, roster_entry, running, until

LIMIT = 60.0


class DiskReceiver(RecordingReceiver):
    """Keeps the newest sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.uses: dict[str, DiskUse] = {}

    def update(self, **fields: object) -> None:
        uses = fields["disk"]
        assert isinstance(uses, tuple)
        self.uses = {use.key.worktree: use for use in uses}


def run(play: Coroutine[object, object, None]) -> None:
    asyncio.run(asyncio.wait_for(play, 2 * LIMIT))


@contextmanager
def measuring_by(code: str) -> Iterator[None]:
    """Let this Python code stand for the program that measures."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk_usage, "MEASURE", ("-c", code))
        yield


def entries_of(repo: Repo, *names: str) -> tuple[RosterEntry, ...]:
    home = repo.path.parent
    return (roster_entry(home, repo.path.name, is_main=True), *(roster_entry(home, name) for name in names))


def test_each_worktree_uses_what_imi_disk_says(repo: Repo) -> None:
    tree = repo.worktree("feat-one")
    tree.write("big.bin", "x" * 3_000_000)
    repo.git("worktree", "add", "-q", "-b", "feat/inner", str(tree.path / "inner"))
    Repo(tree.path / "inner").write("huge.bin", "x" * 5_000_000)
    inner = replace(roster_entry(repo.path.parent, "inner"), path=str(tree.path / "inner"))
    printed = {one["worktree_name"]: one["bytes"] for one in imi("disk", "--json", cwd=repo.path).data["entries"]}

    async def main() -> None:
        source, receiver = DiskSource(), DiskReceiver()
        async with running(source, receiver):
            source.handle_hint(RosterRead((*entries_of(repo, "feat-one"), inner)))
            source.handle_hint(DiskUseWanted(True))
            await until(lambda: len(receiver.uses) == 3, LIMIT)
            assert {name: use.size for name, use in receiver.uses.items()} == {
                name: printed[name] for name in ("app", "feat-one", "inner")
            }

    run(main())


def test_nothing_is_measured_until_it_is_wanted_and_it_stops_when_it_no_longer_is(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.worktree("feat-one")
    started: list[int] = []
    ended: list[FinishedProcess] = []

    def spawn_recorded(*args: Any, **options: Any) -> FinishedProcess:
        started.append(1)
        ended.append(spawn.spawn(*args, **options))
        return ended[-1]

    async def main() -> None:
        source, receiver = DiskSource(grace=0.0), DiskReceiver()
        monkeypatch.setattr(disk_source, "spawn", SimpleNamespace(spawn=spawn_recorded))
        async with running(source, receiver):
            source.handle_hint(RosterRead(entries_of(repo, "feat-one")))
            for _ in range(20):  # everything that is ready to run does
                await asyncio.sleep(0)
            assert not started
            with measuring_by("import time; time.sleep(3600)"):
                source.handle_hint(DiskUseWanted(True))
                await until(lambda: started, LIMIT)
                source.handle_hint(DiskUseWanted(False))
                await until(lambda: ended, LIMIT)
            assert ended[0].cancelled and not receiver.failures and not receiver.uses
            source.handle_hint(DiskUseWanted(True))
            await until(lambda: len(receiver.uses) == 2, LIMIT)

    run(main())


def test_a_changed_worktree_is_measured_again_after_the_pause_and_all_after_a_refresh(repo: Repo) -> None:
    tree, other = repo.worktree("feat-one"), repo.worktree("feat-two")

    async def main() -> None:
        source, receiver = DiskSource(grace=0.0, shortest_pause=0.0, time_share=1.0), DiskReceiver()
        async with running(source, receiver):
            source.handle_hint(RosterRead(entries_of(repo, "feat-one", "feat-two")))
            source.handle_hint(DiskUseWanted(True))
            await until(lambda: source.measured == 3, LIMIT)
            other.write("more.bin", "x" * 1_000_000)
            source.handle_hint(RefreshRequested())
            await until(lambda: source.measured == 6, LIMIT)
            before = receiver.uses
            assert before["feat-two"].size > 1_000_000
            tree.write("more.bin", "x" * 2_000_000)
            source.handle_hint(FilesChanged(entries_of(repo, "feat-one")[1].key, None))
            await until(lambda: source.measured == 7, LIMIT)
            assert receiver.uses["feat-one"].size >= before["feat-one"].size + 2_000_000
            assert receiver.uses["feat-two"] is before["feat-two"], "it did not change"
            source.handle_hint(RosterRead(entries_of(repo, "feat-two")))
            source.handle_hint(RefreshRequested())
            await until(lambda: source.measured == 9, LIMIT)
            assert set(receiver.uses) == {"app", "feat-two"}

    run(main())


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every folder")
def test_a_folder_that_cannot_be_read_makes_it_more(repo: Repo) -> None:
    closed = repo.path / "closed"
    closed.mkdir()
    closed.chmod(0)

    async def main() -> None:
        source, receiver = DiskSource(), DiskReceiver()
        async with running(source, receiver):
            source.handle_hint(RosterRead(entries_of(repo)))
            source.handle_hint(DiskUseWanted(True))
            await until(lambda: receiver.uses, LIMIT)
            assert receiver.uses["app"].unreadable == 1

    run(main())


def test_a_folder_that_is_gone_or_a_process_that_fails_is_unknown(repo: Repo, tmp_path: Path) -> None:
    gone = replace(entries_of(repo, "gone")[1], path=str(tmp_path / "nothing \udcff here"))

    async def main() -> None:
        source, receiver = DiskSource(grace=0.0), DiskReceiver()
        async with running(source, receiver):
            source.handle_hint(RosterRead((gone,)))
            source.handle_hint(DiskUseWanted(True))
            await until(lambda: receiver.uses, LIMIT)
            assert receiver.uses["gone"].size is None
            with measuring_by("raise SystemExit('no room for it')"):
                source.handle_hint(RefreshRequested())
                await until(lambda: receiver.failures, LIMIT)
            assert receiver.failures == {"disk": "no room for it"}
            source.handle_hint(RefreshRequested())
            await until(lambda: not receiver.failures, LIMIT)

    run(main())
