"""Syntax colours, for the blocks of code that are on the screen.

The file's name chooses the language from a short list, so that a hostile repository cannot select an obscure lexer. Files with
long lines are not coloured. Green, red and yellow are not used: they have a meaning in a diff.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

from textual.content import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pygments.lexer import Lexer

_LONGEST_LINE = 400  # characters; a longer line is data, not code
_ENDINGS = {
    "py": "python",
    "pyi": "python",
    "js": "javascript",
    "mjs": "javascript",
    "cjs": "javascript",
    "jsx": "jsx",
    "ts": "typescript",
    "tsx": "tsx",
    "rs": "rust",
    "go": "go",
    "c": "c",
    "h": "c",
    "cc": "cpp",
    "cpp": "cpp",
    "hpp": "cpp",
    "cxx": "cpp",
    "java": "java",
    "kt": "kotlin",
    "swift": "swift",
    "rb": "ruby",
    "php": "php",
    "cs": "csharp",
    "scala": "scala",
    "lua": "lua",
    "sh": "bash",
    "bash": "bash",
    "zsh": "bash",
    "fish": "fish",
    "sql": "sql",
    "html": "html",
    "css": "css",
    "scss": "scss",
    "tcss": "scss",
    "json": "json",
    "yaml": "yaml",
    "yml": "yaml",
    "toml": "toml",
    "ini": "ini",
    "cfg": "ini",
    "xml": "xml",
    "svg": "xml",
    "md": "markdown",
    "ex": "elixir",
    "exs": "elixir",
    "hs": "haskell",
    "dart": "dart",
    "zig": "zig",
    "proto": "protobuf",
    "tf": "terraform",
}
_NAMES = {"makefile": "make", "dockerfile": "docker"}
# prefix of a Pygments token -> style
_STYLES = (
    ("Token.Comment", "$foreground-muted italic"),
    ("Token.Keyword", "$text-primary"),
    ("Token.Operator.Word", "$text-primary"),
    ("Token.Literal.String", "$text-secondary"),
    ("Token.Literal.Number", "$text-secondary"),
    ("Token.Name.Function", "bold"),
    ("Token.Name.Class", "bold"),
    ("Token.Name.Tag", "$text-primary"),
    ("Token.Name.Decorator", "$text-secondary"),
    ("Token.Name.Attribute", "$text-secondary"),
)
# what lexers raise for text that is not of their language; it is then shown without colours
_LEXER_ERRORS = (ValueError, LookupError, TypeError, AttributeError, RecursionError, re.error)


def language(path: str) -> str | None:
    """The Pygments name of a file's language; None when it is not coloured."""
    name = os.path.basename(path).lower()
    return _NAMES.get(name) or _ENDINGS.get(name.rpartition(".")[2])


def highlight_spans(path: str, lines: Sequence[str]) -> list[list[Span]]:
    """The coloured spans of each line. The lines must be consecutive lines of the file."""
    found: list[list[Span]] = [[] for _ in lines]
    lexer = _lexer(language(path))
    if lexer is None or any(len(line) > _LONGEST_LINE for line in lines):
        return found
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    try:
        for at, kind, text in lexer.get_tokens_unprocessed("\n".join(lines) + "\n"):
            style = _style(kind)
            if style:
                _spread(found, starts, at, at + len(text), style)
    except _LEXER_ERRORS:
        return [[] for _ in lines]
    return found


def _spread(found: list[list[Span]], starts: list[int], at: int, end: int, style: str) -> None:
    """Add a token's span to each line it covers."""
    line = bisect_right(starts, at) - 1
    while line < len(found) and starts[line] < end:
        left, right = max(at, starts[line]), min(end, starts[line + 1] - 1)
        if left < right:
            found[line].append(Span(left - starts[line], right - starts[line], style))
        line += 1


@lru_cache(64)
def _lexer(name: str | None) -> Lexer | None:
    if name is None:
        return None
    from pygments.lexers import get_lexer_by_name  # slow to import: only when code is shown
    from pygments.util import ClassNotFound

    try:
        return get_lexer_by_name(name)
    except ClassNotFound:
        return None


@lru_cache(512)
def _style(kind: Any) -> str:
    return next((style for start, style in _STYLES if str(kind).startswith(start)), "")
