"""The bottom line: the keys that work here, the most useful first, unavailable ones dimmed.

Textual's Footer rebuilds its widgets whenever a key becomes available (25 ms); this is one line of text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from textual.content import Content
from textual.style import Style
from textual.widgets import Static


class KeyHint(NamedTuple):
    """One key; a click runs `action`."""

    key: str
    label: str
    action: str
    enabled: bool = True


class ClickableLine(Static):
    """A line with clickable parts, which keep their own colours."""

    auto_links = False


class KeyBar(ClickableLine):
    """Shows as many hints as fit."""

    def __init__(self) -> None:
        super().__init__(id="keybar")
        self.hints: tuple[KeyHint, ...] = ()
        self._width = 0

    def show(self, hints: Sequence[KeyHint], width: int) -> None:
        """Draw the hints, if anything changed."""
        if (width, tuple(hints)) != (self._width, self.hints):
            self._width, self.hints = width, tuple(hints)
            self.update(key_bar_line(hints, width), layout=False)


def key_bar_line(hints: Sequence[KeyHint], width: int) -> Content:
    """`c Claim  R Release … ? Help`, cut between keys; the last hint is always shown, because it lists all others."""
    last = _one(hints[-1]) if hints else Content("")
    parts: list[Content] = []
    room = width - 1 - last.cell_length
    for hint in hints[:-1]:
        one = _one(hint)
        if one.cell_length + 2 > room:
            break
        parts.append(one)
        room -= one.cell_length + 2
    return Content(" ").append(Content("  ").join([*parts, last]))


def _one(hint: KeyHint) -> Content:
    click = Style.from_meta({"@click": hint.action})
    if not hint.enabled:
        return Content.styled(f"{hint.key} {hint.label}", "$text-disabled").stylize(click)
    key = Content.styled(hint.key, "bold $footer-key-foreground")
    return key.append(Content.styled(f" {hint.label}", "$text-muted")).stylize(click)
