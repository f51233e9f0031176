"""Text with styles: a terminal shows it in colour, everything else as the plain text it is.

A style names a meaning, never a colour; `cli.terminal_style` has the colours.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    Span = tuple[int, int, str]

HEADING = "heading"
NAME = "name"
MUTED = "muted"
ADDED = "added"
REMOVED = "removed"
PLACE = "place"  # where in a file or a history: a hunk's head, a commit's id
WORKS = "works"
SUCCESS = "success"
WARNING = "warning"
ERROR = "error"


class StyledText(str):
    """A str whose `spans` (start, end, style) are in order and do not overlap. Operations of str return plain text."""

    __slots__ = ("spans",)

    spans: tuple[Span, ...]


def styled(text: str, style: str) -> str:
    """Return the text in one style; plain when either is empty."""
    return with_spans(text, [(0, len(text), style)]) if text and style else text


def with_spans(text: str, spans: Iterable[Span]) -> str:
    """Return the text with these spans, cut at its end."""
    made = StyledText(text)
    size = len(text)
    made.spans = tuple((start, min(end, size), style) for start, end, style in spans if start < size)
    return made if made.spans else text


def join(parts: Iterable[str]) -> str:
    """Return the parts one after the other, each with its styles."""
    text: list[str] = []
    spans: list[Span] = []
    at = 0
    for part in parts:
        spans.extend(shifted(part, at))
        text.append(part)
        at += len(part)
    return with_spans("".join(text), spans)


def shifted(text: str, by: int) -> list[Span]:
    """Return the spans of the text where it stands `by` characters further right."""
    return [(start + by, end + by, style) for start, end, style in getattr(text, "spans", ())]
