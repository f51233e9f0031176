"""The agent programs that imi can start, one module each. A new program is its module and one line here."""

from __future__ import annotations

from importlib import import_module

from imi_monitor.model.errors import UsageError
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.runs.provider import Provider

NAMES = ("claude", "codex")


def by_name(name: str) -> Provider:
    """The provider of a program; UsageError if imi cannot start it."""
    if name not in NAMES:
        raise UsageError(f"imi cannot start {safe(name)!r}: use one of {', '.join(NAMES)}", code="unknown-program")
    made: Provider = import_module(f"{__name__}.{name}").make()
    return made
