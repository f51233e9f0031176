"""Sanitises all text from outside: file names, branches, commit subjects, output of agents and of git.

`safe` turns characters that could control a terminal (controls, escapes, bidi marks, invisible characters, stray
bytes) into visible `\\x1b`-like notation. Printable text passes unchanged at little cost, and no `re` is imported.
"""

from __future__ import annotations

# Characters that `str.isprintable` accepts but that hide or pile up: variation selectors and combining characters.
_COMBINING_LIMIT = 8
_FIRST_SELECTOR = "\ufe00"


def safe(text: str | bytes, limit: int = 512) -> str:
    """Return `text` safe to show: one line without control characters, at most `limit` characters."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    if len(text) > limit:
        keep = max(1, (limit - 1) // 2)
        text = f"{text[:keep]}…{text[-keep:]}"
    if text.isascii():
        return text if text.isprintable() else "".join(map(_shown, text))
    if text.isprintable() and max(text) < _FIRST_SELECTOR and len(text.encode()) - len(text) <= _COMBINING_LIMIT:
        return text  # most texts: nothing hides, and too few characters beyond ASCII to pile up
    return _limit_combining("".join(map(_shown, text)))


def safe_lines(text: str | bytes, limit: int = 512, most: int = 40) -> list[str]:
    """Return the lines of `text`, each safe to show; lines beyond `most` are counted."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    lines = [safe(line, limit) for line in text.splitlines() if line.strip()]
    return lines if len(lines) <= most else [*lines[:most], f"… and {len(lines) - most} more lines"]


def _shown(char: str) -> str:
    if char.isprintable() and not 0xFE00 <= ord(char) <= 0xFE0F and not 0xE0100 <= ord(char) <= 0xE01EF:
        return char
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8, carried by surrogateescape
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _limit_combining(text: str) -> str:
    from unicodedata import combining

    out: list[str] = []
    run = 0
    for char in text:
        run = run + 1 if combining(char) else 0
        if run <= _COMBINING_LIMIT:
            out.append(char)
    return "".join(out)


def count(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: `1 commit`, `3 commits`, `12,345 commits`."""
    shown = str(number)
    if number >= 1000:  # only then, because the import takes 3 ms
        from imi_monitor.model import amounts

        shown = amounts.count(number)
    return f"{shown} {one if number == 1 else many or one + 's'}"
