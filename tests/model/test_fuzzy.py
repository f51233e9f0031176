"""Fuzzy matching of a few letters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imi_monitor.model.fuzzy import MatchQuality, match


@pytest.mark.parametrize(
    ("query", "text", "expected"),
    [
        ("feat-api", "feat-api", MatchQuality.EXACT),
        ("FEAT-API", "feat-api", MatchQuality.EXACT),
        ("feat", "feat-api", MatchQuality.PREFIX),
        ("api", "feat-api", MatchQuality.PART),
        ("fap", "feat-api", MatchQuality.LETTERS),
        ("paf", "feat-api", None),
        ("feat-apis", "feat-api", None),
        ("", "feat-api", None),
        ("ss", "straße", MatchQuality.PART),
        ("日", "fix-日本", MatchQuality.PART),
    ],
)
def test_the_quality_of_a_match(query: str, text: str, expected: MatchQuality | None) -> None:
    assert match(query, text) == expected


@given(st.text(min_size=1), st.text(), st.text())
def test_every_part_is_found_as_at_least_a_part(query: str, before: str, after: str) -> None:
    found = match(query, before.casefold() + query + after.casefold())
    assert found is not None and found <= MatchQuality.PART


@given(st.text(min_size=1), st.data())
def test_letters_left_out_still_match(text: str, data: st.DataObject) -> None:
    folded = text.casefold()
    kept = data.draw(st.lists(st.booleans(), min_size=len(folded), max_size=len(folded)))
    query = "".join(char for char, keep in zip(folded, kept, strict=True) if keep)
    if query and query == query.casefold():
        assert match(query, text) is not None
