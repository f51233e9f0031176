"""The bottom line: what can be done here, most wanted first, what cannot be done now dimmed. One widget, one line.

Textual's own Footer builds itself anew whenever a key becomes available (25 ms); this is a line of text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from textual.content import Content
from textual.style import Style
from textual.widgets import Static


class KeyHint(NamedTuple):
    """One key; `action` is what a click runs."""

    key: str
    label: str
    action: str
    enabled: bool = True


class ClickableLine(Static):
    """A line with parts that can be clicked, which keep their own colours."""

    auto_links = False


class KeyBar(ClickableLine):
    """Shows as many hints as there is room for."""

    def __init__(self) -> None:
        super().__init__(id="keybar")
        self._shown: tuple[object, ...] = ()

    def show(self, hints: Sequence[KeyHint], width: int) -> None:
        """Draw them, if anything is different."""
        if (width, *hints) != self._shown:
            self._shown = (width, *hints)
            self.update(key_bar_line(hints, width), layout=False)


def key_bar_line(hints: Sequence[KeyHint], width: int) -> Content:
    """`c Claim  R Release … ? Help`, cut at a whole key; the last hint is always there: it leads to all others."""
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
