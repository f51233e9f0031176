"""git's ignore rules as git reads them: one line of a `.gitignore` -> one rule, the last that matches decides.

Each rule is asked about one path at a time; that a folder's rule covers what is below it is the caller's business,
who asks from the top down, as git does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_POSIX = {
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "space": r"\s",
    "xdigit": "0-9a-fA-F",
    "word": r"\w",
    "punct": r"!-/:-@\[-`{-~",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "graph": "!-~",
    "print": " -~",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """`whole` rules are matched against the path from the file's own folder, the others against the last name."""

    pattern: re.Pattern[str]
    negated: bool
    folders_only: bool
    whole: bool

    def matches(self, path: str, *, is_dir: bool) -> bool:
        if self.folders_only and not is_dir:
            return False
        return self.pattern.fullmatch(path if self.whole else path.rpartition("/")[2]) is not None


def parse(text: str) -> list[Rule]:
    """The rules of one file; lines that say nothing, or that git cannot read, give none."""
    return [rule for line in text.split("\n") if (rule := _rule(line.removesuffix("\r"))) is not None]


def decide(rules: Sequence[Rule], path: str, *, is_dir: bool) -> bool | None:
    """Whether these rules ignore the path: True, False (taken back by `!`), or None when they say nothing about it."""
    for rule in reversed(rules):
        if rule.matches(path, is_dir=is_dir):
            return not rule.negated
    return None


def _rule(line: str) -> Rule | None:
    if line.startswith("#"):
        return None
    line = _without_trailing_spaces(line)
    negated = line.startswith("!")
    line = line[1:] if negated else line
    folders_only = line.endswith("/")
    line = line[:-1] if folders_only else line
    if not line:
        return None
    whole = "/" in line
    regex = _translate(line.removeprefix("/") if whole else line)
    return None if regex is None else Rule(re.compile(regex, re.DOTALL), negated, folders_only, whole)


def _without_trailing_spaces(line: str) -> str:
    """Spaces at the end do not count, unless a backslash says so."""
    end = len(line)
    while end and line[end - 1] == " ":
        backslashes = len(line[: end - 1]) - len(line[: end - 1].rstrip("\\"))
        if backslashes % 2:
            break
        end -= 1
    return line[:end]


def _translate(pattern: str) -> str | None:
    """A glob of git's as a regular expression; None when it can match nothing."""
    out: list[str] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "*":
            stars = len(pattern) - at - len(pattern[at:].lstrip("*"))
            piece, at = _stars(pattern, at, stars)
            out.append(piece)
        elif char == "?":
            out.append("[^/]")
            at += 1
        elif char == "[":
            found = _class(pattern, at)
            if found is None:
                return None
            piece, at = found
            out.append(piece)
        elif char == "\\":
            if at + 1 >= len(pattern):
                return None
            out.append(re.escape(pattern[at + 1]))
            at += 2
        else:
            out.append(re.escape(char))
            at += 1
    return "".join(out)


def _stars(pattern: str, at: int, stars: int) -> tuple[str, int]:
    """`*` stays within a folder; two or more between slashes (or at an end) cross any number of them."""
    end = at + stars
    starts = at == 0 or pattern[at - 1] == "/"
    if stars > 1 and starts and end == len(pattern):
        return ".*", end
    if stars > 1 and starts and pattern[end] == "/":
        return "(?:.*/)?", end + 1
    return "[^/]*", end


def _class(pattern: str, start: int) -> tuple[str, int] | None:
    """`[a-z]`, `[!a]`, `[[:digit:]]`: never a slash. None when it is not closed or makes no sense: it matches nothing."""
    at = start + 1
    negated = at < len(pattern) and pattern[at] in "!^"
    at += negated
    parts: list[str] = []
    first = True
    while at < len(pattern) and (first or pattern[at] != "]"):
        first = False
        if pattern.startswith("[:", at):
            end = pattern.find(":]", at)
            name = pattern[at + 2 : end] if end > 0 else ""
            if name not in _POSIX:
                return None
            parts.append(_POSIX[name])
            at = end + 2
            continue
        low, at = _member(pattern, at)
        if low is None:
            return None
        high = low
        if at + 1 < len(pattern) and pattern[at] == "-" and pattern[at + 1] != "]":
            last, at = _member(pattern, at + 1)
            if last is None:
                return None
            high = last
        if low <= high:
            parts.append(f"{re.escape(low)}-{re.escape(high)}")
    if at >= len(pattern):
        return None
    inside = "".join(parts)
    if negated:
        return f"[^/{inside}]", at + 1
    return (f"(?!/)[{inside}]" if inside else "(?!)"), at + 1


def _member(pattern: str, at: int) -> tuple[str | None, int]:
    if pattern[at] == "\\":
        return (pattern[at + 1], at + 2) if at + 1 < len(pattern) else (None, at)
    return pattern[at], at + 1
