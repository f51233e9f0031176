"""The merge of what several readers report about one agent."""

from __future__ import annotations

import random
from dataclasses import replace

from imi_monitor.model import agent_text, snapshot_json, times
from imi_monitor.model.agent import AgentEvent, Evidence, SessionFacts, ToolCall
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.agent_reader import Sighting
from imi_monitor.sources.agents.sighting_merge import SightingMerge, as_agent, differs_only_in_events


def said(source: str, state: str = "running") -> tuple[Evidence, ...]:
    return (Evidence(source, state, times.stamp(), "says"),)


def merge(sightings: list[Sighting]) -> list[Sighting]:
    return SightingMerge().merge(sightings)


def test_sightings_of_one_session_are_one_agent() -> None:
    (one,) = merge(
        [
            Sighting(
                "claude",
                "s",
                "/a",
                facts=SessionFacts(model="m", files=("/a/x",)),
                evidence=said("transcript"),
                events=(AgentEvent("prompt", "1", "now"),),
            ),
            Sighting(
                "claude",
                "s",
                None,
                pid=7,
                pid_started="9",
                alive=True,
                facts=SessionFacts(model="other", tmux="%1", files=("/a/y",)),
                evidence=said("permission"),
                events=(AgentEvent("waits", "2", "now"),),
            ),
        ]
    )
    assert (one.cwd, one.pid, one.alive, one.facts.model, one.facts.tmux) == ("/a", 7, True, "m", "%1")
    assert one.facts.files == ("/a/x", "/a/y")
    assert [each.source for each in one.evidence] == ["transcript", "permission"]
    assert [each.id for each in one.events] == ["1", "2"]


def test_the_same_session_id_of_another_program_is_another_agent() -> None:
    assert len(merge([Sighting("claude", "s", "/a"), Sighting("codex", "s", "/a")])) == 2


def test_a_process_belongs_to_the_session_that_names_it() -> None:
    process = Sighting("claude", None, "/a", pid=7, pid_started="9", alive=True, evidence=said("process", "unknown"))
    (one,) = merge([process, Sighting("claude", "s", "/a", pid=7, pid_started="9", alive=True)])
    assert (one.session, [each.source for each in one.evidence]) == ("s", ["process"])
    (one,) = merge([process, process])
    assert (one.session, one.pid) == (None, 7)


def test_a_process_does_not_belong_to_an_ended_session_with_its_pid() -> None:
    process = Sighting("claude", None, "/a", pid=7, pid_started="99", alive=True)
    assert len(merge([process, Sighting("claude", "s", "/a", pid=7, pid_started="9", alive=False)])) == 2


def test_sightings_without_a_process_belong_to_no_session_without_one() -> None:
    unknown = Sighting("claude", None, "/a", evidence=said("title"))
    assert len(merge([Sighting("claude", "s", "/b"), unknown])) == 2


def test_a_proof_of_life_wins_over_a_proof_of_an_end() -> None:
    (one,) = merge([Sighting("claude", "s", "/a", alive=False), Sighting("claude", "s", "/a", pid=7, alive=True)])
    assert one.alive is True
    (one,) = merge([Sighting("claude", "s", "/a"), Sighting("claude", "s", "/a", alive=False)])
    assert one.alive is False


def test_a_process_whose_session_moved_to_another_one_is_an_agent_by_itself() -> None:
    """A session names two processes: the one that has ended, whose number is used again, and the one it lives in."""
    process = Sighting("claude", None, "/a", pid=7, pid_started="99", alive=True)
    ended = Sighting("claude", "s", "/a", pid=7, pid_started="9", alive=False)
    assert len(merge([ended, Sighting("claude", "s", "/a", pid=8, alive=True), process])) == 2
    unknown = Sighting("claude", "s", "/a", pid=7)
    assert len(merge([unknown, Sighting("claude", "s", "/a", alive=False), process])) == 2
    assert len(merge([unknown, process])) == 1


def test_an_ended_agent_is_not_suspended() -> None:
    one = Sighting("claude", "s", "/a", pid=7, alive=True, evidence=said("transcript"), suspended=True)
    assert as_agent(one, None, times.now()).agent.suspended
    assert not as_agent(replace(one, alive=False), None, times.now()).agent.suspended
    assert not as_agent(replace(one, suspended=False), None, times.now()).agent.suspended


def test_sightings_that_differ_only_in_their_events() -> None:
    one = Sighting("claude", "s", "/a", pid=7)
    assert differs_only_in_events(one, replace(one, events=(AgentEvent("prompt", "1", "now"),)))
    assert not differs_only_in_events(one, replace(one, pid=8))


def test_the_id_of_an_agent_is_its_session_or_its_pid() -> None:
    now = times.now()
    assert as_agent(Sighting("claude", "s", "/a"), None, now).agent.id == "claude:s"
    assert as_agent(Sighting("claude", None, "/a", pid=7), None, now).agent.id == "claude:pid:7"


def test_unchanged_sightings_give_the_same_object_and_events_come_once() -> None:
    merger, process = SightingMerge(), Sighting("claude", None, "/a", pid=7, evidence=said("process"))
    new = Sighting("claude", "s", "/a", pid=7, events=(AgentEvent("prompt", "1", "now"),))
    old = Sighting("claude", "s", "/a", pid=7)
    (first,) = merger.merge([new, process])
    assert [each.id for each in first.events] == ["1"]
    (second,) = merger.merge([old, process])
    assert second.events == ()
    (third,) = merger.merge([old, process])
    assert third is second


