"""What a run says of its agent, joined with what the readers found, and the rows of runs without a worktree."""

from __future__ import annotations

from dataclasses import replace

import pytest

from imi_monitor.model import agent as states
from imi_monitor.model import agent_text, attention, snapshot_json
from imi_monitor.model.agent import Agent, ToolCall
from imi_monitor.model.agent_text import waits_for
from imi_monitor.model.change import Change
from imi_monitor.model.run import Run, WantedDelivery
from imi_monitor.model.run_agents import RunAgents
from imi_monitor.model.run_rows import RunRows, with_claims
from imi_monitor.model.snapshot import ClaimState, Key
from tests.ui import sample_agents, sample_runs, sample_snapshots


def joined(one: Run, *found: Agent) -> Agent:
    """The only agent of the run."""
    agents = RunAgents().join(found, (one,))
    mine = [agent for agent in agents if agent.run == one.id]
    assert len(mine) == 1 and len(agents) == max(1, len(found))
    return mine[0]


def seen(one: Run, state: str, **other: object) -> Agent:
    """The agent of the run as a reader of its program found it."""
    made = sample_agents.agent(one.program, "fix-bug", state, session=one.session or "", source="transcript")
    return replace(made, pid=one.pid, pid_started=one.pid_started, **other)  # type: ignore[arg-type]


def test_agents_that_share_a_contained_workspace_share_its_row_which_has_the_key_of_its_claim() -> None:
    world, rows = sample_runs.shared(), RunRows()
    change = Change("~contained", "default", "modified", "a.md", "2026-01-27T14:02:00+00:00")
    before = {tree.key: tree for tree in rows.merge(world).worktrees}
    merged = rows.merge(replace(world, changes=(change,)))
    found = {tree.key: tree for tree in merged.worktrees if tree.run is not None}
    key, alone = (Key(world.host, *rest) for rest in (("~contained", "default"), ("~runs", sample_runs.DONE.short)))
    assert set(found) == {key, alone}
    assert found[key].last_change is change and found[key].type == "contained"
    assert found[key].run is not None and found[key].run.id == sample_runs.ASKS.id, "the one that asks"
    assert {agent.name for agent in merged.agents_in(key)} == {sample_runs.ASKS.agent, sample_runs.QUEUED.agent}
    assert found[alone] is before[alone], "it did not change"


def test_a_row_is_about_the_run_that_a_person_has_to_see() -> None:
    flat = {"key": None, "workspace": "/tmp/denker_workspace/default"}
    waits = (WantedDelivery("a.md", "/srv/a.md", waits=True),)
    over, works, asks = (replace(one, **flat) for one in (sample_runs.DONE, sample_runs.WORKS, sample_runs.ASKS))

    def shown(*runs: Run) -> str:
        rows = RunRows().merge(sample_runs.with_runs(sample_snapshots.busy(), *runs)).worktrees
        [row] = [tree for tree in rows if tree.run is not None]
        assert row.run is not None
        return row.run.id

    assert shown(over, works) == works.id
    assert shown(works, asks, over) == asks.id
    assert shown(works, asks, replace(over, deliveries=waits)) == over.id
    assert shown(works, replace(works, id="0" * 32)) == works.id, "the newest"


def test_a_claim_is_that_of_each_run_in_the_workspace() -> None:
    world = sample_runs.shared()
    claim = ClaimState(Key(world.host, "~contained", "default"), "ada", "held", 1, None, None, None, None)
    told = with_claims(world.host, world.runs, {claim.key: claim})
    assert [one.claim for one in told] == [claim, claim, None]
    assert with_claims(world.host, world.runs, {}) is world.runs


@pytest.mark.parametrize(("level", "shown"), [("write", "write"), ("strict", "strict"), (None, "off")])
def test_an_agent_carries_the_level_of_its_wall(level: str | None, shown: str) -> None:
    one = replace(sample_runs.WORKS, wall=level)
    for made in (joined(one), joined(one, seen(one, states.RUNNING))):
        assert made.wall == shown
        assert snapshot_json.agent_data(made)["wall"] == shown
        assert ("wall " in agent_text.table([made], sample_snapshots.NOW)[0]) is (level is not None)
    assert snapshot_json.agent_data(sample_agents.EDITS)["wall"] is None, "imi did not start it"


