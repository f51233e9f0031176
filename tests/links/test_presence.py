"""Presence on a real Redis: what one home publishes, every other sees, through each fault of the server. # T1"""

from __future__ import annotations

import asyncio
import gc
import shutil
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from redis.exceptions import ResponseError

from imi_monitor.links import redis_link, redis_url
from imi_monitor.links.context_store import ContextStore, SharedContext
from imi_monitor.links.presence_keys import LIFETIME, TeamKeys
from imi_monitor.links.presence_publisher import PresencePublisher
from imi_monitor.links.presence_reader import PresenceReader
from imi_monitor.links.question_channel import QuestionChannel
from imi_monitor.links.redis_link import FAULTS, RedisLink, RetryPause, ServerUnfit
from imi_monitor.model.team_question import HomeAnswer, HomeQuestion
from tests.helpers import ROOT
from tests.limits import LIMIT
from tests.redis_server import RedisServer, ask_server, free_port, running_sentinel, running_server

KEYS = TeamKeys("t")


class Pair:
    """A publisher of `one` and a reader, each retrying as the product does; `rows` is the truth."""

    def __init__(self, server: RedisServer, url: str = "") -> None:
        address = redis_url.parse(url or server.url)
        self.link, self.read_link, self.blocking = (
            RedisLink(address),
            RedisLink(address),
            RedisLink(address, blocking=True),
        )
        self.publisher = PresencePublisher(self.link, KEYS, "one", "machine-a", lambda: "described")
        self.reader = PresenceReader(self.read_link, self.blocking, KEYS)
        self.rows: dict[str, str] = {"w:a": "1", "w:b": "1"}
        self.faults = 0

    async def __aenter__(self) -> Pair:
        self._tasks = [asyncio.create_task(self._publish()), asyncio.create_task(self._read())]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for link in (self.link, self.read_link, self.blocking):
            await link.close()

    async def _publish(self) -> None:
        await self._repeat(lambda: self.publisher.publish(dict(self.rows)), lambda: None, 0.02)

    async def _read(self) -> None:
        await self._repeat(self.reader.follow, self.reader.forget, 0)

    async def _repeat(self, act: Callable[[], Awaitable[object]], fail: Callable[[], None], rest: float) -> None:
        pause = RetryPause()
        while True:
            try:
                await act()
                pause.reset()
                await asyncio.sleep(rest)
            except FAULTS:
                self.faults += 1
                fail()
                await asyncio.sleep(pause.next())

    async def equal(self) -> None:
        """Wait until the reader has exactly the truth, and a sign of life."""
        async with asyncio.timeout(LIMIT):
            while not (home := self.reader.homes.get("one")) or home.fields != self.rows or home.age is None:
                await asyncio.sleep(0.01)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(LIMIT):
            await test()

    asyncio.run(limited())


def test_changed_new_and_deleted_rows_arrive(redis_server: RedisServer) -> None:
    async def test() -> None:
        async with Pair(redis_server) as pair:
            await pair.equal()
            pair.rows = {"w:a": "2", "w:c": "x"}
            await pair.equal()
            assert pair.reader.homes["one"].description == "described"
            pair.rows = {}
            await pair.equal()
            assert pair.faults == 0

    run(test)


@pytest.mark.parametrize("fault", ["emptied", "killed", "suspended", "paused", "cut"])
def test_the_reader_is_equal_again_after_each_fault(redis_server: RedisServer, fault: str) -> None:
    async def test() -> None:
        async with Pair(redis_server) as pair:
            await pair.equal()
            if fault == "emptied":
                redis_server.run("FLUSHALL")
            elif fault == "killed":
                redis_server.kill()
            elif fault == "suspended":
                redis_server.suspend()
            elif fault == "paused":
                redis_server.run("CLIENT", "PAUSE", "1000")
            else:
                redis_server.run("CLIENT", "KILL", "TYPE", "normal")
            pair.rows = {"w:a": "after", "w:d": "new"}
            await asyncio.sleep(0.2)  # the change falls into the fault
            if fault == "killed":
                redis_server.start()
            redis_server.resume()
            await pair.equal()

    run(test)


def test_links_that_are_cancelled_while_they_connect_end(redis_server: RedisServer) -> None:
    """redis-py loses such a cancellation."""

    async def test() -> None:
        for steps in range(30):
            async with Pair(redis_server):
                for _ in range(steps):
                    await asyncio.sleep(0)

    run(test)


