"""Draws the rows of a diff: line numbers of both sides, signs, syntax colours and changed words.

Syntax colours are computed for a block of lines when its first line is drawn, and kept as long as the diff is shown.
"""

from __future__ import annotations

from textual.content import Content, Span

from imi_monitor.model import columns, diff_text
from imi_monitor.model.diff import ADDED, CONTEXT, NOTE, REMOVED, DiffLine, FileDiff
from imi_monitor.model.diff_text import changed_words
from imi_monitor.model.review_progress import ReviewedFile
from imi_monitor.model.text import count, safe
from imi_monitor.ui import diff_rows, highlight
from imi_monitor.ui.cells import MUTED
from imi_monitor.ui.diff_rows import DiffRow, DiffRows

_BLOCK = 60  # lines that are coloured together
_TAB = 4
_BOTH_NUMBERS = 70  # cells from which old and new line numbers fit side by side
_PAIRS = 30  # lines of one change that are paired and compared word by word
_BACK = {ADDED: "on $success 14%", REMOVED: "on $error 14%"}
_WORD = {ADDED: "on $success 35%", REMOVED: "on $error 35%"}
_SIGN = {ADDED: "$text-success bold", REMOVED: "$text-error bold"}
STATES = {"A": "$text-success", "?": "$text-success", "D": "$text-error", "U": "$text-error bold"}


class DiffPainter:
    """Draws the rows of one diff. `whole` is the command that shows what is omitted here."""

    def __init__(self, rows: DiffRows, whole: str) -> None:
        self._rows = rows
        self._whole = whole
        self._blocks: dict[tuple[int, int, int], list[Content]] = {}
        self._digits = max(3, len(str(max((_last(file) for file in rows.diff.files), default=0))))
        self.shift = 0  # characters scrolled out on the left

    def draw(self, index: int, width: int) -> Content:
        row = self._rows.rows[index]
        if row.kind == diff_rows.END:
            return self._end()
        file = self._rows.diff.files[row.file]
        if row.kind == diff_rows.FILE:
            return file_heading(file, width, self._rows.reviewed[row.file] if self._rows.reviewed else None)
        if row.kind == diff_rows.HUNK:
            return self._hunk(file, row, width)
        if row.kind == diff_rows.LINE:
            return self._line(file, row, width)
        if row.kind == diff_rows.REMARK:
            return self._remark(row, width)
        if row.kind == diff_rows.CUT:
            text = diff_text.cut_line(file, self._whole) if file.cut else f"… {safe(file.note or '')}"
            return Content.styled(f"  {text}", "$text-warning")
        return Content("")

    def _end(self) -> Content:
        diff = self._rows.diff
        parts = [f"… and {count(diff.omitted, 'more file')}"] if diff.omitted else []
        parts += [f"… {diff.unfinished}"] if diff.unfinished else []
        return Content.styled("  " + "  ".join(parts), "$text-warning")

    def _hunk(self, file: FileDiff, row: DiffRow, width: int) -> Content:
        hunk = file.hunks[row.hunk]
        section = diff_text.display_code(hunk.section, 200, tab=_TAB)
        gutter = " " * (self._gutter(width) - 4)
        read = bool(self._rows.reviewed) and self._rows.reviewed[row.file].hunk_is_read(row.hunk)
        mark = Content.styled("✓ " if read else "  ", "$text-success")
        return Content(gutter).append(mark).append(Content.styled(f"⋯ {section}", f"{MUTED} italic"))

    def _remark(self, row: DiffRow, width: int) -> Content:
        """A note: its number, author and text, and what became of it."""
        note = self._rows.notes[row.note]
        lost = f", line {note.line}: the code has changed" if row.note in self._rows.lost else ""
        state = f" · {note.state}" if note.state != "new" else ""
        answer = f" · {safe(note.answered_by or '', 40)}: {safe(note.answer, 500)}" if note.answer is not None else ""
        head = Content.styled(f"{' ' * (self._gutter(width) - 2)}▎ note {note.seq} ", "$accent bold")
        head = head.append(Content.styled(f"{safe(note.author, 40)}{lost}  ", MUTED)).append(safe(note.text, 1000))
        line = head.append(Content.styled(f"{state}{answer}", MUTED)).truncate(width, ellipsis=True)
        return line.pad_right(max(0, width - line.cell_length)).stylize_before("on $panel")

    def _gutter(self, width: int) -> int:
        return (2 * self._digits + 4) if width >= _BOTH_NUMBERS else self._digits + 3

    def _line(self, file: FileDiff, row: DiffRow, width: int) -> Content:
        line = file.hunks[row.hunk].lines[row.line]
        if line.sign == NOTE:
            return Content.styled(" " * self._gutter(width) + f"⏎ {safe(line.text)}", f"{MUTED} italic")
        new, old = (f"{number or '':>{self._digits}}" for number in (line.new, line.old))
        if width < _BOTH_NUMBERS:
            numbers = new if line.new is not None else old
        else:
            numbers = f"{old} {new}"
        sign = line.marks or line.sign
        room = max(1, width - columns.cell_width(numbers) - len(sign) - 2)
        text = self._text(file, row, line).truncate(room + self.shift)[self.shift :]
        if line.cut and text.cell_length < room:
            text = text.append(Content.styled("…", "$text-warning"))
        body = Content.styled(f" {sign} ", _SIGN.get(line.sign, MUTED)).append(text)
        back = _BACK.get(line.sign)
        if back:
            body = body.pad_right(max(0, width - len(numbers) - body.cell_length)).stylize_before(back)
        return Content.styled(numbers, MUTED).append(body)

    def _text(self, file: FileDiff, row: DiffRow, line: DiffLine) -> Content:
        text = self._block(file, row)[row.line % _BLOCK]
        lines = file.hunks[row.hunk].lines
        other = _partner(lines, row.line)
        if other is None:
            return text
        theirs = diff_text.display_code(lines[other].text, tab=_TAB)
        old, new = (text.plain, theirs) if line.sign == REMOVED else (theirs, text.plain)
        words = changed_words(old, new)[0 if line.sign == REMOVED else 1]
        return text.add_spans([Span(start, end, _WORD[line.sign]) for start, end in words])

    def _block(self, file: FileDiff, row: DiffRow) -> list[Content]:
        """The coloured lines around this one; the old and the new side are parsed separately."""
        at = row.line // _BLOCK
        key = (row.file, row.hunk, at)
        if key not in self._blocks:
            lines = file.hunks[row.hunk].lines[at * _BLOCK : (at + 1) * _BLOCK]
            texts = [diff_text.display_code(line.text, tab=_TAB) for line in lines]
            found: dict[int, list[Span]] = {}
            for signs in ((REMOVED, CONTEXT), (ADDED, CONTEXT)):
                side = [index for index, line in enumerate(lines) if line.sign in signs]
                if any(lines[index].sign == signs[0] for index in side) or signs[0] == ADDED:
                    found |= dict(
                        zip(side, highlight.highlight_spans(file.path, [texts[index] for index in side]), strict=True)
                    )
            self._blocks[key] = [Content(text, found.get(index, [])) for index, text in enumerate(texts)]
        return self._blocks[key]


