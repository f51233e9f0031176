"""An unexpected error in any handler, drawing or worker of the dashboard is logged and shown, and the dashboard goes on.

The handlers are found in the classes themselves: a new one is covered without a line here.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import pytest
from textual.message_pump import MessagePump
from textual.pilot import Pilot

from imi_monitor import ui
from imi_monitor.actions.context import Context
from imi_monitor.model.errors import ImiError
from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.dialogs.action_dialog import ActionDialog
from imi_monitor.ui.dialogs.menu import Menu
from imi_monitor.ui.panels.panel import Panel
from imi_monitor.ui.views.view import View
from imi_monitor.ui.widgets.cursor_list import CursorList
from tests.ui import sample_agents, sample_snapshots
from tests.ui.idle import wait_for_idle
from tests.ui.pilot_kit import wait_until
from tests.ui.snapshot_kit import no_context, stand_still, text_of
from tests.ui.test_terminal_hostile import screens

_PREFIXES = ("on_", "_on_", "action_", "do_", "key_", "watch_", "draw_", "render")
_NAMES = ("compose", "body", "show", "show_snapshot", "redraw", "draw", "clock_ticked")
_NOT_HANDLERS = {"exit", "action_quit", "on_event"}  # they end the app; the mechanism itself
# the screen without a repository is an app of its own (test_welcome), the log of a run needs a run (tests/runs), an item's
# details need an item (test_board_view)
_ELSEWHERE = {"Welcome", "WelcomeApp", "RunLogView", "JobLogView", "WatchedLogView", "ItemView"}
_VISITS = 12  # of one place: each lets those handlers fail that the last failures kept from being called

Handler = tuple[type, str]
Place = tuple[str, tuple[str, ...]]
PLACES = screens()
GROUPS = [PLACES[start : start + 5] for start in range(0, len(PLACES), 5)]  # each is short on a busy machine, too


def handlers() -> Iterator[Handler]:
    """Every method that Textual, a key, a message or a snapshot calls in the dashboard's own classes."""
    for module in pkgutil.walk_packages(ui.__path__, "imi_monitor.ui."):
        for cls in vars(importlib.import_module(module.name)).values():
            if (
                inspect.isclass(cls)
                and cls.__module__ == module.name
                and _takes_calls(cls)
                and cls.__name__ not in _ELSEWHERE
            ):
                for name, method in vars(cls).items():
                    if inspect.isfunction(method) and _is_handler(name, method):
                        yield cls, name


def _takes_calls(cls: type) -> bool:
    return issubclass(cls, MessagePump) or cls.__module__.startswith("imi_monitor.ui.handlers.")


def _is_handler(name: str, method: Callable[..., object]) -> bool:
    return name not in _NOT_HANDLERS and (
        name.startswith(_PREFIXES) or name in _NAMES or hasattr(method, "_textual_on")
    )


class Faults:
    """Lets each handler fail when it is called for the first time, once the dashboard is on the screen."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.provoked: set[Handler] = set()
        self.spared: frozenset[type] = frozenset()
        self.active = False
        self._monkeypatch = monkeypatch

    def put_into(self, handler: Handler, *, always: bool = False) -> None:
        cls, name = handler
        original = vars(cls)[name]

        @wraps(original)
        def broken(*args: Any, **options: Any) -> object:
            if self.active and (always or (handler not in self.provoked and cls not in self.spared)):
                self.provoked.add(handler)
                raise RuntimeError(f"broken {cls.__name__}.{name}")
            return original(*args, **options)

        self._monkeypatch.setattr(cls, name, broken)
        listed = vars(cls).get("_decorated_handlers", {})
        replaced = {
            message: [(broken if method is original else method, selectors) for method, selectors in methods]
            for message, methods in listed.items()
        }
        self._monkeypatch.setattr(cls, "_decorated_handlers", replaced, raising=False)


class Watched:
    """A dashboard on a hand-written snapshot, with what it logged and showed."""

    def __init__(self, open_context: Callable[[str | None], Context] = no_context) -> None:
        self.logged: list[str] = []
        self.shown: list[str] = []
        self.app = ImiApp(sample_snapshots.live(sample_agents.rich()), open_context)
        self.app.animation_level = "none"
        self.app.record_error = self._record
        notify = self.app.notify

        def noted(message: str, **options: Any) -> None:
            self.shown.append(message)
            notify(message, **options)

        self.app.notify = noted  # type: ignore[method-assign]

    def _record(self, error: BaseException) -> ImiError:
        self.logged.append(f"{type(error).__name__}: {error}")
        return ImiError(f"something went wrong inside imi ({error})")

    def run(self, play: Callable[[Pilot[Any]], Any], size: tuple[int, int] = (140, 40)) -> None:
        async def main() -> None:
            async with self.app.run_test(size=size, notifications=True) as pilot:
                while self.app.home.shown is None or not self.app.keeps_running:
                    await pilot.pause(0.02)
                await play(pilot)
                assert self.lives

        asyncio.run(main())
        assert self.app.crash is None

    @property
    def lives(self) -> bool:
        return self.app.is_running and not self.app._exit and self.app.crash is None


async def go_home(app: ImiApp, pilot: Pilot[Any]) -> None:
    for _ in range(8):
        await pilot.press("escape")
        if len(app.screen_stack) == 1:
            break
    assert len(app.screen_stack) == 1, f"escape does not leave {app.screen}"
    await pilot.press("1")


def widgets(app: ImiApp) -> Iterator[object]:
    yield app
    yield from app._handlers
    yield app.action_commands
    for screen in app.screen_stack:
        yield from screen.walk_children(with_self=True)


def classes_on_screen(app: ImiApp) -> dict[type, object]:
    """The classes of all parts of the dashboard that are there now, each with one of its objects."""
    return {cls: one for one in widgets(app) for cls in type(one).__mro__}


@pytest.mark.parametrize("places", GROUPS, ids=lambda places: f"{places[0][0]} to {places[-1][0]}")
def test_every_handler_may_fail_and_the_dashboard_goes_on(  # T4
    places: list[Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_still(monkeypatch)
    faults, watched, known = Faults(monkeypatch), Watched(), set(handlers())
    for handler in known:
        faults.put_into(handler)
    seen: dict[type, object] = {}

    async def visit(pilot: Pilot[Any], place: Place) -> None:
        await pilot.press(*place[1])
        assert watched.lives, place[0]
        seen.update(classes_on_screen(watched.app))
        await go_home(watched.app, pilot)

    async def play(pilot: Pilot[Any]) -> None:
        if places is not GROUPS[0]:  # the parts of the home screen fail in the first group
            faults.spared = frozenset(classes_on_screen(watched.app))
        faults.active = True
        for place in places:
            for _ in range(_VISITS):
                before = len(faults.provoked)
                await visit(pilot, place)
                if len(faults.provoked) == before:
                    break
        wanted = {one for one in known if one[0] in seen and one[0] not in faults.spared}
        for cls, name in wanted - faults.provoked:  # Textual calls it as it calls any callback
            watched.app.call_later(getattr(cls, name), seen[cls])
        await wait_until(pilot, lambda: faults.provoked >= wanted)
        await pilot.pause()
        count = len(watched.logged)
        for place in places:  # usable: all screens open, and nothing more is wrong
            await visit(pilot, place)
        assert watched.logged[count:] == []

    watched.run(play)
    logged, shown = " ".join(watched.logged), " ".join(watched.shown)
    for cls, name in faults.provoked:
        assert f"broken {cls.__name__}.{name}" in logged and f"broken {cls.__name__}.{name}" in shown


def test_the_places_show_every_class_that_has_a_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the test above lets none of its handlers fail."""
    stand_still(monkeypatch)
    watched, unseen = Watched(), {cls for cls, _ in handlers()}

    async def play(pilot: Pilot[Any]) -> None:
        for _, keys in PLACES:
            for key in keys:
                await pilot.press(key)
                unseen.difference_update(classes_on_screen(watched.app))
            await go_home(watched.app, pilot)

    watched.run(play)
    assert unseen == set()