class LosingProxy:
    """Passes everything on between clients and a server; what the server says on a muted connection is lost."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._open: list[asyncio.Event] = []  # of each connection: it is muted

    async def __aenter__(self) -> int:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = self._listener.sockets[0].getsockname()[1]
        return port

    async def __aexit__(self, *_: object) -> None:
        self._listener.close()

    def mute(self) -> None:
        for one in self._open:
            one.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        muted = asyncio.Event()
        self._open.append(muted)
        there, up = await asyncio.open_connection("127.0.0.1", self._server.port)
        try:
            await asyncio.gather(self._pump(reader, up, asyncio.Event()), self._pump(there, writer, muted))
        finally:
            writer.close()
            up.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, muted: asyncio.Event) -> None:
        while data := await reader.read(1 << 16):
            if not muted.is_set():
                writer.write(data)


def test_a_command_whose_answer_is_lost_is_not_sent_again(redis_server: RedisServer) -> None:
    """By its defaults the library sends it again, and an entry is there twice."""

    async def test() -> None:
        proxy = LosingProxy(redis_server)
        async with proxy as port:
            link = RedisLink(redis_url.parse(f"redis://127.0.0.1:{port}"))
            assert await link.append("log", {"n": "1"}, 100)
            proxy.mute()
            with pytest.raises(FAULTS):
                await link.append("log", {"n": "2"}, 100)
            assert await link.append("log", {"n": "3"}, 100), "the next one has a connection of its own"
            found = await link.newest("log", 10)
            await link.close()
        assert [fields["n"] for _, fields in found] == ["1", "2", "3"]

    run(test)


def test_a_home_is_read_whole_when_news_are_missing(redis_server: RedisServer) -> None:
    """The stream is capped, so a reader that was away may find only the last entries."""

    async def test() -> None:
        address = redis_url.parse(redis_server.url)
        link, blocking = RedisLink(address), RedisLink(address, blocking=True)
        publisher = PresencePublisher(link, KEYS, "one", "machine-a", lambda: "described")
        reader = PresenceReader(link, blocking, KEYS)
        await publisher.publish({"w:a": "1", "w:b": "1"})
        await reader.follow()
        await publisher.publish({"w:a": "2", "w:b": "1"})
        redis_server.run("XTRIM", KEYS.news, "MAXLEN", "0")
        await publisher.publish({"w:a": "2", "w:b": "3"})
        assert await reader.follow() >= {"one"}
        assert reader.homes["one"].fields == {"w:a": "2", "w:b": "3"}
        await link.close()
        await blocking.close()

    run(test)


def test_a_copy_of_the_registry_on_another_machine_is_refused(redis_server: RedisServer) -> None:
    async def test() -> None:
        link = RedisLink(redis_url.parse(redis_server.url))
        first = PresencePublisher(link, KEYS, "one", "machine-a", lambda: "a")
        copy = PresencePublisher(link, KEYS, "one", "machine-b", lambda: "b")
        await first.publish({"w:a": "1"})
        for _ in range(2):
            with pytest.raises(ServerUnfit, match="from another machine"):
                await copy.publish({"w:a": "evil"})
        assert await link.hash_values(KEYS.home("one"), ["w:a", "by"]) == ["1", "machine-a"]
        await first.leave()
        await copy.publish({"w:a": "2"})
        assert await link.hash_values(KEYS.home("one"), ["w:a"]) == ["2"]
        await link.close()

    run(test)


@pytest.mark.parametrize("key", [KEYS.news, KEYS.homes, KEYS.home("one")])
def test_a_key_of_another_program_is_left_alone(redis_server: RedisServer, key: str) -> None:
    async def test() -> None:
        redis_server.run("SET", key, "foreign")
        link = RedisLink(redis_url.parse(redis_server.url))
        publisher = PresencePublisher(link, KEYS, "one", "machine-a", lambda: "a")
        with pytest.raises(ServerUnfit, match="another program"):
            await publisher.publish({"w:a": "1"})
        assert await link.value(key) == "foreign"
        others = {KEYS.news, KEYS.homes, KEYS.home("one")} - {key}
        assert all(redis_server.run("EXISTS", other) == ":0" for other in others), "half of it was done"
        await link.close()

    run(test)


def test_a_sign_of_life_does_not_touch_a_key_that_another_program_has_taken(redis_server: RedisServer) -> None:
    async def test() -> None:
        link = RedisLink(redis_url.parse(redis_server.url))
        publisher = PresencePublisher(link, KEYS, "one", "machine-a", lambda: "a")
        await publisher.publish({"w:a": "1"})
        redis_server.run("SET", KEYS.home("one"), "foreign")
        with pytest.raises(ServerUnfit, match="another program"):
            await publisher.publish({"w:a": "1"})
        assert (redis_server.run("TTL", KEYS.home("one")), await link.value(KEYS.home("one"))) == (":-1", "foreign")
        redis_server.run("DEL", KEYS.home("one"))
        await publisher.publish({"w:a": "1"})
        assert await link.hash_values(KEYS.home("one"), ["w:a"]) == ["1"]
        await link.close()

    run(test)


def test_a_home_that_leaves_is_gone_and_its_key_lives_no_longer_than_its_lifetime(redis_server: RedisServer) -> None:
    async def test() -> None:
        address = redis_url.parse(redis_server.url)
        link, blocking = RedisLink(address), RedisLink(address, blocking=True)
        publisher = PresencePublisher(link, KEYS, "one", "machine-a", lambda: "a")
        reader = PresenceReader(link, blocking, KEYS)
        await publisher.publish({"w:a": "1"})
        await reader.follow()
        assert reader.homes["one"].age == 0
        assert 0 < int(redis_server.run("TTL", KEYS.home("one")).lstrip(":")) <= LIFETIME
        await publisher.leave()
        assert await reader.follow() >= {"one"}
        assert reader.homes["one"].age is None and reader.homes["one"].fields == {"w:a": "1"}
        await link.close()
        await blocking.close()

    run(test)


def test_a_full_server_and_a_replica_are_named(tmp_path: Path, redis_server: RedisServer) -> None:
    async def test() -> None:
        link = RedisLink(redis_url.parse(redis_server.url))
        publisher = PresencePublisher(link, KEYS, "one", "machine-a", lambda: "a")
        redis_server.run("CONFIG", "SET", "maxmemory", "1")
        assert "is full" in await _fault(publisher)
        redis_server.run("CONFIG", "SET", "maxmemory", "0")
        redis_server.run("REPLICAOF", "127.0.0.1", "1")
        assert "replica" in await _fault(publisher)
        redis_server.run("REPLICAOF", "NO", "ONE")
        await publisher.publish({"w:a": "1"})
        await link.close()

    run(test)


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("-OOM command not allowed when used memory > 'maxmemory'.", "is full"),
        ("-READONLY You can't write against a read only replica.", "read-only replica"),
        ("The user executing the script can't run this command or subcommand", "does not allow"),
    ],
)
def test_a_fault_in_a_script_of_redis_6_2_is_named(said: str, sentence: str) -> None:
    """The words are those of Redis 6.2.14; later servers begin with the code."""
    place = (
        "Error running script (call to f_63513ef721c1dcd34dc697552e11c6fa5356c64c): @user_script:1: @user_script: 1: "
    )
    assert sentence in redis_link.fault_of(ResponseError(place + said))


async def _fault(publisher: PresencePublisher) -> str:
    try:
        await publisher.publish({"w:a": "1"})
    except FAULTS as error:
        return redis_link.fault_of(error)
    return "none"


async def ask_and_answer(link: RedisLink, blocking: RedisLink) -> None:
    """A question and its answer, and one that is given up, with these connections."""
    channel = QuestionChannel(link, blocking, KEYS)
    question = HomeQuestion("question-1", "claim", "home-two", "repo", "feat-x", "a")
    asking = asyncio.create_task(channel.ask("home-one", question))
    _, read = await channel.read("home-one", "0-0")
    assert [found for found, _ in read] == [question]
    assert await channel.give(question.id, HomeAnswer("granted", 1, 60.0).encode())
    found = await asking
    assert found is not None and found.answer.epoch == 1
    assert not await channel.give(question.id, "gone") and await channel.was_given(question.id, found.answer.encode())
    await channel.say_waiting("question-2", HomeAnswer("waits"))


def documented_rights() -> list[str]:
    """The words of the guide's example, for the team of these tests."""
    text = (ROOT / "docs" / "guide.md").read_text().partition("user imi on >PASSWORD ")[2].partition("```")[0]
    return text.replace("{default}", "{t}").split()


