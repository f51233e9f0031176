"""Events as sentences: one for every kind, sessions folded, and which removal can be undone."""

from __future__ import annotations

import json

import pytest

from imi_monitor.model import event_text
from imi_monitor.model.snapshot import RegistryEvent
from imi_monitor.store.events import EVENT_KINDS


def event(
    kind: str, agent: str | None = "claude-1", tree: str | None = "feat-x", seq: int = 1, **data: object
) -> RegistryEvent:
    return RegistryEvent(seq, kind, "2026-01-01T00:00:00+00:00", "shop", tree, agent, json.dumps(data))


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (event("worktree.claimed", task="T-7"), "claude-1 claimed feat-x for T-7"),
        (
            event("worktree.claimed", forced_from="codex-1", reason="it left"),
            "claude-1 took feat-x from codex-1: it left",
        ),
        (event("worktree.claimed", takeover_from="codex-1"), "claude-1 took feat-x from codex-1, which died"),
        (event("worktree.released", how="released"), "claude-1 released feat-x"),
        (event("worktree.released", how="forced", by="boss", reason="stop"), "claude-1 lost feat-x to boss: stop"),
        (event("worktree.released", how="reserved", by="imi:remove"), "claude-1 lost feat-x to imi remove"),
        (event("worktree.released", how="died"), "claude-1 lost feat-x: its process is dead"),
        (event("worktree.removed", "human:ana", trash_id="t1"), "human:ana removed feat-x"),
        (event("worktree.removed", "human:ana", how="missing"), "human:ana forgot feat-x, whose folder was missing"),
        (event("worktree.removed", None, how="pruned"), "feat-x was removed (pruned)"),
        (event("worktree.renamed", "human:ana", **{"from": "old"}), "human:ana renamed old to feat-x"),
        (event("worktree.renamed", None, **{"from": "old"}), "old was renamed to feat-x"),
        (event("worktree.created", "human:ana"), "human:ana created feat-x"),
        (event("artifact.saved", file="report.md", path="/r"), "claude-1 finished report.md"),
        (event("artifact.failed", file="report.md", why="disk full"), "report.md was not saved: disk full"),
        (
            event("run.interrupted", unit="usd", used=5.1, budget=5.0),
            "claude-1 was interrupted: its budget is used up: $5.10 of $5",
        ),
        (event("run.used_up", unit="usd", used=0.06, budget=0.02), "claude-1 has used up its budget: $0.06 of $0.02"),
        (
            event("run.warned", unit="minutes", used=12.4, budget=15),
            "claude-1 has used most of its budget: 12 of 15 minutes",
        ),
        (event("worktree.merged", None, into="main"), "feat-x was merged into main"),
        (event("worktree.purged", None), "feat-x was purged from the trash"),
        (event("worktree.synced", None, linked=2, conflicts=1), "feat-x was synced: 2 linked, 1 conflict"),
        (event("worktree.updated", "human:ana", commits=3), "human:ana updated feat-x by 3 commits"),
        (event("session.started", how="resumed"), "claude-1 continued in feat-x"),
        (
            event("session.progress", status="waiting_for_input", detail="Bash pytest -q"),
            "claude-1 asks in feat-x: Bash pytest -q",
        ),
        (event("session.progress", status="running"), "claude-1 works in feat-x"),
        (event("session.progress", status="completed"), "claude-1 finished its turn in feat-x"),
        (event("session.progress", status="failed", detail="API Error"), "claude-1 failed in feat-x: API Error"),
        (event("session.ended", None, cli="codex", status="interrupted"), "codex died in feat-x"),
        (event("task.ended", task="T-7", outcome="completed"), "claude-1 ended task T-7 in feat-x: completed"),
        (
            event("agent.described", tree=None, role="reviewer", team="web"),
            "claude-1 is described as reviewer, team web",
        ),
        (event("command.ended", None, name="lint", line="make lint", status=2), "lint ended in feat-x with status 2"),
        (event("command.ended", None, line="make lint", status=0), "make lint ended in feat-x"),
        (event("repository.moved", None, None, path="/new"), "shop moved to /new"),
        (event("type.added", None, None, type="spike"), "type spike was added"),
        (event("deploy.done"), "claude-1 deploy.done in feat-x"),
        (event("deploy.done", None), "feat-x deploy.done"),
    ],
)
def test_an_event_is_a_sentence(one: RegistryEvent, said: str) -> None:
    assert str(event_text.sentence(one)) == said


def test_every_kind_has_a_sentence_without_its_name() -> None:
    for kind in EVENT_KINDS:
        for one in (event(kind), event(kind, None, None), RegistryEvent(1, kind, "", None, None, None, "[broken")):
            said = str(event_text.sentence(one))
            assert kind not in said and said == said.strip() and "None" not in said, (kind, said)


def test_a_sentence_names_the_repository_on_request_and_hostile_text_stays_text() -> None:
    assert str(event_text.sentence(event("worktree.claimed"), repository="shop")) == "claude-1 claimed shop/feat-x"
    bad = "\x1b[31m\u202e"
    one = RegistryEvent(1, f"t.{bad}", "", bad, bad, bad, json.dumps({"task": bad}))
    for kind in (one.type, *EVENT_KINDS):
        said = str(event_text.sentence(RegistryEvent(1, kind, "", bad, bad, bad, one.data), repository=bad))
        assert said.isprintable() and "\u202e" not in said


def test_only_the_newest_event_of_a_session_is_shown() -> None:
    events = [
        event("session.started", seq=1, session="s1"),
        event("session.progress", seq=2, session="s1", status="running"),
        event("worktree.claimed", seq=3),
        event("session.progress", seq=4, session="s2", status="running"),
        event("session.progress", seq=5, session="s1", status="waiting_for_input"),
        event("session.progress", seq=6),  # without a session: never folded
        event("session.progress", seq=7),
    ]
    assert [(one.event.seq, one.earlier) for one in event_text.fold(events)] == [(3, 0), (4, 0), (5, 2), (6, 0), (7, 0)]


def test_the_last_removal_that_still_stands_is_restorable() -> None:
    def restorable(*events: RegistryEvent) -> list[int]:
        return [one.event.seq for one in event_text.fold(events) if one.restorable]

    first, second = event("worktree.removed", seq=1, trash_id="a"), event("worktree.removed", seq=2, trash_id="b")
    assert restorable(first, second) == [2]
    assert restorable(first, second, event("worktree.restored", seq=3, trash_id="b")) == [1]
    assert restorable(first, event("worktree.purged", seq=3, trash_id="a")) == []
    assert restorable(event("worktree.removed", seq=1, how="missing")) == []


def test_events_of_other_repositories_do_not_concern_a_screen() -> None:
    assert event_text.concerns(event("worktree.claimed"), ("shop",))
    assert not event_text.concerns(event("worktree.claimed"), ("api",))
    assert event_text.concerns(RegistryEvent(1, "registry.started", "", None, None, None, "{}"), ("api",))
