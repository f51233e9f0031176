"""Parses git's patches as they arrive and keeps them up to the limits.

A line that cannot be parsed is left out, never an error. Beyond the limit the lines of a file are only counted, by searching
for the next file, so a patch of 300 MB takes little time and no memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from imi_monitor.model.diff import (
    ADDED,
    CONTEXT,
    DEFAULT_LIMITS,
    NOTE,
    REMOVED,
    Diff,
    DiffHunk,
    DiffLimits,
    DiffLine,
    FileDiff,
)

_LONGEST = 1 << 16  # bytes of one line that are parsed
_HEAD_BYTES = 32  # enough bytes of a line to recognise its kind


class PatchParser:
    """Takes git's output by `feed`; `diff` is the result so far, `close` returns the whole."""

    def __init__(self, limits: DiffLimits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._files: list[FileDiff] = []
        self._open: _OpenFile | None = None
        self._rest = b""
        self._long = False  # inside a line whose beginning has been parsed
        self._skipping = False  # the file is beyond its limit
        self._kept = 0
        self._omitted = 0

    def feed(self, data: bytes) -> None:
        left: bytes | None = self._rest + data
        while left is not None:
            self._rest, left = self._skip(left) if self._skipping else self._read(left)

    def _read(self, data: bytes) -> tuple[bytes, bytes | None]:
        """Parse line by line; returns the unfinished last line, and the data to skip through if the limit is reached."""
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
        """Count lines up to the next file; returns the same as `_read`. `data` begins with the end of a line."""
        heads = [at for at in (data.find(b"\ndiff --"), data.find(b"\n* Unmerged ")) if at >= 0]
        end = min(heads, default=data.rfind(b"\n"))
        if self._open is not None:
            self._open.count(data[:end])
        if heads:
            self._skipping = False
            return b"", data[end + 1 :]
        rest = data[end:]
        # the beginning of an unfinished line is enough to recognise its kind
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
        """The files parsed so far."""
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
        if line[:1] in b"d*" and line.startswith(_HEADS):
            self._finish()
            self._open = _opened(line)
            return
        one = self._open
        if one is None:
            return
        if line.startswith(b"@@"):
            self._hunk(one, line)
        elif one.hunk is not None:
            self._content(one, line)
        else:
            _read_header(one, line)

    def _hunk(self, one: _OpenFile, line: bytes) -> None:
        one.close_hunk()
        marks = len(line) - len(line.lstrip(b"@"))
        ranges, _, section = line[marks:].partition(b"@" * marks)
        words = ranges.split()
        old = next((_start(word) for word in words if word.startswith(b"-")), 0)
        new = next((_start(word) for word in words if word.startswith(b"+")), 0)
        one.parents = max(1, marks - 1)
        one.old_at, one.new_at = old, new
        one.hunk = DiffHunk(old, new, _text(section.strip(), 200)[0], ())

    def _full(self, one: _OpenFile) -> bool:
        return one.kept >= self._limits.lines_of_file or self._kept >= self._limits.lines

    def _content(self, one: _OpenFile, line: bytes) -> None:
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
        one.lines.append(DiffLine(sign, text, old, new, marks if one.parents > 1 else "", cut))


def _sign(marks: str) -> str:
    """Return the sign of a line from its columns, one for each parent: any `-` is removed, any `+` is added."""
    if marks[0] == NOTE:
        return NOTE
    return REMOVED if REMOVED in marks else ADDED if ADDED in marks else CONTEXT


def _start(word: bytes) -> int:
    """Return the first line of a range such as `-12,5`."""
    number = word[1:].partition(b",")[0]
    return int(number) if number.isdigit() and len(number) < 12 else 0


def _text(raw: bytes, most: int) -> tuple[str, bool]:
    """Return at most that many characters, and whether there are more."""
    text = _decoded(raw[: 4 * most + 4])  # a character has at most four bytes
    return text[:most], len(raw) > 4 * most + 4 or len(text) > most


_HEADS = (b"diff --git ", b"diff --cc ", b"diff --combined ", b"* Unmerged path ")
_LETTERS = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_QUOTED = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


@dataclass
class _OpenFile:
    """The file that is being parsed."""

    name: str = ""  # from its first line; the header lines below it are more exact
    old_name: str | None = None
    new_name: str | None = None
    state: str = "M"
    moved: bool = False
    old_mode: str | None = None
    new_mode: str | None = None
    binary: bool = False
    hunks: list[DiffHunk] = field(default_factory=list)
    lines: list[DiffLine] = field(default_factory=list)  # of the hunk that is open
    hunk: DiffHunk | None = None
    parents: int = 1
    kept: int = 0
    added: int = 0
    removed: int = 0
    cut: int = 0
    old_at: int = 0
    new_at: int = 0
    content: str = ""

    def close_hunk(self) -> None:
        if self.hunk is not None:
            self.hunks.append(replace(self.hunk, lines=tuple(self.lines)))
        self.hunk, self.lines = None, []

    def count(self, lines: bytes) -> None:
        """Count lines beyond the limit; each has its line break in front."""
        added, removed = lines.count(b"\n+"), lines.count(b"\n-")
        if self.parents > 1:
            added += lines.count(b"\n +")
            removed += lines.count(b"\n -")
        self.added += added
        self.removed += removed
        self.cut += lines.count(b"\n") - lines.count(b"\n@@") - lines.count(b"\n\\")

    def done(self) -> FileDiff | None:
        """Return the file; None when nothing differs (only its time stamp changed)."""
        hunks = [*self.hunks, replace(self.hunk, lines=tuple(self.lines))] if self.hunk else self.hunks
        path = self.new_name or self.old_name or self.name
        origin = self.old_name if self.moved and self.old_name != path else None
        differs = hunks or self.binary or self.cut or self.old_mode != self.new_mode or self.state != "M"
        if not path or not differs:
            return None
        return FileDiff(
            path,
            self.state,
            origin,
            self.old_mode,
            self.new_mode,
            self.binary,
            tuple(hunks),
            None if self.binary else self.added,
            None if self.binary else self.removed,
            self.cut,
            content=self.content,
        )


def _opened(line: bytes) -> _OpenFile:
    if line.startswith(b"* Unmerged path "):
        return _OpenFile(name=_name(line[16:]), state="U")
    rest = line.split(b" ", 2)[2]
    if not line.startswith(b"diff --git "):
        return _OpenFile(name=_name(rest), state="U")
    if rest.startswith(b'"'):
        return _OpenFile(name=_name(rest[: _end_of_quoted(rest)])[2:])
    # `a/NAME b/NAME`: both halves are equal; if not, the header lines below name the file
    return _OpenFile(name=_decoded(rest[2 : 2 + (len(rest) - 5) // 2]))


def _read_header(one: _OpenFile, line: bytes) -> None:
    for start, read in _HEADERS:
        if line.startswith(start):
            read(one, line[len(start) :])
            return


def _old_name(one: _OpenFile, rest: bytes) -> None:
    one.old_name = one.old_name or _side(rest)


def _new_name(one: _OpenFile, rest: bytes) -> None:
    one.new_name = one.new_name or _side(rest)


def _moved_from(one: _OpenFile, rest: bytes) -> None:
    one.old_name, one.moved = _name(rest), True


def _moved_to(one: _OpenFile, rest: bytes) -> None:
    one.new_name = _name(rest)


def _old_mode(one: _OpenFile, rest: bytes) -> None:
    one.old_mode = _decoded(rest[:20])


def _new_mode(one: _OpenFile, rest: bytes) -> None:
    one.new_mode = _decoded(rest[:20])


def _created(one: _OpenFile, rest: bytes) -> None:
    one.state, one.new_mode = "A", _decoded(rest[:20])


def _deleted(one: _OpenFile, rest: bytes) -> None:
    one.state, one.old_mode = "D", _decoded(rest[:20])


def _indexed(one: _OpenFile, rest: bytes) -> None:
    one.content, mode = _decoded(rest.split(b" ")[0]), rest.rpartition(b" ")[2]
    if mode.isdigit() and b".." in rest:
        one.old_mode = one.new_mode = _decoded(mode[:20])


def _copied(one: _OpenFile, rest: bytes) -> None:
    one.state = "C"
    _moved_from(one, rest)


def _renamed(one: _OpenFile, rest: bytes) -> None:
    one.state = "R"
    _moved_from(one, rest)


def _binary(one: _OpenFile, rest: bytes) -> None:
    one.binary = True


_HEADERS: tuple[tuple[bytes, Callable[[_OpenFile, bytes], None]], ...] = (
    (b"--- ", _old_name),
    (b"+++ ", _new_name),
    (b"index ", _indexed),
    (b"old mode ", _old_mode),
    (b"new mode ", _new_mode),
    (b"new file mode ", _created),
    (b"deleted file mode ", _deleted),
    (b"rename from ", _renamed),
    (b"rename to ", _moved_to),
    (b"copy from ", _copied),
    (b"copy to ", _moved_to),
    (b"Binary files ", _binary),
    (b"GIT binary patch", _binary),
)


def _side(text: bytes) -> str | None:
    """Return the name in `a/NAME`, which ends in a tab when it contains a space; None for /dev/null."""
    text = text.removesuffix(b"\t")
    return None if text == b"/dev/null" else _name(text)[2:]


def _name(text: bytes) -> str:
    """Return a name from git's notation: in quotes with C escapes when it contains unusual characters."""
    if len(text) < 2 or not (text.startswith(b'"') and text.endswith(b'"')):
        return _decoded(text)
    return _decoded(_ESCAPE.sub(_unescaped, text[1:-1]))


def _unescaped(found: re.Match[bytes]) -> bytes:
    letter = found[1]
    return bytes([int(letter, 8) & 255]) if letter.isdigit() else _LETTERS.get(letter, letter)


def _end_of_quoted(text: bytes) -> int:
    found = _QUOTED.match(text)
    return found.end() if found else len(text)


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")