@pytest.mark.parametrize(
    ("one", "word"),
    [
        (sample_runs.ASKS, "asks"),
        (sample_runs.WORKS, "works"),
        (sample_runs.QUEUED, "queued"),
        (sample_runs.CRASHED, "dead"),
        (sample_runs.DONE, "done"),
        (replace(sample_runs.WORKS, status="starting", state=None), "works"),
        (replace(sample_runs.WORKS, shown="stalled"), "stalled"),
        (replace(sample_runs.WORKS, state=None), "works"),
        (replace(sample_runs.WORKS, state=None, way="window"), "unknown"),
        (replace(sample_runs.WORKS, gone=True), "dead"),
        (replace(sample_runs.DONE, status="failed"), "failed"),
    ],
)
def test_a_run_without_a_sighting_has_an_agent_of_its_own(one: Run, word: str) -> None:
    made = joined(one)
    assert attention.word(made) == word
    assert (made.name, made.key, made.session, made.pid) == (one.agent, one.key, one.session, one.pid)


def test_what_a_permission_is_asked_for_stands_in_front() -> None:
    assert waits_for(joined(sample_runs.ASKS).truth, tool_first=True) == "Bash npm publish --dry-run · permission"


def test_the_output_of_a_run_outranks_a_reader_that_says_something_else() -> None:
    asks = replace(sample_runs.ASKS, key=sample_runs.WORKS.key)
    told = joined(asks, seen(asks, states.RUNNING))
    assert told.state == states.WAITING and told.truth.source == "run" and told.name == asks.agent


def test_a_reader_that_says_the_same_keeps_its_details() -> None:
    found = seen(sample_runs.WORKS, states.RUNNING)
    found = replace(found, truth=replace(found.truth, tool=ToolCall("Edit", "a.py")))
    assert str(joined(sample_runs.WORKS, found).truth.tool) == "Edit a.py"


def test_a_run_whose_program_says_nothing_of_its_state_leaves_the_reader_the_word() -> None:
    silent = replace(sample_runs.WORKS, state=None, tool=None, way="window")
    assert joined(silent, seen(silent, states.COMPLETED)).truth.source == "transcript"


def test_a_process_without_a_session_is_the_agent_of_its_run_and_is_shown_once() -> None:
    one = sample_runs.WORKS
    process = replace(seen(one, states.UNKNOWN), id=f"codex:pid:{one.pid}", session=None)
    assert (joined(one, process).id, joined(one, process).session) == (f"codex:{one.session}", one.session)
    agents = RunAgents().join((seen(one, states.RUNNING), process), (one,))
    assert [(agent.id, agent.run) for agent in agents] == [(f"codex:{one.session}", one.id)]


def test_a_session_that_another_process_has_taken_up_is_no_longer_the_runs() -> None:
    over = replace(sample_runs.CRASHED, key=None)
    elsewhere = replace(seen(over, states.RUNNING), pid=1, id=f"{over.program}:{over.session}")
    agents = RunAgents().join((elsewhere,), (over,))
    assert [agent.run for agent in agents] == [None, over.id]


def test_unchanged_runs_and_rows_stay_the_same_objects() -> None:
    world = sample_runs.started()
    agents, rows = RunAgents(), RunRows()
    first, again = (agents.join((), world.runs) for _ in range(2))
    assert all(one is two for one, two in zip(first, again, strict=True))
    merged = [rows.merge(replace(world, seq=seq)) for seq in (1, 2)]
    assert all(one is two for one, two in zip(merged[0].worktrees, merged[1].worktrees, strict=True))
    assert all(one is two for one, two in zip(merged[0].agents, merged[1].agents, strict=True))


def test_only_a_run_without_a_worktree_is_a_row() -> None:
    rows = [tree for tree in RunRows().merge(sample_runs.started()).worktrees if tree.run is not None]
    assert [tree.run and tree.run.key for tree in rows] == [None] * 3
    assert [tree.key.worktree for tree in rows] == ["9e8f7a6b", "1b2c3d4e", "4d5e6f70"]
    assert {tree.owner for tree in rows} == {"gemini-9e8f7a6b", "claude-1b2c3d4e", "opencode-4d5e6f70"}


def test_without_runs_a_snapshot_stays_as_it_is() -> None:
    world = sample_snapshots.busy()
    assert RunRows().merge(world) is world and RunAgents().join(world.agents, ()) is world.agents
