"""Pull requests of worktrees: from the registry at once, from the forge at most once within the pause, last known offline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from imi_monitor.forges import forge_project
from imi_monitor.forges.forge_program import LIMITED, OFFLINE, ForgeUnavailable
from imi_monitor.forges.forge_project import ForgeAnswer, ForgeProject
from imi_monitor.model.errors import GitError
from imi_monitor.model.pull_request import PullRequest
from imi_monitor.model.snapshot import ForgeState
from imi_monitor.sources.forge_source import ForgeSource
from imi_monitor.sources.hints import RefreshRequested, RegistryChanged, RosterRead
from imi_monitor.sources.source import RosterEntry
from imi_monitor.store import async_registry, db, pull_requests
from tests.helpers import Repo, wait_for
from tests.limits import LIMIT
from tests.sources.source_kit import RecordingReceiver, roster_entry, running, until

KEY = "github.com/acme/app"
OPEN = PullRequest(7, "Add login", head="feat-x", is_fork=False, state="OPEN", ci="passed")


class ScriptedForge:
    """Answers instead of the programs; counts the questions."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.answer: ForgeAnswer | ForgeUnavailable = ForgeAnswer("gh", (OPEN,), 1)
        self.asked: list[list[int]] = []
        self.installed = True
        self.hangs = False
        self.stopped = Event()
        patch.setattr(forge_project, "ask", self._ask)
        patch.setattr(forge_project, "can_ask", lambda _: self.installed)

    def _ask(self, _project: ForgeProject, numbers: list[int], stopped: Callable[[], bool]) -> ForgeAnswer:
        self.asked.append(list(numbers))
        if self.hangs:
            wait_for(stopped)
            self.stopped.set()
            raise GitError("cancelled", code="cancelled")
        if isinstance(self.answer, ForgeUnavailable):
            raise self.answer
        return self.answer


@pytest.fixture
def forge(monkeypatch: pytest.MonkeyPatch) -> ScriptedForge:
    return ScriptedForge(monkeypatch)


@pytest.fixture
def entries(repo: Repo) -> tuple[RosterEntry, ...]:
    repo.git("remote", "add", "origin", "git@github.com:acme/app.git")
    home = repo.path.parent
    made = [roster_entry(home, "app", is_main=True), roster_entry(home, "feat-x"), roster_entry(home, "review-9")]
    return tuple(replace(one, pr=9) if one.key.worktree == "review-9" else one for one in made)


class World:
    """A source on a registry of its own."""

    def __init__(self, tmp_path: Path, interval: float = 60) -> None:
        self.database = str(tmp_path / "iMi.db")
        self.receiver = RecordingReceiver()
        self.interval = interval

    async def play(self, entries: tuple[RosterEntry, ...], act: Coroutine[object, object, None]) -> None:
        async with async_registry.open_registry(self.database) as registry:
            source = self.source = ForgeSource(registry, "origin", self.interval, grace=0)
            async with running(source, self.receiver):
                source.handle_hint(RosterRead(entries))
                await act

    def run(self, entries: tuple[RosterEntry, ...], act: Coroutine[object, object, None]) -> None:
        asyncio.run(asyncio.wait_for(self.play(entries, act), LIMIT))

    def found(self) -> dict[str, int | None]:
        return {key.worktree: pull.number for key, pull in self.receiver.pulls.items()}

    def state(self) -> ForgeState | None:
        states = self.receiver.fields.get("forges")
        assert isinstance(states, tuple | None)
        return next(iter(states or ()), None)

    def cache(self, *pulls: PullRequest, asked: bool = True) -> None:
        connection = db.connect(self.database)
        from imi_monitor.model import times

        now = times.now()
        db.transact(connection, pull_requests.reserve, KEY, now, 60)
        db.transact(connection, pull_requests.record, KEY, "gh", pulls, len(pulls), now)
        connection.close()


def test_the_forge_is_asked_about_branches_and_reviews(
    tmp_path: Path, entries: tuple[RosterEntry, ...], forge: ScriptedForge
) -> None:
    world = World(tmp_path)
    forge.answer = ForgeAnswer("gh", (PullRequest(9, state="MERGED"), OPEN), 1)

    async def act() -> None:
        await until(lambda: world.found() == {"feat-x": 7, "review-9": 9})
        state = world.state()
        assert state is not None and (state.repo, state.via, state.problem) == ("app", "gh", None)

    world.run(entries, act())
    assert forge.asked == [[9]]


