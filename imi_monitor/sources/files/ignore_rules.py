"""git's ignore rules as git reads them: one line of a `.gitignore` -> one rule, the last that matches decides.

Each rule is asked about one path at a time; that a folder's rule covers what is below it is the caller's business,
who asks from the top down, as git does.

What git ignores, decided without a git process: 2 ms a question would cost more than everything else together.

The rules are git's own files (`.gitignore` at every level, `info/exclude`, `core.excludesFile`),
read as git reads them (`rules`).
A tracked file is never ignored, whatever matches it, so the index has the last word.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from imi_monitor.git.layout import read_regular

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
class IgnoreRule:
    """`whole` rules are matched against the path from the file's own folder, the others against the last name."""

    pattern: re.Pattern[str]
    negated: bool
    folders_only: bool
    whole: bool

    def matches(self, path: str, *, is_dir: bool) -> bool:
        if self.folders_only and not is_dir:
            return False
        return self.pattern.fullmatch(path if self.whole else path.rpartition("/")[2]) is not None


def parse_rules(text: str) -> list[IgnoreRule]:
    """The rules of one file; lines that say nothing, or that git cannot read, give none."""
    return [rule for line in text.split("\n") if (rule := _rule(line.removesuffix("\r"))) is not None]


def decide(rules: Sequence[IgnoreRule], path: str, *, is_dir: bool) -> bool | None:
    """Whether these rules ignore the path: True, False (taken back by `!`), or None when they say nothing about it."""
    for rule in reversed(rules):
        if rule.matches(path, is_dir=is_dir):
            return not rule.negated
    return None


def _rule(line: str) -> IgnoreRule | None:
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
    return None if regex is None else IgnoreRule(re.compile(regex, re.DOTALL), negated, folders_only, whole)


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


_MOST_BYTES = 1 << 20  # a larger ignore file is nobody's
_MOST_FILES = 2000  # remembered .gitignore files of one worktree


class IgnoreRules:
    """The ignore rules of one worktree. Paths are relative to its root, with `/`."""

    def __init__(self, root: str, admin_dir: str, common_dir: str, extra: str | None = None) -> None:
        self._root = root
        self._index = os.path.join(admin_dir, "index")
        self._shared = [path for path in (extra, os.path.join(common_dir, "info", "exclude")) if path]
        self._specs: dict[str, list[IgnoreRule]] = {}
        self._tracked = b""
        self._tracked_mark: tuple[int, int] | None = None

    def forget(self) -> None:
        """The rules may have changed: read them again when next asked."""
        self._specs.clear()

    def ignores(self, path: str, *, is_dir: bool) -> bool:
        """Whether git would leave this path out: it or a folder above it matches, and it is not tracked."""
        parts = path.split("/")
        for depth in range(1, len(parts)):
            if self._matches("/".join(parts[:depth]), is_dir=True):
                return not self.tracks(path, is_dir=is_dir)
        return self._matches(path, is_dir=is_dir) and not self.tracks(path, is_dir=is_dir)

    def prunes(self, folder: str) -> bool:
        """Whether a folder, whose parents are not ignored, need not be looked into: ignored, and nothing in it tracked."""
        return self._matches(folder, is_dir=True) and not self.tracks(folder, is_dir=True)

    def tracks(self, path: str, *, is_dir: bool) -> bool:
        """Whether the index names the path, or something below it (there a false yes is possible: it reads bytes)."""
        self._read_index()
        name = os.fsencode(path)
        if self._tracked[4:8] == b"\0\0\0\x04":
            return False  # version 4 shares beginnings of names; whoever uses it loses only this nicety
        return name + b"/" in self._tracked if is_dir else self._names(name)

    def _names(self, name: bytes) -> bool:
        """Whether an entry of just this name is in the index: its length stands right before it."""
        wanted = min(len(name), 0xFFF)
        at = self._tracked.find(name + b"\0")
        while at > 1:
            if int.from_bytes(self._tracked[at - 2 : at], "big") & 0xFFF == wanted:
                return True
            at = self._tracked.find(name + b"\0", at + 1)
        return False

    def _matches(self, path: str, *, is_dir: bool) -> bool:
        """The nearest rule decides; within one file the last that matches does."""
        folder, _, _ = path.rpartition("/")
        while True:
            spec = self._spec(folder)
            if spec:
                found = decide(spec, path[len(folder) + 1 :] if folder else path, is_dir=is_dir)
                if found is not None:
                    return found
            if not folder:
                break
            folder = folder.rpartition("/")[0]
        for index in range(len(self._shared) - 1, -1, -1):
            found = decide(self._spec(f"\0{index}"), path, is_dir=is_dir)
            if found is not None:
                return found
        return False

    def _spec(self, folder: str) -> list[IgnoreRule]:
        if folder not in self._specs:
            if len(self._specs) > _MOST_FILES:
                self._specs.clear()
            where = self._shared[int(folder[1:])] if folder.startswith("\0") else self._file(folder)
            self._specs[folder] = _read_rules(where)
        return self._specs[folder]

    def _file(self, folder: str) -> str:
        return os.path.join(self._root, folder, ".gitignore")

    def _read_index(self) -> None:
        try:
            info = os.stat(self._index)
            mark = (info.st_mtime_ns, info.st_size)
            if mark != self._tracked_mark:
                self._tracked = read_regular(self._index, info.st_size) or b""
                self._tracked_mark = mark
        except OSError:
            self._tracked, self._tracked_mark = b"", None


def global_ignore_file() -> str:
    """Return the place where git looks for the user's own ignore file."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "git", "ignore")


def _read_rules(path: str) -> list[IgnoreRule]:
    if os.path.islink(path) and os.path.basename(path) == ".gitignore":
        return []  # git does not follow a link here either
    content = read_regular(path, _MOST_BYTES)
    return parse_rules(os.fsdecode(content)) if content else []
