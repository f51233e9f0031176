"""Sizes, counts and long ages as a person reads them."""

import pytest

from imi_monitor.model import amounts


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 Bytes"), (999, "999 Bytes"), (1_200_000, "1.2 MB"), (3_000_000_000, "3.0 GB")]
)
def test_a_size_has_a_decimal_unit(count: int, text: str) -> None:
    assert amounts.size(count) == text


def test_a_count_has_its_thousands_separated() -> None:
    assert [amounts.count(number) for number in (7, 1234, 12_345_678)] == ["7", "1,234", "12,345,678"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(30, "30 seconds"), (3600, "an hour"), (3 * 86400, "3 days"), (70 * 86400, "2 months")]
)
def test_a_long_age_is_given_in_words(seconds: float, text: str) -> None:
    assert amounts.long_age(seconds) == text
