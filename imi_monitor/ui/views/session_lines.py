"""The lines of a session: its stream, tool calls, files and checkpoints, for the session view. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from textual.content import Content

from imi_monitor.actions.history.session_timeline import TimelineLine
from imi_monitor.model import columns, times
from imi_monitor.model.run import RunFile
from imi_monitor.model.text import count, safe
from imi_monitor.store.session_events import Artifact, CallRow
from imi_monitor.ui import cells
from imi_monitor.ui.cells import MUTED
from imi_monitor.ui.views.peek_view import drawn_line
from imi_monitor.ui.widgets.row_list import ListRow

_CLOCK, _SIZE, _TOOK = 9, 6, 6
_SIGNS = {"running": ("…", "$accent"), "success": ("✓", "$success"), "failure": ("✗", "$error")}
_KINDS = {"messages": "messages", "wrote": "wrote", "asks": "asks", "turn": "turn", "end": "end"}


def stream_rows(lines: Sequence[TimelineLine], opened: str | None, width: int) -> Iterator[ListRow]:
    """The events in their order; the opened one with all of its text and output."""
    for line in lines:
        key = line_key(line)
        texts = drawn_line(line, width, most=200 if key == opened else 4)
        if key == opened and line.output:
            texts += list(below(line.output, width))
        for number, text in enumerate(texts):
            yield ListRow(f"{key} {number}", (text,))


def line_key(line: TimelineLine) -> str:
    return f"line-{line.call}" if line.call is not None and line.outcome is not None else f"line-{line.seq}"


def call_rows(calls: Sequence[CallRow], opened: str | None, width: int) -> Iterator[ListRow]:
    """`14:02:09 ✓ Bash   npm test   51s`; the opened one with what it was given and what came of it."""
    names = min(16, max((columns.cell_width(safe(one.name, 40)) for one in calls), default=4))
    for one in calls:
        sign, style = _SIGNS.get(one.status, ("–", MUTED))
        clock = cells.fixed(cells.clock(one.started_at or one.finished_at or ""), _CLOCK, MUTED)
        head = [
            clock if width >= 50 else Content(""),
            Content.styled(f"{sign} ", style),
            cells.fixed_name(safe(one.name, 40), names, "bold"),
            Content(" "),
        ]
        taken = sum(part.cell_length for part in head) + _TOOK + 1
        subagent = f"[{safe(one.subagent, 30)}] " if one.subagent else ""
        text = subagent + safe((one.input or "").split("\n")[0], 400)
        line = Content("").join([*head, cells.fixed(text, max(8, width - taken)), Content(" "), _took(one)])
        key = f"call-{one.id}"
        yield ListRow(f"{key} 0", (line.truncate(width),))
        if key == opened:
            shown = [*below(one.input or "", width), *below(one.output or "", width)]
            for number, each in enumerate(shown or [Content.styled("         no output is recorded", MUTED)], 1):
                yield ListRow(f"{key} {number}", (each,))


def _took(one: CallRow) -> Content:
    begun, ended = times.parse(one.started_at), times.parse(one.finished_at)
    if begun is None or (ended is None and one.status != "running"):
        return cells.fixed("", _TOOK)
    seconds = max(0.0, ((ended or times.now()) - begun).total_seconds())
    return cells.fixed(times.age(seconds), _TOOK, MUTED, right=True)


def file_rows(artifacts: Sequence[Artifact], files: Sequence[RunFile], width: int) -> Iterator[ListRow]:
    """Yield a row for each file that the session wrote, then for those in its run folder, newest first."""
    for one in reversed(artifacts):
        yield ListRow(f"file-{one.path}", (_file(one.path, one.size, one.updated_at, safe(one.kind, 12), width),))
    for file in files:
        yield ListRow(f"run-{file.path}", (_file(file.path, file.size, file.changed_at, "run folder", width),))


def _file(path: str, size: int | None, at: str, kind: str, width: int) -> Content:
    room = max(8, width - _CLOCK - _SIZE - 2 - (12 if width >= 60 else 0))
    parts = [cells.fixed(cells.clock(at), _CLOCK, MUTED), cells.fixed(cells.path_tail(safe(path, 1000), room), room)]
    parts += [Content(" "), cells.fixed("?" if size is None else cells.file_size(size), _SIZE, MUTED, right=True)]
    parts += [Content("  "), cells.fixed(kind, 10, MUTED)] if width >= 60 else []
    return Content("").join(parts).truncate(width)


def checkpoint_rows(found: Sequence[dict[str, Any]], opened: str | None, width: int) -> Iterator[ListRow]:
    """`14:02:09  12 turn  3 files  a1b2c3d4  The refresh works`; the opened one with its plan, calls and files."""
    for one in found:
        key = f"checkpoint-{one['number']}"
        message = safe((one.get("message") or one.get("prompt") or "").split("\n")[0], 300)
        head = Content.styled(cells.clock(str(one["at"])), MUTED).append(Content(f"  {one['number']:>3} "))
        head = head.append(cells.fixed(_KINDS.get(one["kind"], safe(str(one["kind"]), 9)), 9, "$accent"))
        about = f"{count(len(one.get('files') or ()), 'file'):>8}  {safe(str(one.get('head') or '–'), 8):8}  "
        yield ListRow(f"{key} 0", (head.append(Content.styled(about, MUTED)).append(Content(message)).truncate(width),))
        if key == opened:
            for number, line in enumerate(_checkpoint(one, width), 1):
                yield ListRow(f"{key} {number}", (line,))


def _checkpoint(one: dict[str, Any], width: int) -> Iterator[Content]:
    for name in ("prompt", "message", "plan"):
        if one.get(name):
            yield Content.styled(f"         {name}", MUTED)
            yield from below(str(one[name]), width)
    for call in one.get("open") or ():
        yield Content(f"         open call  {safe(str(call), 300)}").truncate(width, ellipsis=True)
    for file in one.get("files") or ():
        yield Content(f"         file  {safe(str(file.get('path')), 1000)}").truncate(width, ellipsis=True)


def below(text: str, width: int, most: int = 60) -> Iterator[Content]:
    """A longer text, indented, at most so many lines."""
    lines = [line for line in safe_lines(text) if line.strip()]
    for line in lines[:most]:
        yield Content(" " * _CLOCK).append(Content.styled(line, MUTED)).truncate(width, ellipsis=True)
    if len(lines) > most:
        yield Content.styled(f"{' ' * _CLOCK}… {count(len(lines) - most, 'more line')}", MUTED)


def safe_lines(text: str) -> list[str]:
    return [safe(line, 1000) for line in text.split("\n")]
