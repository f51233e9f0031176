"""Unread changes are counted only while they are wanted, and again only in worktrees that changed or were read."""

from __future__ import annotations

import asyncio
from pathlib import Path

from imi_monitor.git.worktree_review import read_review
from imi_monitor.model.review_progress import storable
from imi_monitor.model.snapshot import UnreadChanges
from imi_monitor.sources.hints import FilesChanged, RegistryChanged, RosterRead, UnreadWanted
from imi_monitor.sources.unread_source import UnreadSource
from imi_monitor.store import db, read_parts
from imi_monitor.store.async_registry import open_registry
from tests.git.git_kit import open_git
from tests.helpers import Repo
from tests.limits import LIMIT
from tests.sources.source_kit import RecordingReceiver, roster_entry, running, until


class UnreadReceiver(RecordingReceiver):
    """Keeps the newest counts."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[str, tuple[int | None, int | None]] = {}

    def update(self, **fields: object) -> None:
        found = fields["unread"]
        assert isinstance(found, tuple)
        self.counts = {one.key.worktree: (one.unread, one.total) for one in found if isinstance(one, UnreadChanges)}


def test_counts_follow_what_is_written_and_read(repo: Repo, tmp_path: Path) -> None:
    feat, _ = repo.worktree("feat-x"), repo.worktree("feat-y")
    feat.write("README.md", "hello\nmore\n")
    home, database = repo.path.parent, str(tmp_path / "iMi.db")
    entries = (roster_entry(home, "feat-x"), roster_entry(home, "feat-y"))
    key = entries[0].key

    async def main() -> None:
        async with open_registry(database) as registry:
            source, receiver = UnreadSource(registry), UnreadReceiver()
            async with running(source, receiver):
                source.handle_hint(RosterRead(entries))
                source.handle_hint(FilesChanged(key, None))
                for _ in range(20):  # everything that is ready to run does
                    await asyncio.sleep(0)
                assert source.counted == 0, "no count is wanted"
                source.handle_hint(UnreadWanted(True))
                await until(lambda: receiver.counts == {"feat-x": (1, 1), "feat-y": (0, 0)}, LIMIT)
                feat.write("new.txt", "new\n")
                source.handle_hint(FilesChanged(key, None))
                await until(lambda: receiver.counts["feat-x"] == (2, 2), LIMIT)
                assert source.counted == 3, "the other worktree was not counted again"
                one = read_review(open_git(feat), None, ()).files[0]
                parts = [(storable(one.file.path), part) for part in one.parts]
                await registry.write(read_parts.add, key.repo, key.worktree, parts)
                source.handle_hint(RegistryChanged())
                await until(lambda: receiver.counts["feat-x"] == (1, 2), LIMIT)
                source.handle_hint(RegistryChanged())
                await until(lambda: not source.is_busy, LIMIT)
                assert source.counted == 4, "nothing of it was read or changed"

    db.connect(database).close()
    asyncio.run(asyncio.wait_for(main(), 2 * LIMIT))
