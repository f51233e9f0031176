"""Claims across homes under contention and faults: never two owners, no overlap in the history, the line in its order.

Actors of five homes ask two homes over a real Redis, which is killed, emptied, stopped and paused meanwhile, while agents of the
two homes claim as well; the processes that answer are stopped at any moment and begin again. Each actor notes in one table
until when it believes to be the owner, by the clock that `imi verify-lock` looks at.
"""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, closing, suppress
from itertools import cycle, pairwise
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import pytest

from imi_monitor import host
from imi_monitor.fast.random_uuid import new_id
from imi_monitor.links import redis_url
from imi_monitor.links.presence_keys import TeamKeys
from imi_monitor.links.question_channel import QuestionChannel
from imi_monitor.links.redis_link import FAULTS, RedisLink
from imi_monitor.model import team_question
from imi_monitor.model.team_question import CLAIM, RELEASE, RENEW, WAIT, HeldClaim, HomeAnswer, HomeQuestion
from imi_monitor.store import claim_requests, claims, db, question_answers, registry_identity, repositories
from imi_monitor.store.async_registry import open_registry
from imi_monitor.store.claim_requests import ClaimTarget
from imi_monitor.store.claims import ClaimRequest
from imi_monitor.team.question_answerer import QuestionAnswerer
from tests.helpers import ROOT, imi_argv
from tests.limits import LIMIT
from tests.redis_server import RedisServer, running_server
from tests.team.home_kit import TeamHome

REPO = "github.com/acme/app"
KEYS = TeamKeys("t")
LEASE = 3.0
TREES = 3


