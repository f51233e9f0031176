"""The engine on real repositories: changes appear in the next snapshot, and failed readings are reported."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imi_monitor import engine, paths
from imi_monitor.engine import Engine
from imi_monitor.model.snapshot import Snapshot, Worktree
from tests.helpers import Repo, imi, imi_argv
from tests.limits import LIMIT, read_line, read_rest
from tests.ui import sample_team

WATCHERS = ["inotify", "watchfiles"] if sys.platform.startswith("linux") else ["watchfiles"]


@pytest.fixture(params=WATCHERS)
def watcher(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("IMI_WATCHER", request.param)
    return str(request.param)


@asynccontextmanager
async def live(repo: Repo | None) -> AsyncIterator[Engine]:
    dirs = None if repo is None else [str(repo.path / ".git")]
    async with engine.open_engine(paths.default_database(), dirs) as made:
        await until(made, lambda s: s.complete and all(w.watched == "live" or w.missing for w in s.worktrees))
        yield made


async def until(made: Engine, true: Callable[[Snapshot], object], seconds: float = 60) -> Snapshot:
    """Return the first snapshot for which the condition holds."""
    try:
        async with asyncio.timeout(seconds):
            async for snapshot in made.snapshots():
                if true(snapshot):
                    return snapshot
    except TimeoutError:
        pytest.fail(f"did not happen; the last snapshot: {made.snapshot}")
    raise AssertionError


def tree(snapshot: Snapshot, name: str) -> Worktree:
    return next(one for one in snapshot.worktrees if one.key.worktree == name)


def run(work: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(work())  # type: ignore[arg-type]


def test_a_write_appears_as_a_change_and_in_the_git_state(repo: Repo, watcher: str) -> None:  # S2.34 S2.35 S2.36 S2.54
    other = repo.worktree("feat-a")

    async def work() -> None:
        async with live(repo) as made:
            other.write("README.md", "changed\n")
            seen = await until(made, lambda s: tree(s, "feat-a").last_change)
            change = tree(seen, "feat-a").last_change
            assert change and (change.kind, change.path, change.by) == ("modified", "README.md", None)
            after = await until(made, lambda s: (g := tree(s, "feat-a").git) and g.unstaged == 1)
            state = tree(after, "feat-a").git
            assert state and [(f.path, f.tree, f.added, f.removed) for f in state.files] == [("README.md", "M", 1, 1)]
            assert tree(after, "feat-a").activity
            (other.path / "src/api.py").unlink()
            other.write("new/deep/file.txt", "x")
            await until(
                made,
                lambda s: (
                    {("deleted", "src/api.py"), ("created", "new/deep/file.txt")}
                    <= {(c.kind, c.path) for c in s.changes}
                ),
            )
            await until(made, lambda s: (g := tree(s, "feat-a").git) and (g.unstaged, g.untracked) == (2, 1))

    run(work)


def test_what_was_changed_before_the_start_is_the_last_change_until_a_newer_one(repo: Repo, watcher: str) -> None:
    other, clean = repo.worktree("feat-a"), repo.worktree("feat-b")
    other.write("src/old.py", "written while nothing was followed\n")

    async def work() -> None:
        async with live(repo) as made:
            seen = await until(made, lambda s: tree(s, "feat-a").last_change)
            assert tree(seen, "feat-a").last_change.path == "src/old.py"  # type: ignore[union-attr]
            assert tree(seen, clean.path.name).last_change is None
            other.write("README.md", "changed\n")
            seen = await until(made, lambda s: (c := tree(s, "feat-a").last_change) and c.path == "README.md")
            last = tree(seen, "feat-a").last_change
            assert last is not None
            later = replace(last, path="src/old.py", at="2999-01-01T00:00:00+00:00", guessed=True)
            made.set_earlier_changes((later,))  # by a file's time, which proves less than what was seen
            made.set_watch_mode(tree(seen, "feat-a").key, "polling", "a sign that a later snapshot is seen")
            seen = await until(made, lambda s: tree(s, "feat-a").watched == "polling")
            assert tree(seen, "feat-a").last_change == last

    run(work)


def test_a_commit_updates_head_and_the_distance_to_the_trunk(repo: Repo, watcher: str) -> None:
    other = repo.worktree("feat-a")

    async def work() -> None:
        async with live(repo) as made:
            other.write("x.txt", "x")
            sha = other.commit("one ahead")
            seen = await until(made, lambda s: (g := tree(s, "feat-a").git) and g.head == sha)
            state = tree(seen, "feat-a").git
            assert state and state.last_commit and state.last_commit.subject == "one ahead"
            assert (state.trunk_ahead, state.trunk_behind) == (1, 0)
            repo.write("y.txt", "y")
            repo.commit("the trunk moves")
            await until(made, lambda s: (g := tree(s, "feat-a").git) and (g.trunk_ahead, g.trunk_behind) == (1, 1))

    run(work)


def test_claims_appear_and_changes_name_their_owner(repo: Repo) -> None:  # S2.14
    other = repo.worktree("feat-a")

    async def work() -> None:
        async with live(repo) as made:
            await asyncio.to_thread(imi, "claim", "feat-a", "--agent", "claude-1", cwd=repo.path)
            seen = await until(made, lambda s: tree(s, "feat-a").claim)
            assert tree(seen, "feat-a").owner == "claude-1"
            assert any(event.type == "worktree.claimed" for event in seen.events)
            other.write("README.md", "by claude\n")
            seen = await until(made, lambda s: tree(s, "feat-a").last_change)
            assert tree(seen, "feat-a").last_change.by == "claude-1"  # type: ignore[union-attr]
            other.commit("by claude")
            seen = await until(
                made, lambda s: (g := tree(s, "feat-a").git) and g.last_commit and g.last_commit.subject == "by claude"
            )
            assert tree(seen, "feat-a").git.last_commit.by == "claude-1"  # type: ignore[union-attr]
            await asyncio.to_thread(imi, "release", "feat-a", "--agent", "claude-1", cwd=repo.path)
            await until(made, lambda s: tree(s, "feat-a").claim is None)

    run(work)


def test_the_death_of_a_holder_is_noticed_without_a_write(repo: Repo) -> None:
    repo.worktree("feat-a")
    holder = subprocess.Popen(["sleep", "60"])
    try:
        assert imi("claim", "feat-a", "--agent", "a1", "--pid", str(holder.pid), cwd=repo.path).code == 0

        async def work() -> None:
            async with live(repo) as made:
                await until(made, lambda s: (c := tree(s, "feat-a").claim) and c.state == "held")
                holder.kill()
                holder.wait(LIMIT)
                await until(made, lambda s: (c := tree(s, "feat-a").claim) and c.state == "dead")

        run(work)
    finally:
        holder.kill()
        holder.wait(LIMIT)


def test_a_claim_names_the_holders_process(repo: Repo) -> None:
    repo.worktree("feat-x")
    holder = subprocess.Popen(["sleep", "60"])
    try:
        assert imi("claim", "feat-x", "--agent", "a", "--pid", str(holder.pid), cwd=repo.path).code == 0

        async def main() -> None:
            async with live(repo) as made:
                seen = await until(made, lambda s: tree(s, "feat-x").claim is not None)
                claim = tree(seen, "feat-x").claim
                assert claim is not None and (claim.pid, claim.process) == (holder.pid, "sleep")

        run(main)
    finally:
        holder.kill()
        holder.wait(LIMIT)


def test_a_presence_lock_of_another_program_is_shown_as_a_claim(cluster: Repo) -> None:
    made = cluster.worktree("feat-x")
    lock = cluster.path.parent / ".iMi" / "presence" / f"{made.path.name}.lock"

    async def main() -> None:
        async with live(cluster) as engine:
            await until(engine, lambda s: s.complete and tree(s, made.path.name).claim is None)
            lock.parent.mkdir(exist_ok=True)
            lock.write_text("yi-7\n")
            seen = await until(engine, lambda s: tree(s, made.path.name).claim is not None)
            claim = tree(seen, made.path.name).claim
            assert claim is not None and (claim.agent, claim.state, claim.pid) == ("yi-7", "held", None)
            lock.unlink()
            await until(engine, lambda s: tree(s, made.path.name).claim is None)

    run(main)


def test_an_edit_of_a_shared_file_is_a_change(cluster: Repo, watcher: str) -> None:  # S2.30
    shared = cluster.path.parent / "sync" / "repo" / ".env"
    shared.write_text("A=1\n")

    async def main() -> None:
        async with live(cluster) as made:
            await until(made, lambda s: s.complete and all(one.watched == "live" for one in s.worktrees))
            shared.write_text("A=2\n")
            seen = await until(made, lambda s: any(change.worktree == "sync" for change in s.changes))
            assert [c.path for c in seen.changes if c.worktree == "sync"] == ["repo/.env"]

    run(main)


@given(st.lists(st.floats(0, 0.5), min_size=1, max_size=80))
def test_never_more_than_ten_snapshots_in_a_second(pauses: list[float]) -> None:
    limit, now = engine.SnapshotRateLimit(), time.monotonic() + 10
    sent: list[float] = []
    for pause in pauses:
        now += pause
        now += limit.wait(now)
        limit.spend(now)
        sent.append(now)
    for first in sent:
        assert sum(first <= moment < first + 0.999 for moment in sent) <= engine.PER_SECOND


def test_a_change_right_behind_another_snapshot_is_not_delayed() -> None:
    limit, now = engine.SnapshotRateLimit(), time.monotonic() + 10
    for moment in range(20):  # a change and the reading of git behind it, three times a second
        for behind in (0.0, 0.05):
            assert limit.wait(now + moment * 0.35 + behind) == 0
            limit.spend(now + moment * 0.35 + behind)


def test_an_awaited_change_goes_out_at_once_among_many_others() -> None:
    limit, now = engine.SnapshotRateLimit(), time.monotonic() + 10
    for asks in range(5):
        for _ in range(3):
            now += limit.wait(now)
            limit.spend(now)
        assert limit.wait(now) > 0, "the usual share is used up"
        assert limit.wait(now, awaited=True) == 0, asks
        limit.spend(now, awaited=True)
        now += 0.5


def test_claims_branches_and_states_of_other_homes_are_urgent_and_counts_are_not() -> None:
    here = sample_team.team().homes
    home = next(one for one in here if one.worktrees and one.agents)
    first, agent = home.worktrees[0], home.agents[0]
    assert first.git is not None and first.claim is not None

    def urgent(**fields: Any) -> bool:
        return engine.homes_differ(here, tuple(replace(one, **fields) if one is home else one for one in here))

    counted = replace(first, git=replace(first.git, staged=9))
    assert not urgent() and not urgent(worktrees=(counted, *home.worktrees[1:])), "it waits for others"
    claimed = replace(first, claim=replace(first.claim, agent="other"))
    assert urgent(worktrees=(claimed, *home.worktrees[1:]))
    assert urgent(worktrees=(replace(first, branch="other"), *home.worktrees[1:]))
    assert urgent(worktrees=home.worktrees[1:]) and urgent(agents=home.agents[1:])
    assert urgent(agents=(replace(agent, truth=replace(agent.truth, state="failed")), *home.agents[1:]))
    assert urgent(state="unconfirmed") and engine.homes_differ(here, here[1:]) and engine.homes_differ((), here)


def test_created_and_removed_worktrees_appear_and_disappear(repo: Repo, watcher: str) -> None:
    async def work() -> None:
        async with live(repo) as made:
            other = await asyncio.to_thread(repo.worktree, "feat-new")
            await until(made, lambda s: any(w.key.worktree == "feat-new" and w.git for w in s.worktrees))
            await until(made, lambda s: tree(s, "feat-new").watched == "live")
            other.write("README.md", "in the new worktree\n")
            await until(made, lambda s: tree(s, "feat-new").last_change)
            shutil.rmtree(other.path)
            await until(made, lambda s: tree(s, "feat-new").missing)
            repo.git("worktree", "prune")
            await until(made, lambda s: all(w.key.worktree != "feat-new" for w in s.worktrees))

    run(work)


def test_a_worktree_folder_that_is_replaced_is_watched_again(repo: Repo, watcher: str) -> None:  # W1
    other = repo.worktree("feat-a")

    async def work() -> None:
        async with live(repo) as made:
            copy = other.path.parent / "copy"
            shutil.copytree(other.path, copy, symlinks=True)
            shutil.rmtree(other.path)
            copy.rename(other.path)
            await until(made, lambda s: tree(s, "feat-a").watched == "live" and not tree(s, "feat-a").missing)
            await asyncio.sleep(1.5)  # until everything about the replacement was read: only an event shows the write
            other.write("README.md", "after the replacement\n")
            await until(made, lambda s: (g := tree(s, "feat-a").git) and g.unstaged == 1)

    run(work)


def test_collisions_with_and_without_conflict(repo: Repo) -> None:
    a, b = repo.worktree("feat-a"), repo.worktree("feat-b")

    async def work() -> None:
        async with live(repo) as made:
            a.write("README.md", "a\n")
            b.write("README.md", "b\n")
            seen = await until(made, lambda s: s.collisions and s.collisions[0].conflicts == ("README.md",))
            pair = seen.collisions[0]
            assert pair.right is not None
            assert (pair.left.worktree, pair.right.worktree, pair.files) == ("feat-a", "feat-b", ("README.md",))
            b.write("README.md", "a\n")
            await until(made, lambda s: s.collisions and s.collisions[0].conflicts == ())
            b.git("checkout", "-q", "README.md")
            await until(made, lambda s: not s.collisions)

    run(work)


def test_ignored_folders_are_not_watched_and_cause_no_changes(repo: Repo) -> None:
    other = repo.worktree("feat-a")
    for number in range(300):
        (other.path / "node_modules" / f"p{number}" / "lib").mkdir(parents=True)

    async def work() -> None:
        async with live(repo) as made:
            before = watches()
            (other.path / "node_modules" / "p1" / "x.js").write_text("x")
            (other.path / "build").mkdir()
            (other.path / "build" / "out").write_text("x")
            (other.path / ".env").write_text("x")
            other.write("README.md", "a change\n")
            await until(made, lambda s: tree(s, "feat-a").last_change)
            other.write("src/api.py", "a later change\n")  # reported after all of those
            seen = await until(made, lambda s: any(change.path == "src/api.py" for change in s.changes))
            assert {change.path for change in seen.changes} == {"README.md", "src/api.py"}
            assert before < 60

    run(work)


def watches() -> int:
    """Return how many inotify watches this process has."""
    number = 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            number += Path(f"/proc/self/fdinfo/{fd}").read_text().count("inotify wd:")
        except OSError:
            continue
    return number


def test_a_checkout_of_thousands_of_files_is_a_few_changes(repo: Repo) -> None:
    other = repo.worktree("feat-a")
    other.git("switch", "-q", "-c", "many")
    for number in range(3000):
        other.write(f"many/{number}.txt", f"{number}\n")
    other.commit("many files")
    other.git("switch", "-q", "feat/a")

    async def work() -> None:
        async with live(repo) as made:
            other.git("switch", "-q", "many")
            await until(made, lambda s: (g := tree(s, "feat-a").git) and g.branch == "many" and not g.files)
            seen = await until(made, lambda s: sum(one.count for one in s.changes if one.worktree == "feat-a") >= 2900)
            assert sum(one.worktree == "feat-a" for one in seen.changes) < 30, "coalesced"

    run(work)


def test_a_failing_git_status_is_reported_and_the_last_state_stays(repo: Repo) -> None:
    other = repo.worktree("feat-a")

    async def work() -> None:
        async with live(repo) as made:
            admin = repo.path / ".git" / "worktrees" / "feat-a"
            (admin / "index").write_bytes(b"garbage")
            other.write("README.md", "x\n")
            seen = await until(made, lambda s: tree(s, "feat-a").failure)
            assert tree(seen, "feat-a").git is not None, "the last good state stays"
            assert "index" in tree(seen, "feat-a").failure.why  # type: ignore[union-attr]
            (admin / "index").unlink()
            other.git("reset", "-q")
            await until(made, lambda s: tree(s, "feat-a").failure is None)

    run(work)


def test_a_broken_registry_leaves_git_states_alone(repo: Repo) -> None:
    async def work() -> None:
        async with live(repo) as made:
            for name in ("", "-wal", "-shm"):
                Path(paths.default_database() + name).unlink(missing_ok=True)
            Path(paths.default_database()).write_bytes(b"not a database" * 1000)
            await until(made, lambda s: s.registry.problem)
            repo.write("README.md", "a change\n")
            await until(made, lambda s: (g := tree(s, "app").git) and g.unstaged == 1)

    run(work)


def test_reading_a_worktree_does_not_write_its_index(repo: Repo) -> None:  # G4
    other = repo.worktree("feat-a")
    os.utime(other.path / "README.md", (1, 1))  # plain `git status` would refresh the index now

    async def work() -> None:
        index = repo.path / ".git" / "worktrees" / "feat-a" / "index"
        before = (index.stat().st_mtime_ns, index.read_bytes())
        async with live(repo) as made:
            other.write("src/api.py", "x\n")
            await until(made, lambda s: (g := tree(s, "feat-a").git) and g.unstaged == 1)
        assert (index.stat().st_mtime_ns, index.read_bytes()) == before

    run(work)


@pytest.mark.parametrize(("how", "watcher"), [(signal.SIGTERM, WATCHERS[0]), (signal.SIGINT, "watchfiles")])
def test_imi_watch_streams_changes_and_ends_on_a_signal(repo: Repo, how: signal.Signals, watcher: str) -> None:
    """The first snapshot comes when the worktrees are followed, so that each write after it is a change."""
    import json

    other = repo.worktree("feat-a")
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "IMI_WATCHER": watcher}
    process = subprocess.Popen(
        imi_argv("watch"), cwd=repo.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
    )
    try:
        assert process.stdout is not None
        first = json.loads(read_line(process.stdout))
        assert first["type"] == "snapshot" and first["complete"]
        assert [one["watched"] for one in first["worktrees"]] == ["live", "live"]
        other.write("README.md", "x\n")
        while True:
            line = json.loads(read_line(process.stdout))
            if line["type"] == "change" and line["change"]["path"] == "README.md":
                break
        process.send_signal(how)
        _, err = process.communicate(timeout=LIMIT)
        assert (process.returncode, err) == (0, b"")
    finally:
        process.kill()
        process.wait(LIMIT)


def test_imi_watch_ends_when_its_reader_is_gone(repo: Repo) -> None:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    process = subprocess.Popen(
        imi_argv("watch"), cwd=repo.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
    )
    assert process.stdout is not None and process.stderr is not None
    read_line(process.stdout)
    process.stdout.close()
    assert process.wait(LIMIT) == 0
    assert read_rest(process.stderr) == b""
    process.stderr.close()


def wait_for(condition: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_hanging_git_is_killed_when_imi_watch_ends(repo: Repo, tmp_path: Path) -> None:  # G5
    """The whole process group of git is killed."""
    slow = tmp_path / "bin"
    slow.mkdir()
    real = shutil.which("git") or "git"
    script = f'#!/bin/sh\ncase "$*" in *status*) sleep 300 & echo $! > {tmp_path}/pid; wait;; esac\nexec {real} "$@"\n'
    (slow / "git").write_text(script)
    (slow / "git").chmod(0o755)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "PATH": f"{slow}:{os.environ['PATH']}"}
    process = subprocess.Popen(
        imi_argv("watch"), cwd=repo.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
    )
    try:
        wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip())
        child = int((tmp_path / "pid").read_text())
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=LIMIT)
        wait_for(lambda: not Path(f"/proc/{child}").exists())
    finally:
        process.kill()
        process.wait(LIMIT)


def test_a_worktree_whose_files_git_fills_later_appears(repo: Repo, watcher: str) -> None:
    """git makes `gitdir` empty and fills it later, which changes no folder's time stamp: once it never appeared."""
    whole = repo.worktree("feat-late")
    admin = repo.path / ".git/worktrees/feat-late"
    hidden = repo.path.parent / "hidden"
    admin.rename(hidden)

    async def work() -> None:
        async with live(repo) as made:
            half = repo.path / ".git/worktrees/feat-late"
            half.parent.mkdir(exist_ok=True)
            half.mkdir()
            (half / "gitdir").touch()
            await asyncio.sleep(0.4)  # until the incomplete one was read
            for file in sorted(hidden.iterdir()):
                if file.is_file():
                    (half / file.name).write_bytes(file.read_bytes())
            await until(made, lambda s: _has(s, "feat-late") and tree(s, "feat-late").git)

    run(work)
    assert whole.path.is_dir()


def _has(snapshot: Snapshot, name: str) -> bool:
    return any(one.key.worktree == name for one in snapshot.worktrees)


def test_a_worktree_completed_during_a_reading_makes_it_incomplete(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is missing in the list and causes no further event: the reading must be repeated."""
    from imi_monitor.sources import worktrees_source
    from imi_monitor.store import db

    repo.worktree("feat-late")
    admin = repo.path / ".git/worktrees/feat-late"
    pointer = (admin / "gitdir").read_bytes()
    (admin / "gitdir").write_bytes(b"")
    listed = worktrees_source.roster.list_worktrees

    def list_and_fill(*args: object) -> object:
        found = listed(*args)  # type: ignore[arg-type]
        (admin / "gitdir").write_bytes(pointer)
        return found

    monkeypatch.setattr(worktrees_source.roster, "list_worktrees", list_and_fill)
    connection = db.connect(paths.default_database())
    try:
        entries, whole = worktrees_source.read_roster(connection, [str(repo.path / ".git")], paths.default_database())
    finally:
        connection.close()
    assert [entry.key.worktree for entry in entries] == ["app"]
    assert not whole