def test_what_another_process_listed_is_shown_and_not_asked_again(
    tmp_path: Path, entries: tuple[RosterEntry, ...], forge: ScriptedForge
) -> None:
    world = World(tmp_path)
    world.cache(OPEN)

    async def act() -> None:
        await until(lambda: world.found() == {"feat-x": 7})
        world.cache(replace(OPEN, number=8))
        world.source.handle_hint(RegistryChanged())
        await until(lambda: world.found() == {"feat-x": 8})
        world.source.handle_hint(RefreshRequested())
        world.cache()
        world.source.handle_hint(RegistryChanged())
        await until(lambda: world.found() == {})

    world.run(entries, act())
    assert forge.asked == []


def test_while_nothing_changes_the_pauses_grow_and_the_list_stays_as_it_is(
    tmp_path: Path, entries: tuple[RosterEntry, ...], forge: ScriptedForge
) -> None:
    """What an ETag would spare: 6 questions of an unchanged list take 1 + 2 + 4 + 5 + 5 pauses; a change ends that."""
    world = World(tmp_path, interval=0.05)
    moments: list[float] = []

    async def act() -> None:
        loop = asyncio.get_running_loop()

        async def asked(times: int) -> None:
            await until(lambda: len(forge.asked) >= times)
            moments.append(loop.time())

        await asked(1)
        await until(lambda: world.found() == {"feat-x": 7})
        before = world.receiver.pulls
        await asked(6)
        assert moments[1] - moments[0] >= 0.9 * 16 * 0.05 and world.receiver.pulls == before
        forge.answer = ForgeAnswer("gh", (replace(OPEN, ci="failed"),), 1)
        await until(lambda: [pull.ci for pull in world.receiver.pulls.values()] == ["failed"])

    world.run(entries, act())


def test_offline_keeps_the_last_list_and_says_since_when(
    tmp_path: Path, entries: tuple[RosterEntry, ...], forge: ScriptedForge
) -> None:
    world = World(tmp_path, interval=0.01)
    world.cache(OPEN)
    forge.answer = ForgeUnavailable("github.com cannot be reached", OFFLINE)

    async def act() -> None:
        await until(lambda: (state := world.state()) is not None and state.problem is not None)
        state = world.state()
        assert state is not None and state.read_at and state.problem_since and world.found() == {"feat-x": 7}
        forge.answer = ForgeAnswer("gh", (), 0)
        await until(lambda: world.found() == {})
        assert (state := world.state()) is not None and state.problem is None

    world.run(entries, act())


def test_a_rate_limit_ends_the_questions(
    tmp_path: Path, entries: tuple[RosterEntry, ...], forge: ScriptedForge
) -> None:
    world = World(tmp_path, interval=0.01)
    forge.answer = ForgeUnavailable("the rate limit of github.com is used up", LIMITED)

    async def act() -> None:
        await until(lambda: (state := world.state()) is not None and state.problem is not None)
        for _ in range(5):
            world.source.handle_hint(RefreshRequested())
            await asyncio.sleep(0)

    world.run(entries, act())
    assert len(forge.asked) == 1


def test_a_question_does_not_outlive_the_source(
    tmp_path: Path, entries: tuple[RosterEntry, ...], forge: ScriptedForge
) -> None:
    forge.hangs = True

    async def act() -> None:
        await until(lambda: forge.asked != [])

    World(tmp_path).run(entries, act())
    assert forge.stopped.wait(LIMIT)


@pytest.mark.parametrize("remote", ["", "/srv/app.git"])
def test_without_a_forge_nothing_is_asked(tmp_path: Path, repo: Repo, forge: ScriptedForge, remote: str) -> None:
    if remote:
        repo.git("remote", "add", "origin", remote)
    world = World(tmp_path)

    async def act() -> None:
        await until(lambda: "forges" in world.receiver.fields)

    world.run((roster_entry(repo.path.parent, "app", is_main=True),), act())
    assert forge.asked == [] and world.state() is None


def test_without_a_program_the_registry_is_not_written(
    tmp_path: Path, entries: tuple[RosterEntry, ...], forge: ScriptedForge
) -> None:
    forge.installed = False
    world = World(tmp_path)

    async def act() -> None:
        await until(lambda: "forges" in world.receiver.fields)

    world.run(entries, act())
    connection = db.connect(world.database)
    assert connection.execute("SELECT count(*) FROM forges").fetchone() == (0,) and forge.asked == []
    connection.close()