class DecidingHome:
    """A home whose answering process can be stopped at any moment."""

    def __init__(self, folder: Path, name: str, server: RedisServer, lease: float = LEASE) -> None:
        made = TeamHome(folder, name, server.url, host=os.uname().nodename)
        self.made, self.lease = made, lease
        self.database = str(made.home / ".config" / "iMi" / "iMi.db")
        self.trees = [f"fix-{number}" for number in range(TREES)]
        for tree in self.trees:
            made.repo.worktree(tree)
        with closing(db.connect(self.database)) as connection:
            self.ident = registry_identity.registry_id(connection) or ""
            (self.repo,) = repositories.list_common_dirs(connection)
        self.address = redis_url.parse(server.url)
        self._process: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._process = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End it wherever it is: between its commit and the answer, too."""
        assert self._process is not None
        self._process.cancel()
        with suppress(asyncio.CancelledError):
            await self._process

    async def _run(self) -> None:
        async with open_registry(self.database) as registry:
            answerer = QuestionAnswerer(
                registry, self.database, self.address, KEYS, self.ident, self.lease, lambda _: None, lambda: True
            )
            await answerer.run()

    def history(self, tree: str) -> list[tuple[str, str, str | None, str | None]]:
        with closing(sqlite3.connect(self.database)) as connection:
            return connection.execute(
                "SELECT agent_id, claimed_at, released_at, ended FROM claim_history WHERE worktree_name = ? ORDER BY epoch",
                (tree,),
            ).fetchall()


class ServingHome(DecidingHome):
    """A home whose duties are a process of its own, `imi serve`, which `stop` kills by -9."""

    def __init__(self, folder: Path, name: str, server: RedisServer) -> None:
        super().__init__(folder, name, server)
        config = self.made.home / ".config" / "iMi" / "config.toml"
        config.write_text(f'[team]\nname = "t"\nlease_seconds = {int(LEASE)}\n')

    async def start(self) -> None:
        self._served = await asyncio.create_subprocess_exec(
            *imi_argv("serve"),
            cwd=self.made.repo.path,
            env={**os.environ, "PYTHONPATH": str(ROOT), **self.made.env},
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=DEVNULL,
        )

    async def stop(self) -> None:
        self._served.kill()
        await self._served.wait()


class World:
    """Everything that happens, and who believes to own what."""

    def __init__(self, homes: list[DecidingHome], server: RedisServer, seed: int) -> None:
        self.homes, self.server, self.chance = homes, server, random.Random(seed)
        self.owners: dict[tuple[str, str], tuple[str, float]] = {}
        self.doubled: list[str] = []
        self.attempts = 0
        self.granted = 0
        self.local = 0
        self.faults: list[str] = []

    def own(self, home: DecidingHome, tree: str, actor: str, until: float = float("inf")) -> None:
        key = (home.ident, tree)
        other, sure = self.owners.get(key, (actor, 0.0))
        if other != actor and host.uptime() < sure:
            self.doubled.append(f"{actor} and {other} own {tree}")
        self.owners[key] = (actor, until)

    def leave(self, home: DecidingHome, tree: str, actor: str) -> None:
        if self.owners.get((home.ident, tree), ("", 0.0))[0] == actor:
            del self.owners[home.ident, tree]


class Asker:
    """An agent of another home, as `imi claim HOST:NAME` and the renewals of its home act for it."""

    def __init__(self, world: World, name: str, home: str) -> None:
        self.world, self.name, self.home = world, name, home
        address = redis_url.parse(world.server.url)
        self.link, self.blocking = RedisLink(address), RedisLink(address, blocking=True)
        self.channel = QuestionChannel(self.link, self.blocking, KEYS)

    async def close(self) -> None:
        await self.link.close()
        await self.blocking.close()

    async def work(self, attempts: int) -> None:
        for _ in range(attempts):
            home = self.world.chance.choice(self.world.homes)
            tree = self.world.chance.choice(home.trees)
            self.world.attempts += 1
            try:
                await self._hold(home, tree)
            except FAULTS:
                await asyncio.sleep(0.05)

    async def _hold(self, home: DecidingHome, tree: str) -> None:
        question = HomeQuestion(new_id(), CLAIM, self.home, REPO, tree, self.name)
        read = await self.channel.ask(home.ident, question)
        if read is None or not read.answer.granted:
            await asyncio.sleep(0.01)
            return
        good_until = read.since + read.answer.lease - team_question.margin(read.answer.lease)
        held = HeldClaim(REPO, tree, read.answer.epoch)
        if host.uptime() < good_until:
            self.world.granted += 1
            self.world.own(home, tree, self.name, good_until)
            await self._stay(home, tree, held, good_until)
            self.world.leave(home, tree, self.name)
        await self.channel.ask(home.ident, HomeQuestion(new_id(), RELEASE, self.home, claims=(held,)))

    async def _stay(self, home: DecidingHome, tree: str, held: HeldClaim, good_until: float) -> None:
        """Hold it for a moment, seldom for longer than its lease; never beyond the time that is certain."""
        until = host.uptime() + (0.02 if self.world.chance.random() < 0.97 else 1.5 * LEASE)
        while (now := host.uptime()) < min(until, good_until):
            await asyncio.sleep(min(until, good_until, now + LEASE / 3) - now)
            if host.uptime() >= until:
                return
            with suppress(*FAULTS):
                read = await self.channel.ask(home.ident, HomeQuestion(new_id(), RENEW, self.home, claims=(held,)))
                if read is not None and read.answer.results == ("renewed",):
                    good_until = read.since + LEASE - team_question.margin(LEASE)
                    if host.uptime() < good_until:
                        self.world.own(home, tree, self.name, good_until)


async def claim_locally(world: World, home: DecidingHome, name: str) -> None:
    """An agent of the home itself, by its registry alone, until it is cancelled."""

    def claim(tree: str) -> int | None:
        with closing(db.connect(home.database)) as connection:
            request = ClaimRequest(name, host.identify_process(None))
            answer = claim_requests.request_claim(connection, ClaimTarget(home.repo, tree), request)
            return answer.claim.epoch if answer.granted else None

    def release(tree: str, epoch: int) -> None:
        with closing(db.connect(home.database)) as connection:
            db.transact(connection, claim_requests.release, home.repo, tree, name, epoch)

    while True:
        tree = world.chance.choice(home.trees)
        epoch = await asyncio.to_thread(claim, tree)
        if epoch is not None:
            world.local += 1
            world.own(home, tree, name)
            await asyncio.sleep(0.01)
            world.leave(home, tree, name)
            await asyncio.to_thread(release, tree, epoch)
        await asyncio.sleep(0.05)


async def make_faults(world: World, pause: float, over: asyncio.Event, *, most_wait: float = 0.0) -> None:
    """Faults of the server and of the homes, one after the other, each to its end, until `over` is set.

    With `most_wait` something is granted between two of them, or so many seconds pass: on a slow machine too.
    """
    granted, server, kinds = 0, world.server, ["empty", "kill", "stop", "pause", "home"]
    world.chance.shuffle(kinds)
    for kind in cycle(kinds):
        with suppress(TimeoutError):
            async with asyncio.timeout(pause * world.chance.uniform(0.5, 1.5)):
                await over.wait()
                return
        until = host.uptime() + most_wait
        while world.granted == granted and host.uptime() < until and not over.is_set():
            await asyncio.sleep(0.02)
        if over.is_set():
            return
        granted = world.granted
        world.faults.append(kind)
        if kind == "home":
            home = world.chance.choice(world.homes)
            await home.stop()
            await asyncio.sleep(world.chance.uniform(0, 0.3))
            await home.start()
        elif kind == "kill":
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
        elif kind == "stop":
            server.suspend()
            await asyncio.sleep(world.chance.uniform(0.1, 2.0))
            server.resume()
        elif kind == "pause":
            await asyncio.to_thread(server.run, "CLIENT", "PAUSE", "500")
        else:
            await asyncio.to_thread(server.run, "FLUSHALL")


def contend(folder: Path, attempts: int, pause: float, seed: int, serving: Sequence[str] = ()) -> World:
    """So many attempts by 20 agents of five homes against two homes, or against these that serve; what happened."""
    with running_server(folder / "redis") as server:
        homes: list[DecidingHome] = [*(ServingHome(folder / "homes", name, server) for name in serving)]
        homes = homes or [DecidingHome(folder / "homes", name, server) for name in ("alpha", "beta")]
        world = World(homes, server, seed)

        async def main() -> None:
            askers = [Asker(world, f"agent-{n}", f"{n % 5}" * 32) for n in range(20)]
            async with AsyncExitStack() as stack:
                for home in homes:
                    await home.start()
                    stack.push_async_callback(home.stop)
                for one in askers:
                    stack.push_async_callback(one.close)
                others = [asyncio.create_task(claim_locally(world, home, f"local-{home.ident[:4]}")) for home in homes]
                over = asyncio.Event()
                trouble = asyncio.create_task(make_faults(world, pause, over, most_wait=3.0))
                try:
                    await asyncio.gather(*(one.work(attempts // len(askers)) for one in askers))
                finally:
                    over.set()
                    await trouble
                    for task in others:
                        task.cancel()
                    await asyncio.gather(*others, return_exceptions=True)

        asyncio.run(main())
    return world


def check(world: World) -> None:
    assert world.doubled == []
    for home in world.homes:
        for tree in home.trees:
            grants = home.history(tree)
            for (_, _, released, _), (_, claimed, _, _) in pairwise(grants):
                assert released is not None and released <= claimed, (tree, released, claimed)


def test_no_worktree_has_two_owners(tmp_path: Path) -> None:
    """The cheap form; `-m soak` has 20,000 attempts."""
    world = contend(tmp_path, 240, 0.4, 17)
    check(world)
    assert world.granted > 20 and world.local > 5 and len(set(world.faults)) >= 3, vars(world)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("attempts", "pause", "serving"),
    [(10_000, 2.0, ()), (20_000, 3.0, ("alpha", "beta", "gamma", "delta", "epsilon"))],
    ids=["two-homes", "five-homes"],
)
def test_no_worktree_has_two_owners_in_many_attempts(
    tmp_path: Path, attempts: int, pause: float, serving: Sequence[str]
) -> None:
    """Five homes answer in processes of their own, which are killed by -9."""
    world = contend(tmp_path, attempts, pause, 1, serving)
    check(world)
    faults = {kind: world.faults.count(kind) for kind in sorted(set(world.faults))}
    print(f"{world.attempts} attempts, {world.granted} granted, {world.local} local, {faults}: {world.doubled}")
    assert world.granted > 200 and len(world.faults) > 20


# -- one step at a time ---------------------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, redis_server: RedisServer) -> Iterator[DecidingHome]:
    yield DecidingHome(tmp_path / "homes", "alpha", redis_server)


def ask(home: DecidingHome, act: Any) -> None:
    """Run `act` with a channel to the home's server."""

    async def main() -> None:
        link, blocking = RedisLink(home.address), RedisLink(home.address, blocking=True)
        try:
            async with asyncio.timeout(LIMIT):
                await act(QuestionChannel(link, blocking, KEYS))
        finally:
            await link.close()
            await blocking.close()

    asyncio.run(main())


