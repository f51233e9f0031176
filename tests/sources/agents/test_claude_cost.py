"""What reading Claude costs, in bytes and files: nothing for old transcripts, and for an append its own size."""

from __future__ import annotations

import builtins
import io
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from imi_monitor.model.agent import COMPLETED, RUNNING
from tests.limits import LIMIT
from tests.sources.agents.claude_kit import Scene
from tests.sources.agents.fakes.claude import Claude

MB = 1 << 20


class Bill:
    def __init__(self) -> None:
        self.opened: list[str] = []
        self.listed: list[str] = []
        self.bytes = 0


class Counting(io.FileIO):
    bill: Bill

    def readinto(self, buffer: Any) -> int | None:  # what a buffered reader above asks
        read = super().readinto(buffer)
        self.bill.bytes += read or 0
        return read

    def readall(self) -> bytes:
        data = super().readall()
        self.bill.bytes += len(data)
        return data


@contextmanager
def billed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bill]:
    """Records which files and folders of the test are opened and listed."""
    bill, usual = Bill(), {"open": builtins.open, "scandir": os.scandir, "listdir": os.listdir}

    def opened(path: Any, mode: str = "r", *rest: Any, **more: Any) -> Any:
        if mode != "rb" or str(path).startswith(("/proc", "/etc")):
            return usual["open"](path, mode, *rest, **more)
        file = Counting(path, "r")
        file.bill = bill
        bill.opened.append(str(path))
        return io.BufferedReader(file)

    def listed(name: str) -> Any:
        def asked(path: Any = ".") -> Any:
            bill.listed.append(str(path))
            return usual[name](path)

        return asked

    with monkeypatch.context() as patch:
        for name in ("scandir", "listdir"):
            patch.setattr(os, name, listed(name))
        patch.setattr(builtins, "open", opened)
        yield bill


def padded(claude: Claude, size: int, line: int = 200 << 10) -> None:
    """A long conversation: results and snapshots of 200 KB."""
    while not os.path.exists(claude.path) or os.path.getsize(claude.path) < size:
        claude.snapshot(line)
        claude.tool("Read", file_path=f"{claude.cwd}/big")
        claude.result("y" * line)


def old(scene: Scene, number: int, size: int, age: float) -> None:
    """Sparse transcripts of other days: only names, ages and sizes."""
    folder = Path(scene.claude().transcript).parent
    folder.mkdir(parents=True, exist_ok=True)
    for one in range(number):
        path = folder / f"old-{one}.jsonl"
        with path.open("wb") as file:
            file.truncate(size)
        os.utime(path, (scene.time - age, scene.time - age))


@pytest.fixture
def pids() -> Iterator[Iterator[int]]:
    """The pids of so many running processes."""
    programs: list[subprocess.Popen[bytes]] = []

    def more() -> Iterator[int]:
        while True:
            programs.append(subprocess.Popen(["sleep", "300"]))
            yield programs[-1].pid

    yield more()
    for program in programs:
        program.kill()
        program.wait(LIMIT)


def many(scene: Scene, pids: Iterator[int], number: int, size: int) -> list[Claude]:
    made = []
    for pid, one in zip(pids, range(number), strict=False):
        claude = scene.claude(f"session-{one}", pid=pid)
        claude.start()
        padded(claude, size)
        made.append(claude)
    return made


def settled(scene: Scene) -> None:
    scene.read(whole=True)
    for _ in range(1000):
        scene.read()
        if not scene.reader.has_more:
            return
    raise AssertionError("it never has read everything")


def test_two_gigabytes_of_old_transcripts_cost_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    old(scene, 40, 50 * MB, age=48 * 3600)
    claude = scene.claude()
    claude.start("busy")
    claude.prompt("x")
    with billed(monkeypatch) as bill:
        assert scene.agent(whole=True).state == RUNNING
    assert not [path for path in bill.opened if os.path.basename(path).startswith("old-")]
    assert bill.bytes < 64 << 10


