"""Faults and races at exact moments, through Python's public audit events instead of patched functions.

Python raises an audit event immediately before `os.rename`, `os.symlink`, `os.mkdir`, `open` and so on. `at_event` runs a
function there: what another process does between two steps, or an exception that the call itself then raises.
"""

from __future__ import annotations

import os
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


@contextmanager
def recorded(*names: str, below: str | os.PathLike[str] = "") -> Iterator[list[str]]:
    """The first arguments of all events with these names, such as "open" and "os.scandir", for paths below a folder."""
    _hook()
    met: list[str] = []

    def listen(name: str, args: tuple[Any, ...]) -> None:
        if name in names and isinstance(args[0], str | bytes | os.PathLike):
            path = os.fsdecode(args[0])
            if path.startswith(os.fspath(below)):
                met.append(path)

    _listeners.append(listen)
    try:
        yield met
    finally:
        _listeners.remove(listen)


def fail(code: int) -> Callable[[], None]:
    """An `act` that lets the call fail with this errno."""

    def act() -> None:
        raise OSError(code, os.strerror(code))

    return act


def _hook() -> None:
    """One hook for the whole process: audit hooks cannot be removed."""
    global _hooked
    if not _hooked:
        _hooked = True
        sys.addaudithook(lambda name, args: [listen(name, args) for listen in list(_listeners)] and None)
