"""A command that runs has a child process; one that waits for a permission has none."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from imi_monitor import host
from imi_monitor.model.agent import RUNNING, WAITING, Evidence
from imi_monitor.sources.agents import child_processes, fields
from imi_monitor.sources.agents.agent_reader import AgentProcess, Sighting
from imi_monitor.sources.agents.child_processes import has_child_since, with_child_evidence
from tests.sources.agents.fake_processes import SLEEP, running

pytestmark = pytest.mark.skipif(not os.path.exists(f"/proc/self/task/{os.getpid()}/children"), reason="not shown here")
MAYBE = frozenset({WAITING})


def agent(pid: int, *family: int) -> AgentProcess:
    return AgentProcess("codex", pid, host.start_time(pid) or "", "/", ("codex",), 0.0, frozenset(family))


def sighting(at: float, **more: object) -> Sighting:
    evidence = Evidence("transcript", RUNNING, fields.at(at), "x", or_else=MAYBE, in_child=True)
    values = {"pid": os.getpid(), "alive": True, "evidence": (evidence,), **more}
    return Sighting("codex", "s", "/", **values)  # type: ignore[arg-type]


def test_children_count_from_a_moment_on_and_without_the_program_itself(tmp_path: Path) -> None:
    before = time.time()
    with running([SLEEP, "60"], tmp_path) as child:
        assert has_child_since(agent(os.getpid()), before) is True
        assert has_child_since(agent(os.getpid()), time.time() + 60) is False
        assert has_child_since(agent(child.pid), before) is False
        earlier = replace(agent(os.getpid()), started="1")
        assert has_child_since(earlier, before) is None, "another process has its number"
    ended = subprocess.Popen([SLEEP, "0"])
    ended.wait(timeout=60)
    assert has_child_since(agent(ended.pid), before) is None, "it is gone"


@pytest.mark.parametrize(
    ("runs", "ago", "state"), [(True, 5, RUNNING), (False, 5, WAITING), (False, 0.5, None), (None, 5, None)]
)
def test_what_the_children_say(
    monkeypatch: pytest.MonkeyPatch, runs: bool | None, ago: float, state: str | None
) -> None:
    monkeypatch.setattr(child_processes, "has_child_since", lambda process, since: runs)
    now = time.time()
    found = with_child_evidence(sighting(now - ago), [agent(os.getpid())], now)
    added = found.evidence[1:]
    assert [one.state for one in added] == ([] if state is None else [state])


def test_children_say_nothing_where_the_state_is_known(tmp_path: Path) -> None:
    now, known = time.time(), Evidence("transcript", RUNNING, fields.at(0), "x")
    with running([SLEEP, "60"], tmp_path):
        assert with_child_evidence(sighting(now), [agent(os.getpid())], now).evidence[1:]
        for one in (sighting(now, alive=None), sighting(now, evidence=(known,)), sighting(now, pid=None)):
            assert with_child_evidence(one, [agent(os.getpid())], now) is one
