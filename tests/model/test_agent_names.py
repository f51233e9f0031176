"""The name of an agent from its claim, and agents that work under the claim of another owner."""

from __future__ import annotations

from dataclasses import replace

from imi_monitor.model.agent import Agent, SessionFacts, Truth
from imi_monitor.model.agent_names import AgentNames, name_agents
from imi_monitor.model.snapshot import ClaimState, Key

HERE, THERE = Key("h", "app", "feat-a"), Key("h", "app", "feat-b")


def agent(
    ident: str, cli: str = "claude", key: Key | None = HERE, *, pid: int | None = None, ended: bool = False
) -> Agent:
    truth = Truth("running", None, "transcript", "exact", ended=ended)
    return Agent(f"{cli}:{ident}", cli, cli, key, "/x", ident, pid, None, truth, SessionFacts(started_at=ident))


def claim(who: str, key: Key = HERE, *, pid: int | None = None, state: str = "held") -> dict[Key, ClaimState]:
    return {key: ClaimState(key, who, state, 1, None, None, None, pid)}


def told(found: tuple[Agent, ...]) -> list[tuple[str, str | None]]:
    return [(one.name, one.claim) for one in found]


def test_an_agent_without_a_claim_is_named_after_its_program() -> None:
    assert told(name_agents([agent("1"), agent("2"), agent("3", "codex")], {})) == [
        ("claude", "none"), ("claude 2", "none"), ("codex", "none"),
    ]  # fmt: skip


def test_the_process_of_a_claim_is_its_agent() -> None:
    found = name_agents([agent("1", pid=1), agent("2", pid=2)], claim("claude-7", pid=2))
    assert told(found) == [("claude", "other"), ("claude-7", "mine")]
    assert found[0].intruder
    assert not found[1].intruder


def test_without_a_claimed_process_program_and_age_decide() -> None:
    assert told(name_agents([agent("2"), agent("1")], claim("claude-7"))) == [("claude-7", "mine"), ("claude", "other")]
    assert told(name_agents([agent("1", ended=True), agent("2")], claim("claude-7"))) == [
        ("claude-7", "mine"),
        ("claude", "other"),
    ]


def test_another_kind_of_agent_is_an_intruder() -> None:
    (one,) = name_agents([agent("1", "codex")], claim("claude-7"))
    assert (one.claim, one.claimed_by, one.intruder) == ("other", "claude-7", True)


def test_a_person_may_run_agents_in_their_own_worktree() -> None:
    assert told(name_agents([agent("1")], claim("human:ann"))) == [("claude", "mine")]


def test_a_dead_claim_makes_no_intruder() -> None:
    assert told(name_agents([agent("1", "codex")], claim("claude-7", state="dead"))) == [("codex", "mine")]


def test_a_claim_of_another_worktree_is_ignored() -> None:
    assert told(name_agents([agent("1")], claim("claude-7", THERE))) == [("claude", "none")]
    assert told(name_agents([agent("1", key=None)], claim("claude-7"))) == [("claude", None)]


def test_unchanged_agents_stay_the_same_objects() -> None:
    names, first, second = AgentNames(), agent("1"), agent("2", pid=2)
    both = first, second
    before = names.of(both, {})
    assert names.of(both, {}) is before
    moved = replace(second, seen_at="now")
    now = names.of((first, moved), {})
    assert now[0] is before[0]
    assert (now[1].name, now[1].seen_at) == ("claude 2", "now")
    assert told(names.of((first, moved), claim("claude-7", pid=2))) == [("claude", "other"), ("claude-7", "mine")]
    over = replace(first, truth=replace(first.truth, ended=True))
    assert told(names.of((over, moved), {})) == told(name_agents((over, moved), {}))
