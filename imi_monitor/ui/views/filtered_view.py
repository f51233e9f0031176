"""What views with a filter share: `/` opens its box above the lines, `enter` goes back to them, `esc` clears it first."""

from __future__ import annotations

from textual import on
from textual.binding import Binding
from textual.widget import Widget
from textual.widgets import Input

from imi_monitor.ui.dialogs.form import TextField
from imi_monitor.ui.views.view import View
from imi_monitor.ui.widgets.row_list import RowList

FILTER = Binding("slash", "filter", "Filter", key_display="/", id="filter")


class FilteredView(View):
    """Subclasses put `filter_box` above their lines and write `filtered`."""

    @staticmethod
    def filter_box(hint: str) -> Widget:
        return TextField(f"filter: {hint}", "view-filter")

    def filtered(self) -> None:
        """Other words are wanted now."""
        raise NotImplementedError

    @property
    def _box(self) -> Input:
        return self.query_one("#view-filter", Input)

    @property
    def wanted(self) -> str:
        return self._box.value.strip()

    def want(self, words: str) -> None:
        self._box.value = words
        self._box.set_class(bool(words), "-open")

    def action_filter(self) -> None:
        self._box.add_class("-open")
        self._box.focus()

    @on(Input.Changed, "#view-filter")
    def _filter_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.filtered()

    @on(Input.Submitted, "#view-filter")
    def _filter_done(self, event: Input.Submitted) -> None:
        event.stop()
        self.query_one(RowList).focus()

    def action_leave(self) -> None:
        """One step out: the filter first."""
        if self._box.has_class("-open"):
            self.want("")
            self.query_one(RowList).focus()
        else:
            super().action_leave()
