"""Real agent programs at a usage limit, which a stub reports as their servers report it to subscribers.

They run where `make agents` has installed the programs; elsewhere they skip and say so. No real account was ever at a limit here.
"""

from __future__ import annotations

import re

import pytest

from tests.helpers import wait_for
from tests.real_agents.programs import RealProgram
from tests.real_agents.test_walled_agents import both, install, port
from tests.runs.conftest import world
from tests.runs.run_kit import RunWorld

__all__ = ["port", "world"]
pytestmark = pytest.mark.soak
_SUBSCRIBER = "sk-ant-oat01-stub-0000000000000000000000000000"  # Claude tells only subscribers when a limit ends


@both
def test_a_limit_is_shown_with_its_end_and_the_resume_is_offered_then(
    world: RunWorld, port: int, program: RealProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(world, program, port, monkeypatch)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.setenv("CLAUDE_CODE_OAUTH_TOKEN", _SUBSCRIBER)
    run = world.start("[[limit]] seconds=70", program.cli, "--way", "task")
    row = world.wait(run, "limited")
    assert re.fullmatch(r"usage limit, resets \d{4}-\d\d-\d\d \d\d:\d\d UTC", row["detail"]), row["detail"]
    assert row["limited_until"] is not None
    wait_for(lambda: world.events("run.resumable"))
    assert world.imi("say", run, "[[hi]]").code == 0
    world.wait(run, "idle")
    assert len(world.events("run.resumable")) == 1
    world.imi("stop", run)
