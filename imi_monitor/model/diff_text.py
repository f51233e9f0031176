"""A diff as plain lines for the terminal, made safe, and its summary; for `imi diff`.

Which words of a changed line are the changed ones: found cheaply, for the few lines that are on the screen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher

from imi_monitor.model.diff import NOTE, Diff, DiffLine, FileDiff
from imi_monitor.model.text import count, safe

WORDS = {"A": "new file", "D": "deleted", "R": "renamed", "C": "copied", "U": "conflict", "?": "untracked"}
_WIDE = 4000
_TAB = 8


def display_code(text: str, limit: int = _WIDE, *, tab: int = _TAB) -> str:
    """A line of a file as it may be shown: tabs as spaces, a carriage return at its end visible, nothing that steers."""
    text = text.expandtabs(tab)
    if text.endswith("\r"):
        text = text[:-1] + "␍"
    return safe(text, limit)


def diff_lines(diff: Diff, whole: str) -> list[str]:
    """Everything kept of it; where something is left out, `whole` is the command that shows it."""
    found = [text for file in diff.files for text in _file(file, whole)]
    return found + _ends(diff)


def diff_summary(diff: Diff) -> list[str]:
    """One line a file, and their sum."""
    found = [f"{file.state} {line_counts(file):>14}  {file_title(file)}" for file in diff.files]
    if found:
        total = f"{count(len(diff.files) + diff.omitted, 'file')}, +{diff.added:,} −{diff.removed:,}"
        found.append(total)
    return found + _ends(diff)


def file_title(file: FileDiff) -> str:
    """`new.py (was old.py)`."""
    name = safe(file.path, 1000)
    return f"{name} (was {safe(file.origin, 1000)})" if file.origin else name


def line_counts(file: FileDiff) -> str:
    """`+12 −3`; nothing for what has no lines."""
    if file.added is None or file.removed is None:
        return "binary" if file.binary else ""
    return f"+{file.added:,} −{file.removed:,}" if file.added or file.removed else ""


def file_remarks(file: FileDiff) -> list[str]:
    """What there is to say besides its lines."""
    found = [WORDS[file.state]] if file.state in WORDS else []
    if file.state in "A?" and file.added == 0 and not file.cut:
        found.append("empty")
    if file.submodule:
        found.append("submodule")
    if file.binary:
        found.append("binary")
    if file.note:
        found.append(safe(file.note))
    if file.old_mode and file.new_mode and file.old_mode != file.new_mode:
        found.append(f"mode {safe(file.old_mode, 20)} → {safe(file.new_mode, 20)}")
    return found


def cut_line(file: FileDiff, whole: str) -> str:
    """`… 12,345 more lines: imi diff feat-x --file src/api.py`."""
    return f"… {file.cut:,} more {'line' if file.cut == 1 else 'lines'}: {whole} {shell_quoted(file.path)}"


def shell_quoted(path: str) -> str:
    """A path as a person can give it to the shell; one with odd characters is only shown."""
    plain = path.isascii() and path.replace("/", "").replace(".", "").replace("-", "").replace("_", "").isalnum()
    return path if plain and not path.startswith("-") else "'" + safe(path, 1000).replace("'", "'\\''") + "'"


def _file(file: FileDiff, whole: str) -> Iterator[str]:
    told = ", ".join(dict.fromkeys(part for part in (*file_remarks(file), line_counts(file)) if part))
    yield f"── {file_title(file)}" + (f"  {told}" if told else "")
    for hunk in file.hunks:
        if hunk.old or file.state not in "?A":
            yield f"@@ −{hunk.old} +{hunk.new} @@ {display_code(hunk.section, 200)}".rstrip()
        for line in hunk.lines:
            yield _line(line)
    if file.cut:
        yield cut_line(file, whole)


def _line(line: DiffLine) -> str:
    number = line.new if line.new is not None else line.old
    sign = line.marks or line.sign
    if line.sign == NOTE:
        return f"       ({safe(line.text)})"
    return f"{number or '':>6} {sign}{display_code(line.text)}{'…' if line.cut else ''}"


def _ends(diff: Diff) -> list[str]:
    found = [f"… and {count(diff.omitted, 'more file')}"] if diff.omitted else []
    return [*found, f"… {diff.unfinished}"] if diff.unfinished else found


_WORDS = re.compile(r"\w+|\s+|.", re.DOTALL)
_MOST_WORDS = 120
_ALIKE = 0.5  # below that the lines are different ones, and marking everything marks nothing

Spans = tuple[tuple[int, int], ...]


def changed_words(old: str, new: str) -> tuple[Spans, Spans]:
    """The (start, end) of what is only in the old and only in the new line; nothing when they have little in common."""
    left, right = _WORDS.findall(old[:1000]), _WORDS.findall(new[:1000])
    if old == new or not left or not right or max(len(left), len(right)) > _MOST_WORDS:
        return (), ()
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    same = sum(len("".join(left[block.a : block.a + block.size])) for block in matcher.get_matching_blocks())
    if 2 * same < _ALIKE * (len(old) + len(new)):
        return (), ()
    places = [
        (_at(left, i1), _at(left, i2), _at(right, j1), _at(right, j2))
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        if tag != "equal"
    ]
    return (
        tuple((start, end) for start, end, _, _ in places if start < end),
        tuple((start, end) for _, _, start, end in places if start < end),
    )


def _at(words: list[str], index: int) -> int:
    return sum(map(len, words[:index]))
