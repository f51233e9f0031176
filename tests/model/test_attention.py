"""The standing of agents, their order, and which ended agents are still relevant."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from imi_monitor.model import agent as states
from imi_monitor.model import agent_text, attention, session_status, snapshot_json, state_words
from imi_monitor.model.agent import Agent, SessionFacts
from imi_monitor.ui import agent_cells
from tests.helpers import ROOT
from tests.ui import sample_agents as made
from tests.ui.sample_snapshots import ago


def one(state: str, name: str = "claude", *, claim: str = "none", **more: object) -> Agent:
    return replace(made.agent("claude", "feat-api", state, session=name, **more), name=name, claim=claim)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("agent", "stands", "group"),
    [
        (one(states.WAITING), "asks", "Needs you"),
        (one(states.WAITING, claim="other"), "asks", "Needs you"),
        (one(states.RUNNING, claim="other"), "intrudes", "Needs you"),
        (one(states.COMPLETED, claim="other"), "intrudes", "Needs you"),
        (one(states.UNKNOWN, claim="other"), "intrudes", "Needs you"),
        (one(states.COMPLETED, claim="other", ended=True), "done", "Done"),
        (one(states.FAILED), "failed", "Needs you"),
        (one(states.FAILED, ended=True), "failed", "Done"),
        (one(states.DEAD, ended=True), "dead", "Dead"),
        (one(states.DEAD, claim="other", ended=True), "dead", "Dead"),
        (one(states.RUNNING), "works", "Working"),
        (one(states.PLANNING), "works", "Working"),
        (one(states.UNKNOWN), "unknown", "Unknown"),
        (one("a state of tomorrow"), "unknown", "Unknown"),
        (one(states.COMPLETED), "idle", "Idle"),
        (one(states.CANCELLED), "idle", "Idle"),
        (one(states.CANCELLED, ended=True), "done", "Done"),
        (one(states.RUNNING, facts=SessionFacts(ended_at=ago(5))), "done", "Done"),  # it recorded its own end
    ],
)
def test_the_standing_of_each_state(agent: Agent, stands: str, group: str) -> None:
    assert (attention.standing(agent), snapshot_json.agent_data(agent)["group"]) == (stands, group)
    assert stands in attention.STANDINGS


def test_every_state_has_the_word_of_the_glossary() -> None:
    row = next(line for line in (ROOT / "CONTRIBUTING.md").read_text().splitlines() if line.startswith("| state |"))
    own = set(state_words.MEANINGS) - {state_words.INTRUDES}  # that is about the claim
    assert set(row.partition(": ")[2].rstrip(" |").split(", ")) == own
    assert set(map(state_words.of_status, (*states.STATES, *session_status.SHOWN))) <= own
    assert set(agent_cells.SIGNS) == set(state_words.MEANINGS)
    assert {*state_words.SYNONYMS.values()} <= set(state_words.MEANINGS)


def test_an_agent_without_a_prompt_is_ready_and_not_idle() -> None:
    fresh = one(states.COMPLETED, detail=states.NOTHING_ASKED)
    assert attention.standing(fresh) == "ready" == agent_text.describe_activity(fresh)
    assert agent_cells.activity(fresh, short=True).plain == "ready" == agent_cells.state_word(fresh)


def test_the_order_of_agents_does_not_depend_on_their_input_order() -> None:
    listed = [
        one(states.WAITING, "z long", since=700),
        one(states.WAITING, "b short", since=5),
        one(states.WAITING, "a unknown", since=None),
        one(states.RUNNING, "intruder", claim="other"),
        one(states.FAILED, "failed"),
        one(states.DEAD, "dead", ended=True),
        one(states.RUNNING, "a works", since=1),
        one(states.RUNNING, "b works", since=99),
        one(states.UNKNOWN, "unclear"),
        one(states.COMPLETED, "idle"),
        one(states.COMPLETED, "gone", ended=True),
    ]
    for shuffled in itertools.islice(itertools.permutations(listed), 0, 40_000, 997):
        assert [agent.name for agent in attention.by_attention(shuffled)] == [agent.name for agent in listed]


def test_only_the_newest_unseen_end_is_above_what_runs() -> None:
    old, new = one(states.DEAD, "old", since=600, ended=True), one(states.FAILED, "new", since=60, ended=True)
    listed = [
        one(states.RUNNING, "works"),
        old,
        one(states.COMPLETED, "gone", ended=True),
        new,
        one(states.WAITING, "asks"),
    ]
    assert [agent.name for agent in attention.by_attention(listed)] == ["asks", "new", "works", "old", "gone"]
    seen = [replace(agent, looked_at=True) if agent is new else agent for agent in listed]
    assert [agent.name for agent in attention.by_attention(seen)] == ["asks", "old", "works", "gone", "new"]


def test_an_ended_agent_is_left_out_once_replaced() -> None:
    gone = one(states.DEAD, "gone", since=600, ended=True, facts=SessionFacts(started_at=ago(900)))
    newer = one(states.RUNNING, "newer", facts=SessionFacts(started_at=ago(300)))
    older = one(states.RUNNING, "older", facts=SessionFacts(started_at=ago(900)))
    undated = one(states.RUNNING, "undated", facts=SessionFacts())
    later = one(states.COMPLETED, "later", since=100, ended=True, facts=SessionFacts(started_at=ago(500)))

    def left(*agents: Agent) -> list[str]:
        return [agent.name for agent in attention.relevant_agents(agents)]

    assert left(gone) == ["gone"]
    assert left(gone, newer) == ["newer"]
    assert left(gone, older) == ["gone", "older"], "an older agent does not replace it"
    assert left(gone, undated) == ["undated"]
    assert left(gone, later) == ["later"]
    assert left(newer, older) == ["newer", "older"], "running agents are never left out"
    assert left() == []


def test_unknown_token_counts_are_not_zero() -> None:
    bare = one(states.RUNNING, facts=SessionFacts())
    assert attention.total_tokens(bare) is None and attention.context_fill(bare) is None
    assert attention.total_tokens(one(states.RUNNING, facts=SessionFacts(tokens_out=7))) == 7
    assert attention.context_fill(one(states.RUNNING, facts=SessionFacts(context_used=5))) is None
    for size, share in ((0, None), (-3, None), (10, 0.5), (4, 1.0)):
        assert (
            attention.context_fill(one(states.RUNNING, facts=SessionFacts(context_used=5, context_size=size))) == share
        )


@pytest.mark.parametrize(
    ("agent", "stands", "told"),
    [
        (one(states.RUNNING), "suspended", "suspended: "),
        (one(states.COMPLETED), "suspended", "suspended: idle"),
        (one(states.UNKNOWN), "suspended", "suspended: unknown"),
        (one(states.WAITING), "asks", "suspended: asks"),
        (one(states.FAILED), "failed", "suspended: failed"),
        (one(states.RUNNING, claim="other"), "intrudes", "suspended: "),
    ],
)
def test_a_suspended_agent_keeps_a_standing_that_needs_a_person(agent: Agent, stands: str, told: str) -> None:
    stopped = replace(agent, suspended=True)
    assert attention.standing(stopped) == stands
    assert agent_text.describe_activity(stopped).startswith(told)
    for short in (True, False):
        row = agent_cells.activity(stopped, short=short).plain
        assert "suspended" in (row if short else f"{agent_cells.state_word(stopped)} {row}")
        assert "suspended" not in agent_cells.activity(agent, short=short).plain
    assert (
        snapshot_json.agent_data(stopped)["suspended"] is True and snapshot_json.agent_data(agent)["suspended"] is False
    )


@pytest.mark.parametrize(
    ("agent", "stands", "group"),
    [
        (one(states.DEAD, ended=True), "done", "Done"),
        (one(states.FAILED, ended=True), "done", "Done"),
        (one(states.FAILED), "failed", "Needs you"),  # it still runs
        (one(states.WAITING), "asks", "Needs you"),
        (one(states.RUNNING, claim="other"), "intrudes", "Needs you"),
    ],
)
def test_a_dead_agent_counts_as_done_once_looked_at(agent: Agent, stands: str, group: str) -> None:
    seen = replace(agent, looked_at=True)
    assert (attention.standing(seen), snapshot_json.agent_data(seen)["group"]) == (stands, group)
    assert attention.word(seen) == attention.standing(agent), "the word stays"
    assert attention.needs_attention(agent) and attention.needs_attention(seen) == (stands != "done")
