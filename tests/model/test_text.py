"""Sanitising text from outside: no control character passes, all printable text does."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imi_monitor.fast import json_writer
from imi_monitor.model.text import count, safe, safe_lines

HOSTILE = [
    "\x1b]0;title\x07",
    "\x1b]52;c;aGk=\x1b\\",
    "\x1b[2J\x1b[?1049l",
    "\x1bPq\x1b\\",
    "\x9b31m",
    "a\rb\nc\td\x00e\x7f",
    "\u202eevil\u2066",
    "zero\u200bwidth\ufeff",
    "tag\U000e0041",
    "vs\ufe0f",
    b"\xff\xfe bytes",
    "\udcff",
    "e" + "\u0301" * 50,
]


def harmless(text: str) -> bool:
    return all(char.isprintable() and unicodedata.category(char) not in ("Cc", "Cf", "Cs") for char in text)


@pytest.mark.parametrize("payload", HOSTILE)
def test_control_characters_become_visible(payload: str | bytes) -> None:  # T2, T3
    shown = safe(payload)
    assert harmless(shown)
    assert "\x1b" not in shown
    assert shown


def test_printable_text_is_unchanged() -> None:
    for text in ("src/api.ts", "größe.txt", "日本語", "a b", "[/bold]", "émoji 🎉", "\ufdf0\ufe10", "\U00020000"):
        assert safe(text) == text


@pytest.mark.parametrize("code", [0xFE00, 0xFE07, 0xFE0F, 0xE0100, 0xE0150, 0xE01EF])
def test_variation_selectors_are_shown(code: int) -> None:
    """They are printable for Python, take no cell, and so can hide any text."""
    assert safe(f"a{chr(code)}b") == f"a\\{'u' if code < 0x10000 else 'U'}{code:0{4 if code < 0x10000 else 8}x}b"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (b"a\x80", "a\\x80"),
        (b"\xff", "\\xff"),
        ("\udc7f\udd00", "\\udc7f\\udd00"),
        ("\x00\x7f\xa0\xff\u0100", "\\x00\\x7f\\xa0ÿĀ"),
        ("\u2028\U000e0001", "\\u2028\\U000e0001"),
        ("\uffff\U00010000", "\\uffff\U00010000"),
    ],
)
def test_what_is_escaped_is_shown_by_its_shortest_number(text: str | bytes, shown: str) -> None:
    assert safe(text) == shown


def test_long_text_keeps_both_ends() -> None:
    shown = safe("a" * 10_000 + "z", limit=100)
    assert len(shown) <= 100
    assert shown.startswith("aaa") and shown.endswith("z") and "…" in shown
    assert [safe("abcdefgh", limit) for limit in (3, 4, 5, 7, 8)] == ["a…h", "a…h", "ab…gh", "abc…fgh", "abcdefgh"]
    assert [safe("abcdefgh", limit) for limit in (1, 2)] == ["a…h", "a…h"], "never less than one character of each end"


def test_combining_marks_do_not_pile_up() -> None:
    for text in ("e" + "\u0301" * 50, "\u0301" * 50, "e" + "\u0301" * 4 + "e" + "\u0301" * 4):
        assert safe(text).count("\u0301") == 8


@settings(max_examples=3000)
@given(st.one_of(st.text(max_size=60), st.binary(max_size=60)))
def test_any_text_becomes_printable(text: str | bytes) -> None:  # T3
    assert harmless(safe(text))


@pytest.mark.soak
def test_a_million_names_are_sanitised_quickly() -> None:  # T3, the long form
    import random

    rng = random.Random(7)
    for _ in range(1_000_000):
        name = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 20)))
        assert harmless(safe(name))


def test_lines_are_counted_when_there_are_too_many() -> None:
    lines = safe_lines("\n".join(f"line {n}\x1b" for n in range(100)), most=10)
    assert len(lines) == 11
    assert lines[-1] == "… and 90 more lines"
    assert all(harmless(line) for line in lines)


def test_as_many_lines_as_are_wanted_are_not_counted() -> None:
    assert safe_lines("a\n\n \nb", most=3) == ["a", "b"]
    assert safe_lines("a\nb", most=2) == ["a", "b"]


def test_bytes_have_the_lines_of_their_text() -> None:
    text = "a\x85b\u2028c\x0cd\r\ne"
    assert safe_lines(text.encode()) == safe_lines(text) == ["a", "b", "c", "d", "e"]


def test_counts_have_the_right_form() -> None:  # S2.39
    assert [count(n, "commit") for n in (0, 1, 2)] == ["0 commits", "1 commit", "2 commits"]
    assert count(2, "entry", "entries") == "2 entries"
    assert [count(n, "file") for n in (999, 1000, 12_345)] == ["999 files", "1,000 files", "12,345 files"]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=500)
@given(VALUES, st.sampled_from([0, 2]))
def test_our_json_is_json(value: object, indent: int) -> None:
    text = json_writer.dumps(value, indent)
    assert json.loads(text) == value
    assert text.isascii()
    assert harmless(text.replace("\n", ""))


def test_nan_and_infinity_become_null_in_json() -> None:
    assert json_writer.dumps([float("nan"), float("inf")]) == "[null, null]"


def test_stray_bytes_survive_json() -> None:
    assert json.loads(json_writer.dumps("\udcff")) == "\udcff"


def test_other_types_are_refused() -> None:
    with pytest.raises(TypeError):
        json_writer.dumps(object())
