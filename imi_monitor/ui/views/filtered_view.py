"""Views with a filter: `/` opens its box above the rows, `enter` goes back to them, `esc` clears it before it leaves the view."""

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
    """Subclasses put `filter_box` above their rows and implement `filter_changed`."""

    @staticmethod
    def filter_box(hint: str) -> Widget:
        return TextField(f"filter: {hint}", "view-filter")

    def filter_changed(self) -> None:
        """The filter has another text."""
        raise NotImplementedError

    @property
    def _box(self) -> Input:
        return self.query_one("#view-filter", Input)

    @property
    def filter_text(self) -> str:
        return self._box.value.strip()

    def set_filter(self, words: str) -> None:
        self._box.value = words
        self._box.set_class(bool(words), "-open")

    def action_filter(self) -> None:
        self._box.add_class("-open")
        self._box.focus()

    @on(Input.Changed, "#view-filter")
    def _filter_edited(self, event: Input.Changed) -> None:
        event.stop()
        self.filter_changed()

    @on(Input.Submitted, "#view-filter")
    def _filter_entered(self, event: Input.Submitted) -> None:
        event.stop()
        self.query_one(RowList).focus()

    def action_leave(self) -> None:
        """Clear the filter, else leave."""
        if self._box.has_class("-open"):
            self.set_filter("")
            self.query_one(RowList).focus()
        else:
            super().action_leave()
