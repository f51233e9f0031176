"""When git status is run: after a hint, for each worktree once at the start, and never without a reason."""

from __future__ import annotations

import asyncio
import os

from imi_monitor.sources.git_status_source import GitStatusSource
from imi_monitor.sources.hints import AllStatusesRead, GitDirsUncertain, RosterRead
from tests.helpers import Repo
from tests.sources.source_kit import RecordingReceiver, roster_entry, running, until


def test_a_written_index_without_an_event_is_found_by_its_stamp(repo: Repo) -> None:
    repo.worktree("feat")
    entries = (roster_entry(repo.path.parent, repo.path.name, is_main=True), roster_entry(repo.path.parent, "feat"))
    index = os.path.join(entries[1].admin_dir, "index")

    async def main() -> None:
        source, receiver = GitStatusSource(), RecordingReceiver()
        async with running(source, receiver):
            await asyncio.sleep(0)
            source.handle_hint(RosterRead(entries))
            await until(lambda: len(receiver.git) == 2)
            source.handle_hint(GitDirsUncertain(entries[0].common_dir))
            await asyncio.sleep(1.0)
            assert len(receiver.git) == 2, "nothing was written"
            os.utime(index)
            source.handle_hint(GitDirsUncertain("/another/.git"))
            await asyncio.sleep(1.0)
            assert len(receiver.git) == 2, "the hint is about another repository"
            source.handle_hint(GitDirsUncertain(entries[0].common_dir))
            await until(lambda: len(receiver.git) == 3)
            assert receiver.git[2] == "feat"

    asyncio.run(main())


def test_the_first_statuses_are_complete_when_each_was_read_or_failed(repo: Repo) -> None:
    repo.worktree("feat")
    home = repo.path.parent
    broken = roster_entry(home, "broken")  # an empty folder: git refuses
    entries = (roster_entry(home, repo.path.name, is_main=True), roster_entry(home, "feat"), broken)

    async def main() -> None:
        source, receiver = GitStatusSource(), RecordingReceiver()
        async with running(source, receiver):
            await asyncio.sleep(0)
            source.handle_hint(RosterRead(()))
            assert receiver.hints == [AllStatusesRead()], "there is nothing to wait for"
            source.handle_hint(RosterRead(entries))
            assert len(receiver.hints) == 1
            await until(lambda: len(receiver.hints) == 2)
            assert sorted(receiver.git) == ["app", "broken failed", "feat"]
            source.handle_hint(RosterRead((*entries, roster_entry(home, "gone"))))
            source.handle_hint(RosterRead(entries))
            await until(lambda: len(receiver.hints) > 2)  # a worktree that left the roster is not waited for

    asyncio.run(asyncio.wait_for(main(), 50))
