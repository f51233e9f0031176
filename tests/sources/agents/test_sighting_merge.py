"""Several readers about one agent make one sighting."""

from __future__ import annotations

from imi_monitor.model import times
from imi_monitor.model.agent import AgentEvent, Evidence, SessionFacts
from imi_monitor.sources.agents.agent_reader import Sighting
from imi_monitor.sources.agents.sighting_merge import SightingMerge, as_agent, join


def said(source: str, state: str = "running") -> tuple[Evidence, ...]:
    return (Evidence(source, state, times.stamp(), "says"),)


def test_the_same_session_is_one() -> None:
    (one,) = join([
        Sighting("claude", "s", "/a", facts=SessionFacts(model="m", files=("/a/x",)), evidence=said("transcript"),
                 news=(AgentEvent("prompt", "1", "now"),)),
        Sighting("claude", "s", None, pid=7, pid_started="9", alive=True,
                 facts=SessionFacts(model="other", tmux="%1", files=("/a/y",)),
                 evidence=said("permission"), news=(AgentEvent("waits", "2", "now"),)),
    ])  # fmt: skip
    assert (one.cwd, one.pid, one.alive, one.facts.model, one.facts.tmux) == ("/a", 7, True, "m", "%1")
    assert one.facts.files == ("/a/x", "/a/y")
    assert [each.source for each in one.evidence] == ["transcript", "permission"]
    assert [each.id for each in one.news] == ["1", "2"]


def test_the_same_name_of_another_program_is_another() -> None:
    assert len(join([Sighting("claude", "s", "/a"), Sighting("codex", "s", "/a")])) == 2


def test_a_process_belongs_to_the_session_that_names_it() -> None:
    process = Sighting("claude", None, "/a", pid=7, pid_started="9", alive=True, evidence=said("process", "unknown"))
    (one,) = join([process, Sighting("claude", "s", "/a", pid=7, pid_started="9", alive=True)])
    assert (one.session, [each.source for each in one.evidence]) == ("s", ["process"])
    (one,) = join([process, process])
    assert (one.session, one.pid) == (None, 7)


def test_not_to_one_that_ended_with_the_same_number() -> None:
    process = Sighting("claude", None, "/a", pid=7, pid_started="99", alive=True)
    assert len(join([process, Sighting("claude", "s", "/a", pid=7, pid_started="9", alive=False)])) == 2


def test_who_proves_life_is_right() -> None:
    (one,) = join([Sighting("claude", "s", "/a", alive=False), Sighting("claude", "s", "/a", pid=7, alive=True)])
    assert one.alive is True
    (one,) = join([Sighting("claude", "s", "/a"), Sighting("claude", "s", "/a", alive=False)])
    assert one.alive is False


def test_an_agent_is_known_by_its_session_or_its_process() -> None:
    now = times.now()
    assert as_agent(Sighting("claude", "s", "/a"), None, now).agent.id == "claude:s"
    assert as_agent(Sighting("claude", None, "/a", pid=7), None, now).agent.id == "claude:pid:7"


def test_what_is_the_same_again_is_not_put_together_again_and_news_are_told_once() -> None:
    joined, process = SightingMerge(), Sighting("claude", None, "/a", pid=7, evidence=said("process"))
    new = Sighting("claude", "s", "/a", pid=7, news=(AgentEvent("prompt", "1", "now"),))
    old = Sighting("claude", "s", "/a", pid=7)
    (first,) = joined.join([new, process])
    assert [each.id for each in first.news] == ["1"]
    (second,) = joined.join([old, process])
    assert second.news == ()
    (third,) = joined.join([old, process])
    assert third is second


def test_a_title_that_was_read_again_is_believed_again() -> None:
    """Two readings that say the same are equal, and yet the later one overrules what happened in between."""
    joined = SightingMerge()

    def title(at: str) -> Sighting:
        evidence = Evidence("title", "running", "2026-01-01", "says", standing=True, read_at=at)
        return Sighting("codex", "s", "/a", evidence=(evidence,))

    joined.join([title("2026-01-01T00:00:01+00:00")])
    (later,) = joined.join([title("2026-01-01T00:00:09+00:00")])
    assert later.evidence[0].read_at == "2026-01-01T00:00:09+00:00"


def test_only_who_says_something_else_is_put_together_anew() -> None:
    joined = SightingMerge()
    sessions = [Sighting("claude", name, "/a", pid=pid, alive=True) for name, pid in (("s", 7), ("t", 8))]
    bare = [Sighting("claude", None, "/a", pid=pid, alive=True, evidence=said("process")) for pid in (7, 8)]
    before = joined.join(sessions, bare)
    assert joined.join(list(sessions), bare) is before, "nobody says anything else"
    other = Sighting("claude", "t", "/a", pid=8, alive=True, facts=SessionFacts(model="m"))
    after = joined.join([sessions[0], other], bare)
    assert after[0] is before[0]
    assert (after[1].facts.model, [each.source for each in after[1].evidence]) == ("m", ["process"])


def test_a_process_that_works_on_another_session_now_is_joined_to_that() -> None:
    joined = SightingMerge()
    bare = [Sighting("claude", None, "/a", pid=7, alive=True, evidence=said("process"))]
    for mine, pids in (("s", (7, 8)), ("t", (8, 7))):
        found = joined.join([Sighting("claude", one, "/a", pid=pid) for one, pid in zip("st", pids, strict=True)], bare)
        assert [one.session for one in found if one.evidence] == [mine]
