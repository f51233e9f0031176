"""Contexts, processes and decided states for tests of one reader."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from imi_monitor.model.agent import Truth
from imi_monitor.model.truth import decide
from imi_monitor.sources.agents.agent_reader import AgentProcess, AgentReader, ReadContext, Sighting
from tests.limits import read_line
from tests.sources.agents.fake_processes import running

FIXTURES = Path(__file__).parent / "fixtures"
FAKES = Path(__file__).parent / "fakes"


def steps(cli: str, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FIXTURES / cli / f"{name}.jsonl").read_text().splitlines()]


def world(home: Path, *roots: Path, now: float, processes: Sequence[AgentProcess] = (), **env: str) -> ReadContext:
    real = tuple(os.path.realpath(root) for root in roots)
    return ReadContext(now, os.path.realpath(home), env, real, tuple(processes))


def process(cli: str, cwd: Path, began_at: float = 0.0, *argv: str, pid: int = 4242) -> AgentProcess:
    """An agent process that exists only in the context."""
    return AgentProcess(cli, pid, "1", os.path.realpath(cwd), argv or (cli,), began_at)


def truth(one: Sighting, now: float) -> Truth:
    moment = datetime.fromtimestamp(now, UTC)
    return decide(
        one.evidence, one.alive, moment, last_alive=one.last_alive, process_began=one.process_began, tied=one.tied
    )


def read_twice(reader: AgentReader, at: ReadContext) -> Sequence[Sighting]:
    """Read everything, then a tick, which must give the same without events."""
    first = reader.read(at, None)
    again = reader.read(at, frozenset())
    assert [replace(one, events=()) for one in first] == [replace(one, events=()) for one in again]
    assert not any(one.events for one in again)
    return first


class Driven:
    """A running fake agent that takes commands on stdin."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.heard()

    def __call__(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(command.encode() + b"\n")
        self.process.stdin.flush()
        self.heard()

    def heard(self) -> None:
        assert self.process.stdout is not None
        answer = read_line(self.process.stdout)
        assert answer == b"ok\n", answer


@contextmanager
def driven(argv: Sequence[str], cwd: Path) -> Iterator[Driven]:
    with running(argv, cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield Driven(process)


def python() -> str:
    """The base interpreter, which runs under any name; the environment's depends on its path."""
    return os.path.realpath(getattr(sys, "_base_executable", "") or shutil.which("python3") or sys.executable)
