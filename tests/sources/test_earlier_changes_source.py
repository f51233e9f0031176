"""What was changed before the dashboard began: uncommitted files by the time of their last write."""

from __future__ import annotations

import asyncio
import os

from imi_monitor.git.runner import Git
from imi_monitor.git.worktree_state import TrunkPosition, read_state
from imi_monitor.model.change import Change
from imi_monitor.sources.earlier_changes_source import EarlierChangesSource
from imi_monitor.sources.hints import AllStatusesRead, GitStateRead, RosterRead
from tests.helpers import Repo
from tests.sources.source_kit import RecordingReceiver, roster_entry, running, until


class EarlierReceiver(RecordingReceiver):
    earlier: tuple[Change, ...] | None = None

    def update(self, **fields: object) -> None:
        self.earlier = fields["earlier"]  # type: ignore[assignment]


def test_uncommitted_files_are_listed_by_the_time_of_their_last_write(repo: Repo) -> None:
    made = repo.worktree("feat")
    made.write("new.txt", "x")
    made.write("README.md", "changed")
    for name, at in (("new.txt", 2_000), ("README.md", 1_000)):
        os.utime(made.path / name, (at, at))
    entry = roster_entry(repo.path.parent, "feat")
    state = read_state(
        Git(entry.common_dir, entry.admin_dir, entry.path), TrunkPosition(None, None), None, None, linked=True
    )

    async def main() -> None:
        source, receiver = EarlierChangesSource(), EarlierReceiver()
        async with running(source, receiver):
            source.handle_hint(RosterRead((entry,)))
            source.handle_hint(GitStateRead(entry.key, state))
            source.handle_hint(AllStatusesRead())
            await until(lambda: receiver.earlier is not None)
        assert receiver.earlier is not None
        assert [(one.path, one.kind) for one in receiver.earlier] == [("README.md", "modified"), ("new.txt", "created")]
        assert receiver.earlier[0].at.startswith("1970-01-01T00:16:40") and receiver.earlier[0].guessed

    asyncio.run(main())
