"""Pictures of screens as SVG, the same on every machine: the dashboard on hand-written snapshots or on the demonstration's
repository, driven by keys.

`make snap` accepts the pictures as they are now. Look at each one first; any browser shows an SVG.
"""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from textual.pilot import Pilot

from imi_monitor.actions.context import Context
from imi_monitor.model.errors import Refused
from imi_monitor.model.snapshot import Snapshot
from imi_monitor.ui import command_conditions, command_log, menu_entries
from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.dialogs.action_dialog import PREVIEW_DELAY, ActionDialog
from imi_monitor.ui.dialogs.menu import Menu
from imi_monitor.ui.preferences import Preferences
from imi_monitor.ui.views import OpenContextAt
from tests.helpers import ROOT, set_clock
from tests.limits import LIMIT
from tests.ui import sample_agents, sample_items, sample_runs, sample_snapshots
from tests.ui.demo_repository import shop
from tests.ui.idle import SOON, wait_for_idle

FOLDER = ROOT / "snapshots"
ACCEPTING = os.environ.get("ACCEPT_PICTURES") == "1"
WIDE, MIDDLE, NARROW, LEAST = (140, 40), (100, 30), (60, 20), (40, 12)

_FONT_FACES = re.compile(r"@font-face\s*\{[^}]*\}\s*")
_IDENTITY = re.compile(r"terminal-\d+")


@dataclass(frozen=True)
class Rest:
    """When a screen is taken for one at rest: so many looks in a row are the same, with a pause before each."""

    looks: int = 3
    pause: float = 0


SHORT_REST, LONG_REST = Rest(), Rest(12, 0.05)
_UNDER_WAY = re.compile(
    r"\b(looking|checking|reading|working)\b[\w ]*[…~]"
)  # an answer is on its way to a view or dialog


@dataclass(frozen=True)
class Picture:
    """One line of the table. `keys` are pressed in order; `env` is set before the app is made."""

    name: str
    world: Callable[[], Snapshot] = sample_snapshots.busy
    size: tuple[int, int] = WIDE
    keys: tuple[str, ...] = ()
    theme: str = ""
    ascii_only: bool = False
    env: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)  # for ImiApp, such as read_only
    real: bool = False  # over the demonstration's repository: for all that asks git and the registry
    kept: bool = False  # the sessions of the world's agents are in the registry
    dressed: Callable[[Snapshot], Snapshot] | None = None  # what is put on a real world that has none of its own

    @property
    def file(self) -> Path:
        return FOLDER / f"{self.name}.svg"


@dataclass(frozen=True)
class Tour:
    """Pictures at one size that share a dashboard: the keys of each stop, from the home screen with the first row selected.

    Nothing is changed at a stop; `escape` leads back.
    """

    name: str
    size: tuple[int, int]
    stops: dict[str, tuple[str, ...]]
    world: Callable[[], Snapshot] = sample_snapshots.busy
    real: bool = False
    kept: bool = False

    @property
    def pictures(self) -> list[Picture]:
        return [Picture(f"{stop}-{self.size[0]}", self.world, self.size, keys) for stop, keys in self.stops.items()]

    def __str__(self) -> str:
        return f"{self.name}-{self.size[0]}"


def no_context(_where: str | None) -> Context:
    raise Refused("this is a picture: there is no repository behind it")


def taken(picture: Picture, monkeypatch: pytest.MonkeyPatch, rest: Rest = SHORT_REST) -> str:
    """The picture as it is now."""
    stand_still(monkeypatch)
    for name, value in picture.env.items():
        monkeypatch.setenv(name, value)
    if picture.kept:
        return _with_sessions(picture, rest)
    if not picture.real:
        return asyncio.run(_take(picture, picture.world(), no_context, rest))
    there = shop()
    monkeypatch.setenv("PATH", f"{_agent_programs(there.world.folder)}:/usr/bin:/bin")  # whatever is installed here
    monkeypatch.setattr(command_log, "time", SimpleNamespace(monotonic=lambda: 0.0))
    monkeypatch.setenv("HOME", there.world.folder)
    monkeypatch.chdir(there.world.trunk)
    world = there.snapshot if picture.dressed is None else picture.dressed(there.snapshot)
    return there.named(asyncio.run(_take(picture, world, there.open_context, rest)))


