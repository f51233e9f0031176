"""What was changed before the dashboard began: uncommitted files by the time of their last write."""

from __future__ import annotations

import asyncio
import os

from imi_monitor.git.runner import Git
from imi_monitor.git.worktree_state import TrunkPosition, read_state
from imi_monitor.model.change import Change
from imi_monitor.model.snapshot import FileState, GitState
from imi_monitor.sources.earlier_changes_source import EarlierChangesSource
from imi_monitor.sources.hints import AllStatusesRead, FilesChanged, GitStateRead, RosterRead
from tests.helpers import Repo
from tests.sources.source_kit import RecordingReceiver, roster_entry, running, until


class EarlierReceiver(RecordingReceiver):
    earlier: tuple[Change, ...] | None = None
    updates = 0

    def set_earlier_changes(self, changes: tuple[Change, ...]) -> None:
        self.earlier = changes
        self.updates += 1


class CountedState:
    """A git state that counts how often its files are read."""

    def __init__(self, state: GitState) -> None:
        self._state = state
        self.reads = 0

    @property
    def files(self) -> tuple[FileState, ...]:
        self.reads += 1
        return self._state.files


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


def test_a_file_written_before_its_folder_was_followed_is_listed(repo: Repo) -> None:
    made = repo.worktree("feat")
    entry = roster_entry(repo.path.parent, "feat")
    git, trunk = Git(entry.common_dir, entry.admin_dir, entry.path), TrunkPosition(None, None)
    before = read_state(git, trunk, None, None, linked=True)
    made.write("new.txt", "x")
    after = read_state(git, trunk, None, None, linked=True)

    async def main() -> None:
        source, receiver = EarlierChangesSource(), EarlierReceiver()
        async with running(source, receiver):
            for hint in (RosterRead((entry,)), GitStateRead(entry.key, before), AllStatusesRead()):
                source.handle_hint(hint)
            await until(lambda: receiver.earlier == ())
            source.handle_hint(GitStateRead(entry.key, after))
            source.handle_hint(FilesChanged(entry.key, None))  # the watch begins
            source.handle_hint(GitStateRead(entry.key, before))  # a reading that was running
            source.handle_hint(GitStateRead(entry.key, after))
            await until(lambda: receiver.earlier)
        assert receiver.earlier is not None and [one.path for one in receiver.earlier] == ["new.txt"]

    asyncio.run(main())


def test_only_a_difference_is_reported_and_a_removed_worktree_has_no_changes(repo: Repo) -> None:
    entries, states = [], []
    for name in ("feat-a", "feat-b"):
        repo.worktree(name).write("new.txt", "x")
        entries.append(roster_entry(repo.path.parent, name))
        git = Git(entries[-1].common_dir, entries[-1].admin_dir, entries[-1].path)
        states.append(read_state(git, TrunkPosition(None, None), None, None, linked=True))
    (one, other), (state, other_state) = entries, states

    async def main() -> None:
        source, receiver = EarlierChangesSource(), EarlierReceiver()
        async with running(source, receiver):
            source.handle_hint(RosterRead((one, other)))
            for entry, read in ((one, state), (other, other_state)):
                source.handle_hint(GitStateRead(entry.key, read))
            source.handle_hint(AllStatusesRead())
            await until(lambda: receiver.updates == 1)
            assert {change.worktree for change in receiver.earlier or ()} == {"feat-a", "feat-b"}
            again = CountedState(state)
            source.handle_hint(FilesChanged(one.key, None))  # its watch begins, and nothing has changed
            source.handle_hint(GitStateRead(one.key, again))  # type: ignore[arg-type]
            await until(lambda: again.reads == 1)
            source.handle_hint(RosterRead((one,)))
            await until(lambda: len(receiver.earlier or ()) == 1)
            assert receiver.updates == 2, "a reading that is the same was reported as well"
            assert {change.worktree for change in receiver.earlier or ()} == {"feat-a"}

    asyncio.run(main())