def owner(home: DecidingHome, tree: str) -> str | None:
    with closing(db.connect(home.database)) as connection:
        return claims.current(connection, home.repo, tree).agent_id


def test_an_answer_that_comes_second_is_taken_back(home: DecidingHome) -> None:
    """Who comes first decides: the asker that gives up, or the home that answers."""

    async def act(channel: QuestionChannel) -> None:
        question = HomeQuestion(new_id(), CLAIM, "5" * 32, REPO, "fix-0", "a")
        assert await channel.give(question.id, team_question.GONE)
        await channel._send(home.ident, question)
        await home.start()
        while not home.history("fix-0") or owner(home, "fix-0") is not None:
            await asyncio.sleep(0.02)
        await home.stop()

    ask(home, act)
    assert [ended for *_, ended in home.history("fix-0")] == ["given_back"]


def test_the_lease_counts_for_the_asker_from_before_the_question(home: DecidingHome) -> None:
    async def act(channel: QuestionChannel) -> None:
        began = host.uptime()
        asking = asyncio.create_task(
            channel.ask(home.ident, HomeQuestion(new_id(), CLAIM, "5" * 32, REPO, "fix-0", "a"))
        )
        await asyncio.sleep(0.6)
        await home.start()  # the question waits for so long
        read = await asking
        await home.stop()
        assert read is not None and read.answer.granted and began <= read.since < began + 0.3
        assert host.uptime() - began > 0.5

    ask(home, act)
    with closing(db.connect(home.database)) as connection:
        claim = claims.current(connection, home.repo, "fix-0")
        assert (claim.host, claim.boot, claim.pid) == (f"home:{'5' * 32}", "", None), "no process here is its holder"
        assert claims.state(claim) == "held"


