"""Recorded sessions: once, in the right order of states, by any number of monitors. # S3.1-S3.8 S0.14"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imi_monitor.model import session_status as life
from imi_monitor.model.agent import (
    CANCELLED,
    COMPLETED,
    DEAD,
    FAILED,
    NOTHING_ASKED,
    PLANNING,
    RUNNING,
    STATES,
    UNKNOWN,
    WAITING,
)
from imi_monitor.store import agents, claim_requests, db, session_events, session_writer, sessions
from tests.store import claim_kit
from tests.store.session_kit import (
    NOON,
    act,
    agent,
    all_rows,
    at,
    event_stream,
    record,
    record_observation,
    recorded_event_types,
    registry,
    session_row,
)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(registry(tmp_path / "iMi.db")) as connection:
        yield connection


def test_a_session_is_recorded_from_start_to_end(kept: sqlite3.Connection) -> None:
    record_observation(kept, agent(PLANNING, 0, started_at=at(-5), model="opus", prompt="make it", tokens_in=10), now=1)
    first = session_row(kept)
    assert (first["status"], first["started_at"], first["ended_at"], first["cli"]) == (PLANNING, at(-5), None, "claude")
    assert (first["repo_name"], first["worktree_name"], first["model"]) == ("app", "feat-x", "opus")
    record_observation(kept, agent(RUNNING, 5), now=6)
    record_observation(kept, agent(WAITING, 9, detail="permission for Bash"), now=10)
    assert session_row(kept)["detail"] == "permission for Bash" and session_row(kept)["status_at"] == at(9)
    record_observation(kept, agent(COMPLETED, 20), now=21)
    assert session_row(kept)["detail"] is None, "it waits for nothing any more"
    record_observation(kept, agent(RUNNING, 30), now=31)
    record_observation(kept, agent(COMPLETED, 40, ended=True), now=41)
    last = session_row(kept)
    assert (last["status"], last["ended_at"], last["lost"]) == (COMPLETED, at(40), None)
    assert (last["model"], last["prompt"], last["tokens_in"]) == ("opus", "make it", 10), "what is not said is not lost"
    assert [(status, moment) for kind, status, moment in event_stream(kept) if kind == "status"] == [
        (RUNNING, at(5)),
        (WAITING, at(9)),
        (None, at(20)),
        (COMPLETED, at(20)),
        (RUNNING, at(30)),
        (COMPLETED, at(40)),
    ]
    assert recorded_event_types(kept) == [
        "started",
        "progress",
        "progress",
        "progress",
        "progress",
        "progress",
        "ended",
    ]


@settings(max_examples=60)
@given(looks=st.lists(st.tuples(st.sampled_from(STATES), st.integers(0, 30), st.booleans(), st.integers(1, 3))))
def test_any_observations_lead_through_allowed_status_steps(looks: list[tuple[str, int, bool, int]]) -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        from imi_monitor.store import schema

        for script in schema.MIGRATIONS:
            connection.executescript(script)
        for number, (state, since, ended, pid) in enumerate(looks):
            session_writer.record(connection, [record(agent(state, since, ended=ended, pid=pid), now=60 + number)])
        steps = [
            json.loads(data)
            for (data,) in connection.execute("SELECT data FROM session_events WHERE kind = 'status' ORDER BY seq")
        ]
        for step in steps:
            before, status = step["from"], step["to"]
            again = before in (life.INTERRUPTED, UNKNOWN)  # it is known again what it does
            assert again or life.is_allowed(before, status) or life.is_correction(before, status)
        if looks:
            status, lost = connection.execute("SELECT status, lost FROM sessions").fetchone()
            assert status in life.STATUSES and life.displayed_status(status, lost) in life.SHOWN
            assert not steps or steps[-1]["to"] == status


def test_a_crashed_session_is_interrupted_and_can_resume(kept: sqlite3.Connection) -> None:
    record_observation(
        kept, agent(RUNNING, 5), act("tool_started", "t1", 6, "make", tool="Bash make", call="c1"), now=7
    )
    record_observation(kept, agent(DEAD, 8), now=9)
    dead = session_row(kept)
    assert (dead["status"], dead["lost"], dead["ended_at"]) == (RUNNING, "interrupted", at(8))
    assert kept.execute("SELECT status, finished_at FROM tool_calls").fetchone() == ("cancelled", at(8))
    assert agents.list_agents(kept)[0].status == "error"
    record_observation(kept, agent(RUNNING, 20, pid=99), now=21)
    alive = session_row(kept)
    assert (alive["status"], alive["lost"], alive["ended_at"], alive["pid"]) == (RUNNING, None, None, 99)
    assert recorded_event_types(kept) == ["started", "ended", "started"]
    assert agents.list_agents(kept)[0].status == "active"


def test_an_agent_that_was_never_asked_has_completed_no_turn(kept: sqlite3.Connection) -> None:
    def changes() -> list[str]:
        return [one.status for one in sessions.list_status_changes(kept, [session_row(kept)["seq"]])]

    record_observation(kept, agent(COMPLETED, 5, detail=NOTHING_ASKED), now=6)
    assert (session_row(kept)["status"], changes()) == (COMPLETED, ["ready"])
    spent = life.measure_session_time([(at(5), "ready")], NOON, NOON + timedelta(seconds=9))
    assert (spent.completed, spent.idle) == (0, 4.0)
    record_observation(kept, agent(RUNNING, 9), now=10)
    record_observation(kept, agent(COMPLETED, 12), now=13)
    assert changes() == ["ready", RUNNING, COMPLETED]


def test_a_session_that_ends_in_a_turn_is_cancelled(kept: sqlite3.Connection) -> None:
    record_observation(kept, agent(WAITING, 5), now=6)
    record_observation(kept, agent(WAITING, 5, ended_at=at(9)), now=10)
    assert (session_row(kept)["status"], session_row(kept)["ended_at"]) == (CANCELLED, at(9))


def test_an_older_observation_does_not_set_a_session_back(kept: sqlite3.Connection) -> None:
    record_observation(kept, agent(COMPLETED, 10), now=11)
    record_observation(kept, agent(RUNNING, 4), now=12)  # another monitor, far behind
    assert session_row(kept)["status"] == COMPLETED
    record_observation(kept, agent(WAITING, 9.9), now=12)  # the agent's registry wrote this down before its transcript
    assert session_row(kept)["status"] == WAITING
    record_observation(kept, agent(RUNNING, 12, pid=2), now=13)
    record_observation(kept, agent(DEAD, 8, pid=1), now=14)  # it saw the process die in which the session lived before
    assert (session_row(kept)["status"], session_row(kept)["ended_at"]) == (RUNNING, None)
    record_observation(kept, agent(COMPLETED, 15, ended=True, pid=2), now=16)
    record_observation(kept, agent(RUNNING, 13, pid=2), now=17)
    assert session_row(kept)["ended_at"] == at(15), "one that still saw it running does not bring it back"


def test_an_unknown_state_is_recorded_beside_the_status(kept: sqlite3.Connection) -> None:
    record_observation(kept, agent(WAITING, 5), now=6)
    record_observation(kept, agent(UNKNOWN, 5), now=700)
    assert (session_row(kept)["status"], session_row(kept)["lost"]) == (WAITING, "unknown")
    record_observation(kept, agent(WAITING, 5), now=800)
    assert (session_row(kept)["status"], session_row(kept)["lost"]) == (WAITING, None)
    assert [status for _, status, _ in event_stream(kept)][-2:] == ["unknown", WAITING]


def test_a_missing_start_time_is_filled_in_later(kept: sqlite3.Connection) -> None:
    record_observation(kept, agent(UNKNOWN, 500), now=500)
    record_observation(kept, agent(RUNNING, 30), now=501)  # its records are read now
    assert (session_row(kept)["status"], session_row(kept)["lost"], session_row(kept)["status_at"]) == (
        RUNNING,
        None,
        at(30),
    )


def test_a_session_over_before_its_first_observation_records_no_events(kept: sqlite3.Connection) -> None:
    record_observation(kept, agent(FAILED, 5, ended=True), act("failed", "f", 5, "API error"), now=4000)
    assert (session_row(kept)["status"], session_row(kept)["ended_at"]) == (FAILED, at(5))
    assert recorded_event_types(kept) == []
    assert any(kind == "failed" for kind, _, _ in event_stream(kept))


ACTS = (
    act("started", "a0", 0, "new"),
    act("prompt", "a1", 1, "do it"),
    act("tool_started", "a2", 2, "pytest -q", tool="Bash pytest -q", call="c1"),
    act("waits", "a3", 3, "permission", tool="Bash pytest -q", call="c1"),
    act("answered", "a4", 4, "yes"),
    act("tool_finished", "a5", 6, "3 passed", tool="Bash", call="c1", ok=True),
    act("tool_started", "a6", 7, "patch", tool="Edit src/a.py", call="c2", subagent="helper"),
    act(
        "tool_finished",
        "a7",
        8,
        "done",
        tool="Edit src/a.py",
        call="c2",
        ok=False,
        files=("/w/feat-x/src/a.py", "/w/feat-x/notes/plan.md"),
        subagent="helper",
    ),
    act("completed", "a8", 9),
    act("plan", "a9", 2, "1. this 2. that"),
)


def test_recording_the_same_session_again_in_parts_changes_nothing(kept: sqlite3.Connection, tmp_path: Path) -> None:
    one = agent(COMPLETED, 9)
    record_observation(kept, one, *ACTS)
    whole = all_rows(kept)
    for _ in range(3):
        record_observation(kept, one, *ACTS)
    assert all_rows(kept) == whole
    with closing(registry(tmp_path / "other.db")) as other:
        for each in reversed(ACTS):  # old records are read after new ones
            record_observation(other, one, each)
        calls = (
            "SELECT id, name, input, input_sha256, output, status, subagent, started_at, finished_at FROM tool_calls"
            " ORDER BY id"
        )
        assert other.execute(calls).fetchall() == kept.execute(calls).fetchall()
        shown = "CASE kind WHEN 'status' THEN 'status' ELSE id END, type, kind, at, status, call, text, data"
        assert sorted(event_stream(other, shown), key=str) == sorted(event_stream(kept, shown), key=str)
        assert session_writer.known_event_ids(
            other, session_row(other)["host"], [("claude:s1", ["a1", "a5", "nope"])]
        ) == {("claude:s1", "a1"), ("claude:s1", "a5")}


def test_session_events_tool_calls_and_files_are_recorded(kept: sqlite3.Connection) -> None:  # S3.4 S3.5
    record_observation(kept, agent(COMPLETED, 9), *ACTS)
    lines = session_events.list_session_events(kept, session_row(kept)["seq"])
    types = {line.kind: line.type for line in lines}
    assert {types[kind] for kind in types} == {
        "log",
        "plan_update",
        "tool_started",
        "tool_finished",
        "diff",
        "status_change",
    }  # S3.5
    assert [line.at for line in lines] == sorted(line.at for line in lines)
    done = next(line for line in lines if line.id == "a5")
    assert (done.tool, done.input, done.output, done.call_status) == ("Bash", "pytest -q", "3 passed", "success")
    assert (done.started_at, done.finished_at) == (at(2), at(6))
    files = {file.path: file.kind for file in session_events.list_artifacts(kept, session_row(kept)["seq"])}
    assert files == {"src/a.py": "code", "notes/plan.md": "note"}  # S3.3
    assert kept.execute("SELECT status, subagent FROM tool_calls WHERE id = 'c2'").fetchone() == ("failure", "helper")
    assert kept.execute(
        "SELECT count(*) FROM session_events WHERE data LIKE '%helper%' AND status IS NOT NULL"
    ).fetchone() == (0,)


def test_a_late_end_of_a_tool_call_replaces_the_assumed_one(kept: sqlite3.Connection) -> None:
    record_observation(kept, agent(RUNNING, 1), ACTS[2], now=3)
    record_observation(kept, agent(CANCELLED, 5), now=6)
    assert kept.execute("SELECT status FROM tool_calls").fetchone() == ("cancelled",)
    record_observation(kept, agent(CANCELLED, 5), ACTS[5], now=7)
    assert kept.execute("SELECT status, finished_at, output FROM tool_calls").fetchone() == (
        "success",
        at(6),
        "3 passed",
    )


def test_the_agents_row_shows_its_newest_session(kept: sqlite3.Connection) -> None:  # S3.6 S3.8
    db.transact(kept, claim_requests.claim, "app", "feat-x", claim_kit.request("claude-1"))
    record_observation(kept, agent(WAITING, 5), now=6)
    entry = {one.name: one.status for one in agents.list_agents(kept)}
    assert entry == {"claude-1": "paused"} and session_row(kept)["agent_id"] == "claude-1"
    record_observation(kept, agent(RUNNING, 7, session="s2", worktree="feat-y"), now=8)
    assert {one.name: one.status for one in agents.list_agents(kept)} == {"claude-1": "paused", "claude:s2": "active"}
    record_observation(kept, agent(RUNNING, 7, session="s3"), now=9)
    assert session_row(kept, "claude:s3")["agent_id"] == "claude:s3", "a claim has one agent at most"
    db.transact(kept, claim_requests.heartbeat, "app", "feat-x", "claude-1", None)
    assert {one.name: one.status for one in agents.list_agents(kept)}["claude-1"] == "paused", "a heartbeat is no work"


def test_an_agent_gets_its_name_when_it_claims(kept: sqlite3.Connection) -> None:
    record_observation(kept, agent(RUNNING, 5), now=6)
    assert [one.name for one in agents.list_agents(kept)] == ["claude:s1"]
    db.transact(kept, claim_requests.claim, "app", "feat-x", claim_kit.request("my-agent", None))
    kept.execute("UPDATE claims SET pid = 4711")
    record_observation(kept, agent(RUNNING, 7), now=8)
    assert [one.name for one in agents.list_agents(kept)] == ["my-agent"]
    record_observation(kept, agent(COMPLETED, 9), now=10)
    told = kept.execute("SELECT agent_id FROM events WHERE type LIKE 'session.%' ORDER BY seq").fetchall()
    assert told == [("claude",), ("my-agent",)], "no agent is named by a session id"


def test_session_totals_only_grow_and_unknown_stays_unknown(kept: sqlite3.Connection) -> None:
    record_observation(kept, agent(tokens_in=100, context_used=50), now=1)
    record_observation(
        kept, agent(tokens_in=40, context_used=20, tokens_out=None), now=2
    )  # another reader is not through yet
    assert (session_row(kept)["tokens_in"], session_row(kept)["context_used"], session_row(kept)["tokens_out"]) == (
        100,
        20,
        None,
    )
    record_observation(kept, agent(tokens_in=2**70, cost_usd=float("nan")), now=3)
    assert (session_row(kept)["tokens_in"], session_row(kept)["cost_usd"]) == (100, None)


def test_a_session_without_recent_observation_is_unknown_or_interrupted(kept: sqlite3.Connection) -> None:
    import os

    from imi_monitor import host
    from imi_monitor.model import times

    def state(**columns: object) -> str:
        for name, value in columns.items():
            kept.execute(f"UPDATE sessions SET {name} = ?", (value,))
        return sessions.find(kept, sessions.SessionFilter())[0].state

    record_observation(kept, agent(RUNNING, 1, pid=None), now=1)
    assert state() == UNKNOWN, "not seen for years"
    mine = {"boot": host.boot(), "pid": os.getpid(), "pid_started": host.start_time(os.getpid())}
    assert state(**mine) == UNKNOWN, "it lives, but its state was not observed"
    assert state(seen_at=times.stamp()) == RUNNING
    assert state(pid_started="1") == life.INTERRUPTED, "its process is no more"
    assert state(status=COMPLETED) == COMPLETED
    assert [one.seq for one in sessions.find(kept, sessions.SessionFilter(state="completed"), 1)] == [1]


def test_sessions_follow_their_worktrees_name(kept: sqlite3.Connection) -> None:
    from imi_monitor.store import claims, worktrees

    record_observation(kept, agent(), now=1)
    db.transact(kept, claims.rename_worktree, "app", "feat-x", "feat-z")
    db.transact(kept, worktrees.rename, "app", "feat-x", "feat-z", path="/w/feat-z", branch=None, agent="a")
    assert session_row(kept)["worktree_name"] == "feat-z"


def test_sessions_are_found_by_id_prefix_and_filters(kept: sqlite3.Connection) -> None:
    record_observation(kept, agent(RUNNING, 1, session="abc-1", pid=None), now=1)
    record_observation(kept, agent(FAILED, 2, session="abd-2", cli="codex", worktree="feat-y"), now=2)
    record_observation(kept, agent(DEAD, 2, session="x" * 300), now=3)
    assert [one.own_id for one in sessions.find_by_prefix(kept, "abc")] == ["abc-1"]
    assert [one.own_id for one in sessions.find_by_prefix(kept, "codex:a")] == ["abd-2"]
    assert len(sessions.find_by_prefix(kept, "ab")) == 2
    assert sessions.find_by_prefix(kept, "%") == []
    ask = sessions.SessionFilter
    assert [one.cli for one in sessions.find(kept, ask(state="failed"))] == ["codex"]
    assert [one.own_id for one in sessions.find(kept, ask(agent="claude", state="live"))] == ["abc-1"]
    assert len(sessions.find(kept, ask(state="interrupted"))) == 1
    assert [one.cli for one in sessions.find(kept, ask(worktree_name="feat-y"))] == ["codex"]
    assert len(sessions.find(kept, ask(since=at(2)))) == 2
