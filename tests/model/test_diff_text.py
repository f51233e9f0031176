"""The changed words within a line."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from imi_monitor.model.diff_text import changed_words


def test_only_changed_words_are_marked() -> None:
    old, new = "def pipe(opened: list) -> int:", "def pipe(opened: list, size: int) -> int:"
    left, right = changed_words(old, new)
    assert left == () and [new[start:end] for start, end in right] == [", size: int"]


def test_lines_that_have_nothing_in_common_are_not_marked() -> None:
    assert changed_words("alpha beta", "x = 1; y = 2; z()") == ((), ())
    assert changed_words("a" * 10_000, "b " * 10_000) == ((), ())


@given(st.text(max_size=60), st.text(max_size=60))
def test_unmarked_text_is_equal_on_both_sides(old: str, new: str) -> None:
    left, right = changed_words(old, new)
    if left or right:
        assert rest(old, left) == rest(new, right)


def rest(text: str, spans: tuple[tuple[int, int], ...]) -> str:
    out, at = "", 0
    for start, end in spans:
        out, at = out + text[at:start], end
    return out + text[at:]