def test_a_question_that_is_read_twice_has_one_effect(home: DecidingHome) -> None:
    question = HomeQuestion(new_id(), CLAIM, "5" * 32, REPO, "fix-0", "a")
    with closing(db.connect(home.database)) as connection:

        def answer() -> HomeAnswer:
            target = ClaimTarget(home.repo, "fix-0")
            return db.transact(connection, question_answers.answer_claim, question, target, "a@five", LEASE)

        first = answer()
        held = (HeldClaim(REPO, "fix-0", first.epoch),)
        release = HomeQuestion(new_id(), RELEASE, "5" * 32, claims=held)
        done, _ = db.transact(connection, question_answers.answer_own, release, {home.repo: REPO})
        assert (first.how, done.results) == ("granted", ("released",))
        assert answer() == first and claims.current(connection, home.repo, "fix-0").agent_id is None
        stranger = HomeQuestion(new_id(), RELEASE, "6" * 32, claims=held)
        assert db.transact(connection, question_answers.answer_own, stranger, {home.repo: REPO})[0].results == ("lost",)


def test_a_claim_of_another_home_is_released_by_its_own_home_alone(home: DecidingHome) -> None:
    with closing(db.connect(home.database)) as connection:
        question = HomeQuestion(new_id(), CLAIM, "5" * 32, REPO, "fix-0", "a")
        target = ClaimTarget(home.repo, "fix-0")
        granted = db.transact(connection, question_answers.answer_claim, question, target, "a@five", LEASE)
        for other, epoch in (("6" * 32, granted.epoch), ("5" * 32, granted.epoch - 1)):
            for act in (RENEW, RELEASE):
                wrong = HomeQuestion(new_id(), act, other, claims=(HeldClaim(REPO, "fix-0", epoch),))
                answer, _ = db.transact(connection, question_answers.answer_own, wrong, {home.repo: REPO})
                assert answer.results == ("lost",)
        assert claims.current(connection, home.repo, "fix-0").agent_id == "a@five"


def test_a_waiter_keeps_its_place_as_long_as_it_asks_again(home: DecidingHome) -> None:
    async def act(channel: QuestionChannel) -> None:
        await home.start()
        with closing(db.connect(home.database)) as connection:
            request = ClaimRequest("owner", host.identify_process(None))
            answer = claim_requests.request_claim(connection, ClaimTarget(home.repo, "fix-0"), request)
            question = HomeQuestion(new_id(), WAIT, "5" * 32, REPO, "fix-0", "a")
            waiting = asyncio.create_task(channel.wait(home.ident, question, LIMIT / 3, lambda: False, lambda _: None))
            gone_at = (
                host.uptime() + team_question.REPEAT + 0.5
            )  # without another question, before it would be so by itself
            while not connection.execute("UPDATE claim_queue SET gives_up_uptime = ?", (gone_at,)).rowcount:
                connection.commit()
                await asyncio.sleep(0.02)
            connection.commit()
            await asyncio.sleep(gone_at + 0.2 - host.uptime())
            db.transact(connection, claim_requests.release, home.repo, "fix-0", "owner", answer.claim.epoch)
            read = await waiting
            assert read is not None and read.answer.granted
        await home.stop()

    ask(home, act)


