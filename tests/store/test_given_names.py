"""Names of agents: given once, kept for the session's life, and given to another only a day after they were last seen."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from imi_monitor import host, paths
from imi_monitor.model import times
from imi_monitor.model.agent import Agent, SessionFacts, Truth
from imi_monitor.model.agent_names import name_key
from imi_monitor.store import db, given_names, sessions
from tests.helpers import Repo, imi

NOW = times.now()


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = db.connect(str(tmp_path / "iMi.db"))
    yield opened
    opened.close()


def agent(
    ident: str | None, cli: str = "gemini", *, pid: int | None = None, started: str = "1", ended: bool = False
) -> Agent:
    truth = Truth("dead" if ended else "running", times.stamp(NOW), "transcript", "exact", ended=ended)
    own = ident if ident is not None else f"pid:{pid}"
    return Agent(f"{cli}:{own}", cli, cli, None, "/x", ident, pid, started, truth, SessionFacts(started_at=own))


def give(connection: sqlite3.Connection, *agents: Agent, hours: float = 0) -> list[str | None]:
    found = db.transact(connection, given_names.give_names, "here", agents, NOW + timedelta(hours=hours))
    return [found[name_key(one)].name if name_key(one) in found else None for one in agents]


def test_each_session_keeps_its_name_whatever_others_do(connection: sqlite3.Connection) -> None:
    eleven = [agent(f"{number:02}") for number in range(1, 12)]
    before = give(connection, *eleven)
    assert before == [f"gemini-{number}" for number in range(1, 12)]
    assert give(connection, *eleven[3:], agent("a"), agent("b", "codex")) == [*before[3:], "gemini-12", "codex-1"]
    assert give(connection, eleven[0]) == ["gemini-1"], "one that comes back has its old name"
    again = db.read(connection, given_names.read_names, "here", eleven)
    assert [again[name_key(one)].name for one in eleven] == before
    assert db.read(connection, given_names.read_names, "elsewhere", eleven) == {}


def test_a_name_is_free_a_day_after_its_session_was_last_seen(connection: sqlite3.Connection) -> None:
    assert give(connection, agent("1")) == ["gemini-1"]
    assert give(connection, agent("2"), hours=23) == ["gemini-2"]
    assert give(connection, agent("3"), hours=25) == ["gemini-1"]
    assert give(connection, agent("1"), hours=25) == ["gemini-3"], "a name means one agent"
    assert give(connection, agent("2"), hours=40) == ["gemini-2"], "seen again: kept for another day"
    assert give(connection, agent("4"), hours=60) == ["gemini-1"]


def test_a_name_is_kept_while_its_process_runs(connection: sqlite3.Connection) -> None:
    here = agent("1", pid=os.getpid(), started=host.start_time(os.getpid()) or "")
    assert give(connection, here) == ["gemini-1"]
    assert give(connection, agent("2"), hours=100) == ["gemini-2"]


def test_a_name_is_kept_while_its_death_is_shown(connection: sqlite3.Connection) -> None:
    assert give(connection, agent("1")) == ["gemini-1"]
    for hours in (20, 40, 60):
        assert give(connection, agent("1", ended=True), hours=hours) == ["gemini-1"]
    assert give(connection, agent("2"), hours=70) == ["gemini-2"]


def test_a_name_that_means_an_owner_is_given_to_no_agent(repo: Repo) -> None:
    repo.worktree("feat-a")
    assert imi("claim", "feat-a", "--agent", "gemini-1", cwd=repo.path).code == 0
    assert imi("claim", "feat-a", "--agent", "gemini-2", "--force", "--reason", "x", cwd=repo.path).code == 0
    with closing(db.connect(paths.default_database())) as connection:
        assert give(connection, agent("1")) == ["gemini-3"]
        connection.execute("UPDATE agents SET last_seen_at = '2020-01-01T00:00:00+00:00'")
        connection.execute("UPDATE claim_history SET released_at = '2020-01-01T00:00:00+00:00'")
        assert give(connection, agent("2")) == ["gemini-1"], "the claim that holds is gemini-2's"


def test_a_name_of_a_run_is_given_to_no_agent(connection: sqlite3.Connection) -> None:
    """Also of a run without a worktree, which has no claim."""
    columns = "id, host, program, way, status, agent_id, user, cwd, folder, launch, created_at, ended_at"
    ended = times.stamp(NOW - timedelta(hours=1))
    for run, end in (("1", None), ("2", ended)):
        row = (run, "here", "gemini", "task", "running", f"gemini-{run}", "me", "/x", "/f", "/l", "2020", end)
        connection.execute(f"INSERT INTO runs ({columns}) VALUES ({', '.join('?' * 12)})", row)
    assert give(connection, agent("1")) == ["gemini-3"]
    assert give(connection, agent("2"), hours=30) == ["gemini-2"], "a day after the run's end"


def test_a_process_keeps_its_name_when_its_session_is_found(connection: sqlite3.Connection) -> None:
    assert give(connection, agent(None, pid=7), agent(None, pid=8)) == ["gemini-1", "gemini-2"]
    assert give(connection, agent("s", pid=8)) == ["gemini-2"]
    assert give(connection, agent(None, pid=8, started="2")) == ["gemini-3"], "the same pid is another process"


def test_ended_sessions_take_no_new_name(connection: sqlite3.Connection) -> None:
    died = agent("1", ended=True)
    assert give(connection, died, agent("2")) == [None, "gemini-1"]
    db.transact(connection, given_names.mark_looked_at, "here", died)
    (known,) = db.read(connection, given_names.read_names, "here", [died]).values()
    looked = times.parse(known.looked_at)
    assert known.name is None and looked is not None and looked >= NOW
    assert give(connection, replace(died, truth=replace(died.truth, ended=False))) == ["gemini-2"], "resumed"


def test_shown_ids_are_long_enough_to_mean_one_session(connection: sqlite3.Connection) -> None:
    ids = (
        "codex:019a9c3b-1111-7a",
        "codex:019a9c3b-1112-7b",
        "opencode:ses_e0dbA",
        "opencode:ses_e0dbAB",
        "claude:f" * 3,
    )
    for number, ident in enumerate(ids):
        connection.execute(
            "INSERT INTO sessions (id, host, cli, agent_id, status, status_at, seen_at, created_at, updated_at)"
            " VALUES (?, 'h', 'c', ?, 'running', '1', ?, '1', '1')",
            (ident, ident, str(number)),
        )
    found = sessions.find(connection, sessions.SessionFilter())
    short = sessions.shortest_ids(connection, found)
    for one in found:
        assert len(short[one.seq]) >= min(8, len(one.own_id))
        assert [each.id for each in sessions.find_by_prefix(connection, short[one.seq])] == [one.id]
