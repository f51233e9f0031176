"""Replays recordings of real agent programs (tests/real_agents/recorder.py made them) for imi's readers.

A replay writes what the program wrote, at the time of the recording. Its processes exist only in the replay, without titles of
their terminals and without children, so the readers have to decide from the files, the locks and the processes.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from imi_monitor import host
from imi_monitor.model.agent import DEAD, PLANNING, RUNNING, WAITING, Agent
from imi_monitor.model.snapshot import Key
from imi_monitor.sources import agents
from imi_monitor.sources.agents.agent_poll import AgentPoll
from imi_monitor.sources.agents.agent_reader import AgentProcess
from imi_monitor.sources.agents.claude.live_registry import slug
from imi_monitor.sources.agents.codex.thread_owners import LockFile, ThreadLocks
from tests.helpers import set_clock
from tests.real_agents.recorder import DATABASE, FOLDER
from tests.sources.agents.fakes import opencode

NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.jsonl")))

_BETWEEN = frozenset({RUNNING, PLANNING, WAITING})  # a step begins with a prompt, and a command may be asked for first

Event = Mapping[str, Any]


@cache
def events_of(name: str) -> tuple[Event, ...]:
    return tuple(json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_text().splitlines())


@dataclass
class RecordedTerminal:
    """One terminal of the recording, and the states that it may be in now.

    At the end of a step, when all is written, it is in one of the `expected` ones.
    """

    pids: frozenset[int] = frozenset()
    allowed: frozenset[str] = frozenset()
    expected: frozenset[str] = frozenset()
    session: str | None = None


@dataclass
class Replay:
    """One recording, replayed into a folder up to some event."""

    name: str
    folder: Path
    now: float = 0.0
    processes: tuple[AgentProcess, ...] = ()
    terminals: dict[int, RecordedTerminal] = field(default_factory=dict)
    locks: dict[str, int | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.home, self.tree = self.folder / "home", self.folder / "app"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.home.mkdir(parents=True)
        self.tree.mkdir()
        self.expected = _next_states(events_of(self.name))

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Let imi see this home, these processes and this time."""
        patch.setenv("HOME", str(self.home))
        set_clock(patch, lambda: int(self.now * 1e9))
        patch.setattr(host, "start_time_and_suspension", lambda pid: (self._start_time(pid), False))
        patch.setattr(ThreadLocks, "read", lambda locks, anew: self._read_locks(locks))

    def _start_time(self, pid: int) -> str | None:
        return next((one.started for one in self.processes if pid in (one.pid, *one.family)), None)

    def _read_locks(self, locks: ThreadLocks) -> None:
        locks.readable, locks.threads = True, {name: LockFile(pid) for name, pid in self.locks.items()}

    def monitor(self) -> AgentPoll:
        """A monitor that starts now."""
        names = (self.name, "process_scan")
        readers = [one for one in agents.all_readers() if one.cli in (self.name, "processes")]
        assert len(readers) == len(names)
        return AgentPoll(readers, lambda: self.processes, {})

    def agents(self, monitor: AgentPoll) -> list[Agent]:
        result = monitor.poll(None, {os.path.realpath(self.tree): Key("host", "app", "app")})
        assert not result.failures
        return [one.agent for one in result.agents]

    # -- events ---------------------------------------------------------------------------------------------------

    def forward(self, events: Sequence[Event]) -> None:
        """Let all these events happen; rows of a database are written once."""
        rows: dict[tuple[str, str], Mapping[str, Any]] = {}
        for event in events:
            if "rows" in event:
                self.now = max(self.now, float(event["at"]))
                rows |= {(one["table"], one["id"]): one for one in event["rows"]}
            else:
                self.apply(event)
        if rows:
            self._put(list(rows.values()))

    def apply(self, event: Event, cut: int | None = None) -> None:
        """Let one event happen. `cut`: bytes of an appended text that are written."""
        self.now = max(self.now, float(event["at"]))
        if "file" in event or "gone" in event:
            self._write(event, cut)
        elif "processes" in event:
            self.processes = tuple(self._process(one) for one in event["processes"])
        elif "locks" in event:
            self.locks = dict(event["locks"])
        elif "rows" in event:
            self._put(event["rows"])
        elif "step" in event:
            known = self.terminals.setdefault(event["terminal"], RecordedTerminal())
            known.pids = known.pids | frozenset(event["pids"])
            known.allowed |= frozenset(event["expected"])  # the screen may be ahead of the files
            known.expected = frozenset(event["expected"])
        elif "leaves" in event and event["leaves"] in self.terminals:
            one = self.terminals[event["leaves"]]
            later = self.expected.get((event["leaves"], event["at"]), frozenset())
            one.allowed = one.expected | later | _BETWEEN

    def _write(self, event: Event, cut: int | None) -> None:
        path = self.home / self._placed(event.get("file") or event["gone"])
        if "gone" in event:
            path.unlink(missing_ok=True)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        text = self._placed(event.get("append") or event["text"]).encode()
        with path.open("ab" if "append" in event else "wb") as file:
            file.write(text if cut is None or "text" in event else text[:cut])
        os.utime(path, (self.now, self.now))

    def _placed(self, text: str) -> str:
        tree, home = os.path.realpath(self.tree), str(self.home)
        return text.replace("@TREE@", tree).replace("@SLUG@", slug(tree)).replace("@HOME@", home)

    def _process(self, one: Mapping[str, Any]) -> AgentProcess:
        argv, tree = tuple(self._placed(word) for word in one["argv"]), os.path.realpath(self.tree)
        return AgentProcess(
            self.name, one["pid"], one["started"], tree, argv, one["began_at"], frozenset(one["family"])
        )

    def _put(self, rows: Sequence[Mapping[str, Any]]) -> None:
        path = self.home / DATABASE
        with closing(opencode.open_book(path)) as book:
            for row in rows:
                columns = {one[1] for one in book.execute(f"pragma table_info({row['table']})")}
                values = {name: value for name, value in row.items() if name in columns}
                placed = {name: self._placed(one) if isinstance(one, str) else one for name, one in values.items()}
                opencode.put(book, row["table"], placed)
            book.execute("pragma wal_checkpoint(truncate)")
        os.utime(path, (self.now, self.now))

    # -- what imi says --------------------------------------------------------------------------------------------

    def judged(self, found: Sequence[Agent]) -> Iterator[tuple[RecordedTerminal, Agent]]:
        """Each terminal with the agent that imi sees in it."""
        for one in self.terminals.values():
            living = next((agent for agent in found if agent.pid in one.pids and not agent.truth.ended), None)
            if living is not None and living.session is not None:
                for other in self.terminals.values():  # a session that was resumed has left its former terminal
                    other.session = None if other.session == living.session else other.session
                one.session = living.session
            agent = living or next((each for each in found if _is_former(each, one)), None)
            if agent is not None:
                yield one, agent


def _is_former(agent: Agent, one: RecordedTerminal) -> bool:
    """Whether it is the session that the terminal had, in no other process."""
    same = one.session is not None and agent.session == one.session
    return same and (agent.truth.ended or agent.pid is None or agent.pid in one.pids)


def _next_states(events: Sequence[Event]) -> dict[tuple[int, float], frozenset[str]]:
    """(terminal, when its state may change) -> the states that its next step may have; DEAD if its process may end."""
    found: dict[tuple[int, float], frozenset[str]] = {}
    later: dict[int, frozenset[str]] = {}
    for event in reversed(events):
        if "step" in event:
            later[event["terminal"]] = frozenset(event["expected"])
        elif "leaves" in event:
            found[event["leaves"], event["at"]] = later.get(event["leaves"], frozenset({DEAD}))
    return found
