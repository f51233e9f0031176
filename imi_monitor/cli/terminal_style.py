"""Styles as colours of the terminal's own palette, and when they are used."""

from __future__ import annotations

import os
import sys

from imi_monitor.model import styled_text
from imi_monitor.model.errors import UsageError
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.model.styled_text import StyledText

WHEN = ("auto", "always", "never")

# numbers of SGR; colours of the palette, so that they suit a light terminal as well as a dark one
_SGR = {
    styled_text.HEADING: "1",
    styled_text.NAME: "1",
    styled_text.MUTED: "2",
    styled_text.ADDED: "32",
    styled_text.REMOVED: "31",
    styled_text.PLACE: "36",
    styled_text.WORKS: "36",
    styled_text.SUCCESS: "32",
    styled_text.WARNING: "33",
    styled_text.ERROR: "1;31",
}


def is_used(when: str | None) -> bool:
    """Whether stdout gets colours under `--color WHEN`; without it a terminal gets them, unless NO_COLOR is set."""
    if when is not None and when not in WHEN:
        raise UsageError(f"--color must be one of {', '.join(WHEN)}, not {safe(when, 40)!r}", code="bad-option")
    if when in (None, "auto"):
        return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"
    return when == "always"


def paint(text: StyledText) -> str:
    """Return the text with its escape sequences; each part is made safe before."""
    parts: list[str] = []
    at = 0
    for start, end, style in text.spans:
        parts += (safe(text[at:start], end), f"\x1b[{_SGR[style]}m", safe(text[start:end], end), "\x1b[m")
        at = end
    return "".join((*parts, safe(text[at:], len(text))))