def test_equal_evidence_that_was_read_later_replaces_the_earlier() -> None:
    """Two equal readings differ in `read_at`, and the later one overrules what happened in between."""
    merger = SightingMerge()

    def title(at: str) -> Sighting:
        evidence = Evidence("title", "running", "2026-01-01", "says", standing=True, read_at=at)
        return Sighting("codex", "s", "/a", evidence=(evidence,))

    merger.merge([title("2026-01-01T00:00:01+00:00")])
    (later,) = merger.merge([title("2026-01-01T00:00:09+00:00")])
    assert later.evidence[0].read_at == "2026-01-01T00:00:09+00:00"


def test_only_changed_groups_are_merged_again() -> None:
    merger = SightingMerge()
    sessions = [Sighting("claude", name, "/a", pid=pid, alive=True) for name, pid in (("s", 7), ("t", 8))]
    bare = [Sighting("claude", None, "/a", pid=pid, alive=True, evidence=said("process")) for pid in (7, 8)]
    before = merger.merge([*sessions, *bare])
    same = merger.merge([*sessions, *bare])
    assert all(one is other for one, other in zip(before, same, strict=True))
    other = Sighting("claude", "t", "/a", pid=8, alive=True, facts=SessionFacts(model="m"))
    after = merger.merge([sessions[0], other, *bare])
    assert after[0] is before[0]
    assert (after[1].facts.model, [each.source for each in after[1].evidence]) == ("m", ["process"])


def test_a_sighting_alone_is_the_agent() -> None:
    alone = Sighting("claude", "s", "/a", pid=7, facts=SessionFacts(files=("/a/x", "/a/x")))
    assert merge([alone])[0] is alone


def test_a_new_agent_costs_no_merge_of_the_others() -> None:
    """Only the groups that have other sightings are merged again, also when the groups are other ones."""
    merger, process = SightingMerge(), Sighting("claude", None, "/a", pid=7, alive=True, evidence=said("process"))
    one, two = (Sighting("claude", name, "/a", pid=pid, alive=True) for name, pid in (("s", 7), ("t", 8)))
    first, second = merger.merge([one, two, process])
    again, other, third = merger.merge([one, two, process, Sighting("claude", "u", "/a")])
    assert (again is first, other is second, third.session) == (True, True, "u")
    screen = Sighting("claude", "t", None, pid=8, alive=True, facts=SessionFacts(tmux="%1"))
    assert merger.merge([one, two, process, screen])[1].facts.tmux == "%1", "one more sighting of an agent"
    changed = replace(one, facts=SessionFacts(model="m"))
    found = merger.merge([changed, two, process, screen, Sighting("claude", "v", "/a")])
    assert (found[0].facts.model, found[1].facts.tmux) == ("m", "%1")


def test_a_merge_that_goes_on_gives_what_a_new_one_gives() -> None:
    dice, going_on = random.Random(5), SightingMerge()
    now = [_any_sighting(dice) for _ in range(8)]
    for _ in range(300):
        for place in dice.sample(range(len(now)), dice.randrange(3)):
            now[place] = _any_sighting(dice)
        if dice.random() < 0.1:
            now = [*now[: dice.randrange(4, len(now) + 1)], _any_sighting(dice)]
        assert sorted(going_on.merge(now), key=repr) == sorted(merge(now), key=repr)


def _any_sighting(dice: random.Random) -> Sighting:
    session, pid = dice.choice([None, "s", "t", "u"]), dice.choice([None, 7, 8])
    return Sighting("claude", session, dice.choice(["/a", "/b"]), pid=pid, alive=dice.choice([None, True, False]))


def test_a_process_that_changed_its_session_is_merged_into_the_new_one() -> None:
    merger = SightingMerge()
    bare = [Sighting("claude", None, "/a", pid=7, alive=True, evidence=said("process"))]
    for mine, pids in (("s", (7, 8)), ("t", (8, 7))):
        sessions = [Sighting("claude", one, "/a", pid=pid) for one, pid in zip("st", pids, strict=True)]
        found = merger.merge([*sessions, *bare])
        assert [one.session for one in found if one.evidence] == [mine]


def test_no_secret_of_an_agent_enters_a_snapshot() -> None:
    token = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
    tool = ToolCall("Bash", f"curl -u ann:hunter2 -H 'Authorization: Bearer {token}' https://x")
    facts = SessionFacts(prompt=f"use {token}", last_message="Password: hunter2", title=token, files=(f"/a/{token}",))
    asks = Evidence("registry", "waiting_for_input", times.stamp(), f"it asks for {token}", f"run {token}?", tool, True)
    agent = as_agent(Sighting("claude", "s", "/a", facts=facts, evidence=(asks,)), None, times.now()).agent
    shown = [repr(snapshot_json.agent_data(agent)), *agent_text.explain(agent, times.now())]
    assert token not in "".join(shown) and "hunter2" not in "".join(shown)
    assert agent_text.describe_activity(agent).startswith("asks: run ghp_***?"), (
        "a question shows that something is removed"
    )


def test_a_text_that_is_cut_holds_no_part_of_a_secret() -> None:
    token = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
    for before in range(100, 240):
        cut = fields.one_line(f"{'x' * before} {token} and more {'y' * 900}") or ""
        assert len(cut) <= 200 and "0123456" not in cut
    assert fields.text("a" * 3000) == "a" * 2000
