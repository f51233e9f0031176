"""The agent programs that imi can start, one module each, and `acp` for all that speak that protocol.

A new program is its module and its name here, or one line in `acp.PROGRAMS` and its name here."""

from __future__ import annotations

from importlib import import_module

from imi_monitor.model.errors import UsageError
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.runs.provider import Provider

NAMES = ("claude", "codex", "gemini", "opencode", "copilot", "aider")
_OWN_MODULE = ("claude", "codex", "opencode", "aider")  # all others speak the Agent Client Protocol


def by_name(name: str) -> Provider:
    """The provider of a program; UsageError if imi cannot start it."""
    if name not in NAMES:
        raise UsageError(f"imi cannot start {safe(name)!r}: use one of {', '.join(NAMES)}", code="unknown-program")
    if name in _OWN_MODULE:
        made: Provider = import_module(f"{__name__}.{name}").make()
        return made
    from imi_monitor.runs.providers import acp

    return acp.make(name)