def file_heading(file: FileDiff, width: int, reviewed: ReviewedFile | None = None) -> Content:
    """The line above a file: its name, its changes in words, and on the right what was read of it and its line counts."""
    words = [word for word in diff_text.file_remarks(file) if word != "binary"]
    tail = line_counts(file)
    if reviewed is not None and reviewed.read:
        done = f"{reviewed.unread}/{len(reviewed.parts)} unread  " if reviewed.unread else "✓ read  "
        tail = Content.styled(done, "$text-warning" if reviewed.unread else "$text-success").append(tail)
    name = Content.styled(f" {diff_text.file_title(file)}", "bold")
    remarks = Content.styled("  " + ", ".join(words), STATES.get(file.state, MUTED)) if words else Content("")
    room = max(8, width - tail.cell_length - 2)
    left = name.append(remarks)
    if left.cell_length > room:
        left = Content.styled(" " + shorten_path(diff_text.file_title(file), room - 1), "bold")
    line = left.pad_right(max(0, width - left.cell_length - tail.cell_length - 1)).append(tail)
    return line.pad_right(max(0, width - line.cell_length)).stylize_before("on $panel")


def line_counts(file: FileDiff) -> Content:
    """`+12 −3`, `binary`, or nothing."""
    if file.added is None or file.removed is None:
        return Content.styled("binary" if file.binary else "", MUTED)
    parts = [Content.styled(f"+{file.added:,}", "$text-success")] if file.added else []
    parts += [Content.styled(f"−{file.removed:,}", "$text-error")] if file.removed else []
    return Content(" ").join(parts)


def shorten_path(path: str, width: int) -> str:
    """The path in at most `width` cells; its beginning is cut."""
    if columns.cell_width(path) <= width:
        return path
    kept, room = [], width - 1
    for char in reversed(path):
        room -= columns.cell_width(char)
        if room < 0:
            break
        kept.append(char)
    return "…" + "".join(reversed(kept)) if width > 0 else ""


def _last(file: FileDiff) -> int:
    """The largest line number of a file in the diff."""
    lines = file.hunks[-1].lines[-3:] if file.hunks else ()
    return max((max(line.old or 0, line.new or 0) for line in lines), default=0)


def _partner(lines: tuple[DiffLine, ...], at: int) -> int | None:
    """The index of the added line that replaces this removed one, or the reverse; None without one."""
    sign = lines[at].sign
    if sign not in (ADDED, REMOVED):
        return None
    start = at
    while start > 0 and at - start < _PAIRS and lines[start - 1].sign == sign:
        start -= 1
    if sign == ADDED:
        first = start
        while first > 0 and start - first < _PAIRS and lines[first - 1].sign == REMOVED:
            first -= 1
        other = first + (at - start)
        return other if other < start else None
    end = at
    while end < len(lines) and end - at < _PAIRS and lines[end].sign == REMOVED:
        end += 1
    other = end + (at - start)
    return other if other < len(lines) and lines[other].sign == ADDED and _all_added(lines, end, other) else None


def _all_added(lines: tuple[DiffLine, ...], start: int, end: int) -> bool:
    return all(line.sign == ADDED for line in lines[start:end])
