"""The clock of the machine is set while agents run: no agent dies of it, and no old state is taken for a new one."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from imi_monitor.model import times
from imi_monitor.model.agent import DEAD, EXACT, RUNNING, UNKNOWN, WAITING, Agent, Evidence
from imi_monitor.model.snapshot import Key
from imi_monitor.model.truth import decide
from imi_monitor.sources.agents import fields, process_scan
from imi_monitor.sources.agents.agent_poll import AgentPoll
from imi_monitor.sources.agents.aider import reader as aider
from imi_monitor.sources.agents.copilot import reader as copilot
from imi_monitor.sources.agents.opencode import reader as opencode
from imi_monitor.sources.agents.process_scan import ProcessScan
from tests.helpers import shift_clock
from tests.sources.agents.fake_processes import named, soon
from tests.sources.agents.reader_kit import FAKES, driven, python

HOURS = 3600.0
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Set the clock forward or back by seconds, seen from the true time."""

    def by(seconds: float) -> None:
        shift_clock(monkeypatch, seconds)

    return by


@dataclass
class Watched:
    """Three agents at work, and the monitor that has watched them from their beginning."""

    root: str
    monitor: AgentPoll
    kill: Callable[[], None]

    def agents(self, monitor: AgentPoll | None = None) -> dict[str, Agent]:
        result = (monitor or self.monitor).poll(None, {self.root: Key("here", "app", "feat")})
        assert result.failures == []
        return {one.agent.cli: one.agent for one in result.agents}


def new_monitor() -> AgentPoll:
    scan = ProcessScan(iter(range(10**6)).__next__)
    return AgentPoll([copilot.make(), opencode.make(), aider.make(), process_scan.make()], scan, {})


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    if not sys.platform.startswith("linux"):
        pytest.skip("needs /proc")
    home, wt = tmp_path.resolve() / "home", tmp_path.resolve() / "wt"
    wt.mkdir()
    monkeypatch.setenv("HOME", str(home))
    link = home / "bin/aider"
    link.parent.mkdir(parents=True)
    link.symlink_to(FAKES / "aider.py")
    database = str(home / ".local/share/opencode/opencode.db")
    with (
        driven([named(home / "b", "opencode", python()), str(FAKES / "opencode.py"), database], wt) as first,
        driven([named(home / "b", "copilot", python()), str(FAKES / "copilot.py"), str(home), "11-22"], wt) as second,
        driven([python(), str(link)], wt) as third,
    ):

        def kill() -> None:
            for one in (first, second, third):
                one.process.kill()
                one.process.wait(60)

        around = Watched(str(wt), new_monitor(), kill)
        soon(lambda: "opencode" in around.agents())
        first("prompt a")
        second("prompt b")
        second("ask bash make")
        third("prompt c")
        yield around


@pytest.mark.parametrize("seconds", [5 * HOURS, -5 * HOURS, 400 * 24 * HOURS, -400 * 24 * HOURS])
def test_living_agents_keep_their_state_while_the_clock_is_set(
    watched: Watched, set_clock: Callable[[float], None], seconds: float
) -> None:
    before = {cli: agent.state for cli, agent in watched.agents().items()}
    assert before == {"opencode": RUNNING, "copilot": WAITING, "aider": RUNNING}
    set_clock(seconds)
    for monitor in (watched.monitor, new_monitor()):
        for cli, agent in watched.agents(monitor).items():
            assert agent.state != DEAD, (cli, agent.truth)
            assert agent.state in (before[cli], UNKNOWN) or agent.truth.confidence != EXACT, (cli, agent.truth)
    set_clock(0)
    assert {cli: agent.state for cli, agent in watched.agents().items()} == before
    set_clock(seconds)
    watched.kill()
    left = {agent.state for agent in watched.agents().values()}
    assert left == {DEAD} or (not left and seconds > 24 * HOURS), "what ended a year ago is not shown"


@pytest.mark.parametrize("hours", [-5, 5])
def test_an_open_turn_without_a_process_is_not_believed_when_the_clock_was_set(hours: int) -> None:
    at = times.stamp(NOON + timedelta(hours=hours))
    found = decide([Evidence("transcript", RUNNING, at, "a tool runs")], None, NOON)
    assert found.state == UNKNOWN
    assert ("from the future" in found.rejected[0].why) is (hours > 0)


def test_the_end_of_a_turn_in_the_future_is_not_waited_for() -> None:
    """The registry of the agent rests; the last record, of a running tool, cannot follow hours later."""
    later = times.stamp(NOON + timedelta(hours=5))
    rests = Evidence("registry", "completed", later, "it rests", standing=True)
    runs = Evidence("transcript", RUNNING, times.stamp(NOON + timedelta(hours=4)), "a tool runs")
    assert decide([rests, runs], True, NOON).state != RUNNING


def test_a_write_in_the_future_is_no_fresh_one() -> None:
    assert fields.quiet(100.0, 90.0) == 10.0
    assert -2 <= fields.quiet(100.0, 101.0) <= 0, "clocks of file systems differ a little"
    assert fields.quiet(100.0, 4000.0) == float("inf")


def test_a_silent_server_is_asked_again_when_the_clock_is_set_back() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        server.settimeout(0.0)
        client = opencode.PortClient()

        def is_asked(now: float) -> bool:
            # it is connected by the kernel, and hears nothing until its time is over
            client.ask(port, now)
            try:
                server.accept()[0].close()
            except BlockingIOError:
                return False
            return True

        assert [is_asked(now) for now in (1000.0, 1001.0, 1000.0 - 5 * HOURS)] == [True, False, True]
