"""The lines about a run in panel 2: what it is, and the files in its run folder."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from imi_monitor.model import state_words
from imi_monitor.model.run import Run, RunFile
from imi_monitor.model.text import count, safe
from imi_monitor.ui import cells, key_hints
from imi_monitor.ui.agent_cells import SIGNS
from imi_monitor.ui.cells import MUTED

_MODES = {"ask": "asks for permissions", "edits": "edits files without asking", "plan": "only reads and plans"}
_SIZE, _AGE = 6, 5
_MOST_LINES = 2  # of one sentence
_WAYS = {"task": "without a terminal", "window": "in a window"}


def head(one: Run, room: int) -> list[Content]:
    """Return the first lines about a run: agent, state, program, mode, wall and prompt."""
    style = SIGNS.get(one.word, ("", MUTED))[1]
    state = one.word if one.place is None else f"{one.word}, place {one.place}"
    who = Content.styled(safe(one.agent, 60), "bold").append(Content("  ")).append(Content.styled(state, style))
    how = [f"{safe(one.program, 40)} {_WAYS.get(one.way, safe(one.way, 20))}", _MODES.get(one.mode, safe(one.mode, 20))]
    if one.origin is not None:
        how = [f"of {safe(one.origin, 40)}: imi only reads it"]
    lines = [who, Content.styled(", ".join(how), MUTED)]
    lines += _wall(one)
    if one.dangerous:
        lines.append(Content.styled("⚠ it may act without asking", "$error bold"))
    if one.question is not None:
        text = safe(one.question.text or one.question.tool, 300)
        lines.append(Content.styled(f"◆ {state_words.ASKS}: {text}", "$agent-asks bold"))
    elif one.detail and (one.origin is not None or not one.is_open):
        lines.append(Content(safe(one.detail.splitlines()[0], 300)))
    if one.prompt and one.prompt.strip():
        lines.append(Content.styled("> ", MUTED).append(Content(safe(one.prompt.strip().splitlines()[0], 300))))
    return [part for line in lines for part in cells.wrapped(line, room, most=_MOST_LINES)]


def _wall(one: Run) -> list[Content]:
    """Return the lines about the wall, and about deliveries at the end or that wait for a person."""
    lines = [Content.styled(f"behind a wall: {one.wall}", MUTED)] if one.wall else []
    if one.workspace is not None and one.wall is None:
        lines.append(Content.styled("⚠ not contained: it has no wall", "$warning bold"))
    for file in one.deliveries:
        text = f"{safe(file.name, 60)} to {safe(file.target, 200)}"
        waits = Content.styled(f"◆ wants to deliver {text}", "$agent-asks bold")
        lines.append(waits if file.waits else Content.styled(f"delivers {text} at its end", MUTED))
    return lines


def walled(one: Run, room: int) -> Content:
    """`run 1b2c3d4e  behind a wall: write`."""
    return Content.styled(f"run {one.short}  behind a wall: {one.wall}", MUTED).truncate(room, ellipsis=True)


def crashed(one: Run, age: str, room: int) -> Content:
    """`✗ run 1b2c3d4e crashed 4m ago: < takes it up again`."""
    text = key_hints.in_keys(f"✗ run {one.short} crashed {age} ago: `imi resume` takes it up again")
    return Content.styled(text, "$agent-dead").truncate(room, ellipsis=True)


def files_title(one: Run, room: int) -> Content:
    """`run 1b2c3d4e  3 files in its run folder`."""
    title = f"run {one.short}  {count(len(one.files), 'file')} in its run folder"
    return Content.styled(title, MUTED).truncate(room, ellipsis=True)


def file_lines(file: RunFile, age: str, room: int) -> tuple[Content, ...]:
    """`work_products/report.md   2.1k   4m`."""
    path = cells.path_tail(safe(file.path), max(10, room - _SIZE - _AGE - 2))
    line = cells.fixed(path, max(10, room - _SIZE - _AGE - 2))
    size = cells.fixed(cells.file_size(file.size), _SIZE, MUTED, right=True)
    beside: Sequence[Content] = (size, cells.fixed(age, _AGE, MUTED, right=True))
    return (Content(" ").join([line, *beside]).truncate(room),)
