"""`imi events`: the event log as text and as JSON, once and followed."""

from __future__ import annotations

import json
import os
import select
import signal
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from imi_monitor.actions.action import Request
from imi_monitor.actions.context import Context
from imi_monitor.actions.history import events_action as action
from imi_monitor.model import times
from imi_monitor.store import db, events
from tests.helpers import ROOT, Repo, imi, imi_argv, set_clock
from tests.limits import LIMIT, read_rest


@pytest.fixture
def registry(own_home: Path) -> str:
    return str(own_home / ".config" / "iMi" / "iMi.db")


def put(path: str, *kinds: str, worktree: str = "feat-api", **more: object) -> None:
    connection = db.connect(path)
    try:
        for kind in kinds:
            db.transact(connection, events.append_row, kind, "app", worktree, **more)  # type: ignore[arg-type]
    finally:
        connection.close()


def shown(*words: str) -> list[str]:
    done = imi("events", "--all", *words)
    assert done.code == 0, done.err
    return done.out.splitlines()


def test_an_event_is_one_line_of_text(registry: str) -> None:
    put(
        registry,
        "worktree.claimed",
        agent_id="claude-1",
        epoch=3,
        data={"task": "T-7", "reason": "it is mine", "x": None},
    )
    (line,) = shown()
    assert line[2] == line[5] == ":"
    assert line[8:] == " claude-1 claimed feat-api for T-7: it is mine"


def test_of_a_session_the_newest_event_is_a_line_and_json_has_all(registry: str) -> None:
    for status in ("running", "waiting_for_input"):
        put(
            registry,
            "session.progress",
            agent_id="claude-1",
            data={"session": "c:1", "status": status, "detail": "a plan"},
        )
    (line,) = shown()
    assert line[8:] == " claude-1 asks in feat-api: a plan (1 earlier)"
    assert len(shown("--json")) == 2


def test_an_event_is_one_json_object_per_line(registry: str) -> None:
    put(registry, "worktree.created", "worktree.claimed", agent_id="a", epoch=1, data={"n": 1})
    first, second = map(json.loads, shown("--json"))
    assert first["seq"] < second["seq"] and first["id"] != second["id"]
    assert (second["type"], second["repo_name"], second["worktree_name"]) == ("worktree.claimed", "app", "feat-api")
    assert (second["agent_id"], second["epoch"], second["data"]) == ("a", 1, {"n": 1})
    assert times.parse(second["occurred_at"]) is not None
    assert shown("--json", "--since", str(first["seq"]))[0] == json.dumps(second)


def test_an_empty_event_log_is_reported(registry: str) -> None:
    assert shown() == ["no events yet"]
    assert shown("--json") == []
    assert shown("--type", "x.y") == ["no events of that kind"]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("worktree.claimed", ["worktree.claimed"]),
        ("worktree.*", ["worktree.claimed", "worktree.released"]),
        ("worktree", ["worktree.claimed", "worktree.released"]),
        ("*.started", ["session.started"]),
        ("session.started, worktree.released", ["worktree.released", "session.started"]),
        ("claimed", []),
        ("[", []),
    ],
)
def test_events_are_filtered_by_kind(registry: str, asked: str, found: list[str]) -> None:
    put(registry, "worktree.claimed", "worktree.released", "session.started")
    assert [json.loads(line)["type"] for line in shown("--json", "--type", asked)] == found


def test_events_are_filtered_by_a_short_worktree_name(registry: str) -> None:
    put(registry, "worktree.removed", worktree="feat-api")
    put(registry, "worktree.removed", worktree="api-two")
    assert [json.loads(line)["worktree_name"] for line in shown("--json", "--worktree", "api")] == ["feat-api"]
    assert shown("--json", "-w", "no-such") == []


def test_the_last_events_are_shown_by_default(registry: str) -> None:
    put(registry, *["n.n"] * 120)
    assert [json.loads(line)["seq"] for line in shown("--json")] == list(range(71, 121))
    assert [json.loads(line)["seq"] for line in shown("--json", "--limit", "3")] == [118, 119, 120]
    assert len(shown("--since", "1h")) == 120
    assert len(shown("--since", "100")) == 20
    assert [json.loads(line)["seq"] for line in shown("--json", "--since", "1", "-n", "2")] == [119, 120]
    assert shown("--json", "--limit", "0") == []


