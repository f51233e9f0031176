"""The states in the names of tabs when the multiplexer refuses, or is asked while it answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any, cast

from imi_monitor.model.errors import Refused
from imi_monitor.mux.tab_states import TabStates
from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.tab_signs import TabSigns
from tests.limits import LIMIT
from tests.ui import sample_agents


class FakeMultiplexer:
    """In the place of TabStates: refuses so many times, or waits for a gate."""

    def __init__(self, refusals: int = 0) -> None:
        self.refusals = refusals
        self.gate = threading.Event()
        self.gate.set()
        self.asked: list[Mapping[str, str]] = []

    def show(self, signs: Mapping[str, str]) -> bool:
        self.asked.append(signs)
        assert self.gate.wait(LIMIT)
        self.refusals -= 1
        return self.refusals < 0


class FakeApp:
    def __init__(self) -> None:
        self.preferences = type("", (), {"ascii_only": False})
        self.tasks: list[asyncio.Task[None]] = []

    def run_worker(self, work: Any, **_: object) -> None:
        self.tasks.append(asyncio.create_task(work))


def signs_over(multiplexer: FakeMultiplexer) -> tuple[TabSigns, FakeApp]:
    app = FakeApp()
    return TabSigns(cast(ImiApp, app), cast(TabStates, multiplexer), pause=0), app


def test_a_refusal_is_tried_again_until_the_names_are_shown() -> None:
    """A state that does not change any more must not stay unseen because Zellij was busy once."""

    async def play() -> None:
        multiplexer = FakeMultiplexer(refusals=2)
        signs, app = signs_over(multiplexer)
        signs.update(sample_agents.asking())
        await asyncio.gather(*app.tasks)
        assert len(multiplexer.asked) == 3 and multiplexer.asked[0]["fix-bug"] == "◆"

    asyncio.run(play())


def test_a_tab_that_is_opened_while_the_names_are_read_gets_its_state() -> None:
    async def play() -> None:
        multiplexer = FakeMultiplexer()
        signs, app = signs_over(multiplexer)
        multiplexer.gate.clear()
        signs.update(sample_agents.asking())
        while not multiplexer.asked:
            await asyncio.sleep(0)
        signs.show_again()
        multiplexer.gate.set()
        await asyncio.gather(*app.tasks)
        assert len(multiplexer.asked) == 2

    asyncio.run(play())


class FakeTabs:
    """Windows with names; those in `busy` refuse to be renamed once for each time they are in it."""

    def __init__(self, **tabs: str) -> None:
        self.tabs = tabs
        self.busy: list[str] = []

    def tab_name(self, name: str, /) -> str:
        return name

    def list_tabs(self) -> list[tuple[str, str]]:
        return list(self.tabs.items())

    def rename_tab(self, tab: str, name: str, /) -> None:
        if tab in self.busy:
            self.busy.remove(tab)
            raise Refused("tmux failed: busy")
        self.tabs[tab] = name


def test_one_tab_that_cannot_be_renamed_stops_no_other_and_is_tried_again() -> None:
    holder = FakeTabs(one="fix-bug", two="feat-api")
    states = TabStates(holder)
    holder.busy = ["one"]
    assert not states.show({"fix-bug": "◆", "feat-api": "▸"})
    assert holder.tabs == {"one": "fix-bug", "two": "▸ feat-api"}
    assert states.show({"fix-bug": "◆", "feat-api": "▸"}) and holder.tabs["one"] == "◆ fix-bug"
    holder.busy = ["one"]
    states.restore()
    assert holder.tabs == {"one": "fix-bug", "two": "feat-api"}