def test_the_documented_rights_are_enough_and_no_more(redis_server: RedisServer) -> None:
    redis_server.run("ACL", "SETUSER", "imi-team", "on", ">hunter2", *documented_rights())

    async def test() -> None:
        place = f"redis://imi-team:hunter2@127.0.0.1:{redis_server.port}"
        link = RedisLink(redis_url.parse(place))
        assert await link.check_server() is None
        await PresencePublisher(link, KEYS, "two", "m", lambda: "a").publish({"w:a": "1"})
        await PresenceReader(link, link, KEYS).read_all()
        blocking = RedisLink(redis_url.parse(place), blocking=True)
        await ask_and_answer(link, blocking)
        await blocking.close()
        other = PresencePublisher(link, TeamKeys("other"), "two", "m", lambda: "a")
        with pytest.raises(FAULTS) as caught:
            await other.publish({"w:a": "1"})
        assert "does not allow" in redis_link.fault_of(caught.value)  # type: ignore[arg-type]
        assert "hunter2" not in redis_link.fault_of(caught.value)  # type: ignore[arg-type]
        await link.close()

    run(test)


def test_a_cluster_takes_the_keys_of_a_team(tmp_path: Path) -> None:
    with running_server(tmp_path / "cluster", "--cluster-enabled", "yes") as server:
        server.run("CLUSTER", "ADDSLOTS", *map(str, range(16384)))

        async def test() -> None:
            async with asyncio.timeout(LIMIT):
                while "cluster_state:ok" not in server.run("CLUSTER", "INFO"):
                    await asyncio.sleep(0.02)
            address = redis_url.parse(f"redis+cluster://127.0.0.1:{server.port}")
            link, blocking = RedisLink(address), RedisLink(address, blocking=True)
            await link.check_server()
            publisher = PresencePublisher(link, KEYS, "one", "m", lambda: "a")
            reader = PresenceReader(link, blocking, KEYS)
            await publisher.publish({"w:a": "1"})
            await reader.follow()
            await publisher.publish({"w:a": "2"})
            await reader.follow()
            assert reader.homes["one"].fields == {"w:a": "2"}
            await ask_and_answer(link, blocking)
            await link.close()
            await blocking.close()

        run(test)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("fault", ["killed", "suspended"])
