"""When git status is run: after a hint, for each worktree once at the start, and never without a reason."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from imi_monitor.sources.git_status_source import GitStatusSource
from imi_monitor.sources.hints import (
    AllStatusesRead,
    FilesChanged,
    GitDirChanged,
    GitDirsUncertain,
    RefsChanged,
    RosterRead,
)
from tests.helpers import Repo
from tests.sources.source_kit import RecordingReceiver, roster_entry, running, until


def test_a_written_index_without_an_event_is_found_by_its_stamp(repo: Repo) -> None:
    repo.worktree("feat")
    entries = (roster_entry(repo.path.parent, repo.path.name, is_main=True), roster_entry(repo.path.parent, "feat"))
    main_index, index = (os.path.join(entry.admin_dir, "index") for entry in entries)

    async def main() -> None:
        source, receiver = GitStatusSource(), RecordingReceiver()
        async with running(source, receiver):
            await asyncio.sleep(0)
            source.handle_hint(RosterRead(entries))
            await until(lambda: len(receiver.git) == 2)
            source.handle_hint(GitDirsUncertain(entries[0].common_dir))  # nothing was written
            os.utime(main_index)
            source.handle_hint(GitDirsUncertain(entries[0].common_dir))
            await until(lambda: len(receiver.git) > 2)
            os.utime(index)
            source.handle_hint(GitDirsUncertain("/another/.git"))
            source.handle_hint(GitDirChanged(entries[0].admin_dir))
            await until(lambda: len(receiver.git) > 3)
            source.handle_hint(GitDirsUncertain(entries[0].common_dir))
            await until(lambda: len(receiver.git) > 4)
            assert receiver.git[2:] == ["app", "app", "feat"]

    asyncio.run(main())


def test_refs_that_are_read_while_the_source_ends_leave_no_error(repo: Repo) -> None:
    entry = roster_entry(repo.path.parent, repo.path.name, is_main=True)
    errors: list[dict[str, object]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        source, receiver = GitStatusSource(), RecordingReceiver()
        async with running(source, receiver):
            await asyncio.sleep(0)
            source.handle_hint(RosterRead((entry,)))
            await until(lambda: receiver.git)
        source._start_reading_refs(entry.common_dir)  # a timer that was due at the end
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))

    asyncio.run(main())
    assert errors == []


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


def test_what_worktrees_share_is_read_once_for_all_of_them(repo: Repo, count_git: Callable[[], int]) -> None:
    """One git process for each worktree, and four for the trunk, the distances to it and the last commits."""
    names = [f"feat-{number}" for number in range(6)]
    for number, name in enumerate(names):
        repo.worktree(name)
        for step in range(number):
            Repo(repo.path.parent / name).write(f"f{step}", "x")
            Repo(repo.path.parent / name).commit(f"{name} {step}")
    home = repo.path.parent
    entries = tuple(
        replace(roster_entry(home, name), head=Repo(home / name).git("rev-parse", "HEAD")) for name in names
    )

    async def main() -> None:
        source, receiver = GitStatusSource(), RecordingReceiver()
        async with running(source, receiver):
            await asyncio.sleep(0)
            before = count_git()
            source.handle_hint(RosterRead(entries))
            await until(lambda: len(receiver.git) == 6)
            assert count_git() - before == 6 + 4
            states = {key.worktree: tree.state for key, tree in source._trees.items()}
            for number, name in enumerate(names):
                state = states[name]
                assert state is not None and state.last_commit is not None
                assert (state.trunk_ahead, state.trunk_behind) == (number, 0)
                assert state.last_commit.subject == (f"{name} {number - 1}" if number else "second")

    asyncio.run(main())


def test_after_the_trunk_moved_all_distances_are_read_together(repo: Repo, count_git: Callable[[], int]) -> None:
    home, names = repo.path.parent, [f"feat-{number}" for number in range(5)]
    for name in names:
        made = repo.worktree(name)
        made.write("own", name)
        made.commit(name)
    entries = tuple(
        replace(roster_entry(home, name), branch=f"feat/{number}", head=Repo(home / name).git("rev-parse", "HEAD"))
        for number, name in enumerate(names)
    )

    async def main() -> None:
        source, receiver = GitStatusSource(), RecordingReceiver()
        async with running(source, receiver):
            await asyncio.sleep(0)
            source.handle_hint(RosterRead(entries))
            await until(lambda: len(receiver.git) == 5)
            repo.write("more", "x")
            repo.commit("the trunk goes on")
            before = count_git()
            source.handle_hint(RefsChanged(entries[0].common_dir))
            await until(lambda: len(receiver.git) == 10)
            assert count_git() - before == 4, "branches, trunk, and two for the distances"
            states = [tree.state for tree in source._trees.values()]
            assert [(one.trunk_ahead, one.trunk_behind) for one in states if one] == [(1, 1)] * 5

    asyncio.run(main())


def test_a_worktree_is_not_read_while_git_writes_it(repo: Repo) -> None:
    """A status in the middle of a checkout shows what is about to be written as deleted, and collisions that are none."""
    repo.worktree("feat")
    entry = roster_entry(repo.path.parent, "feat")
    lock = Path(entry.admin_dir, "index.lock")

    async def main() -> None:
        source, receiver = GitStatusSource(), RecordingReceiver()
        lock.touch()
        async with running(source, receiver):
            await asyncio.sleep(0)
            source.handle_hint(RosterRead((entry, roster_entry(repo.path.parent, repo.path.name, is_main=True))))
            await until(lambda: receiver.git == ["app"])
            await until(lambda: source._trees[entry.key].timer is not None)
            assert receiver.git == ["app"], "git has the lock"
            lock.unlink()
            await until(lambda: "feat" in receiver.git)
            lock.touch()
            os.utime(lock, (1, 1))
            source.handle_hint(FilesChanged(entry.key, None))
            await until(lambda: receiver.git.count("feat") == 2)  # a lock that was left over is not waited for

    asyncio.run(main())
