"""Terminals without Unicode: every glyph on the screen has a twin in plain ASCII, one cell for one cell.

It happens in one place, where lines leave for the terminal, so that panels, dialogs, borders and scroll bars need not know.
"""

from __future__ import annotations

import locale
import os
from functools import lru_cache

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from imi_monitor.model import columns

TWINS = str.maketrans(
    {
        "◆": "*",
        "✚": "+",
        "◇": "?",
        "▪": "#",
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
    """The text in ASCII and as wide as before; what has no twin is `?`."""
    if text.isascii():
        return text
    twins = text.translate(TWINS)
    return twins if twins.isascii() else "".join(c if c.isascii() else "?" * columns.cell_width(c) for c in twins)


class AsciiFilter(LineFilter):
    """Textual's way to have a last word on every line."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(to_ascii(text), style, control) for text, style, control in segments]


def terminal_is_plain() -> bool:
    """Whether the terminal will not show more than ASCII: its locale is not UTF-8, or it is a bare console."""
    encoding = locale.nl_langinfo(locale.CODESET) if os.name == "posix" else "utf-8"
    wanted = next((os.environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if os.environ.get(name)), "")
    named = wanted.partition(".")[2].lower().replace("-", "").partition("@")[0]
    utf8 = named == "utf8" if named else "utf" in encoding.lower()
    return not utf8 or os.environ.get("TERM", "") in ("linux", "dumb", "vt100", "vt220")
