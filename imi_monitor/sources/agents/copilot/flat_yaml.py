"""The few lines of YAML that agents write beside their records: names and plain values, one a line.

Not a YAML reader: what is nested, listed, anchored or typed is left out, and nothing is ever an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

_LINE = re.compile(r"^([A-Za-z_][\w-]*):(?:[ \t]+(.*))?$")
_BLOCK = re.compile(r"^[|>][+-]?[0-9]?$")
_NOTHING = ("", "~", "null")


def read(text: str) -> dict[str, str]:
    """name -> value; a name without a plain value is left out."""
    found: dict[str, str] = {}
    lines = iter(text.splitlines())
    line = next(lines, None)
    while line is not None:
        match = _LINE.match(line)
        if match is None:
            line = next(lines, None)
            continue
        value = (match[2] or "").strip()
        below, line = _below(lines)
        plain = "\n".join(below) if _BLOCK.match(value) else _plain(value)
        if plain is not None:
            found[match[1]] = plain
    return found


def _below(lines: Iterator[str]) -> tuple[list[str], str | None]:
    """The lines that belong to the name above, and the first that does not."""
    below: list[str] = []
    for line in lines:
        if line[:1] not in (" ", "\t", ""):
            return below, line
        below.append(line.strip())
    return below, None


def _plain(value: str) -> str | None:
    if value[:1] == "'" and value[-1:] == "'" and len(value) > 1:
        return value[1:-1].replace("''", "'")
    if value[:1] == '"':
        return _double(value)
    value = value.split(" #", 1)[0].rstrip()
    return None if value in _NOTHING or value[0] in "[{&*!|>#" else value


def _double(value: str) -> str | None:
    """Quoted as in JSON, nearly always."""
    try:
        told = json.loads(value)
    except ValueError:
        return None
    return told if isinstance(told, str) else None