def test_the_first_state_of_a_long_session_costs_its_end(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    claude = scene.claude()
    claude.start()
    padded(claude, 20 * MB)
    claude.prompt("x")
    with billed(monkeypatch) as bill:
        assert scene.agent(whole=True).state == RUNNING
    assert bill.bytes < 1 * MB
    assert scene.reader.has_more, "the beginning is to come"


def test_older_records_are_read_in_slices_and_once(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    claude = scene.claude()
    claude.start()
    claude.prompt("the beginning")
    padded(claude, 8 * MB)
    size = os.path.getsize(claude.path)
    scene.read(whole=True)
    assert scene.agent().facts.tokens_in is None, "too few would be a lie"
    whole = looks = 0
    while scene.reader.has_more:
        with billed(monkeypatch) as bill:
            scene.read()
        assert bill.bytes < 2 * MB
        whole, looks = whole + bill.bytes, looks + 1
    assert whole <= size + MB
    assert looks >= 4
    facts = scene.agent().facts
    assert facts.tokens_out == 42 * len({one.id for one in scene.events if one.kind == "tool_started"})
    assert facts.prompt == "the beginning"
    assert len({one.id for one in scene.events}) == len(scene.events), "everything is told once"


def test_a_tick_opens_nothing_and_lists_nothing(
    scene: Scene, pids: Iterator[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    many(scene, pids, 10, 100 << 10)
    old(scene, 10, MB, age=48 * 3600)
    settled(scene)
    with billed(monkeypatch) as bill:
        found = scene.reader.read(scene.world, frozenset())
    assert len(found) == 10
    assert (bill.opened, bill.listed, bill.bytes) == ([], [], 0)
    again = scene.reader.read(scene.world, frozenset())
    assert all(one is other for one, other in zip(found, again, strict=True)), "nothing is made anew"


def test_an_append_costs_what_was_appended(scene: Scene, pids: Iterator[int], monkeypatch: pytest.MonkeyPatch) -> None:
    claudes = many(scene, pids, 10, 2 * MB)
    settled(scene)
    for claude in claudes[:3]:
        before = os.path.getsize(claude.path)
        claude.prompt("next")
        claude.snapshot(200 << 10)
        claude.finish("done")
        appended = os.path.getsize(claude.path) - before
        touched = scene.touched()
        with billed(monkeypatch) as bill:
            found = scene.reader.read(scene.world, touched)
        assert set(bill.opened) == {claude.path, claude.entry}
        assert bill.listed == []
        assert appended <= bill.bytes <= appended + 1024
        assert {one.session for one in found if one.events} == {claude.session}


def test_a_change_of_status_costs_its_entry(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    claude = scene.claude()
    claude.start()
    padded(claude, MB)
    settled(scene)
    claude.register("waiting", "permission prompt")
    touched = scene.touched()
    with billed(monkeypatch) as bill:
        scene.reader.read(scene.world, touched)
    assert bill.opened == [claude.entry]


def test_a_read_of_everything_opens_no_unchanged_file(
    scene: Scene, pids: Iterator[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    many(scene, pids, 5, MB)
    settled(scene)
    with billed(monkeypatch) as bill:
        scene.read(whole=True)
    assert bill.bytes == 0


def test_a_day_of_ended_sessions_is_read_a_few_at_a_time(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        claude = scene.claude(f"ended-{number}", registers=False)
        claude.prompt("x")
        claude.finish("y")
        os.utime(claude.path, (scene.time - 60, scene.time - 60))
    with billed(monkeypatch) as bill:
        first = scene.read(whole=True)
    assert 0 < len(first) < 10
    assert len(set(bill.opened)) < 10
    settled(scene)
    assert {agent.state for agent in scene.agents()} == {COMPLETED}
    assert len(scene.agents()) == 30


def test_a_transcript_without_complete_lines_is_read_once(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of zeros, as a crash of the machine leaves it."""
    claude = scene.claude()
    claude.start("busy")
    os.makedirs(os.path.dirname(claude.path), exist_ok=True)
    with open(claude.path, "wb") as file:
        file.truncate(16 * MB)
    with billed(monkeypatch) as bill:
        assert scene.agent(whole=True).state == RUNNING
    assert bill.bytes < 64 * MB
    with open(claude.path, "ab") as file:
        file.write(b"\n")
    claude.registers = False
    claude.prompt("x")
    claude.finish("y")
    assert scene.agent().facts.last_message == "y"
