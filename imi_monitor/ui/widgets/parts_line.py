"""One line made of parts, such as `Agents  10 agents · 99k tokens · $1.37`: what does not fit is left out part by part."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

_JOINT = " · "
_LEAST_KEPT = 0.55  # of the room; where less would remain, the text is cut instead


class PartsLine(Static):
    """A line that ends with a whole part where it can."""

    def __init__(self, content: Content | str = "", *, id: str | None = None) -> None:
        super().__init__(content, id=id)

    def render(self) -> Content:
        whole = self.content
        return fit_parts(whole if isinstance(whole, Content) else Content(str(whole)), self.content_size.width)


def fit_parts(line: Content, width: int) -> Content:
    """The line, or its first parts that fit into so many cells."""
    kept, end = line, len(line.plain)
    while kept.cell_length > width and end > 0:
        end = line.plain.rfind(_JOINT, 0, end)
        kept = line[: max(0, end)]
    return kept if kept.cell_length >= width * _LEAST_KEPT else line.truncate(max(0, width), ellipsis=True)
