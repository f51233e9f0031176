"""Imports of Textual that the dashboard may never use, put off until it does: saves 15 ms of the start.

Textual imports its command palette, its trees and selects, and with asyncio TLS, whatever an app shows. While the app is
imported, stand-ins take the place of such modules. A stand-in imports the real module when something of it is used.
"""

from __future__ import annotations

import sys
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class LateModule(ModuleType):
    """Stands for a module that is not imported yet. `objects` of it can be imported by name without importing it; `given`
    are objects that stand for its own for good."""

    def __init__(self, name: str, objects: str = "", **given: object) -> None:
        super().__init__(name)
        self.__dict__.update({one: LateObject(self, one) for one in objects.split()}, **given)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system looks for what packages have
            raise AttributeError(name)
        return self.imported(name)

    def imported(self, name: str) -> Any:
        """An object of the real module."""
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


class LateObject:
    """Stands for a function or class of a late module: it can be called and has the same attributes."""

    def __init__(self, module: LateModule, name: str) -> None:
        self._module = module
        self._name = name

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._module.imported(self._name)(*args, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module.imported(self._name), name)


def _late_modules() -> list[LateModule]:
    tls = ["asyncio.sslproto", "ssl"] if find_spec("_ssl") is not None else []  # asyncio asks whether Python has it
    same = ("Final", "Literal", "ParamSpec", "Protocol", "Self", "TypeAlias", "TypeGuard", "TypedDict", "get_args")
    return [
        *map(LateModule, tls),
        LateModule("platformdirs", "user_downloads_path"),
        LateModule("rich.table", "Table"),
        LateModule("textual.command", "CommandListItem CommandPalette DiscoveryHit Hit Hits SimpleProvider", Provider=object),
        LateModule("textual.types", "IgnoreReturnCallbackType"),
        LateModule("typing_extensions", **{name: getattr(typing, name) for name in same},
                   Coroutine=typing.Coroutine, runtime_checkable=typing.runtime_checkable),
        LateModule("uuid", "uuid4"),
    ]  # fmt: skip


@contextmanager
def stand_ins() -> Iterator[None]:
    """Import Textual inside. Afterwards every module can be imported as usual."""
    late = {module.__name__: module for module in _late_modules() if module.__name__ not in sys.modules}
    sys.modules.update(late)
    try:
        yield
    finally:
        for name, module in late.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]
