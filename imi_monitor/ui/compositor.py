"""What is painted of the screen when little of it has changed: only widgets in which something did.

Textual asks every widget below the rectangle around all changes: with a clock on top and a row at the bottom, all of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from textual._compositor import ChopsUpdate, Compositor
from textual.geometry import Region
from textual.strip import Strip

_MANY = 24  # changes from which on nearly everything is concerned, and asking who is not takes longer


class ChangedOnly(Compositor):
    """Leaves out the widgets that no change touches; nothing of them is written."""

    _changed: frozenset[Region] = frozenset()

    def render_partial_update(self) -> ChopsUpdate | None:
        self._changed = frozenset(self._dirty_regions) if len(self._dirty_regions) < _MANY else frozenset()
        try:
            return super().render_partial_update()
        finally:
            self._changed = frozenset()

    def _get_renders(self, crop: Region | None = None) -> Iterable[tuple[Region, Region, list[Strip]]]:
        if not self._changed:
            return super()._get_renders(crop)
        every = self.visible_widgets
        self._visible_widgets = {
            widget: (region, clip)
            for widget, (region, clip) in every.items()
            if any(map(region.intersection(clip).overlaps, self._changed))
        }
        try:
            return list(super()._get_renders(crop))
        finally:
            self._visible_widgets = every
