"""Private members of Textual: used in one module only, listed there, and present in the installed version."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from time import time

import pytest
import textual
from textual._xterm_parser import XTermParser
from textual.app import App, ComposeResult
from textual.events import Key
from textual.notifications import Notification
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets._toast import Toast, ToastHolder

from imi_monitor import ui
from imi_monitor.ui import textual_internals
from imi_monitor.ui.textual_internals import PRIVATE_FUNCTIONS, PRIVATE_MEMBERS, ReadyScreen
from tests.ui.pilot_kit import wait_until

_HOOKS = ("_on_", "_watch_", "_validate_", "_compute_")  # found by name, in addition to the public ones
_LISTED = {name for names in PRIVATE_MEMBERS.values() for name in names.split()}


@cache
def attributes_set_by(cls: type) -> frozenset[str]:
    return frozenset(re.findall(r"self\.(_[a-z]\w*)(?: *:[^=\n]+)? *=[^=]", inspect.getsource(cls)))


def private_members(cls: type) -> set[str]:
    """The private names that Textual's own bases of a class define or assign."""
    bases = [base for base in cls.__mro__ if base.__module__.startswith("textual")]
    names = {name for base in bases for name in {*vars(base), *attributes_set_by(base)}}
    return {name for name in names if name.startswith("_") and not name.startswith(("__", "_abc_", *_HOOKS))}


def dashboard_classes() -> Iterator[type]:
    """The dashboard's classes that derive from one of Textual's."""
    for module in pkgutil.walk_packages(ui.__path__, "imi_monitor.ui."):
        for cls in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(cls) and cls.__module__ == module.name and private_members(cls):
                yield cls


@pytest.mark.parametrize("cls", PRIVATE_MEMBERS, ids=lambda cls: cls.__name__)
def test_textual_still_has_the_private_members_that_are_overridden_or_read(cls: type) -> None:
    known = {name for base in cls.__mro__[:-1] for name in {*vars(base), *attributes_set_by(base)}}
    known |= set(re.findall(r"self\.(\w+)(?: *:[^=\n]+)? *=[^=]", inspect.getsource(cls)))
    missing = sorted(set(PRIVATE_MEMBERS[cls].split()) - known)
    assert not missing, (
        f"Textual {textual.__version__} has no {cls.__name__}.{missing[0]}: read how it does this now,"
        " and change imi_monitor/ui/textual_internals.py"
    )


def test_no_other_module_uses_private_members_of_textual() -> None:
    for cls in dashboard_classes():
        source = inspect.getsource(cls)
        used = {*re.findall(r"(?:self|super\(\))\.(_[a-z]\w*)", source), *re.findall(r"def (_[a-z]\w*)", source)}
        clashes = used & private_members(cls)
        if cls.__module__ == textual_internals.__name__:
            clashes -= _LISTED
        assert not clashes, (
            f"{cls.__module__}.{cls.__name__} uses or overrides {sorted(clashes)} of Textual: rename it,"
            " use a public member, or put it into textual_internals.PRIVATE_MEMBERS"
        )


@pytest.mark.parametrize("module", PRIVATE_FUNCTIONS)
def test_textual_still_has_the_private_functions_that_are_replaced(module: str) -> None:
    """Textual's `invoke` looks `_invoke` up when it is called, so that replacing it reaches every handler."""
    found = importlib.import_module(module)
    for name in PRIVATE_FUNCTIONS[module].split():
        assert inspect.isfunction(getattr(found, name))
    assert "_invoke(callback, *params)" in inspect.getsource(found.invoke)


def test_toast_that_expires_before_it_is_mounted_does_not_stop_the_event_loop() -> None:
    """Textual gives it a timer with a negative delay, which never awaits anything."""

    async def main() -> None:
        async with App().run_test() as pilot:
            toast = Toast(Notification("late", raised_at=time() - 10, timeout=5))
            pilot.app._notifications.add(toast._notification)
            await pilot.app.screen.mount(ToastHolder(toast))
            await wait_until(pilot, lambda: not toast.is_attached)

    asyncio.run(main())


def test_alt_enter_is_a_key_of_its_own_in_every_terminal() -> None:
    keys = [event.key for event in XTermParser().feed(f"a{textual_internals.ALT_ENTER}b\r") if isinstance(event, Key)]
    assert keys == ["a", "alt+enter", "b", "enter"]


class CountedLines(Widget):
    """A widget that counts how often its lines were painted."""

    painted = 0

    def render_line(self, y: int) -> Strip:
        self.painted += 1
        return Strip.blank(self.size.width)


class OneWidgetScreen(ReadyScreen[None]):
    def compose(self) -> ComposeResult:
        yield CountedLines()


def test_a_screen_is_painted_first_when_it_is_ready() -> None:
    async def main() -> None:
        app: App[None] = App()
        async with app.run_test() as pilot:
            screen = OneWidgetScreen()
            await app.push_screen(screen)
            widget = screen.query_one(CountedLines)
            widget.refresh()
            await wait_until(pilot, lambda: widget.size.height > 0)
            for _ in range(3):
                await pilot.pause()
            assert widget.painted == 0, "it is laid out, and not painted"
            screen.paint()
            await wait_until(pilot, lambda: widget.painted)
            before = widget.painted
            widget.refresh()
            await wait_until(pilot, lambda: widget.painted > before)

    asyncio.run(main())