def test_events_are_filtered_by_time_and_number(registry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = times.clock()
    for name, hours in (("days", 50), ("hours", 5), ("minutes", 0.2)):
        with monkeypatch.context() as patch:
            set_clock(patch, lambda hours=hours: int(now - hours * 3.6e12))
            put(registry, f"old.{name}")

    def found(since: str) -> list[str]:
        return [json.loads(line)["type"][4:] for line in shown("--json", "--since", since)]

    assert found("90s") == []
    assert found("15m") == ["minutes"]
    assert found("6h") == ["hours", "minutes"]
    assert found("3d") == found("1w") == ["days", "hours", "minutes"]
    moment = (times.now() - timedelta(hours=6)).astimezone()
    assert found(moment.isoformat()) == ["hours", "minutes"]
    assert found(moment.replace(tzinfo=None).isoformat(" ")) == ["hours", "minutes"], "without an offset: our own clock"
    assert found(f"{times.now() - timedelta(days=400):%Y-%m-%d}") == ["days", "hours", "minutes"]
    assert shown("--since", "3d")[0].split()[0] == f"{(times.now() - timedelta(hours=50)).astimezone():%Y-%m-%d}"


@pytest.mark.parametrize("since", ["soon", "m", "-3m", "5y", "١٠m", "99999999999999999999", "10000-01-01", "", "1e3m"])
def test_an_invalid_time_is_refused(registry: str, since: str) -> None:
    done = imi("events", f"--since={since}")
    assert (done.code, "is not a time: use 10m" in done.err) == (2, True)


def test_events_name_the_repository_if_there_are_several(registry: str, repo: Repo, cluster: Repo) -> None:
    with Context(str(repo.path)) as one:
        one.register(one.repository())
    put(registry, "a.a")
    assert shown()[0].endswith(" feat-api a.a")
    with Context(str(cluster.path)) as two:
        two.register(two.repository())
    assert shown()[0].endswith(" app/feat-api a.a")
    unknown = Repo.create(repo.path.parent / "unknown")
    assert imi("events", "--repo", str(unknown.path)).out == "no events yet\n"
    assert imi("events", "--repo", "app", "--json", cwd=cluster.path).out.count("a.a") == 1
    assert imi("events", "--repo", "coolcode", "--json", cwd=cluster.path).out == ""


def test_hostile_text_stays_text(registry: str) -> None:
    put(
        registry,
        "x\x1b[31m",
        worktree="w\x07",
        agent_id="a\u202e",
        data={"k\x1b]52;c;x": "v\x1b[2J", "n": {"deep": "\x9b"}},
    )
    done = imi("events", "--all")
    assert not any(
        (ord(char) < 32 and char != "\n") or 0x7F <= ord(char) < 0xA0 or char == "\u202e" for char in done.out
    )
    assert imi("events", "--all", "--json").out.isascii()


def test_data_that_is_no_json_is_shown_as_it_is(registry: str) -> None:
    put(registry, "a.a")
    connection = db.connect(registry)
    db.transact(connection, lambda inner: inner.execute("UPDATE events SET data = '{broken'"))
    connection.close()
    assert shown()[0].endswith(" feat-api a.a")
    assert json.loads(shown("--json")[0])["data"] == "{broken"


@contextmanager
def following(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        imi_argv("events", "--all", "--follow", *words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env=env,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(LIMIT)
        assert process.stdout and process.stderr
        process.stdout.close()
        assert b"Traceback" not in read_rest(process.stderr)
        process.stderr.close()


def read_line(process: subprocess.Popen[bytes], seconds: float = LIMIT) -> bytes:
    """The next line, unbuffered reading so that `select` tells the truth."""
    assert process.stdout
    line = b""
    while not line.endswith(b"\n"):
        assert select.select([process.stdout], [], [], seconds)[0], f"nothing came, only {line!r}"
        char = os.read(process.stdout.fileno(), 1)
        assert char, f"it ended: {line!r}"
        line += char
    return line


def waits_for_fifteen_events(registry: str) -> list[float]:
    """The seconds from the commit of an event until the follower has printed it."""
    put(registry, *["old.one"] * 12)
    with following("--json") as process:
        assert [json.loads(read_line(process))["seq"] for _ in range(10)] == list(range(3, 13)), (
            "the last ten come first"
        )
        connection = db.connect(registry)
        waits = []
        for number in range(15):
            time.sleep(0.013 * (number % 5))
            db.transact(connection, events.append_row, "new.one", data={"number": number})
            start = time.perf_counter()
            assert json.loads(read_line(process))["data"] == {"number": number}
            waits.append(time.perf_counter() - start)
        connection.close()
    return waits


def test_following_prints_the_last_ten_events_and_each_new_one(registry: str) -> None:  # S2.54
    print(f"median time from commit to print: {statistics.median(waits_for_fifteen_events(registry)) * 1000:.1f} ms")


@pytest.mark.soak
def test_following_prints_an_event_within_a_tenth_of_a_second(registry: str) -> None:  # S2.54
    assert statistics.median(waits_for_fifteen_events(registry)) < 0.1


def test_following_a_kind_skips_the_others(registry: str) -> None:
    put(registry, "wanted.earlier")
    with following("--type", "wanted.*") as process:
        assert read_line(process).split()[2:3] == [b"wanted.earlier"]
        put(registry, "other.one", "wanted.one", "other.two", "wanted.two")
        assert read_line(process).split()[2:3] == [b"wanted.one"]
        assert read_line(process).split()[2:3] == [b"wanted.two"]


@pytest.mark.parametrize("number", [signal.SIGINT])
def test_ctrl_c_ends_following_without_an_error(registry: str, number: int) -> None:
    put(registry, "a.a")
    with following() as process:
        read_line(process)
        process.send_signal(number)
        assert process.wait(LIMIT) == 0
        assert process.stderr and read_rest(process.stderr) == b""


def test_following_ends_when_the_reader_closes_the_pipe(registry: str) -> None:
    put(registry, "a.a")
    with following() as process:
        read_line(process)
        assert process.stdout
        process.stdout.close()
        assert process.wait(LIMIT) == 0


def test_idle_following_uses_little_processor_time(registry: str) -> None:
    put(registry, "a.a")
    with following() as process:
        read_line(process)
        stat = Path(f"/proc/{process.pid}/stat")
        if not stat.exists():
            pytest.skip("no /proc")

        def ticks() -> int:
            fields = stat.read_text().rpartition(")")[2].split()
            return int(fields[11]) + int(fields[12])

        time.sleep(0.2)
        before = ticks()
        time.sleep(2)
        assert (ticks() - before) / os.sysconf("SC_CLK_TCK") / 2 < 0.03, "more than 3 % of a core while idle"


def test_many_events_at_once_are_followed_in_order_and_once(registry: str) -> None:
    put(registry, "a.a")
    seen: list[int] = []
    with Context(emit=lambda _, data: seen.append(int(str(data["seq"])))) as context:
        context.cancelled = lambda: len(seen) > 1200
        written: list[int] = []

        def version(connection: object) -> int:
            if len(written) < 3:  # while it looks, others write more than a page
                written.append(1)
                put(registry, *["b.b"] * 400)
            return len(written)

        original, db.data_version = db.data_version, version  # type: ignore[assignment]
        try:
            action.EventsAction().run(context, Request("events", {"follow": True}))
        finally:
            db.data_version = original
    assert seen == list(range(1, 1202))


def test_an_event_committed_after_the_read_is_not_lost(registry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process commits right after the log is read, and none does after that."""
    put(registry, "a.a")
    seen: list[object] = []
    since, late = events.list_events, ["b.b"]
    deadline = time.monotonic() + 5

    def reading(*args: object, **more: object) -> list[events.Event]:
        found = since(*args, **more)  # type: ignore[arg-type]
        if seen and late:
            put(registry, late.pop())
        return found

    with Context(emit=lambda _, data: seen.append(data["type"])) as context:
        context.cancelled = lambda: len(seen) > 1 or time.monotonic() > deadline
        monkeypatch.setattr(events, "list_events", reading)
        action.EventsAction().run(context, Request("events", {"follow": True}))
    assert seen == ["a.a", "b.b"]
