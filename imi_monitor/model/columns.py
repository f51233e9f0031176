"""Tables as plain text: columns are cut to fit the terminal, never wrapped.

Widths are terminal cells, not characters: a CJK character or an emoji takes two, a combining mark none.
"""

from __future__ import annotations

from unicodedata import category, east_asian_width

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model.styled_text import HEADING, StyledText, join, styled, with_spans

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

GAP = 2
_ELLIPSIS = "…"


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `least` is the width it may be narrowed to (0: never narrowed); names lose their middle, not their end.

    When the table is too wide, columns with a `rank` are left out, the highest rank first.
    """

    title: str
    right: bool = False
    least: int = 0
    rank: int = 0
    name: bool = False


@dataclass(frozen=True, slots=True)
class OptionalColumn:
    """A column that is shown only where at least `spare` cells remain for the others beside it."""

    name: str
    width: int
    spare: int = 0


def cell_width(text: str) -> int:
    """Return the number of terminal cells the text takes."""
    if text.isascii():
        return len(text)
    return sum(_cells_of(char) for char in text)


def clip(text: str, width: int) -> str:
    """Return the text in at most `width` cells, ending in an ellipsis when it is cut."""
    if cell_width(text) <= width:
        return text
    kept, left = [], width - 1
    for char in text:
        left -= _cells_of(char)
        if left < 0:
            break
        kept.append(char)
    shown = "".join(kept) + _ELLIPSIS if width > 0 else ""
    return with_spans(shown, text.spans) if isinstance(text, StyledText) else shown


def clip_middle(text: str, width: int) -> str:
    """Return the text in at most `width` cells; what is cut is cut from its middle: `feat-billing…-eu`."""
    if cell_width(text) <= width:
        return text
    tail, left = "", (width - 1) // 3
    for char in reversed(text):
        left -= _cells_of(char)
        if left < 0:
            break
        tail = char + tail
    shown = clip(text, width - cell_width(tail)) + tail
    return with_spans(shown, text.spans) if isinstance(text, StyledText) else shown


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Return the text in exactly `width` cells."""
    shown = clip(text, width)
    space = " " * (width - cell_width(shown))
    if isinstance(shown, StyledText):
        return join((space, shown) if right else (shown, space))
    return space + shown if right else shown + space


def fit_optional(room: int, wanted: Iterable[OptionalColumn]) -> tuple[dict[str, int], int]:
    """The widths of the columns that fit, tried in order of importance, and the cells that remain; each has a gap of one cell."""
    widths: dict[str, int] = {}
    for column in wanted:
        if room - column.width - 1 >= column.spare:
            widths[column.name] = column.width
            room -= column.width + 1
    return widths, room


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """Return a head line (unless no column has a title) and one line per row, in at most `width` cells (None: no limit).

    Columns without text are left out.
    """
    used = [index for index in range(len(columns)) if any(row[index] for row in rows)]
    wanted = {index: max(cell_width(columns[index].title), *(cell_width(row[index]) for row in rows)) for index in used}
    widths = wanted if width is None else _fit(columns, wanted, width)
    head = [styled(column.title, HEADING) for column in columns]
    lines = [head, *rows] if any(head) else rows
    return [_line(columns, texts, widths, width) for texts in lines] if used else []


def _fit(columns: Sequence[Column], wanted: dict[int, int], width: int) -> dict[int, int]:
    """Leave out columns by rank, then narrow the widest ones that may be narrowed, until a line fits."""
    widths = dict(wanted)
    for index in sorted(widths, key=lambda index: -columns[index].rank):
        if columns[index].rank and _least_total(columns, widths) > width:
            del widths[index]
    while _total(widths) > width:
        wide = [index for index in widths if 0 < columns[index].least < widths[index]]
        if not wide:
            break
        widths[max(wide, key=lambda index: widths[index] - columns[index].least)] -= 1
    return widths


def _least_total(columns: Sequence[Column], widths: dict[int, int]) -> int:
    return _total({index: min(wide, columns[index].least or wide) for index, wide in widths.items()})


def _total(widths: dict[int, int]) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1)


def _line(columns: Sequence[Column], texts: Sequence[str], widths: dict[int, int], width: int | None) -> str:
    parts: list[str] = []
    for index, wide in widths.items():
        text = clip_middle(texts[index], wide) if columns[index].name else texts[index]
        parts += (pad(text, wide, right=columns[index].right), " " * GAP)
    line = join(parts)
    kept = line.rstrip()
    if isinstance(line, StyledText):
        kept = with_spans(kept, line.spans)
    return kept if width is None else clip(kept, width)


def _cells_of(char: str) -> int:
    if char.isascii():
        return 1
    if category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(char) in "WF" else 1
