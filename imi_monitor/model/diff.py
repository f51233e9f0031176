"""Diffs: their files, hunks and lines, within limits of size.

Texts are not yet safe to show, and hold bytes that are not UTF-8 as surrogates. Lines and files beyond a limit are
counted, never left out silently.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

ADDED, REMOVED, CONTEXT, NOTE = "+", "-", " ", "\\"


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line. `sign` is +, -, a space, or a backslash for a note of git; `marks` are git's columns of a merge diff."""

    sign: str
    text: str
    old: int | None = None
    new: int | None = None
    marks: str = ""
    cut: bool = False  # the line is longer than `text`


@dataclass(frozen=True, slots=True)
class DiffHunk:
    """A run of lines; `section` is the function or heading that git names for it."""

    old: int
    new: int
    section: str
    lines: tuple[DiffLine, ...]

    def data(self) -> dict[str, object]:
        lines = [
            {"sign": line.sign, "text": line.text, "old": line.old, "new": line.new, "cut": line.cut}
            for line in self.lines
        ]
        return {"old": self.old, "new": self.new, "section": self.section, "lines": lines}


@dataclass(frozen=True, slots=True)
class FileDiff:
    """One file. `state` is git's letter (A M D R C T U), or ? for an untracked file.

    `added` and `removed` count all lines, also those beyond the limit; None is unknown. `cut` is the number of lines
    beyond the limit.
    """

    path: str
    state: str = "M"
    origin: str | None = None
    old_mode: str | None = None
    new_mode: str | None = None
    binary: bool = False
    hunks: tuple[DiffHunk, ...] = ()
    added: int | None = 0
    removed: int | None = 0
    cut: int = 0
    note: str | None = None  # why lines are missing
    content: str = ""  # differs whenever the bytes of either side do
    likely: bool = False  # what it is compared with is not certain

    @property
    def submodule(self) -> bool:
        return "160000" in (self.old_mode, self.new_mode)

    @property
    def kept(self) -> int:
        return sum(len(hunk.lines) for hunk in self.hunks)

    def data(self) -> dict[str, object]:
        return {
            "path": self.path,
            "state": self.state,
            "origin": self.origin,
            "old_mode": self.old_mode,
            "new_mode": self.new_mode,
            "binary": self.binary,
            "added": self.added,
            "removed": self.removed,
            "submodule": self.submodule,
            "cut": self.cut,
            "note": self.note,
            "likely": self.likely,
        }


@dataclass(frozen=True, slots=True)
class Diff:
    """All files of one comparison. `unfinished` says why the end is missing; `omitted` is the number of files left out."""

    files: tuple[FileDiff, ...] = ()
    base: str | None = None  # the other side of the comparison, for people
    unfinished: str | None = None
    omitted: int = 0

    @property
    def added(self) -> int:
        return sum(file.added or 0 for file in self.files)

    @property
    def removed(self) -> int:
        return sum(file.removed or 0 for file in self.files)

    def joined(self, more: Diff) -> Diff:
        """Return this diff followed by `more`."""
        return replace(
            self,
            files=self.files + more.files,
            omitted=self.omitted + more.omitted,
            unfinished=self.unfinished or more.unfinished,
        )


@dataclass(frozen=True, slots=True)
class DiffLimits:
    """How much of a diff is kept; the rest is counted."""

    lines_of_file: int = 3000
    lines: int = 30_000
    files: int = 3000
    width: int = 2000  # characters of one line
    patch_bytes: int = 1_000_000_000  # of git's output that are parsed
    seconds: float = 30.0  # the longest time for git
    name_bytes: int = 8_000_000  # the most bytes that the names of untracked files may have
    untracked_bytes: int = 64_000_000  # the most bytes that are read from all untracked files


DEFAULT_LIMITS = DiffLimits()
ONE_FILE_LIMITS = DiffLimits(lines_of_file=100_000, lines=100_000, width=10_000)
COUNTS_ONLY = DiffLimits(lines_of_file=0, lines=0)