def _agent_programs(folder: str) -> str:
    """A folder of two agent programs that do nothing, in place of those of this machine."""
    made = os.path.join(folder, "agent-programs")
    os.makedirs(made, exist_ok=True)
    for name in ("claude", "codex"):
        with open(os.path.join(made, name), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n")
        os.chmod(file.name, 0o755)
    return made


def _with_sessions(picture: Picture, rest: Rest) -> str:
    world = picture.world()
    with tempfile.TemporaryDirectory() as folder:
        database = os.path.join(folder, "iMi.db")
        sample_agents.keep(database, world, told=sample_agents.acts())
        sample_items.keep(database)
        return asyncio.run(_take(picture, world, lambda _where: Context(database=database), rest))


def stand_still(monkeypatch: pytest.MonkeyPatch) -> None:
    set_clock(monkeypatch, sample_snapshots.clock)
    ours = {
        "PATH": "/usr/bin:/bin",
        "TZ": "UTC",
        "IMI_HOST": sample_snapshots.HOST,
        "IMI_AGENT_ID": "ada",
        "USER": "ada",
        "VISUAL": "/bin/sh",
    }
    for name, value in {**ours, "TERM": "xterm-256color", "COLORTERM": "truecolor"}.items():
        monkeypatch.setenv(name, value)
    for name in ("NO_COLOR", "TEXTUAL_THEME", "TEXTUAL_COLOR_SYSTEM", "SSH_TTY", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(command_conditions, "git_screen", lambda: "")  # whatever is installed here
    monkeypatch.setattr(menu_entries, "installed", lambda program: program in ("claude", "codex"))
    time.tzset()


def toured(tour: Tour, monkeypatch: pytest.MonkeyPatch, rest: Rest = SHORT_REST) -> Iterator[tuple[Picture, str]]:
    """Each picture of a tour as it is now."""
    stand_still(monkeypatch)
    if tour.real:
        there = shop()
        monkeypatch.setenv("PATH", f"{_agent_programs(there.world.folder)}:/usr/bin:/bin")
        monkeypatch.setenv("HOME", there.world.folder)
        monkeypatch.chdir(there.world.trunk)
        found = asyncio.run(_tour(tour, there.snapshot, there.open_context, rest))
        yield from ((picture, there.named(now)) for picture, now in found)
        return
    world = tour.world()
    with tempfile.TemporaryDirectory() as folder:
        database = os.path.join(folder, "iMi.db")
        if not world.runs:
            sample_agents.keep(database, world, told=sample_agents.acts())
        if tour.kept:
            sample_items.keep(database)
        with sample_runs.kept(database, world):
            yield from asyncio.run(_tour(tour, world, lambda _where: Context(database=database), rest))


async def _tour(tour: Tour, world: Snapshot, open_context: OpenContextAt, rest: Rest) -> list[tuple[Picture, str]]:
    app = ImiApp(sample_snapshots.live(world), open_context, preferences=Preferences(theme="imi-dark"))
    app.animation_level = "none"
    found = []
    async with app.run_test(size=tour.size) as pilot:
        await calm(pilot, rest)
        for picture in tour.pictures:
            for key in picture.keys:
                depth = len(app.screen_stack)
                await pilot.press(key)
                if len(app.screen_stack) != depth:  # the next key is for what this view shows
                    await calm(pilot, rest)
            await calm(pilot, rest)
            found.append((picture, normal(app.export_screenshot(title="imi", simplify=True))))
            while len(app.screen_stack) > 1:
                await pilot.press("escape")
                await pilot.pause()
            await pilot.press("escape", "1", "home")
            await calm(pilot, rest)
    return found


async def _take(picture: Picture, world: Snapshot, open_context: OpenContextAt, rest: Rest) -> str:
    chosen = Preferences(theme=picture.theme or "imi-dark", ascii_only=picture.ascii_only)
    app = ImiApp(sample_snapshots.live(world), open_context, preferences=chosen, **picture.options)
    app.animation_level = "none"
    async with app.run_test(size=picture.size) as pilot:
        await calm(pilot, rest)
        for key in picture.keys:
            await pilot.press(key)
            await calm(pilot, rest)
        await calm(pilot, rest)
        return normal(app.export_screenshot(title="imi", simplify=True))


async def calm(pilot: Pilot[Any], rest: Rest = SHORT_REST) -> None:
    """Wait until nothing moves any more."""
    before, same, end = "", 0, time.monotonic() + LIMIT
    while time.monotonic() < end:
        if isinstance(pilot.app.screen, ActionDialog):  # it reads when nothing was typed for a moment
            await wait_for_idle(soon=PREVIEW_DELAY + SOON)
        await pilot.pause(rest.pause)
        for box in pilot.app.screen.query("Input, TextArea"):
            box.cursor_blink = False  # type: ignore[attr-defined]
        now = text_of(pilot.app)
        asks = len(pilot.app.screen_stack) > 1 and not isinstance(pilot.app.screen, Menu)
        asked = asks and _UNDER_WAY.search(now)
        same = same + 1 if now == before and not asked else 0
        if asked:
            await asyncio.sleep(0.02)
        if same >= rest.looks:
            return
        before = now
    raise AssertionError(f"the screen does not come to rest:\n{before}")


def text_of(app: Any) -> str:
    lines = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in lines)


def normal(svg: str) -> str:
    """Without what differs between machines and runs: web fonts, identifiers."""
    svg = _IDENTITY.sub("t", _FONT_FACES.sub("", svg))
    return "\n".join(line.rstrip() for line in svg.splitlines() if line.strip()) + "\n"


def agrees(picture: Picture, now: str) -> bool:
    """Whether the picture is the accepted one. One that is to be accepted never is, so that it is taken with a long rest."""
    return not ACCEPTING and picture.file.exists() and picture.file.read_text(encoding="utf-8") == now


def check(picture: Picture, now: str, received: Path) -> None:
    """Compare with what was accepted, or accept it."""
    if ACCEPTING:
        FOLDER.mkdir(exist_ok=True)
        picture.file.write_text(now, encoding="utf-8")
        return
    if not picture.file.exists():
        pytest.fail(f"{picture.name} was never looked at: `make snap`, then look at {picture.file}")
    if picture.file.read_text(encoding="utf-8") != now:
        received.write_text(now, encoding="utf-8")
        pytest.fail(f"{picture.name} looks different: compare {received} with {picture.file}; `make snap` accepts it")


def unused(pictures: list[Picture]) -> list[str]:
    wanted = {picture.file.name for picture in pictures}
    return sorted(path.name for path in FOLDER.glob("*") if path.name not in wanted)
