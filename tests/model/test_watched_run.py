"""Runs of other programs as rows: their states, how long they are shown, and what hostile files make of them."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from imi_monitor.model import agent as states
from imi_monitor.model import attention, run_rows, snapshot_json, state_file, times, watched_run
from imi_monitor.model.contained_names import HOME, RUNS_HOME, WATCHED_HOME
from imi_monitor.model.foreign_run import ForeignRun
from imi_monitor.model.run import workspace_name
from imi_monitor.model.run_agents import RunAgents
from imi_monitor.model.run_rows import RunRows
from imi_monitor.model.session_record import session_id
from tests.ui import sample_runs
from tests.ui.payloads import PAYLOADS
from tests.ui.sample_snapshots import NOW, ago


def foreign(**other: Any) -> ForeignRun:
    given: dict[str, Any] = {"name": "run_1", "folder": "/x", "status": states.RUNNING, "started_at": ago(900)}
    return ForeignRun(**{**given, "updated_at": ago(60), "prompt": "do it", "log": None, **other})


@pytest.mark.parametrize(
    ("status", "word", "age", "shown"),
    [
        (states.RUNNING, "works", 60, True),
        (states.RUNNING, "works", 25 * 3600, False),
        (states.PLANNING, "works", 3600, True),
        (states.WAITING, "asks", 6 * 86400, True),
        (states.UNKNOWN, "unknown", 1800, True),
        (states.UNKNOWN, "unknown", 7200, False),
        (states.COMPLETED, "done", 1800, True),
        (states.COMPLETED, "done", 7200, False),
        (states.CANCELLED, "done", 1800, True),
        (states.FAILED, "failed", 7200, True),
        (states.DEAD, "dead", 7200, True),
        (states.DEAD, "dead", 25 * 3600, False),
    ],
)
def test_states_and_how_long_they_are_shown(status: str, word: str, age: float, shown: bool) -> None:
    row = watched_run.of_run(foreign(status=status, updated_at=ago(age)))
    assert watched_run.is_shown(row, NOW) is shown
    (agent,) = RunAgents().join((), (row,))
    assert attention.standing(agent) == word
    assert agent.id == session_id(agent) == "universal_agent:run_1", "views find its session in the registry"
    assert agent.truth.source == states.WORKSPACE and row.is_open == (word in ("works", "asks", "unknown"))


def test_the_newest_of_one_id_stays_and_what_is_old_goes() -> None:
    older, newer = (watched_run.of_run(foreign(updated_at=ago(age), prompt=str(age))) for age in (90, 30))
    other = watched_run.of_run(foreign(name="run_2"))
    assert watched_run.newest([older, newer, other], NOW) == (newer, other)
    assert watched_run.newest([older, newer, other], NOW + timedelta(days=2)) == ()
    many = [watched_run.of_run(foreign(name=f"run_{number}")) for number in range(300)]
    assert len(watched_run.newest(many, NOW)) == watched_run.MOST


@pytest.mark.parametrize(
    ("repo", "name", "shown"),
    [(RUNS_HOME, "1b2c3d4e", "run 1b2c3d4e"), (WATCHED_HOME, "1b2c3d4e", "1b2c3d4e"), (HOME, "default", "default")],
)
def test_only_a_run_folder_is_called_by_the_short_id_of_its_run(repo: str, name: str, shown: str) -> None:
    assert workspace_name(repo, name) == shown


def test_a_session_of_be_agents_is_a_row_with_its_progress() -> None:
    agents = {
        "backend": {"status": "completed", "startTime": ago(500), "endTime": ago(100)},
        "frontend": {"status": "failed", "startTime": ago(500), "blockers": [{"message": "no paint"}]},
    }
    leader = {"status": "in_progress", "startTime": ago(600), "priorityFile": "reports/x.md"}
    texts = {name: json.dumps(text) for name, text in {**agents, "orchestrator": leader}.items()}
    row = watched_run.of_session(state_file.read_session("session-1770537842", texts), "/w")
    assert row is not None
    assert (row.id, row.shown, row.prompt) == ("session-1770537842", "works", "reports/x.md")
    assert row.detail == "1 of 2 done, 1 failed: no paint" and row.since == times.stamp(times.parse(ago(100)))
    ours = {"mine": json.dumps({"status": "completed", "imi": {"program": "claude"}})}
    own = state_file.read_session("session-2", {**texts, **ours})
    assert watched_run.of_session(own, "/w") is None, "imi has written it: its runs are rows already"


def test_a_watched_run_is_a_row_and_in_the_json() -> None:
    world = sample_runs.watching()
    shown = RunRows().merge(world)
    rows = [tree for tree in shown.worktrees if tree.type == run_rows.WATCHED]
    assert [tree.run for tree in rows] == list(world.watched)
    assert {agent.key for agent in shown.agents if agent.truth.source == states.WORKSPACE} == {one.key for one in rows}
    data: Any = snapshot_json.snapshot_data(world)
    assert [one["id"] for one in data["watched"]] == [one.id for one in world.watched]
    json.dumps(data)
    later = sample_runs.replace(world, watched=world.watched[1:])
    told = [(one["type"], one.get("id")) for one in snapshot_json.change_data(world, later)]
    assert ("watched_gone", world.watched[0].id) in told


@pytest.mark.parametrize("bad", PAYLOADS.values())
def test_hostile_names_and_texts_become_harmless(bad: str) -> None:
    row = watched_run.of_run(foreign(name=bad, agent=bad, prompt=bad, problem=bad, program="big3"))
    for text in (row.agent, row.short, row.prompt or "", row.detail or ""):
        assert "\x1b" not in text and "\r" not in text
