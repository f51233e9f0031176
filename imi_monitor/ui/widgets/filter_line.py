"""The line a filter is typed into: `/`, the words, and the key that clears it."""

from __future__ import annotations

from textual.containers import Horizontal
from textual.widgets import Input, Static


class FilterLine(Horizontal):
    """Hidden while it is closed and empty."""

    def __init__(self, box: Input) -> None:
        super().__init__(Static("/", classes="filter-sign"), box, Static("⏎ keeps · esc clears", classes="filter-keys"))
        self.box = box

    @property
    def is_open(self) -> bool:
        return self.has_class("-open")

    def open(self) -> None:
        """Show it and type into it."""
        self.add_class("-open")
        self.call_after_refresh(self.box.focus)

    def keep(self) -> None:
        """Show it only if it filters."""
        self.set_class(bool(self.box.value), "-open")

    def set(self, words: str) -> None:
        self.box.value = words
        self.keep()
