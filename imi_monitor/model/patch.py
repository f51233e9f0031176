"""Reads git's patches as they arrive, piece by piece, and keeps no more than a person can look at.

Lenient: a line that makes no sense is left out, never an error. A file beyond its limit is only counted, by searching
for the next one, so that a patch of 300 MB costs little time and no memory.
"""

from __future__ import annotations

from imi_monitor.model.diff import ADDED, CONTEXT, NOTE, REMOVED, USUAL, Diff, FileDiff, Hunk, Limits, Line
from imi_monitor.model.patch_head import HEADS, OpenFile, decoded, header, opened

_LONGEST = 1 << 16  # bytes of one line that are looked at
_HEAD_BYTES = 32  # enough of a line to know what it is


class Reader:
    """`feed` it with git's output, look at `diff` whenever you like, `close` it at the end."""

    def __init__(self, limits: Limits = USUAL) -> None:
        self._limits = limits
        self._files: list[FileDiff] = []
        self._open: OpenFile | None = None
        self._rest = b""
        self._long = False  # in the middle of a line of which enough is known
        self._skipping = False  # the file is beyond its limit
        self._kept = 0
        self._omitted = 0

    def feed(self, data: bytes) -> None:
        left: bytes | None = self._rest + data
        while left is not None:
            self._rest, left = self._skip(left) if self._skipping else self._read(left)

    def _read(self, data: bytes) -> tuple[bytes, bytes | None]:
        """Line by line, until the end of what has come (which stays) or until only counting goes on."""
        at = 0
        while (end := data.find(b"\n", at)) >= 0:
            if self._long:
                self._long = False
            else:
                self._line(data[at:end])
            at = end + 1
            if self._open is not None and self._open.hunk is not None and self._full(self._open):
                self._skipping = True
                return b"", data[at - 1 :]
        rest = data[at:]
        if len(rest) > _LONGEST:
            if not self._long:
                self._line(rest)
            self._long, rest = True, b""
        return rest, None

    def _skip(self, data: bytes) -> tuple[bytes, bytes | None]:
        """Count lines up to the next file. `data` begins with the end of a line."""
        heads = [at for at in (data.find(b"\ndiff --"), data.find(b"\n* Unmerged ")) if at >= 0]
        end = min(heads, default=data.rfind(b"\n"))
        if self._open is not None:
            self._open.count(data[:end])
        if heads:
            self._skipping = False
            return b"", data[end + 1 :]
        rest = data[end:]
        # of a line without end its beginning is enough: what follows is taken for more of it
        return rest if len(rest) <= _LONGEST else rest[:_HEAD_BYTES], None

    def close(self) -> Diff:
        if self._skipping and self._open is not None:
            self._open.count(self._rest.rstrip(b"\n"))
        elif self._rest and not self._long:
            self._line(self._rest)
        self._rest = b""
        self._finish()
        return self.diff

    @property
    def diff(self) -> Diff:
        """What is known so far."""
        now = self._open.done() if self._open else None
        return Diff((*self._files, now) if now else tuple(self._files), omitted=self._omitted)

    def _finish(self) -> None:
        made = self._open.done() if self._open else None
        if made is not None:
            if len(self._files) < self._limits.files:
                self._files.append(made)
            else:
                self._omitted += 1
        self._open = None

    def _line(self, line: bytes) -> None:
        if line[:1] in b"d*" and line.startswith(HEADS):
            self._finish()
            self._open = opened(line)
            return
        one = self._open
        if one is None:
            return
        if line.startswith(b"@@"):
            self._hunk(one, line)
        elif one.hunk is not None:
            self._content(one, line)
        else:
            header(one, line)

    def _hunk(self, one: OpenFile, line: bytes) -> None:
        one.close_hunk()
        marks = len(line) - len(line.lstrip(b"@"))
        ranges, _, section = line[marks:].partition(b"@" * marks)
        words = ranges.split()
        old = next((_start(word) for word in words if word.startswith(b"-")), 0)
        new = next((_start(word) for word in words if word.startswith(b"+")), 0)
        one.parents = max(1, marks - 1)
        one.old_at, one.new_at = old, new
        one.hunk = Hunk(old, new, _text(section.strip(), 200)[0], ())

    def _full(self, one: OpenFile) -> bool:
        return one.kept >= self._limits.lines_of_file or self._kept >= self._limits.lines

    def _content(self, one: OpenFile, line: bytes) -> None:
        marks = line[: one.parents].decode("ascii", "replace") or CONTEXT
        sign = _sign(marks)
        old = one.old_at if marks[0] in (REMOVED, CONTEXT) and sign != NOTE else None
        new = one.new_at if sign in (ADDED, CONTEXT) else None
        one.old_at += old is not None
        one.new_at += new is not None
        one.added += sign == ADDED
        one.removed += sign == REMOVED
        one.kept += 1
        self._kept += 1
        raw = line[one.parents :] if sign != NOTE else line[1:].lstrip()
        text, cut = _text(raw, self._limits.width)
        one.lines.append(Line(sign, text, old, new, marks if one.parents > 1 else "", cut))


def _sign(marks: str) -> str:
    """What a line is, from one column a parent: taken from any of them is removed, new to any is added."""
    if marks[0] == NOTE:
        return NOTE
    return REMOVED if REMOVED in marks else ADDED if ADDED in marks else CONTEXT


def _start(word: bytes) -> int:
    """The line a range such as `-12,5` begins at."""
    number = word[1:].partition(b",")[0]
    return int(number) if number.isdigit() and len(number) < 12 else 0


def _text(raw: bytes, most: int) -> tuple[str, bool]:
    """At most that many characters, and whether there are more. No character takes more than four bytes."""
    text = decoded(raw[: 4 * most + 4])
    return text[:most], len(raw) > 4 * most + 4 or len(text) > most
