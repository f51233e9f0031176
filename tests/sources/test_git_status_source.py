"""A worktree in which git wrote although no event told of it is asked again; the others are left alone."""

from __future__ import annotations

import asyncio
import os

from imi_monitor.model.snapshot import GitState, Key
from imi_monitor.sources.git_status_source import GitStatusSource
from tests.helpers import Repo
from tests.sources.test_changes_source import entry, until


class Board:
    """As much of one as this source speaks to."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def git(self, key: Key, state: GitState) -> None:
        self.told.append(key.worktree)

    def well(self, source: str, note: str | None = None) -> None:
        pass


def test_a_glance_finds_where_git_wrote(repo: Repo) -> None:
    feat = repo.worktree("feat")
    home = repo.path.parent
    entries = (entry(home, repo.path.name, is_main=True), entry(home, "feat"))
    index = os.path.join(entries[1].admin_dir, "index")
    assert os.path.exists(index), feat

    async def main() -> None:
        source, board = GitStatusSource(), Board()
        running = asyncio.ensure_future(source.run(board))  # type: ignore[arg-type]
        try:
            await asyncio.sleep(0)
            source.follow(entries)
            await until(lambda: len(board.told) == 2)
            source.glance(entries[0].common_dir)
            await asyncio.sleep(1.0)
            assert len(board.told) == 2, "nothing was written"
            os.utime(index)
            source.glance("/another/.git")
            await asyncio.sleep(1.0)
            assert len(board.told) == 2, "another repository was meant"
            source.glance(entries[0].common_dir)
            await until(lambda: len(board.told) == 3)
            assert board.told[2] == "feat"
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(main())


def test_the_first_round_is_over_when_each_was_asked_whatever_came_of_it(repo: Repo) -> None:
    repo.worktree("feat")
    home = repo.path.parent
    broken = entry(home, "broken")  # an empty folder: git refuses
    entries = (entry(home, repo.path.name, is_main=True), entry(home, "feat"), broken)

    class Failing(Board):
        def git_failed(self, key: Key, why: str) -> None:
            self.told.append(f"{key.worktree} failed")

    async def main() -> None:
        source, board = GitStatusSource(), Failing()
        await source.all_asked(60.0)  # nobody is there to wait for
        source.follow(entries)
        await source.all_asked(0.01)
        assert not board.told, "it is not waited for any longer than that"
        running = asyncio.ensure_future(source.run(board))  # type: ignore[arg-type]
        try:
            await source.all_asked(60.0)
            assert sorted(board.told) == ["app", "broken failed", "feat"]
            source.follow((*entries, gone := entry(home, "gone")))
            source.follow(entries)
            assert gone.key not in source._unasked
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(asyncio.wait_for(main(), 50))
