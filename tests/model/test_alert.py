"""Which differences between two snapshots give an alert."""

from __future__ import annotations

from dataclasses import replace

import pytest

from imi_monitor.model.alert import find_alerts
from imi_monitor.model.snapshot import RegistryEvent, Snapshot
from tests.ui import sample_snapshots


def texts(before: Snapshot | None, after: Snapshot) -> list[str]:
    return [one.text for one in find_alerts(before, after)]


def with_event(kind: str, data: str, agent: str | None = "claude-1") -> Snapshot:
    busy = sample_snapshots.busy()
    event = RegistryEvent(9, kind, sample_snapshots.ago(0), sample_snapshots.REPO, "feat-api", agent, data)
    return replace(busy, events=(*busy.events, event))


def test_each_difference_gives_its_alert() -> None:
    assert texts(sample_snapshots.busy(), sample_snapshots.taken_over()) == [
        "claude-1 lost feat-api to codex-2",
        "gemini-2 died holding feat-ui",
        "feat-ui and devops-ci conflict in Makefile",
    ]
    assert {one.kind for one in find_alerts(sample_snapshots.busy(), sample_snapshots.taken_over())} == {
        "claim_lost",
        "collision",
    }


def test_equal_snapshots_give_no_alert() -> None:
    assert find_alerts(sample_snapshots.busy(), sample_snapshots.busy()) == []
    assert find_alerts(sample_snapshots.taken_over(), sample_snapshots.busy()) == []


def test_a_first_snapshot_gives_no_alert() -> None:
    assert find_alerts(None, sample_snapshots.taken_over()) == []
    assert find_alerts(replace(sample_snapshots.busy(), complete=False), sample_snapshots.taken_over()) == []
    unread = replace(sample_snapshots.busy(), events=(), health=())
    assert not any("lost" in text for text in texts(unread, sample_snapshots.taken_over()))


@pytest.mark.parametrize(
    ("kind", "data", "says"),
    [
        ("worktree.released", '{"how": "released"}', []),  # by its holder
        ("worktree.released", '{"by": "codex-2", "how": "forced"}', ["claude-1 lost feat-api to codex-2"]),
        ("worktree.claimed", "{}", []),
        ("session.ended", "{}", ["claude-1 is done in feat-api"]),
        ("session.progress", '{"status": "waiting_for_input"}', ["claude-1 asks in feat-api"]),
        ("session.progress", '{"status": "running"}', []),
        ("session.progress", "[1]", []),
        ("session.progress", "no json", []),
        ("worktree.released", '{"by": "\\u001b]52;c;x\\u0007"}', ["claude-1 lost feat-api to \\x1b]52;c;x\\x07"]),
    ],
)
def test_events_of_the_registry_give_alerts(kind: str, data: str, says: list[str]) -> None:
    """Where agents are not looked at, the events of their sessions tell."""
    before, after = (unwatched(one) for one in (sample_snapshots.busy(), with_event(kind, data)))
    assert texts(before, after) == says


def unwatched(world: Snapshot) -> Snapshot:
    return replace(world, health=tuple(one for one in world.health if one.source != "agents"))


def test_session_events_of_observed_agents_give_no_alert() -> None:
    assert texts(sample_snapshots.busy(), with_event("session.ended", "{}")) == []


def test_an_overlap_without_conflict_gives_no_alert() -> None:
    after = sample_snapshots.taken_over()
    calm = replace(after.collisions[-1], conflicts=())
    assert not any("conflict" in text for text in texts(sample_snapshots.busy(), replace(after, collisions=(calm,))))
