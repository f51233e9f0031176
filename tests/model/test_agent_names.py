"""The name of an agent, from the registry or its claim, and agents that work under the claim of another owner."""

from __future__ import annotations

from dataclasses import replace

from imi_monitor.model.agent import Agent, SessionFacts, Truth
from imi_monitor.model.agent_names import AgentNames, GivenName, name_agents
from imi_monitor.model.snapshot import ClaimState, Key

HERE, THERE = Key("h", "app", "feat-a"), Key("h", "app", "feat-b")


def agent(
    ident: str, cli: str = "claude", key: Key | None = HERE, *, pid: int | None = None, ended: bool = False
) -> Agent:
    truth = Truth("running", None, "transcript", "exact", ended=ended)
    return Agent(f"{cli}:{ident}", cli, cli, key, "/x", ident, pid, None, truth, SessionFacts(started_at=ident))


def claim(
    who: str, key: Key = HERE, *, pid: int | None = None, state: str = "held", sessions: tuple[str, ...] = ()
) -> dict[Key, ClaimState]:
    return {key: ClaimState(key, who, state, 1, "2026-01-01T12:00:00+00:00", None, None, pid, None, sessions)}


def over(one: Agent, at: str) -> Agent:
    return replace(one, truth=replace(one.truth, ended=True, since=at))


def told(found: tuple[Agent, ...]) -> list[tuple[str, str | None]]:
    return [(one.name, one.claim) for one in found]


def test_an_agent_without_a_given_name_is_named_after_its_program_and_session() -> None:
    assert told(name_agents([agent("1"), agent("2"), agent("3", "codex")], {})) == [
        ("claude-1", "none"),
        ("claude-2", "none"),
        ("codex-3", "none"),
    ]


def test_the_process_of_a_claim_is_its_agent() -> None:
    found = name_agents([agent("1", pid=1), agent("2", pid=2)], claim("claude-7", pid=2))
    assert told(found) == [("claude-1", "other"), ("claude-7", "mine")]
    assert found[0].intruder
    assert not found[1].intruder


def test_a_claim_of_the_wrapper_of_an_agent_is_that_of_the_agent() -> None:
    """Programs from npm run in a child of `node`, and an agent in a window below the bridge to its server."""
    wrapped = replace(agent("2", "codex", pid=2), starters=frozenset({7, 8}))
    found = name_agents([agent("1", "codex", pid=1), wrapped], claim("ann", pid=8))
    assert told(found) == [("codex-1", "other"), ("ann", "mine")]


def test_without_a_claimed_process_program_and_age_decide() -> None:
    assert told(name_agents([agent("2"), agent("1")], claim("claude-7"))) == [
        ("claude-7", "mine"),
        ("claude-2", "other"),
    ]
    assert told(name_agents([agent("1", ended=True), agent("2")], claim("claude-7"))) == [
        ("claude-7", "mine"),
        ("claude-1", "other"),
    ]


def test_another_kind_of_agent_is_an_intruder() -> None:
    (one,) = name_agents([agent("1", "codex")], claim("claude-7"))
    assert (one.claim, one.claimed_by, one.intruder) == ("other", "claude-7", True)


def test_a_person_may_run_agents_in_their_own_worktree() -> None:
    assert told(name_agents([agent("1")], claim("human:ann"))) == [("claude-1", "mine")]


def test_a_dead_claim_makes_no_intruder() -> None:
    assert told(name_agents([agent("1", "codex")], claim("claude-7", state="dead"))) == [("codex-1", "mine")]


def test_a_claim_of_another_worktree_is_ignored() -> None:
    assert told(name_agents([agent("1")], claim("claude-7", THERE))) == [("claude-1", "none")]
    assert told(name_agents([agent("1", key=None)], claim("claude-7"))) == [("claude-1", None)]


def test_a_claim_keeps_its_agent_when_the_agent_ends() -> None:
    before, during = "2026-01-01T11:00:00+00:00", "2026-01-01T13:00:00+00:00"
    (one,) = name_agents([over(agent("1"), during)], claim("claude-7"))
    assert (one.name, one.claim, one.intruder) == ("claude-7", "mine", False)
    assert told(name_agents([over(agent("1"), before)], claim("claude-7"))) == [("claude-1", "other")]
    # what is recorded counts more than what fits: the agent that held the claim, and the session that claimed
    given = {"codex:1": GivenName("codex-1", owner="backend")}
    assert told(name_agents([over(agent("1", "codex"), during)], claim("backend"), given)) == [("backend", "mine")]
    both = [agent("1"), over(agent("2"), during)]
    assert told(name_agents(both, claim("claude-7", sessions=("2",)))) == [("claude-7", "mine"), ("claude-7", "mine")]


def test_a_claim_in_an_agents_own_name_is_its_claim() -> None:
    given = {"claude:1": GivenName("claude-4"), "claude:2": GivenName("claude-5")}
    assert told(name_agents([agent("1"), agent("2")], claim("claude-5"), given)) == [
        ("claude-4", "other"),
        ("claude-5", "mine"),
    ]


def test_names_do_not_change_when_another_agent_ends() -> None:
    given = {f"gemini:{number}": GivenName(f"gemini-{number}") for number in range(1, 12)}
    agents = [agent(str(number), "gemini", None) for number in range(1, 12)]
    names, left = AgentNames(), agents[:2] + agents[3:]
    assert {one.id: one.name for one in names.of(left, {}, given)}.items() <= {
        one.id: one.name for one in AgentNames().of(agents, {}, given)
    }.items()


def test_what_a_person_has_looked_at_is_known_by_its_moment() -> None:
    died = over(agent("1"), "2026-01-01T13:00:00+00:00")
    (one,) = name_agents([died], {}, {"claude:1": GivenName("claude-1", looked_at="2026-01-01T13:00:00+00:00")})
    assert one.looked_at
    (one,) = name_agents([died], {}, {"claude:1": GivenName("claude-1", looked_at="2026-01-01T12:00:00+00:00")})
    assert not one.looked_at
    (one,) = name_agents([died], {}, {"claude:1": GivenName("claude-1", looked_at="2026-01-01T13:00:05+00:00")})
    assert one.looked_at, "another process may date the same death a little earlier"


def test_unchanged_agents_stay_the_same_objects() -> None:
    names, first, second = AgentNames(), agent("1"), agent("2", pid=2)
    both = first, second
    before = names.of(both, {})
    assert names.of(both, {}) is before
    moved = replace(second, seen_at="now")
    now = names.of((first, moved), {})
    assert now[0] is before[0]
    assert (now[1].name, now[1].seen_at) == ("claude-2", "now")
    assert told(names.of((first, moved), claim("claude-7", pid=2))) == [("claude-1", "other"), ("claude-7", "mine")]
    ended = replace(first, truth=replace(first.truth, ended=True))
    assert told(names.of((ended, moved), {})) == told(name_agents((ended, moved), {}))
