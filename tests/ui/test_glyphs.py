"""ASCII: every glyph we draw has a twin of the same width, and nothing else than ASCII comes through."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color

from imi_monitor.ui import glyphs
from tests.helpers import ROOT

UI = ROOT / "imi_monitor" / "ui"


def test_ascii_replacements_are_as_wide_as_their_glyphs() -> None:
    for code, twin in glyphs.ASCII_TWINS.items():
        assert twin.isascii() and twin.isprintable()
        assert len(twin) == cell_len(chr(code)), chr(code)


@pytest.mark.parametrize("path", sorted(UI.rglob("*.py")), ids=lambda path: str(path.relative_to(UI)))
def test_every_glyph_in_the_source_has_an_ascii_replacement(path: Path) -> None:
    strings = re.sub(r"#[^\n]*", "", path.read_text())
    unknown = {char for char in strings if not char.isascii() and ord(char) not in glyphs.ASCII_TWINS}
    assert not unknown


def test_ascii_conversion_keeps_the_width() -> None:
    for text in ("plain", "日本", "naïve", "✓ ok", "👍"):
        shown = glyphs.to_ascii(text)
        assert shown.isascii() and len(shown) == cell_len(text)


def test_ascii_filter_changes_text_only() -> None:
    made = glyphs.AsciiFilter().apply([Segment("╭─ ◆", None), Segment("a")], Color.parse("black"))
    assert [segment.text for segment in made] == ["+- *", "a"]


@pytest.mark.parametrize(
    ("env", "is_plain"),
    [
        ({"LANG": "C.UTF-8"}, False),
        ({"LC_ALL": "de_DE.utf8@euro"}, False),
        ({"LC_ALL": "C", "LANG": "de_DE.UTF-8"}, True),
        ({"LANG": "de_DE.ISO-8859-1"}, True),
        ({"LANG": "C.UTF-8", "TERM": "linux"}, True),
        ({"LANG": "C.UTF-8", "TERM": "xterm-256color"}, False),
    ],
)
def test_terminals_without_unicode_are_recognised(
    env: dict[str, str], is_plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LC_ALL", "LC_CTYPE", "LANG", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert glyphs.terminal_is_plain(charset="ANSI_X3.4-1968") is is_plain
