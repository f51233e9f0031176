"""Asking a person to pick one of several, on a terminal. On stderr, so that stdout stays what was asked for."""

from __future__ import annotations

import sys

from imi_monitor.cli import out


def ask(title: str, lines: list[str]) -> int | None:
    """The index of the line that was picked; None when there is no terminal, or the person leaves it."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    out.end_progress()
    digits = len(str(len(lines)))
    for number, text in enumerate(lines, 1):
        out.note(f"{number:>{digits}}  {text}")
    out.note(f"{title} (1-{len(lines)}, or nothing to leave):")
    answer = sys.stdin.readline().strip()
    if answer.isascii() and answer.isdecimal() and 1 <= int(answer[:9]) <= len(lines):
        return int(answer) - 1
    return None
