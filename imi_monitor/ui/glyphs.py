"""ASCII replacements for terminals without Unicode, each as wide as the glyph it replaces.

A line filter applies them to everything that is painted; panels, dialogs, borders and scroll bars always use Unicode.
"""

from __future__ import annotations

import locale
import os
from functools import lru_cache

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from imi_monitor.model import columns

ASCII_TWINS = str.maketrans(
    {
        "◆": "*",
        "✚": "+",
        "◇": "r",  # of a review; `?` means unknown
        "▪": "#",
        "▤": "f",  # a run; the next line is a contained workspace
        "▣": "c",
        "▥": "w",  # of a watched one
        "▢": "W",  # walls
        "▩": "S",
        "⚙": "%",
        "⚒": "%",
        "◈": "o",
        "·": ".",
        "•": "-",
        "⚡": "!!",
        "↑": "^",
        "↓": "v",
        "●": "s",
        "✎": "m",
        "✓": "=",
        "⚠": "!",
        "−": "-",
        "–": "-",
        "→": ">",
        "←": "<",
        "▲": "^",
        "▼": "v",
        "…": "~",
        "✗": "x",
        "▸": ">",
        "▾": "v",
        "▴": "^",
        "◌": "o",
        "◷": "@",
        "⏸": "|",
        "⏎": "<",
        "↵": "<",
        "×": "x",
        "≡": "=",
        "█": "#",
        "▌": "|",
        "▐": "|",
        "▁": "_",
        "▂": ".",
        "▃": ".",
        "▄": "-",
        "▅": "-",
        "▆": "=",
        "▇": "=",
        "▀": "-",
        "▔": "-",
        "▎": "|",
        "▊": "|",
        "▍": "|",
        "▏": "|",
        "▕": "|",
        "▋": "|",
        "▉": "|",
        "╭": "+",
        "╮": "+",
        "╰": "+",
        "╯": "+",
        "─": "-",
        "│": "|",
        "┌": "+",
        "┐": "+",
        "└": "+",
        "┘": "+",
        "├": "+",
        "┤": "+",
        "┬": "+",
        "┴": "+",
        "┼": "+",
        "━": "=",
        "┃": "|",
        "═": "=",
        "║": "|",
        "╔": "+",
        "╗": "+",
        "╚": "+",
        "╝": "+",
        "╸": "=",
        "╺": "=",
        "░": ".",
        "▒": ":",
        "▓": "%",
        "“": '"',
        "”": '"',
        "‘": "'",
        "’": "'",
        "○": "o",
        "■": "#",
        "□": "o",
        "★": "*",
        "☆": "*",
        "⟳": "@",
        "↻": "@",
        "⇡": "^",
        "⇣": "v",
        "╱": "/",
        "╲": "\\",
        "‖": "|",
        "‹": "<",
        "›": ">",
        "⋯": "~",
        "▫": "o",
    }
)


@lru_cache(4096)
def to_ascii(text: str) -> str:
    """Return the text in ASCII, as wide as before; a character without a replacement becomes `?`."""
    if text.isascii():
        return text
    twins = text.translate(ASCII_TWINS)
    return twins if twins.isascii() else "".join(c if c.isascii() else "?" * columns.cell_width(c) for c in twins)


class AsciiFilter(LineFilter):
    """Applies `to_ascii` to every painted line."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(to_ascii(text), style, control) for text, style, control in segments]


def terminal_is_plain(charset: str | None = None) -> bool:
    """Whether the terminal shows ASCII only: its locale is not UTF-8, or it is a Linux console.

    `charset` is the C library's, used where the environment names none.
    """
    encoding = charset or (locale.nl_langinfo(locale.CODESET) if os.name == "posix" else "utf-8")
    wanted = next((os.environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if os.environ.get(name)), "")
    named = wanted.partition(".")[2].lower().replace("-", "").partition("@")[0]
    utf8 = named == "utf8" if named else "utf" in encoding.lower()
    return not utf8 or os.environ.get("TERM", "") in ("linux", "dumb", "vt100", "vt220")