def test_an_unrenewed_lease_is_free_for_a_local_agent_without_any_duties(home: DecidingHome) -> None:
    with closing(db.connect(home.database)) as connection:
        question = HomeQuestion(new_id(), CLAIM, "5" * 32, REPO, "fix-0", "a")
        db.transact(connection, question_answers.answer_claim, question, ClaimTarget(home.repo, "fix-0"), "a@five", 0.2)
        request = ClaimRequest("b", host.identify_process(None))
        assert not claim_requests.request_claim(connection, ClaimTarget(home.repo, "fix-0"), request).granted
        connection.execute("UPDATE leases SET renewed_uptime = renewed_uptime - 1")
        connection.commit()
        assert claim_requests.request_claim(connection, ClaimTarget(home.repo, "fix-0"), request).granted
    assert [ended for *_, ended in home.history("fix-0")][:1] == ["lease"]


class WaitingLine:
    """Waiters of three homes behind a local owner, round after round."""

    def __init__(self, home: DecidingHome, world: World) -> None:
        self.home, self.world = home, world
        self.late: list[str] = []

    def queue(self) -> list[str]:
        with closing(sqlite3.connect(self.home.database)) as connection:
            rows = connection.execute("SELECT agent_id FROM claim_queue ORDER BY seq").fetchall()
        return [row[0].partition("@")[0] for row in rows]

    async def wait(self, name: str, tree: str, granted: list[str]) -> None:
        asker = Asker(self.world, name, f"{len(name) % 3}" * 32)
        question = HomeQuestion(new_id(), WAIT, asker.home, REPO, tree, name)
        try:
            read = await asker.channel.wait(self.home.ident, question, LIMIT, lambda: False, lambda _: None)
            assert read is not None and read.answer.granted, (name, read)
            if host.uptime() >= read.since + read.answer.lease - team_question.margin(read.answer.lease):
                self.late.append(name)
                return  # `imi claim` gives it back unused
            granted.append(name)
            released = None
            held = (HeldClaim(REPO, tree, read.answer.epoch),)
            while released is None:
                with suppress(*FAULTS):
                    release = HomeQuestion(new_id(), RELEASE, asker.home, claims=held)
                    released = await asker.channel.ask(self.home.ident, release)
        finally:
            await asker.close()

    async def round(self, tree: str, names: Sequence[str], *, faults: bool) -> list[str]:
        """The order of the grants."""
        granted: list[str] = []
        over = asyncio.Event()
        with closing(db.connect(self.home.database)) as connection:
            request = ClaimRequest("owner", host.identify_process(None))
            answer = claim_requests.request_claim(connection, ClaimTarget(self.home.repo, tree), request)
            assert answer.granted
            async with asyncio.TaskGroup() as group:
                waiting = []
                for place, name in enumerate(names):
                    waiting.append(group.create_task(self.wait(name, tree, granted)))
                    while len(self.queue()) <= place:
                        await asyncio.sleep(0.01)
                if faults:
                    group.create_task(make_faults(self.world, 0.3, over))
                    await asyncio.sleep(0.5)  # some faults come while all wait
                db.transact(connection, claim_requests.release, self.home.repo, tree, "owner", answer.claim.epoch)
                await asyncio.wait(waiting)
                over.set()
        return granted


def wait_in_line(folder: Path, rounds: int, waiters: int, *, faults: bool) -> list[tuple[list[str], list[str]]]:
    """(the order of joining, the order of the grants in the history of the home) of each round."""
    found: list[tuple[list[str], list[str]]] = []
    with running_server(folder / "redis") as server:
        home = DecidingHome(folder / "homes", "alpha", server, lease=30.0)
        line = WaitingLine(home, World([home], server, 7))

        async def main() -> None:
            await home.start()
            for number in range(rounds):
                names = [f"w{'x' * place}" for place in range(waiters)]
                tree = home.trees[number % TREES]
                before = len(home.history(tree))
                granted = await line.round(tree, names, faults=faults)
                recorded = [agent.partition("@")[0] for agent, *_ in home.history(tree)[before + 1 :]]
                assert recorded == granted and not line.late
                found.append((names, granted))
            await home.stop()

        asyncio.run(main())
        print(f"{len(line.world.faults)} faults: {sorted(set(line.world.faults))}")
    return found


def test_the_line_is_served_in_its_order(tmp_path: Path) -> None:
    for joined, granted in wait_in_line(tmp_path, 3, 4, faults=False):
        assert granted == joined


@pytest.mark.parametrize("rounds", [1, pytest.param(30, marks=pytest.mark.soak)])
def test_the_line_keeps_its_order_under_faults(tmp_path: Path, rounds: int) -> None:
    """Each waiter keeps its place while Redis is killed, emptied, stopped and paused, and the home's process is ended."""
    found = wait_in_line(tmp_path, rounds, 6, faults=True)
    assert all(granted == joined for joined, granted in found), found
