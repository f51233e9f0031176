"""Views with a filter: `/` opens its box above the rows, `enter` goes back to them, `esc` clears it before it leaves the view."""

from __future__ import annotations

from textual import on
from textual.binding import Binding
from textual.widget import Widget
from textual.widgets import Input

from imi_monitor.ui.views.view import View
from imi_monitor.ui.widgets.filter_line import FilterLine
from imi_monitor.ui.widgets.form_inputs import TextField
from imi_monitor.ui.widgets.row_list import RowList

FILTER = Binding("slash", "filter", "Filter", key_display="/", id="filter", tooltip="narrow the list; esc clears it")


class FilteredView(View):
    """Subclasses put `filter_box` above their rows and implement `filter_changed`."""

    @staticmethod
    def filter_box(hint: str) -> Widget:
        return FilterLine(TextField(hint, "view-filter"))

    def filter_changed(self) -> None:
        """The filter has another text."""
        raise NotImplementedError

    @property
    def _line(self) -> FilterLine:
        return self.query_one(FilterLine)

    @property
    def filter_text(self) -> str:
        return self._line.box.value.strip()

    def set_filter(self, words: str) -> None:
        self._line.set(words)

    def action_filter(self) -> None:
        self._line.open()

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
        if self._line.is_open:
            self.set_filter("")
            self.query_one(RowList).focus()
        else:
            super().action_leave()
