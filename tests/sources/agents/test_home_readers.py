"""Agents with another HOME or configuration folder than imi's are read where their environment says."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from imi_monitor.model.agent import COMPLETED, NOTHING_ASKED
from imi_monitor.sources import agents
from imi_monitor.sources.agents.agent_reader import AgentProcess, AgentProgram, ReadContext, Sighting
from imi_monitor.sources.agents.claude import reader as claude
from imi_monitor.sources.agents.home_readers import HomeReaders
from imi_monitor.sources.agents.process_scan import ProcessScan
from tests.helpers import become_another_user
from tests.sources.agents.fake_processes import named, running, soon
from tests.sources.agents.reader_kit import process, truth, world

PROGRAM = AgentProgram("fake", (), home_variables=("FAKE_HOME",))


class NotedReads:
    """A reader that notes what it is given, and reports its processes."""

    cli = "fake"
    has_more = False
    given: list[tuple[str, str, tuple[int, ...]]]

    def read(self, context: ReadContext, touched: frozenset[str] | None) -> Sequence[Sighting]:
        pids = tuple(one.pid for one in context.processes_of("fake"))
        self.given = [(context.home, context.env.get("FAKE_HOME", ""), pids)]
        return [Sighting("fake", None, "/w", pid) for pid in pids]

    def watch_folders(self, context: ReadContext) -> Sequence[str]:
        return [context.env.get("FAKE_HOME") or context.home]


class Homes:
    def __init__(self, tmp: Path) -> None:
        self.made: list[NotedReads] = []
        self.reader = HomeReaders(PROGRAM, self.make)
        self.tmp = tmp
        (tmp / "other").mkdir()

    def make(self) -> NotedReads:
        self.made.append(NotedReads())
        return self.made[-1]

    def one(self, pid: int, **environment: str) -> AgentProcess:
        given = tuple(environment.items()) or None
        return replace(process("fake", self.tmp, pid=pid), environment=given)

    def read(self, *processes: AgentProcess) -> list[int | None]:
        context = world(self.tmp, self.tmp, now=time.time(), processes=processes)
        found = [one.pid for one in self.reader.read(context, frozenset())]
        self.folders = self.reader.watch_folders(context)
        return found


@pytest.fixture
def homes(tmp_path: Path) -> Homes:
    return Homes(tmp_path.resolve())


def test_a_process_of_another_home_is_read_there_and_by_itself(homes: Homes) -> None:
    other = str(homes.tmp / "other")
    here, there = homes.one(1, HOME=str(homes.tmp)), homes.one(2, HOME=str(homes.tmp), FAKE_HOME=other)
    assert homes.read(here, homes.one(3)) == [1, 3] and len(homes.made) == 1
    assert homes.read(here, there) == [1, 2]
    assert [one.given for one in homes.made] == [[(str(homes.tmp), "", (1,))], [(str(homes.tmp), other, (2,))]]
    assert homes.folders == sorted({other, str(homes.tmp)})
    assert homes.read(here) == [1] and homes.made[1].given == [(str(homes.tmp), other, ())], "its sessions ended there"


def test_a_home_of_another_user_is_not_read(homes: Homes, monkeypatch: pytest.MonkeyPatch) -> None:
    become_another_user(monkeypatch)
    assert homes.read(homes.one(2, HOME=str(homes.tmp / "other"))) == []
    assert len(homes.made) == 1


def test_a_real_process_names_its_home_and_nothing_else(tmp_path: Path) -> None:
    env = {"CODEX_HOME": "/elsewhere", "SECRET_TOKEN": "x", "HOME": str(tmp_path)}
    scan = ProcessScan(iter(range(10**6)).__next__)
    with running([named(tmp_path / "bin", "codex"), "60"], tmp_path, env=env) as codex:
        soon(lambda: any(one.pid == codex.pid for one in scan()))
        found = next(one for one in scan() if one.pid == codex.pid)
        assert dict(found.environment or ()) == {"CODEX_HOME": "/elsewhere", "HOME": str(tmp_path)}


def test_a_claude_with_a_folder_of_its_own_is_known(tmp_path: Path) -> None:
    own, tree, other = tmp_path / "home", tmp_path / "tree", tmp_path / "configured"
    for folder in (own, tree, other / "sessions"):
        folder.mkdir(parents=True, exist_ok=True)
    pid = os.getpid()
    started = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    entry = {
        "pid": pid,
        "sessionId": "11111111-0000-4000-8000-000000000001",
        "cwd": str(tree),
        "procStart": started,
        "startedAt": int(time.time() * 1000),
        "version": "2.1.326",
        "status": "idle",
        "statusUpdatedAt": int(time.time() * 1000),
    }
    (other / "sessions" / f"{pid}.json").write_text(json.dumps(entry))
    environment = (("HOME", str(own)), ("CLAUDE_CONFIG_DIR", str(other)))
    there = replace(process("claude", tree, pid=pid), started=started, environment=environment)
    reader = HomeReaders(claude.PROGRAM, claude.make)
    (one,) = reader.read(world(own, tree, now=time.time(), processes=[there]), None)
    found = truth(one, time.time())
    assert (one.pid, found.state, found.detail) == (pid, COMPLETED, NOTHING_ASKED)


def test_every_program_names_its_home() -> None:
    assert {"HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_DATA_HOME"} <= agents.home_variables()