def test_a_cluster_that_is_away_is_named_and_used_again(tmp_path: Path, fault: str) -> None:
    """The library's faults of a cluster are of a kind of their own."""
    with running_server(tmp_path / "cluster", "--cluster-enabled", "yes") as server:
        server.run("CLUSTER", "ADDSLOTS", *map(str, range(16384)))
        url = f"redis+cluster://127.0.0.1:{server.port}"

        async def test() -> None:
            while "cluster_state:ok" not in server.run("CLUSTER", "INFO"):
                await asyncio.sleep(0.02)
            async with Pair(server, url) as pair:
                await pair.equal()
                server.kill() if fault == "killed" else server.suspend()
                pair.rows = {"w:a": "after"}
                link = RedisLink(redis_url.parse(url))
                with pytest.raises(FAULTS) as caught:
                    await link.check_server()
                assert "does not answer" in redis_link.fault_of(caught.value)  # type: ignore[arg-type]
                await link.close()
                while not pair.faults:
                    await asyncio.sleep(0.02)
                server.start() if fault == "killed" else server.resume()
                await pair.equal()
            gc.collect()  # the library closes connections to a node that was away late, with a warning

        run(test)


def certificates(folder: Path) -> Path:
    """An authority and a server's key and certificate for 127.0.0.1."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make certificates")
    new = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext"]
    for name in ("server", "other"):
        files = ["-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.crt"]
        done = subprocess.run([openssl, *new, "subjectAltName=IP:127.0.0.1", *files], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_over_tls_the_server_is_verified(tmp_path: Path) -> None:
    folder = certificates(tmp_path)
    port = free_port()
    files = ["--tls-cert-file", f"{folder}/server.crt", "--tls-key-file", f"{folder}/server.key"]
    options = [
        "--tls-port",
        str(port),
        *files,
        "--tls-ca-cert-file",
        f"{folder}/server.crt",
        "--tls-auth-clients",
        "no",
    ]
    with running_server(tmp_path / "tls", *options) as server:

        async def sentence(url: str) -> str:
            link = RedisLink(redis_url.parse(url))
            try:
                await link.check_server()
                await PresencePublisher(link, KEYS, "one", "m", lambda: "a").publish({"w:a": "1"})
                return "works"
            except FAULTS as error:
                return redis_link.fault_of(error)
            finally:
                await link.close()

        async def test() -> None:
            place = f"rediss://127.0.0.1:{port}"
            assert await sentence(f"{place}?ssl_ca_certs={folder}/server.crt") == "works"
            assert "certificate that cannot be verified" in await sentence(f"{place}?ssl_ca_certs={folder}/other.crt")
            assert "certificate that cannot be verified" in await sentence(place)
            assert "TLS" in await sentence(f"redis://127.0.0.1:{port}")
            assert await sentence(f"rediss://127.0.0.1:{server.port}") != "works"
            gc.collect()  # a connection that was refused is closed late by the library, with a warning

        run(test)


def test_a_cluster_of_three_nodes_takes_the_keys_of_all_teams(tmp_path: Path) -> None:
    """The keys of each team are on one node, and those of several teams on all of them."""
    with ExitStack() as stack:
        nodes = [
            stack.enter_context(running_server(tmp_path / f"node-{n}", "--cluster-enabled", "yes")) for n in range(3)
        ]
        for number, node in enumerate(nodes):
            node.run("CLUSTER", "ADDSLOTS", *map(str, range(number, 16384, 3)))
            node.run("CLUSTER", "SET-CONFIG-EPOCH", str(number + 1))
            node.run("CLUSTER", "MEET", "127.0.0.1", str(nodes[0].port))

        async def test() -> None:
            while not all("cluster_state:ok" in node.run("CLUSTER", "INFO") for node in nodes):
                await asyncio.sleep(0.02)
            address = redis_url.parse(f"redis+cluster://127.0.0.1:{nodes[1].port}")
            link, blocking = RedisLink(address), RedisLink(address, blocking=True)
            await link.check_server()
            for team in ("t", "red", "green", "blue"):
                keys = TeamKeys(team)
                publisher = PresencePublisher(link, keys, "one", "m", lambda: "a")
                reader = PresenceReader(link, blocking, keys)
                await publisher.publish({"w:a": team})
                await reader.follow()
                await publisher.publish({"w:a": "2"})
                await reader.follow()
                assert reader.homes["one"].fields == {"w:a": "2"}
            await ask_and_answer(link, blocking)
            store = ContextStore(link, "")
            for number in range(6):
                shared = SharedContext(f"c{number}", {"intent": "x"}, ("{}",), "x", 60)
                assert await store.put(shared) is None
            assert {one.name for one in await store.list_entries()} >= {f"session:c{number}" for number in range(6)}
            await link.close()
            await blocking.close()

        run(test)
        assert all(int(node.run("DBSIZE").lstrip(":")) > 0 for node in nodes)


def test_after_a_fail_over_the_home_is_published_on_the_new_primary(tmp_path: Path, redis_server: RedisServer) -> None:
    """Real Sentinels watch a primary and its replica; the primary is killed while a home publishes and another reads."""
    with ExitStack() as stack:
        options = ("--replicaof", "127.0.0.1", str(redis_server.port))
        replica = stack.enter_context(running_server(tmp_path / "replica", *options))
        ports = [
            stack.enter_context(running_sentinel(tmp_path / f"s{n}", redis_server.port, quorum=2)) for n in range(3)
        ]

        async def test() -> None:
            while "master_link_status:up" not in replica.run("INFO", "replication"):
                await asyncio.sleep(0.02)
            while not all(map(knows_all, ports)):
                await asyncio.sleep(0.05)
            places = ",".join(f"127.0.0.1:{port}" for port in ports)
            async with Pair(redis_server, f"redis+sentinel://{places}/team/0") as pair:
                await pair.equal()
                redis_server.kill()
                pair.rows = {"w:a": "after", "w:d": "new"}
                await pair.equal()
                assert pair.faults > 0

        run(test)
        assert "role:master" in replica.run("INFO", "replication")
        assert "w:d" in replica.run("HGETALL", KEYS.home("one"))


def knows_all(port: int) -> bool:
    """Whether this Sentinel knows the replica and the two other Sentinels."""
    words = ask_server(port, "SENTINEL", "MASTER", "team").split()
    return [words[words.index(name) + 2] for name in ("num-slaves", "num-other-sentinels")] == ["1", "2"]


def test_sentinel_names_the_primary(tmp_path: Path, redis_server: RedisServer) -> None:
    with running_sentinel(tmp_path / "sentinel", redis_server.port, quorum=1) as port:

        async def test() -> None:
            async with asyncio.timeout(LIMIT):
                while True:
                    link = RedisLink(redis_url.parse(f"redis+sentinel://127.0.0.1:{port}/team/0"))
                    try:
                        await PresencePublisher(link, KEYS, "one", "m", lambda: "a").publish({"w:a": "1"})
                        break
                    except FAULTS:
                        await asyncio.sleep(0.05)
                    finally:
                        await link.close()
            unknown = RedisLink(redis_url.parse(f"redis+sentinel://127.0.0.1:{port}/nobody/0"))
            with pytest.raises(FAULTS) as caught:
                await unknown.check_server()
            assert "not named by any Sentinel" in redis_link.fault_of(caught.value)  # type: ignore[arg-type]
            await unknown.close()

        run(test)
        assert "w:a" in redis_server.run("HGETALL", KEYS.home("one"))