@pytest.mark.parametrize(
    "handler",
    [
        (View, "compose"),
        (View, "show_snapshot"),
        (CursorList, "render_line"),
        (Menu, "on_mount"),
        (ActionDialog, "on_mount"),
        (ActionDialog, "compose"),
        (Panel, "show"),
    ],
    ids=lambda handler: f"{handler[0].__name__}.{handler[1]}",
)
def test_handler_that_always_fails_leaves_the_rest_usable(handler: Handler, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_still(monkeypatch)
    faults, watched = Faults(monkeypatch), Watched()
    faults.put_into(handler, always=True)

    async def play(pilot: Pilot[Any]) -> None:
        faults.active = True
        on_screen = False
        for keys in (("d",), ("question_mark",), ("c",), ("down",), ("s",)):
            await pilot.press(*keys)
            await pilot.pause()
            on_screen = on_screen or "broken" in text_of(watched.app)
            await go_home(watched.app, pilot)
        watched.app.call_later(watched.app.draw)
        await pilot.pause()
        assert on_screen or "broken" in text_of(watched.app), text_of(watched.app)

    watched.run(play)
    name = f"broken {handler[0].__name__}.{handler[1]}"
    assert 1 <= sum(name in line for line in watched.logged) <= 12  # not with every frame
    assert any(name in line for line in watched.shown)


def test_background_reading_may_fail_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_still(monkeypatch)
    opened: list[str] = []

    def broken(_where: str | None) -> Context:
        opened.append(watched.app.screen.__class__.__name__)
        raise RuntimeError("broken reading")

    watched = Watched(broken)
    places: set[str] = set()

    def said() -> bool:
        return "broken reading" in text_of(watched.app) + " ".join(watched.shown)

    async def play(pilot: Pilot[Any]) -> None:
        for place, keys in PLACES:
            for key in keys:  # after each: the next one may select something else, which has no failure
                opened.clear()
                watched.shown.clear()
                await pilot.press(key)
                await wait_for_idle(soon=0.35)  # a dialog reads when nothing was typed for a moment
                if opened:
                    places.add(place)
                    await wait_until(pilot, said)
            await go_home(watched.app, pilot)
            await wait_for_idle(soon=0.35)

    watched.run(play)
    assert len(places) > 15
    assert "RuntimeError: broken reading" in watched.logged


def test_worker_may_fail_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_still(monkeypatch)
    watched = Watched()

    async def broken() -> None:
        raise RuntimeError("broken worker")

    async def play(pilot: Pilot[Any]) -> None:
        watched.app.run_worker(broken())
        await wait_until(pilot, lambda: watched.shown)
        watched.app.run_and_say(lambda: str(1 // 0))
        await wait_until(pilot, lambda: len(watched.shown) > 1)

    watched.run(play)
    assert watched.logged[:1] == ["RuntimeError: broken worker"] and "broken worker" in watched.shown[0]
    assert any("ZeroDivisionError" in line for line in watched.logged)


def test_no_worker_fails_in_silence() -> None:
    """`exit_on_error=False` makes Textual drop the error: neither the log nor the screen has it."""
    for module in pkgutil.walk_packages(ui.__path__, "imi_monitor.ui."):
        assert "exit_on_error" not in inspect.getsource(importlib.import_module(module.name)), module.name
