"""What git says about a file above its hunks: its names on both sides, modes, and what happened to it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from imi_monitor.model.diff import FileDiff, Hunk, Line

HEADS = (b"diff --git ", b"diff --cc ", b"diff --combined ", b"* Unmerged path ")
_LETTERS = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_QUOTED = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


@dataclass
class OpenFile:
    """The file that is being read."""

    name: str = ""  # from its first line; the lines below it say it better
    old_name: str | None = None
    new_name: str | None = None
    state: str = "M"
    moved: bool = False
    old_mode: str | None = None
    new_mode: str | None = None
    binary: bool = False
    hunks: list[Hunk] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)  # of the hunk that is open
    hunk: Hunk | None = None
    parents: int = 1
    kept: int = 0
    added: int = 0
    removed: int = 0
    cut: int = 0
    old_at: int = 0
    new_at: int = 0

    def close_hunk(self) -> None:
        if self.hunk is not None:
            self.hunks.append(replace(self.hunk, lines=tuple(self.lines)))
        self.hunk, self.lines = None, []

    def count(self, lines: bytes) -> None:
        """Lines that are not kept, each with its end in front."""
        added, removed = lines.count(b"\n+"), lines.count(b"\n-")
        if self.parents > 1:
            added += lines.count(b"\n +")
            removed += lines.count(b"\n -")
        self.added += added
        self.removed += removed
        self.cut += lines.count(b"\n") - lines.count(b"\n@@") - lines.count(b"\n\\")

    def done(self) -> FileDiff | None:
        """The file as a value; None when nothing differs (it was only touched)."""
        hunks = [*self.hunks, replace(self.hunk, lines=tuple(self.lines))] if self.hunk else self.hunks
        path = self.new_name or self.old_name or self.name
        origin = self.old_name if self.moved and self.old_name != path else None
        says = hunks or self.binary or self.cut or self.old_mode != self.new_mode or self.state != "M"
        if not path or not says:
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
        )


def opened(line: bytes) -> OpenFile:
    if line.startswith(b"* Unmerged path "):
        return OpenFile(name=_name(line[16:]), state="U")
    rest = line.split(b" ", 2)[2]
    if not line.startswith(b"diff --git "):
        return OpenFile(name=_name(rest), state="U")
    if rest.startswith(b'"'):
        return OpenFile(name=_name(rest[: _end_of_quoted(rest)])[2:])
    # `a/NAME b/NAME`: both halves are the same, else the lines below name them
    return OpenFile(name=decoded(rest[2 : 2 + (len(rest) - 5) // 2]))


def header(one: OpenFile, line: bytes) -> None:
    for start, take in _HEADERS:
        if line.startswith(start):
            take(one, line[len(start) :])
            return


def _old_name(one: OpenFile, rest: bytes) -> None:
    one.old_name = one.old_name or _side(rest)


def _new_name(one: OpenFile, rest: bytes) -> None:
    one.new_name = one.new_name or _side(rest)


def _moved_from(one: OpenFile, rest: bytes) -> None:
    one.old_name, one.moved = _name(rest), True


def _moved_to(one: OpenFile, rest: bytes) -> None:
    one.new_name = _name(rest)


def _old_mode(one: OpenFile, rest: bytes) -> None:
    one.old_mode = decoded(rest[:20])


def _new_mode(one: OpenFile, rest: bytes) -> None:
    one.new_mode = decoded(rest[:20])


def _created(one: OpenFile, rest: bytes) -> None:
    one.state, one.new_mode = "A", decoded(rest[:20])


def _deleted(one: OpenFile, rest: bytes) -> None:
    one.state, one.old_mode = "D", decoded(rest[:20])


def _indexed(one: OpenFile, rest: bytes) -> None:
    mode = rest.rpartition(b" ")[2]
    if mode.isdigit() and b".." in rest:
        one.old_mode = one.new_mode = decoded(mode[:20])


def _copied(one: OpenFile, rest: bytes) -> None:
    one.state = "C"
    _moved_from(one, rest)


def _renamed(one: OpenFile, rest: bytes) -> None:
    one.state = "R"
    _moved_from(one, rest)


def _binary(one: OpenFile, rest: bytes) -> None:
    one.binary = True


_HEADERS: tuple[tuple[bytes, Callable[[OpenFile, bytes], None]], ...] = (
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
    """`a/NAME`, with a tab behind it when the name holds a space; /dev/null is no name."""
    text = text.removesuffix(b"\t")
    return None if text == b"/dev/null" else _name(text)[2:]


def _name(text: bytes) -> str:
    """A name as git writes it: in quotes with C escapes when there is anything odd in it."""
    if len(text) < 2 or not (text.startswith(b'"') and text.endswith(b'"')):
        return decoded(text)
    return decoded(_ESCAPE.sub(_unescaped, text[1:-1]))


def _unescaped(found: re.Match[bytes]) -> bytes:
    letter = found[1]
    return bytes([int(letter, 8) & 255]) if letter.isdigit() else _LETTERS.get(letter, letter)


def _end_of_quoted(text: bytes) -> int:
    found = _QUOTED.match(text)
    return found.end() if found else len(text)


def decoded(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")
