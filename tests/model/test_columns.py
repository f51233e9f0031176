"""Tables fit the terminal in cells, not characters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imi_monitor.model.columns import Column, cell_width, clip, pad, table
from imi_monitor.model.styled_text import NAME, StyledText, styled

PRINTABLE = st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=40)
COLUMNS = (
    Column("Name", least=4),
    Column("Count", right=True),
    Column("Branch", least=3, rank=1),
    Column("Note", rank=2),
)


@pytest.mark.parametrize(
    ("text", "width"), [("abc", 3), ("日本", 4), ("e\u0301", 1), ("a\u200bb", 2), ("ｱ", 1), ("🙂", 2)]
)
def test_cell_widths_of_wide_and_combining_characters(text: str, width: int) -> None:
    assert cell_width(text) == width


@given(PRINTABLE, st.integers(0, 30))
def test_clip_never_exceeds_the_width(text: str, width: int) -> None:
    clipped = clip(text, width)
    assert cell_width(clipped) <= width
    assert clipped == text or clipped.endswith("…") or width == 0


@given(PRINTABLE, st.integers(1, 30), st.booleans())
def test_pad_has_exactly_the_width(text: str, width: int, right: bool) -> None:
    assert cell_width(pad(text, width, right=right)) == width


@given(st.lists(st.tuples(PRINTABLE, PRINTABLE, PRINTABLE, PRINTABLE), max_size=6), st.integers(1, 120))
def test_no_line_of_a_table_wraps(rows: list[tuple[str, str, str, str]], width: int) -> None:
    assert all(cell_width(line) <= width for line in table(COLUMNS, rows, width))


def test_columns_line_up_below_wide_characters() -> None:
    lines = table(COLUMNS, [("日本語", "3", "x", ""), ("ab", "12", "yy", "")])
    assert lines == ["Name    Count  Branch", "日本語      3  x", "ab         12  yy"]


def test_a_column_without_text_is_left_out() -> None:
    assert table(COLUMNS, [("a", "", "", "")]) == ["Name", "a"]
    assert table(COLUMNS, [("", "", "", "")]) == []
    assert table(COLUMNS, []) == []


def test_a_narrow_table_drops_columns_by_rank_then_narrows() -> None:
    row = ("a-long-name", "7", "a-branch", "a note of some length")
    assert table(COLUMNS, [row], 60)[1] == "a-long-name      7  a-branch  a note of some length"
    assert table(COLUMNS, [row], 30)[1] == "a-long-name      7  a-branch"
    assert table(COLUMNS, [row], 20)[1] == "a-lon…      7  a-br…"
    assert table(COLUMNS, [row], 11)[1] == "a-l…      7"


def test_a_name_is_cut_in_its_middle_and_keeps_its_style() -> None:
    columns = (Column("Worktree", least=10, name=True), Column("Note"))
    line = table(columns, [[styled("feat-payments-for-europe", NAME), "held"]], 18)[1]
    assert line == "feat-pay…ope  held"
    assert isinstance(line, StyledText) and line.spans == ((0, 12, NAME),)
