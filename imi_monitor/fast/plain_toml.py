"""The plain part of TOML without `tomllib`, which imports `re`, `enum` and `typing`: 8 ms of every command that reads a setting.

Plain are comments, `[tables]` with bare names, and `key = value` with a bare key and a text without escapes, an integer or
a boolean. Everything else, faults included, is left to `tomllib`. `top_level_text` reads one key of any file.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    Table = dict[str, object]

_BARE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_DIGITS = frozenset("0123456789")
_LONGEST_NUMBER = 15  # signs; a longer one is no setting


def parse(text: str) -> Table | None:
    """Return the tables that `tomllib.loads` would; None if the text needs the full parser."""
    root: Table = {}
    table = root
    for line in text.split("\n"):
        if not line.replace("\t", "").isprintable():
            return None  # also line ends of other systems; non-ASCII text without a glyph is rare
        stripped = line.strip(" \t")
        if not stripped or stripped[0] == "#":
            continue
        inside = _new_table(root, stripped) if stripped[0] == "[" else table if _set(table, stripped) else None
        if inside is None:
            return None
        table = inside
    return root


def top_level_text(content: bytes, key: str) -> str | None:
    """The text of `key`, empty if the file does not set it; None if only a parser can tell."""
    name = key.encode()
    if name not in content:
        return ""
    before, _, after = content.partition(name)
    value, line_start = after.partition(b"\n")[0].strip(), before[before.rfind(b"\n") + 1 :]
    plain = not line_start and b"[" not in before and b'"""' not in before and b"'''" not in before
    if not plain or name in after or value[:1] != b"=":
        return None
    text = value[1:].strip()
    quote, inner = text[:1], text[1:-1]
    if len(text) < 2 or quote not in (b'"', b"'") or text[-1:] != quote or quote in inner or b"\\" in inner:
        return None
    return os.fsdecode(inner)


def _new_table(root: Table, line: str) -> Table | None:
    names, end, rest = line[1:].partition("]")
    if not end or not _is_over(rest):
        return None
    table = root
    *above, last = names.split(".")
    for name in above:
        inner = table.setdefault(name, {})
        if not _is_bare(name) or not isinstance(inner, dict):
            return None
        table = inner
    if not _is_bare(last) or last in table:
        return None
    made: Table = {}
    table[last] = made
    return made


def _set(table: Table, line: str) -> bool:
    name, equals, rest = line.partition("=")
    key, value = name.rstrip(" \t"), _value(rest.lstrip(" \t"))
    if not equals or value is None or not _is_bare(key) or key in table:
        return False
    table[key] = value
    return True


def _value(text: str) -> object:
    """A text, number or boolean; None for everything else."""
    quote = text[:1]
    if quote in ('"', "'"):
        inner, end, rest = text[1:].partition(quote)
        plain = end and "\\" not in inner and _is_over(rest) and not (not inner and rest.startswith(quote))
        return inner if plain else None
    word = text.partition("#")[0].rstrip(" \t")
    if word in ("true", "false"):
        return word == "true"
    digits = word.removeprefix("-")
    number = digits and len(digits) <= _LONGEST_NUMBER and _DIGITS.issuperset(digits)
    return int(word) if number and (digits == "0" or digits[0] != "0") else None


def _is_over(rest: str) -> bool:
    """True if nothing but a comment follows."""
    rest = rest.lstrip(" \t")
    return not rest or rest[0] == "#"


def _is_bare(name: str) -> bool:
    return bool(name) and _BARE.issuperset(name)
