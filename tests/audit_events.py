"""Faults and races at exact moments, through Python's public audit events instead of patched functions.

Python raises an audit event immediately before `os.rename`, `os.symlink`, `os.mkdir`, `open` and so on. `at_event` runs a
function there: what another process does between two steps, or an exception that the call itself then raises.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_listeners: list[Callable[[str, tuple[Any, ...]], None]] = []
_hooked = False


@contextmanager
def at_event(
    event: str, act: Callable[[], object], *, when: Callable[..., bool] = lambda *_: True, once: bool = True
) -> Iterator[list[tuple[Any, ...]]]:
    """Run `act` before the first (or each) `event` whose arguments satisfy `when`; gives the arguments of those events.

    Events that `act` itself causes are ignored.
    """
    _hook()
    met: list[tuple[Any, ...]] = []
    busy = False

    def listen(name: str, args: tuple[Any, ...]) -> None:
        nonlocal busy
        if name != event or busy or (once and met):
            return
        busy = True
        try:
            if when(*args):
                met.append(args)
                act()
        finally:
            busy = False

    _listeners.append(listen)
    try:
        yield met
    finally:
        _listeners.remove(listen)


def fail(code: int) -> Callable[[], None]:
    """An `act` that lets the call fail with this errno."""

    def act() -> None:
        import os

        raise OSError(code, os.strerror(code))

    return act


def _hook() -> None:
    """One hook for the whole process: audit hooks cannot be removed."""
    global _hooked
    if not _hooked:
        _hooked = True
        sys.addaudithook(lambda name, args: [listen(name, args) for listen in list(_listeners)] and None)
