"""Random steps in a repository: after each the snapshot equals the output of plain git within two seconds.

The short form makes 40 steps, `make soak` goes on for half an hour. Also: memory does not grow, and an idle engine runs
no process.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from imi_monitor import engine, host, paths
from imi_monitor.engine import Engine
from imi_monitor.model import times
from imi_monitor.model.change import Change
from imi_monitor.model.snapshot import GitState, Key, Snapshot
from imi_monitor.sources import changes_source
from imi_monitor.sources.changes_source import ChangesSource
from imi_monitor.sources.hints import AllStatusesRead, Hint
from imi_monitor.sources.source import ReadingReceiver, RegistryReading, RosterEntry, Source
from tests.helpers import Repo, fill, git
from tests.limits import LIMIT

WITHIN = 2.0


def plain_git_states(repo: Repo) -> dict[str, tuple[object, ...]]:
    """Return the state of every worktree by plain git."""
    found: dict[str, tuple[object, ...]] = {}
    trunk = repo.git("rev-parse", "main")
    for block in repo.git("worktree", "list", "--porcelain").split("\n\n"):
        lines = dict(line.partition(" ")[::2] for line in block.splitlines())
        path = Path(lines["worktree"])
        if not path.is_dir():
            found[path.name] = ("missing",)
            continue
        out = git("--no-optional-locks", "status", "--porcelain=v2", "--branch", "-z", cwd=path)
        found[path.name] = (*_parse(out), *_distance(path, trunk))
    return found


def _parse(out: str) -> tuple[object, ...]:
    heads: dict[str, str] = {}
    counts = {"staged": 0, "unstaged": 0, "untracked": 0, "conflicted": 0}
    tokens = iter(out.split("\0"))
    for token in tokens:
        if token.startswith("# "):
            _, key, value = token.split(" ", 2)
            heads[key] = value
        elif token.startswith("? "):
            counts["untracked"] += 1
        elif token.startswith("u "):
            counts["conflicted"] += 1
        elif token[:2] in ("1 ", "2 "):
            counts["staged"] += token[2] != "."
            counts["unstaged"] += token[3] != "."
            if token[0] == "2":
                next(tokens)
    branch = heads["branch.head"]
    return (None if branch == "(detached)" else branch, heads["branch.oid"], *counts.values())


def _distance(path: Path, trunk: str) -> tuple[int, int]:
    ahead, behind = git("rev-list", "--left-right", "--count", f"HEAD...{trunk}", cwd=path).split()
    return int(ahead), int(behind)


def snapshot_states(snapshot: Snapshot) -> dict[str, tuple[object, ...]]:
    found: dict[str, tuple[object, ...]] = {}
    for tree in snapshot.worktrees:
        state = tree.git
        if tree.missing:
            found[Path(tree.path).name] = ("missing",)
        elif state is None:
            found[Path(tree.path).name] = ("unknown", tree.failure)
        else:
            found[Path(tree.path).name] = (
                state.branch,
                state.head,
                state.staged,
                state.unstaged,
                state.untracked,
                state.conflicted,
                state.trunk_ahead,
                state.trunk_behind,
            )
    return found


class RandomSteps:
    """Repeatable random steps in a repository with worktrees."""

    def __init__(self, repo: Repo, seed: int) -> None:
        self.repo = repo
        self.rng = random.Random(seed)
        self.number = 0

    def trees(self) -> list[Repo]:
        return [Repo(path) for path in sorted(self.repo.path.parent.glob("feat-*")) if (path / ".git").exists()]

    def step(self) -> str:
        acts: list[Callable[[Repo], None]] = [
            self.edit,
            self.edit,
            self.edit,
            self.new,
            self.delete,
            self.stage,
            self.commit,
            self.commit,
            self.switch,
            self.stash,
            self.checkout,
            self.conflict,
            self.rebase,
            self.gc,
            self.create,
            self.remove,
            self.rename_file,
            self.trunk,
            self.pack,
        ]
        trees = self.trees()
        act = self.rng.choice(acts) if trees else self.create
        tree = self.rng.choice(trees) if trees else self.repo
        act(tree)
        return f"{act.__name__} in {tree.path.name}"

    def edit(self, tree: Repo) -> None:
        tree.write("src/api.py", f"x = {self.rng.random()}\n" * self.rng.randint(1, 5))

    def new(self, tree: Repo) -> None:
        tree.write(f"new{self.rng.randint(0, 5)}/file{self.rng.randint(0, 5)}.txt", "x")

    def delete(self, tree: Repo) -> None:
        (tree.path / "src/db.py").unlink(missing_ok=True)

    def rename_file(self, tree: Repo) -> None:
        if (tree.path / "README.md").exists():
            (tree.path / "README.md").rename(tree.path / f"README{self.rng.randint(0, 3)}.md")

    def stage(self, tree: Repo) -> None:
        tree.git("add", "-A", check=False)

    def commit(self, tree: Repo) -> None:
        tree.git("add", "-A", check=False)
        tree.git("commit", "-q", "-m", "a step", check=False)

    def stash(self, tree: Repo) -> None:
        tree.git("stash", "-q", "-u", check=False)

    def checkout(self, tree: Repo) -> None:
        tree.git("checkout", "-q", "--", ".", check=False)

    def switch(self, tree: Repo) -> None:
        self.number += 1
        tree.git("switch", "-q", "-c", f"other/{self.number}", check=False)

    def conflict(self, tree: Repo) -> None:
        tree.git("merge", "-q", "--no-edit", "main", check=False)
        if self.rng.random() < 0.5:
            tree.git("merge", "--abort", check=False)

    def rebase(self, tree: Repo) -> None:
        tree.git("rebase", "-q", "main", check=False)
        tree.git("rebase", "--abort", check=False)

    def gc(self, _tree: Repo) -> None:
        self.repo.git("gc", "-q")

    def pack(self, _tree: Repo) -> None:
        self.repo.git("pack-refs", "--all")

    def create(self, _tree: Repo) -> None:
        if len(self.trees()) < 6:
            self.number += 1
            self.repo.git(
                "worktree", "add", "-q", "-b", f"feat/{self.number}", str(self.repo.path.parent / f"feat-{self.number}")
            )

    def remove(self, tree: Repo) -> None:
        if len(self.trees()) > 2:
            shutil.rmtree(tree.path)
            self.repo.git("worktree", "prune")

    def trunk(self, _tree: Repo) -> None:
        self.repo.write("TRUNK", f"{self.rng.random()}")
        self.repo.commit("the trunk moves")


async def wait_until_equal(made: Engine, repo: Repo, what: str, within: float) -> float:
    """Wait until the snapshot equals plain git, and return the seconds it took."""
    wanted, started = await asyncio.to_thread(plain_git_states, repo), time.monotonic()
    while True:
        if snapshot_states(made.snapshot) == wanted:
            return time.monotonic() - started
        if time.monotonic() - started > within:
            now = snapshot_states(made.snapshot)
            wrong = {
                name: (now.get(name), wanted.get(name)) for name in {*now, *wanted} if now.get(name) != wanted.get(name)
            }
            pytest.fail(f"after {what}: snapshot, git: {wrong}; health {made.snapshot.health}")
        await asyncio.sleep(0.02)


async def run_steps(repo: Repo, seed: int, *, steps: int, seconds: float, within: float) -> list[float]:
    life = RandomSteps(repo, seed)
    times_taken = []
    async with engine.open_engine(paths.default_database(), [str(repo.path / ".git")]) as made:
        end = time.monotonic() + seconds
        for _ in range(steps):
            what = await asyncio.to_thread(life.step)
            times_taken.append(await wait_until_equal(made, repo, what, within))
            if time.monotonic() > end:
                break
    return times_taken


@pytest.fixture
def watcher(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("IMI_WATCHER", request.param)
    return str(request.param)


@pytest.mark.timeout(200)
@pytest.mark.parametrize("watcher", ["inotify", "watchfiles"], indirect=True)
def test_the_snapshot_equals_git_after_random_steps(repo: Repo, watcher: str) -> None:
    # the bound of two seconds is the soak's: the machine that runs the suite is busy with other tests
    asyncio.run(run_steps(repo, 11, steps=40, seconds=60, within=LIMIT))


@pytest.mark.soak
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("watcher", ["inotify", "watchfiles"], indirect=True)
def test_the_snapshot_equals_git_for_half_an_hour(repo: Repo, watcher: str) -> None:
    taken = asyncio.run(run_steps(repo, 42, steps=1_000_000, seconds=900, within=WITHIN))
    print(f"{watcher}: {len(taken)} steps, worst {max(taken):.2f} s")


def test_a_repository_that_is_deleted_and_made_again(repo: Repo) -> None:
    common = str(repo.path / ".git")

    async def play() -> None:
        async with engine.open_engine(paths.default_database(), [common]) as made:
            await wait_until_equal(made, repo, "the start", 90)
            await asyncio.to_thread(shutil.rmtree, repo.path)
            while made.snapshot.worktrees and not all(tree.missing for tree in made.snapshot.worktrees):
                await asyncio.sleep(0.05)
            again = await asyncio.to_thread(Repo.create, repo.path)
            again.write("README.md", "a new life\n")
            await wait_until_equal(made, again, "the new start", 90)

    asyncio.run(asyncio.wait_for(play(), 110))


def test_changes_between_the_first_statuses_and_the_watches_are_seen(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """watchfiles, which has a slow start, is started after the first git statuses."""
    monkeypatch.setenv("IMI_WATCHER", "watchfiles")
    monkeypatch.setattr(changes_source, "_LONGEST_DELAY", 60.0)
    feat = repo.worktree("feat-a")
    held_back: list[Callable[[], None]] = []
    handle_hint = ChangesSource.handle_hint

    def hold_back(self: ChangesSource, hint: Hint) -> None:
        if isinstance(hint, AllStatusesRead):
            held_back.append(lambda: handle_hint(self, hint))
        else:
            handle_hint(self, hint)

    async def play() -> None:
        monkeypatch.setattr(ChangesSource, "handle_hint", hold_back)
        async with engine.open_engine(paths.default_database(), [str(repo.path / ".git")]) as made:
            await wait_until_equal(made, repo, "the start", 90)
            assert all(tree.watched == "starting" for tree in made.snapshot.worktrees)
            feat.write("src/api.py", "x = 1\n")
            feat.git("switch", "-q", "-c", "other")
            repo.write("new/file", "x")
            held_back[0]()
            await wait_until_equal(made, repo, "changes before the watches", 90)
            feat.write("later", "x")
            await wait_until_equal(made, repo, "changes after the watches", 90)

    asyncio.run(asyncio.wait_for(play(), 110))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small tmpfs")
def test_states_are_correct_during_and_after_a_full_disk(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "imi-test", str(small)], check=False).returncode:
        pytest.skip("cannot mount here")
    try:
        repo = Repo.create(small / "app")

        async def play() -> None:
            async with engine.open_engine(paths.default_database(), [str(repo.path / ".git")]) as made:
                await wait_until_equal(made, repo, "the start", 90)
                fill(small / "filler")
                await wait_until_equal(made, repo, "the disk was full", 90)
                (small / "filler").unlink()
                repo.write("README.md", "room again\n")
                await wait_until_equal(made, repo, "there was room again", 90)

        asyncio.run(asyncio.wait_for(play(), 110))
    finally:
        subprocess.run(["umount", "-l", str(small)], check=False)


def test_an_idle_engine_runs_no_process_and_publishes_nothing(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:  # W3
    from imi_monitor.sources import git_status_source

    monkeypatch.setattr(git_status_source, "_SWEEP_INTERVAL", 60.0)
    for name in ("feat-a", "feat-b", "feat-c"):
        repo.worktree(name)

    async def play() -> None:
        async with engine.open_engine(paths.default_database(), [str(repo.path / ".git")]) as made:
            await wait_until_equal(made, repo, "the start", 90)
            await asyncio.sleep(3)  # after the start each worktree is read once more, when its watches are live
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            seq = made.snapshot.seq
            await asyncio.sleep(4)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            assert after.ru_nvcsw + after.ru_utime == before.ru_nvcsw + before.ru_utime, "a child process ran"
            assert made.snapshot.seq == seq, "nothing changed, so nothing was published"

    asyncio.run(play())


class BusySource(Source):
    """Reports changes, git states, claims and failures as fast as possible."""

    name = "ticks"

    def __init__(self, number: int) -> None:
        self._number = number
        self.done = asyncio.Event()

    async def run(self, receiver: ReadingReceiver) -> None:
        keys = [Key(host.hostname(), "app", f"feat-{n}") for n in range(40)]
        receiver.set_roster(
            tuple(
                RosterEntry(k, f"/x/{k.worktree}", "/a", "/c", "feat", "b", None, False, False, None, None, False)
                for k in keys
            )
        )
        for tick in range(self._number):
            key = keys[tick % len(keys)]
            receiver.add_changes([Change("app", key.worktree, "modified", f"src/f{tick % 997}.py", times.stamp())])
            receiver.set_git_state(key, _state(tick))
            if tick % 50 == 0:
                receiver.set_registry(RegistryReading((), (), (), ()))
            if tick % 97 == 0:
                receiver.set_failure("other", "something", f"reason {tick % 3}")
            if tick % 100 == 0:
                await asyncio.sleep(0)
        self.done.set()
        await asyncio.Event().wait()


def _state(tick: int) -> GitState:
    return GitState(
        times.stamp(),
        "b",
        f"{tick:040x}",
        None,
        None,
        None,
        "main",
        tick % 5,
        0,
        (),
        0,
        tick % 3,
        0,
        0,
        None,
        0,
        None,
        0,
        0,
    )


def _resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


async def _memory_growth(ticks: int) -> float:
    """Return the megabytes of growth after the changes of the snapshot have reached their limit."""
    half = 0.0
    source = BusySource(ticks)
    async with Engine((source,)) as made:
        reading = made.snapshots()
        first = await anext(reading)
        del first
        task = asyncio.create_task(_drain(made))
        while not source.done.is_set():
            await asyncio.sleep(0.05)
            if not half and made.snapshot.changes and len(made.snapshot.changes) >= 2000:
                half = _resident()
        await asyncio.sleep(0.3)
        task.cancel()
        await reading.aclose()
        assert len(made.snapshot.changes) == 2000, "the limit"
    return _resident() - half


async def _drain(made: Engine) -> None:
    async for _ in made.snapshots():
        pass


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads memory from /proc")
def test_memory_does_not_grow_in_an_hour() -> None:  # K1
    assert asyncio.run(_memory_growth(8_000)) < 15


@pytest.mark.soak
def test_memory_does_not_grow_in_a_day() -> None:  # K1
    assert asyncio.run(_memory_growth(86_400)) < 5
