"""New and removed shared files are linked and unlinked everywhere while a dashboard or `imi watch` runs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from imi_monitor import engine, paths
from imi_monitor.actions.sync import shared_files
from tests.helpers import ROOT, Repo, imi, imi_argv
from tests.limits import LIMIT, read_line
from tests.test_engine import WATCHERS, live, run, until


def within(seconds: float, true: Callable[[], object]) -> float:
    """Return after how many seconds the condition holds; it must within `seconds`."""
    begun = time.monotonic()
    while not true():
        assert time.monotonic() - begun < seconds
        time.sleep(0.01)
    return time.monotonic() - begun


async def soon(true: Callable[[], object], seconds: float = LIMIT) -> None:
    await asyncio.to_thread(within, seconds, true)


def synced(repo: Repo) -> list[tuple[str, int, int]]:
    """Worktree, links made and removed of each event."""
    lines = imi("events", "--json", cwd=repo.path).out.splitlines()
    found = [one for one in map(json.loads, lines) if one.get("type") == "worktree.synced"]
    return sorted((one["worktree_name"], one["data"]["linked"], one["data"]["removed"]) for one in found)


def is_linked(name: str, *trees: Repo) -> bool:
    return all(os.path.islink(tree.path / name) and (tree.path / name).is_file() for tree in trees)


@pytest.fixture(params=WATCHERS)
def watcher(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("IMI_WATCHER", request.param)
    return str(request.param)


def test_a_new_file_is_linked_and_a_removed_one_unlinked_within_a_second(cluster: Repo, watcher: str) -> None:  # S2.31
    feat, shared = cluster.worktree("feat-a"), cluster.path.parent / "sync" / "repo"

    async def work() -> None:
        async with live(cluster) as made:
            (shared / "settings.local").write_text("A=1\n")
            await soon(lambda: is_linked("settings.local", cluster, feat))
            await until(made, lambda s: sum(event.type == "worktree.synced" for event in s.events) == 2)
            (shared / "deep").mkdir()
            (shared / "deep" / "inner.json").write_text("{}")
            await soon(lambda: is_linked("deep/inner.json", cluster, feat))
            (shared / "settings.local").unlink()
            await soon(lambda: not any(os.path.lexists(one.path / "settings.local") for one in (cluster, feat)))

    run(work)
    assert not feat.git("status", "--porcelain")
    told = synced(cluster)
    assert sum(one[1] for one in told) == 4 and sum(one[2] for one in told) == 2, told


def test_a_sync_folder_that_is_made_later_is_followed(cluster: Repo) -> None:
    feat, home = cluster.worktree("feat-a"), cluster.path.parent
    (home / "sync" / "repo").rmdir()
    (home / "sync").rmdir()

    async def work() -> None:
        async with live(cluster):
            (home / "sync" / "repo").mkdir(parents=True)
            (home / "sync" / "repo" / "late.env").write_text("x")
            await soon(lambda: is_linked("late.env", cluster, feat))

    run(work)


def test_beside_the_worktrees_of_a_plain_repository(repo: Repo) -> None:
    async def work() -> None:
        async with live(repo) as made:
            assert (await asyncio.to_thread(imi, "feat", "one", cwd=repo.path)).code == 0
            home = repo.path.parent / "app.worktrees"
            await until(made, lambda s: any(w.key.worktree == "feat-one" and w.watched == "live" for w in s.worktrees))
            (home / "sync" / "repo").mkdir(parents=True)
            (home / "sync" / "repo" / "tool.cfg").write_text("x")
            await soon(lambda: is_linked("tool.cfg", repo, Repo(home / "feat-one")))

    run(work)


def test_a_file_in_the_way_stays_and_is_reported(cluster: Repo) -> None:
    feat = cluster.worktree("feat-a")
    feat.write("own.txt", "mine\n")

    async def work() -> None:
        async with live(cluster) as made:
            (cluster.path.parent / "sync" / "repo" / "own.txt").write_text("shared\n")
            await soon(lambda: is_linked("own.txt", cluster))
            seen = await until(made, lambda s: any(one.source == "sync" and one.failure for one in s.health))
            failure = next(one.failure for one in seen.health if one.source == "sync")
            assert failure is not None and failure.why == (
                "own.txt: a real file of that name is in the way: move it to sync/ or delete it in feat-a: "
                "see `imi sync --check`"
            )

    run(work)
    assert (feat.path / "own.txt").read_text() == "mine\n" and not (feat.path / "own.txt").is_symlink()


def test_a_sync_that_is_refused_is_a_failure_until_it_works(cluster: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_files, "MOST_FILES", 1)
    shared = cluster.path.parent / "sync" / "repo"

    async def work() -> None:
        async with live(cluster) as made:
            (shared / "one.env").write_text("x")
            await soon(lambda: is_linked("one.env", cluster))
            (shared / "two.env").write_text("x")
            seen = await until(made, lambda s: any(one.source == "sync" and one.failure for one in s.health))
            failure = next(one.failure for one in seen.health if one.source == "sync")
            assert failure is not None and "holds more than 1 files" in failure.why
            monkeypatch.undo()  # the next retry works, without an event
            await until(made, lambda s: any(one.source == "sync" and not one.failure for one in s.health))
            assert is_linked("two.env", cluster)

    run(work)


def test_neither_a_start_nor_an_edit_nor_a_switched_off_sync_links(cluster: Repo) -> None:
    shared = cluster.path.parent / "sync" / "repo"
    (shared / "before.env").write_text("x")

    async def work() -> None:
        async with live(cluster) as made:
            (shared / "before.env").write_text("y")
            await until(made, lambda s: any(change.worktree == "sync" for change in s.changes))
            await asyncio.sleep(0.5)
            assert not os.path.lexists(cluster.path / "before.env")
            (cluster.path.parent / ".iMi" / "config.toml").write_text("[sync_settings]\nenabled = false\n")
            (shared / "new.env").write_text("x")
            await until(made, lambda s: any(change.path == "repo/new.env" for change in s.changes))
            await asyncio.sleep(0.5)

    run(work)
    assert not any(os.path.lexists(cluster.path / name) for name in ("before.env", "new.env"))


def test_a_read_only_dashboard_links_nothing(cluster: Repo) -> None:
    async def work() -> None:
        dirs = [str(cluster.path / ".git")]
        async with engine.open_engine(paths.default_database(), dirs, read_only=True) as made:
            await until(made, lambda s: s.complete and all(w.watched == "live" for w in s.worktrees))
            (cluster.path.parent / "sync" / "repo" / "new.env").write_text("x")
            await until(made, lambda s: any(change.path == "repo/new.env" for change in s.changes))
            await asyncio.sleep(0.5)
            assert not {"sync", "claims.auto"} & {source.name for source in made.sources}

    run(work)
    assert not os.path.lexists(cluster.path / "new.env")


@pytest.fixture
def watching(cluster: Repo) -> Iterator[list[subprocess.Popen[str]]]:
    """Three `imi watch`, each of which has shown its first state: its watches are live."""
    cluster.worktree("feat-a")
    assert imi("list", cwd=cluster.path).code == 0
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with ExitStack() as stack:
        started = [
            stack.enter_context(
                subprocess.Popen(imi_argv("watch"), cwd=cluster.path, env=env, stdout=subprocess.PIPE, text=True)
            )
            for _ in range(3)
        ]
        try:
            for one in started:
                assert one.stdout is not None and read_line(one.stdout)
            yield started
        finally:
            for one in started:
                one.send_signal(signal.SIGTERM)


@pytest.mark.usefixtures("watching")
def test_several_monitors_link_once(cluster: Repo, tmp_path: Path) -> None:
    feat = Repo(cluster.path.parent / "feat-a")
    shared = cluster.path.parent / "sync" / "repo"
    for number in range(5):
        (shared / f"{number}.env").write_text("x")
    within(LIMIT, lambda: all(is_linked(f"{number}.env", cluster, feat) for number in range(5)))
    time.sleep(1.0)  # for the syncs that find nothing left to do
    told = synced(cluster)
    assert sum(one[1] for one in told) == 10 and sum(one[2] for one in told) == 0, told
