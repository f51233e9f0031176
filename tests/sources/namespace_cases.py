"""Cases that need mounts or small limits of the kernel: each runs in a process with namespaces of its own.

`unshare --map-root-user --mount python -m tests.sources.namespace_cases NAME FOLDER`; FOLDER holds the repository `app` with
the worktrees feat-a and feat-b.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from imi_monitor import engine, paths
from imi_monitor.engine import Engine
from imi_monitor.model.snapshot import Snapshot, Worktree
from tests.limits import LIMIT

INSTANCES, WATCHES = "max_inotify_instances", "max_inotify_watches"


@asynccontextmanager
async def watched(folder: Path, mode: str) -> AsyncIterator[Engine]:
    async with engine.open_engine(paths.default_database(), [str(folder / "app" / ".git")]) as made:
        await until(made, lambda s: s.complete and all(one.watched == mode for one in s.worktrees), "mode")
        yield made


async def until(made: Engine, true: Callable[[Snapshot], object], what: str, seconds: float = 60) -> Snapshot:
    try:
        async with asyncio.timeout(seconds):
            async for snapshot in made.snapshots():
                if true(snapshot):
                    return snapshot
    except TimeoutError:
        modes = [(one.key.worktree, one.watched, one.watched_why) for one in made.snapshot.worktrees]
        sys.exit(f"did not happen within {seconds:g} s: {what}; {modes}; {made.snapshot.changes}")
    raise AssertionError


async def until_seen(made: Engine, worktree: str, path: str, seconds: float = 60) -> Snapshot:
    def seen(snapshot: Snapshot) -> bool:
        return any((one.worktree, one.path) == (worktree, path) for one in snapshot.changes)

    return await until(made, seen, f"{path} in {worktree}", seconds)


async def write_until_seen(made: Engine, worktree: str, path: str) -> None:
    """Write a file again and again: what reads a folder from time to time sees what changes after its first reading."""
    file = Path(tree(made.snapshot, worktree).path, path)
    seen = asyncio.create_task(until_seen(made, worktree, path))
    while not seen.done():
        file.write_text(f"{asyncio.get_running_loop().time()}")
        await asyncio.wait([seen], timeout=0.2)
    await seen


async def until_status(made: Engine, worktree: str, count: int, seconds: float = 60) -> Snapshot:
    """Wait until git's status of the worktree counts so many untracked files."""

    def counted(snapshot: Snapshot) -> bool:
        state = tree(snapshot, worktree).git
        return state is not None and state.untracked == count

    return await until(made, counted, f"{count} untracked in {worktree}", seconds)


def tree(snapshot: Snapshot, name: str) -> Worktree:
    return next(one for one in snapshot.worktrees if one.key.worktree == name)


def limit(name: str, value: int) -> None:
    Path("/proc/sys/user", name).write_text(str(value))


async def run(*argv: str) -> None:
    process = await asyncio.create_subprocess_exec(*argv)
    assert await asyncio.wait_for(process.wait(), LIMIT) == 0, argv


async def a_file_system_mounted_and_unmounted_while_imi_runs(folder: Path) -> None:
    place = folder / "feat-a" / "data"
    place.mkdir()
    async with watched(folder, "live") as made:
        await run("mount", "-t", "tmpfs", "none", str(place))
        (place / "before").write_text("x")
        await until_status(made, "feat-a", 1)
        (place / "deep" / "er").mkdir(parents=True)
        (place / "deep" / "er" / "file").write_text("x")
        await until_seen(made, "feat-a", "data/deep/er/file")
        (place / "direct").write_text("x")
        await until_seen(made, "feat-a", "data/direct")
        await run("umount", str(place))
        await until_status(made, "feat-a", 0)
        (place / "below").write_text("x")
        await until_seen(made, "feat-a", "data/below")


async def a_file_system_that_was_mounted_before(folder: Path) -> None:
    place = folder / "feat-a" / "data"
    place.mkdir()
    subprocess.run(["/bin/mount", "-t", "tmpfs", "none", str(place)], check=True)
    async with watched(folder, "live") as made:
        (place / "file").write_text("x")
        await until_seen(made, "feat-a", "data/file")


async def one_folder_mounted_in_two_worktrees(folder: Path) -> None:
    shared = folder / "shared"
    shared.mkdir()
    for name in ("feat-a", "feat-b"):
        (folder / name / "data").mkdir()
    async with watched(folder, "live") as made:
        for name in ("feat-a", "feat-b"):
            await run("mount", "--bind", str(shared), str(folder / name / "data"))
        for name in ("feat-a", "feat-b"):
            await write_until_seen(made, name, "data/file")
        await run("umount", str(folder / "feat-b" / "data"))
        await write_until_seen(made, "feat-a", "data/again")


async def no_instance_of_inotify_is_left(folder: Path) -> None:
    limit(INSTANCES, 0)
    async with watched(folder, "polling") as made:
        assert all("inotify" in (one.watched_why or "") for one in made.snapshot.worktrees), made.snapshot.worktrees
        await write_until_seen(made, "feat-a", "file")


async def fewer_watches_than_folders(folder: Path) -> None:
    for name in ("feat-a", "feat-b"):
        for number in range(30):
            (folder / name / f"d{number}").mkdir()
    limit(WATCHES, 60)
    async with engine.open_engine(paths.default_database(), [str(folder / "app" / ".git")]) as made:
        await until(
            made,
            lambda s: s.complete and {one.watched for one in s.worktrees} == {"live", "polling"},
            "live and polling",
        )
        polled = next(one for one in made.snapshot.worktrees if one.watched == "polling")
        assert "limit" in (polled.watched_why or ""), polled
        for name in ("feat-a", "feat-b"):
            await write_until_seen(made, name, "d29/file")
        settled = await until(made, lambda s: all(one.watched in ("live", "polling") for one in s.worktrees), "a mode")
        assert settled.complete


async def an_unreadable_folder_hides_no_other(folder: Path) -> None:
    """Without the capability to read everything, which the user of this namespace has."""
    for number in range(20):
        (folder / "feat-a" / f"d{number}" / "deep").mkdir(parents=True)
        (folder / "feat-a" / f"d{number}" / "closed").mkdir(0)
    try:
        async with watched(folder, "live") as made:
            for number in range(20):
                (folder / "feat-a" / f"d{number}" / "deep" / "file").write_text("x")
                await until_seen(made, "feat-a", f"d{number}/deep/file")
    finally:
        for number in range(20):
            (folder / "feat-a" / f"d{number}" / "closed").chmod(0o700)


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]](Path(sys.argv[2])))
