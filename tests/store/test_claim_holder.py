"""Who is the holder of a claim: the marks of a caller's session, its process tree, and what a renewal keeps."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from imi_monitor import host
from imi_monitor.store import claim_holder
from imi_monitor.store.claim_holder import Caller
from imi_monitor.store.claims import Claim
from tests.limits import LIMIT

ME = host.identify_process(os.getpid())
LEADER = f"{ME.pid}/{ME.started}"  # as if this process were the shell of a terminal
GONE = f"{ME.pid}/1"


def stable_id(value: object) -> str | None:
    """The name of a case: that of each worker of pytest-xdist has to be the same."""
    return value.replace(LEADER, "LEADER").replace(GONE, "GONE") if isinstance(value, str) else None


THERE = "another-host"


def claim(
    session: str | None = None,
    *,
    pid: int | None = None,
    started: str | None = None,
    where: str = ME.host,
    foreign: bool = False,
) -> Claim:
    return Claim(
        ("app", "feat-x", "a", 1, None, "then", "then", 1.0, None, where, ME.boot, pid, started, session),
        foreign=foreign,
    )


@pytest.fixture
def others() -> Iterator[list[int]]:
    """Two living processes of which none descends from the other."""
    made = [subprocess.Popen(["sleep", "60"]) for _ in range(2)]
    yield [process.pid for process in made]
    for process in made:
        process.kill()
        process.wait(LIMIT)


# -- the marks of a caller ------------------------------------------------------------------------------------------------


def marks(monkeypatch: pytest.MonkeyPatch, given: str | None = None, **environment: str) -> dict[str, str]:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = claim_holder.identify_caller(given, 7)
    assert found.pid == 7
    return {kind: value for kind, value in found.session.items() if kind != "process"}


@pytest.mark.parametrize(
    ("environment", "session"),
    [
        ({}, {}),
        ({"CLAUDE_CODE_SESSION_ID": "c", "CODEX_THREAD_ID": "x"}, {"claude": "c", "codex": "x"}),
        ({"GEMINI_SESSION_ID": "g"}, {"gemini": "g"}),
        ({"GEMINI_SESSION_ID": ""}, {}),
        ({"ZELLIJ_PANE_ID": "3", "ZELLIJ_SESSION_NAME": "main"}, {"zellij": "main/3"}),
        ({"ZELLIJ_PANE_ID": "3"}, {"zellij": "/3"}),
        ({"ZELLIJ_SESSION_NAME": "main"}, {}),
        ({"TMUX": "/tmp/tmux-0/default,123,0", "TMUX_PANE": "%1"}, {"tmux": "123/%1"}),
        ({"TMUX": "/tmp/tmux-0/default,123", "TMUX_PANE": "%1"}, {"tmux": "123/%1"}),
        ({"TMUX": "/tmp/tmux-0/default", "TMUX_PANE": "%1"}, {}),
        ({"TMUX": "/tmp/tmux-0/default,123,0"}, {}),
        ({"TMUX_PANE": "%1"}, {}),
    ],
)
def test_the_environment_names_the_session(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], session: dict[str, str]
) -> None:
    assert marks(monkeypatch, **environment) == session
    assert claim_holder.is_agent_session() == bool(session.keys() & {"claude", "codex", "gemini"})


@pytest.mark.parametrize(
    ("given", "stored"),
    [("s", True), ("x" * 200, True), ("x" * 201, False), ("", False), ("a\nb", False), (None, False)],
)
def test_a_session_that_cannot_be_stored_in_a_line_is_none(
    monkeypatch: pytest.MonkeyPatch, given: str | None, stored: bool
) -> None:
    assert marks(monkeypatch, given) == ({"given": given} if stored else {})


def test_the_kernel_names_the_leader_of_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = os.getsid(0)
    assert claim_holder.identify_caller(None, None).session == {"process": f"{leader}/{host.start_time(leader)}"}
    monkeypatch.setattr(os, "getsid", lambda _: 0)
    assert claim_holder.identify_caller(None, None).session == {}, "it is outside of this container"


def test_a_session_is_stored_with_the_strongest_mark_first() -> None:
    session = {"process": "p", "tmux": "t", "codex": "x", "given": "g", "zellij": "z", "claude": "c", "gemini": "i"}
    assert claim_holder.stored_session(Caller(None, session)) == (
        "given:g\nclaude:c\ncodex:x\ngemini:i\nzellij:z\ntmux:t\nprocess:p"
    )
    assert claim_holder.stored_session(Caller(None, {})) is None


def test_what_a_claim_shows_of_its_session() -> None:
    stored = claim("given:my: own\ncodex:x\nclaude:c\ntmux:1/%1\nodd")
    assert claim_holder.shown_session(stored) == "my: own"
    assert claim_holder.agent_sessions(stored) == ("my: own", "c", "x")
    assert claim_holder.shown_session(claim("gemini:g\ntmux:1/%1")) == "gemini:g"
    assert claim_holder.agent_sessions(claim("gemini:g\ntmux:1/%1")) == ("g",)
    for none in (None, ""):
        assert (claim_holder.shown_session(claim(none)), claim_holder.agent_sessions(claim(none))) == (None, ())


# -- process trees --------------------------------------------------------------------------------------------------------


def test_the_process_tree_of_a_caller(others: list[int]) -> None:
    child, other = others
    above, pid = [], os.getpid()
    while pid > 0:
        above.append(pid)
        pid = host.parent_pid(pid)
    for caller in (Caller(child, {}), Caller(None, {}), Caller(os.getpid(), {})):
        assert all(caller.is_below(pid) for pid in above), "itself too, up to the first process of the system"
        assert not caller.is_below(other) and not caller.is_below(0)
    assert Caller(child, {}).is_below(child) and not Caller(None, {}).is_below(child)
    assert not Caller(above[1], {}).is_below(os.getpid()), "the named process counts, not the asking one"
    assert [Caller(pid, {}).is_above(child) for pid in (child, *above, other)] == [True] * (len(above) + 1) + [False]
    assert not Caller(None, {}).is_above(child)


def test_the_holder_is_the_living_process_of_the_claim_or_one_of_its_tree(others: list[int]) -> None:
    held = claim(pid=others[0], started=host.start_time(others[0]))
    assert claim_holder.holds(held, Caller(others[0], {}))
    assert claim_holder.holds(held, Caller(os.getpid(), {})), "it started the process"
    assert not claim_holder.holds(held, Caller(others[1], {}))
    assert not claim_holder.holds(held, Caller(None, {})), "this process is not below it"
    assert claim_holder.holds(claim(pid=ME.pid, started=ME.started), Caller(others[0], {})), "its child"
    assert claim_holder.holds(claim(pid=ME.pid, started=ME.started), Caller(None, {}))


def test_a_session_proves_a_living_holder_only_to_a_caller_without_a_process(others: list[int]) -> None:
    held = claim("tmux:1/%1", pid=others[0], started=host.start_time(others[0]))
    for session, same in (({"tmux": "1/%1"}, True), ({"tmux": "1/%2"}, False), ({}, False)):
        assert claim_holder.holds(held, Caller(None, session)) is same
        assert not claim_holder.holds(held, Caller(others[1], session))
    named = claim("given:s", pid=others[0], started=host.start_time(others[0]))
    assert claim_holder.holds(named, Caller(others[1], {"given": "s"})), "unless it gives the name of the session"
    assert not claim_holder.holds(named, Caller(others[1], {"given": "t"}))
    bare = claim(pid=others[0], started=host.start_time(others[0]))
    assert not claim_holder.holds(bare, Caller(None, {"tmux": "1/%1"})), "nothing is known of its session"


def test_a_process_that_may_live_elsewhere_is_the_holder(others: list[int]) -> None:
    there = claim("tmux:1/%1", pid=os.getpid(), started=ME.started, where=THERE)
    assert not claim_holder.holds(there, Caller(os.getpid(), {"tmux": "1/%1"}))
    assert claim_holder.holds(there, Caller(None, {"tmux": "1/%1"}))


@pytest.mark.parametrize(
    ("stored", "session", "same"),
    [
        (None, {}, True),
        (None, {"tmux": "1/%1"}, True),
        ("odd", {}, True),
        ("tmux:1/%1", {}, False),
        ("tmux:1/%1", {"tmux": "1/%1"}, True),
        ("tmux:1/%1", {"tmux": "1/%2"}, False),
        ("tmux:1/%1", {"zellij": "main/1"}, False),
        ("claude:c\ntmux:1/%1", {"claude": "c", "tmux": "1/%2"}, True),
        ("claude:c\ntmux:1/%1", {"claude": "d", "tmux": "1/%1"}, False),
        ("zellij:z\ntmux:1/%1", {"zellij": "y", "tmux": "1/%1"}, False),
        (f"process:{LEADER}", {"process": LEADER}, True),
        (f"process:{LEADER}", {"process": "1/1"}, True),  # this process is below it
        (f"process:{GONE}", {"process": "1/1"}, True),  # the terminal is gone, nothing else was known of it
        (f"tmux:1/%1\nprocess:{GONE}", {"process": "1/1"}, False),
        (f"tmux:1/%1\nprocess:{GONE}", {"tmux": "1/%1", "process": "1/1"}, True),
        ("process:odd/1", {"process": "1/1"}, True),
        ("process:\u0661/1", {"process": "1/1"}, True),
        ("process:\u00b2/1", {"process": "1/1"}, True),
    ],
    ids=stable_id,
)
@pytest.mark.parametrize("pid", [None, ME.pid], ids=["none", "gone"])
def test_without_a_living_process_the_strongest_common_mark_decides(
    stored: str | None, session: dict[str, str], same: bool, pid: int | None
) -> None:
    """The claim names no process, or one that is gone."""
    assert claim_holder.holds(claim(stored, pid=pid, started="1"), Caller(None, session)) is same


def test_the_living_leader_of_another_terminal_is_another_session(others: list[int]) -> None:
    leader = f"{others[0]}/{host.start_time(others[0])}"
    held = claim(f"process:{leader}")
    assert claim_holder.holds(held, Caller(None, {"process": leader}))
    assert not claim_holder.holds(held, Caller(None, {"process": LEADER}))
    assert claim_holder.holds(held, Caller(others[0], {"process": LEADER})), "its process is the leader"
    elsewhere = claim(f"process:{leader}", where=THERE)
    assert not claim_holder.holds(elsewhere, Caller(None, {"process": leader})), "whether it lives is unknown"


def test_another_programs_claim_is_held_by_its_name(others: list[int]) -> None:
    held = claim("tmux:1/%1", pid=others[0], started=host.start_time(others[0]), foreign=True)
    assert claim_holder.holds(held, Caller(others[1], {"tmux": "1/%2"}))


@pytest.mark.parametrize(
    ("stored", "given", "proves"),
    [
        ("given:s\ntmux:1/%1", "s", True),
        ("given:s\ntmux:1/%1", "tmux:1/%1", True),
        ("given:s\ntmux:1/%1", "1/%1", False),
        ("given:s", "given:s", True),
        ("given:s", "t", False),
        ("given:s", None, False),
        ("tmux:1/%1", None, False),
        (None, "s", False),
        (None, None, False),
    ],
)
def test_the_stored_session_proves_the_holder(stored: str | None, given: str | None, proves: bool) -> None:
    caller = Caller(None, {} if given is None else {"given": given})
    assert claim_holder.proves_session(claim(stored), caller) is proves


# -- renewals -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stored", "session", "renewed"),
    [
        (None, {}, None),
        (None, {"tmux": "1/%1"}, "tmux:1/%1"),
        ("tmux:1/%1", {}, "tmux:1/%1"),
        ("tmux:1/%1", {"tmux": "1/%2", "zellij": "z"}, "zellij:z\ntmux:1/%1"),
        ("given:s\ntmux:1/%1", {"given": "s", "tmux": "1/%2"}, "given:s\ntmux:1/%2"),
        (f"process:{LEADER}", {"process": "1/1"}, f"process:{LEADER}"),
        (f"process:{GONE}", {"process": "1/1"}, "process:1/1"),
        (f"tmux:1/%1\nprocess:{GONE}", {}, "tmux:1/%1"),
    ],
    ids=stable_id,
)
def test_a_renewal_keeps_what_is_known_of_the_session(
    stored: str | None, session: dict[str, str], renewed: str | None
) -> None:
    assert claim_holder.renewed_session(claim(stored), Caller(None, session)) == renewed


def test_a_renewal_keeps_a_leader_that_may_live_elsewhere() -> None:
    there = claim(f"process:{GONE}", where=THERE)
    assert claim_holder.renewed_session(there, Caller(None, {"process": "1/1"})) == f"process:{GONE}"
