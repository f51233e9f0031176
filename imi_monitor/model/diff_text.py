"""A diff as lines of text that are safe to show, for `imi diff` and the diff view; the changed words within a line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher

from imi_monitor.model import amounts
from imi_monitor.model.diff import NOTE, Diff, DiffLine, FileDiff
from imi_monitor.model.styled_text import ADDED, HEADING, MUTED, NAME, PLACE, REMOVED, join, styled
from imi_monitor.model.text import count, safe

WORDS = {"A": "new file", "D": "deleted", "R": "renamed", "C": "copied", "U": "conflict", "?": "untracked"}
_WIDE = 4000
_TAB = 8
_STYLES = {"+": ADDED, "-": REMOVED}


def display_code(text: str, limit: int = _WIDE, *, tab: int = _TAB) -> str:
    """Return a line of a file safe to show: tabs as spaces, a carriage return at its end visible."""
    text = text.expandtabs(tab)
    if text.endswith("\r"):
        text = text[:-1] + "␍"
    return safe(text, limit)


def diff_lines(diff: Diff, whole: str) -> list[str]:
    """Return all kept lines; where some are left out, a line gives `whole`, the command that shows them."""
    found = [text for file in diff.files for text in _file_lines(file, whole)]
    return found + _omissions(diff)


def diff_summary(diff: Diff) -> list[str]:
    """Return one line for each file, and a line with the total."""
    found = [
        join((f"{file.state} ", styled(f"{line_counts(file):>14}", MUTED), "  ", styled(file_title(file), NAME)))
        for file in diff.files
    ]
    if found:
        added, removed = amounts.count(diff.added), amounts.count(diff.removed)
        total = f"{count(len(diff.files) + diff.omitted, 'file')}, +{added} −{removed}"
        found.append(total)
    return found + _omissions(diff)


def file_title(file: FileDiff) -> str:
    """Return the file's name: `new.py (was old.py)`."""
    name = safe(file.path, 1000)
    return f"{name} (was {safe(file.origin, 1000)})" if file.origin else name


def line_counts(file: FileDiff) -> str:
    """Return the changed lines: `+12 −3`; empty for a file without lines."""
    if file.added is None or file.removed is None:
        return "binary" if file.binary else ""
    return f"+{file.added:,} −{file.removed:,}" if file.added or file.removed else ""


def file_remarks(file: FileDiff) -> list[str]:
    """Return what else changed: its state, mode or kind."""
    found = ["~ what it was is likely, not recorded"] if file.likely else []
    found += [WORDS[file.state]] if file.state in WORDS else []
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
    """Return `… 12,345 more lines: imi diff feat-x --file src/api.py`."""
    return f"… {count(file.cut, 'more line')}: {whole} {shell_quoted(file.path)}"


def shell_quoted(path: str) -> str:
    """Return a path quoted for a shell; unsafe characters are shown escaped, so such a path cannot be pasted."""
    plain = path.isascii() and path.replace("/", "").replace(".", "").replace("-", "").replace("_", "").isalnum()
    return path if plain and not path.startswith("-") else "'" + safe(path, 1000).replace("'", "'\\''") + "'"


def _file_lines(file: FileDiff, whole: str) -> Iterator[str]:
    remarks = ", ".join(dict.fromkeys(part for part in (*file_remarks(file), line_counts(file)) if part))
    yield join((styled(f"── {file_title(file)}", HEADING), styled(f"  {remarks}" if remarks else "", MUTED)))
    for hunk in file.hunks:
        if hunk.old or file.state not in "?A":
            yield styled(f"@@ −{hunk.old} +{hunk.new} @@ {display_code(hunk.section, 200)}".rstrip(), PLACE)
        for line in hunk.lines:
            yield _line(line)
    if file.cut:
        yield styled(cut_line(file, whole), MUTED)


def _line(line: DiffLine) -> str:
    number = line.new if line.new is not None else line.old
    sign = line.marks or line.sign
    if line.sign == NOTE:
        return styled(f"       ({safe(line.text)})", MUTED)
    text = f"{sign}{display_code(line.text)}{'…' if line.cut else ''}"
    return join((styled(f"{number or '':>6} ", MUTED), styled(text, _STYLES.get(line.sign, ""))))


def _omissions(diff: Diff) -> list[str]:
    found = [f"… and {count(diff.omitted, 'more file')}"] if diff.omitted else []
    return [*found, f"… {diff.unfinished}"] if diff.unfinished else found


_WORDS = re.compile(r"\w+|\s+|.", re.DOTALL)
_MOST_WORDS = 120
_ALIKE = 0.5  # the common part below which two lines are not compared: marking everything marks nothing

Spans = tuple[tuple[int, int], ...]


def changed_words(old: str, new: str) -> tuple[Spans, Spans]:
    """Return the spans that are only in the old and only in the new line; none when they have little in common."""
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
