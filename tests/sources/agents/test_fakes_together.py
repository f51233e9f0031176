"""opencode, Copilot, aider and a program without a session at once: one agent each, none twice."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from imi_monitor.model.agent import COMPLETED, DEAD, RUNNING, UNKNOWN, WAITING
from imi_monitor.model.snapshot import Key
from imi_monitor.sources.agents import process_scan
from imi_monitor.sources.agents.agent_poll import AgentPoll
from imi_monitor.sources.agents.aider import reader as aider
from imi_monitor.sources.agents.copilot import reader as copilot
from imi_monitor.sources.agents.opencode import reader as opencode
from imi_monitor.sources.agents.process_scan import ProcessScan
from tests.limits import LIMIT
from tests.sources.agents.fake_processes import named, soon
from tests.sources.agents.reader_kit import FAKES, driven, python

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")


def test_each_program_is_one_agent(tmp_path: Path, monkeypatch: Any) -> None:
    home, wt = tmp_path.resolve() / "home", tmp_path.resolve() / "wt"
    wt.mkdir()
    monkeypatch.setenv("HOME", str(home))
    book = home / ".local/share/opencode/opencode.db"
    link = home / "bin/aider"
    link.parent.mkdir(parents=True)
    link.symlink_to(FAKES / "aider.py")
    open_code = [named(home / "b", "opencode", python()), str(FAKES / "opencode.py"), str(book)]
    co_pilot = [named(home / "b", "copilot", python()), str(FAKES / "copilot.py"), str(home), "11-22"]
    scan = ProcessScan(iter(range(10**6)).__next__)
    poll = AgentPoll([copilot.make(), opencode.make(), aider.make(), process_scan.make()], scan, {})
    broken: list[str] = []

    def states() -> dict[str, str]:
        result = poll.poll(None, {str(wt): Key("here", "app", "feat")})
        broken[:] = result.failures
        agents = [one.agent for one in result.agents]
        assert len({one.id for one in agents}) == len(agents)
        told = {one.cli: one.state for one in agents}
        assert len(told) == len(agents), "one of each"
        return told

    with (
        driven(open_code, wt) as first,
        driven(co_pilot, wt) as second,
        driven([python(), str(link)], wt) as third,
        driven([named(home / "b", "gemini", python()), str(FAKES / "aider.py")], home) as elsewhere,
    ):
        soon(lambda: "opencode" in states())
        assert states() == {"opencode": UNKNOWN, "copilot": COMPLETED, "aider": COMPLETED}
        first("prompt a")
        second("prompt b")
        second("ask bash make")
        third("prompt c")
        assert states() == {"opencode": RUNNING, "copilot": WAITING, "aider": RUNNING}
        for one in (first, second, third):
            one.process.kill()
            one.process.wait(LIMIT)
        assert states() == {"opencode": DEAD, "copilot": DEAD, "aider": DEAD}
        assert elsewhere.process.poll() is None
    assert broken == []
