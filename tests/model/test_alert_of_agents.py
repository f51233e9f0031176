"""Alerts about agents: each state once, with its agent and worktree."""

from __future__ import annotations

from dataclasses import replace

import pytest

from imi_monitor import config
from imi_monitor.model import agent as states
from imi_monitor.model import alert
from imi_monitor.model.agent import Agent
from imi_monitor.model.alert import find_alerts
from imi_monitor.model.snapshot import RegistryEvent, Snapshot
from tests.ui import sample_agents as made
from tests.ui import sample_snapshots


def world(*agents: Agent) -> Snapshot:
    return made.with_agents(sample_snapshots.busy(), *agents)


def told(before: Agent | None, after: Agent) -> list[tuple[str, str]]:
    return [(one.kind, one.text) for one in find_alerts(world(*([before] if before else [])), world(after))]


def now(agent: Agent, state: str, *, ended: bool = False, **truth: object) -> Agent:
    return replace(agent, truth=replace(agent.truth, state=state, ended=ended, **truth))  # type: ignore[arg-type]


WORKS = made.EDITS
FREE = made.UNCLAIMED


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (WORKS, now(WORKS, states.WAITING, detail="plan"), [("asking", "claude-1 asks in feat-api: plan")]),
        (WORKS, now(WORKS, states.WAITING, detail=None), [("asking", "claude-1 asks in feat-api")]),
        (
            None,
            now(WORKS, states.WAITING, detail=None),
            [("asking", "claude-1 asks in feat-api")],
        ),  # it asks at its start
        (now(WORKS, states.WAITING), now(WORKS, states.WAITING, detail="plan"), []),
        (now(WORKS, states.WAITING), WORKS, []),
        (WORKS, now(WORKS, states.COMPLETED), [("finished", "claude-1 has finished its turn in feat-api")]),
        (WORKS, now(WORKS, states.COMPLETED, ended=True), [("finished", "claude-1 is done in feat-api")]),
        (
            now(WORKS, states.WAITING),
            now(WORKS, states.COMPLETED),
            [("finished", "claude-1 has finished its turn in feat-api")],
        ),
        (
            now(WORKS, states.WAITING),
            now(WORKS, states.COMPLETED, detail=states.NOTHING_ASKED),
            [],
        ),  # a dialog at its start
        (now(WORKS, states.COMPLETED), now(WORKS, states.COMPLETED, ended=True), []),
        (now(WORKS, states.UNKNOWN), now(WORKS, states.COMPLETED), []),
        (WORKS, now(WORKS, states.CANCELLED), []),  # by a person's own hand
        (WORKS, now(WORKS, states.UNKNOWN), []),
        (WORKS, now(WORKS, states.FAILED, detail="limit"), [("failed", "claude-1 failed in feat-api: limit")]),
        (now(WORKS, states.COMPLETED), now(WORKS, states.FAILED), []),
        (FREE, now(FREE, states.DEAD, ended=True), [("dead", "claude-2 died while working in review-123")]),
        (now(FREE, states.COMPLETED), now(FREE, states.DEAD, ended=True), []),
        (None, now(FREE, states.DEAD, ended=True), []),
        (None, now(FREE, states.FAILED), []),
        (None, now(FREE, states.COMPLETED), []),
        (WORKS, now(WORKS, states.WAITING, confidence=states.GUESS), []),
        (None, made.INTRUDER, [("intruder", "codex-2 works in feat-api, which claude-1 has claimed")]),
        (made.INTRUDER, now(made.INTRUDER, states.COMPLETED), []),
        (made.INTRUDER, now(made.INTRUDER, states.WAITING, detail=None), [("asking", "codex-2 asks in feat-api")]),
    ],
)
def test_each_new_state_of_an_agent_gives_its_alert(
    before: Agent | None, after: Agent, says: list[tuple[str, str]]
) -> None:
    assert told(before, after) == says


def test_an_agent_that_dies_with_its_claim_gives_one_alert() -> None:
    holder = replace(WORKS, pid=4711)  # the process of the claim
    gone = now(holder, states.DEAD, ended=True)
    before, after = world(holder), world(gone)
    assert find_alerts(before, after) == [], "the registry has not noticed yet"
    trees = [
        replace(tree, claim=replace(tree.claim, state="dead")) if tree.claim and tree.key == WORKS.key else tree
        for tree in after.worktrees
    ]
    noticed = replace(after, worktrees=tuple(trees))
    assert [one.kind for one in find_alerts(before, noticed)] == ["claim_lost"]
    assert [one.kind for one in find_alerts(after, noticed)] == ["claim_lost"]


def test_a_state_before_the_first_reading_gives_no_alert() -> None:
    unread = replace(world(), health=tuple(one for one in sample_snapshots.busy().health if one.source != "agents"))
    assert find_alerts(unread, world(made.ASKS, made.INTRUDER)) == []
    assert find_alerts(replace(world(), complete=False), world(made.ASKS)) == []


def test_the_most_urgent_alert_is_first_and_none_repeats() -> None:
    before = made.at_work()
    after = made.asking()
    found = find_alerts(before, after)
    assert [one.kind for one in found] == ["asking", "finished"]
    assert find_alerts(after, after) == [] and len(set(found)) == len(found)


def test_registry_events_of_observed_agents_are_not_repeated() -> None:
    ended = RegistryEvent(
        9, "session.ended", sample_snapshots.ago(0), sample_snapshots.REPO, "feat-api", "claude-1", "{}"
    )
    before = made.at_work()
    assert find_alerts(before, replace(before, events=(*before.events, ended))) == []


def test_each_kind_of_alert_can_be_turned_off() -> None:
    assert {f"notify.{kind}" for kind in alert.KINDS} <= set(config.KEYS)


def test_hostile_names_in_alerts_are_sanitised() -> None:
    bad = "\x1b]0;x\x07{0}\u202e"
    asks = replace(now(WORKS, states.WAITING, detail=bad), cli=bad, id=bad)
    texts = [one.text for one in find_alerts(world(), world(asks))]
    assert texts and all(text.isprintable() and "{0}" in text for text in texts)
