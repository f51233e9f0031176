"""A session of Zellij: capture its tabs and panes, and write them as a layout in which programs wait behind Enter."""

from __future__ import annotations

import os
import shlex
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from imi_monitor.model import terminal_layout
from imi_monitor.model.errors import Refused
from imi_monitor.model.terminal_layout import LayoutPane, LayoutTab, TerminalLayout
from imi_monitor.model.text import safe
from imi_monitor.mux import zellij
from imi_monitor.mux.pane import run_multiplexer

KIND = "zellij"
_SHELLS = frozenset(("sh", "bash", "zsh", "fish", "dash", "ksh", "nu"))
_BARS = ("tab-bar", "status-bar")
_READ_SECONDS = 1.0
_EMPTY_ANSWERS, _EMPTY_PAUSE = 10, 0.05
_ASIDE = ("is_plugin", "is_floating", "is_suppressed")  # panes that are not part of the arrangement


def capture(session: str, *, commands: bool) -> TerminalLayout:
    """The tabs of a running session; with `commands` the command lines of their programs, redacted."""
    panes = _rows(session, "list-panes")
    tabs = _rows(session, "list-tabs")
    active = {tab.get("tab_id") for tab in tabs if tab.get("active") is True}
    found: dict[int, list[dict[str, Any]]] = {}
    for pane in panes:
        if isinstance(pane.get("tab_id"), int) and not any(pane.get(flag) for flag in _ASIDE):
            found.setdefault(pane["tab_id"], []).append(pane)
    made = [
        LayoutTab(
            str(rows[0].get("tab_name") or ""),
            ident in active,
            tuple(_pane(row, commands) for row in rows[: terminal_layout.MOST_PANES]),
        )
        for ident, rows in sorted(found.items(), key=lambda item: int(item[1][0].get("tab_position") or 0))
    ]
    return TerminalLayout(KIND, session, tuple(made[: terminal_layout.MOST_TABS]))


def can_resurrect(session: str) -> bool:
    """Whether Zellij itself lists the session as one that has ended and can be brought back."""
    try:
        listed = run_multiplexer("zellij", "list-sessions", "--no-formatting")
    except Refused:  # it fails when there is no session at all
        return False
    return any(line.split(" ")[0] == session and "EXITED" in line for line in listed.split("\n"))


def rebuild(layout: TerminalLayout, session: str) -> list[str]:
    """Add the tabs to a running session; returns what could not be done."""
    gone = [pane.folder for tab in layout.tabs for pane in tab.panes if not os.path.isdir(pane.folder)]
    for tab in layout.tabs:
        with _layout_file(f"layout {{\n{_panes(tab, 1)}}}\n") as path:
            _act(session, "new-tab", "--layout", path, "--name", zellij.tab_name(tab.name))
    return [f"the folder {safe(folder, 300)} does not exist any more" for folder in dict.fromkeys(gone)]


def start_session(layout: TerminalLayout, session: str) -> None:
    """Start a session in the background with these tabs; it is attached to afterwards."""
    with _layout_file(kdl(layout)) as path:
        run_multiplexer("zellij", "attach", "--create-background", session, "options", "--default-layout", path)
        time.sleep(_READ_SECONDS)  # the server reads the file after the command has returned


def kdl(layout: TerminalLayout) -> str:
    """The tabs as a layout: the same arrangement, each program held until Enter is pressed."""
    tabs = "".join(
        f"    tab name={_quoted(tab.name)}{' focus=true' if tab.active else ''} {{\n{_panes(tab, 2)}    }}\n"
        for tab in layout.tabs
    )
    return f"layout {{\n{tabs}}}\n"


def _panes(tab: LayoutTab, depth: int) -> str:
    pad = "    " * depth
    bars = [f'{pad}pane size=1 borderless=true {{\n{pad}    plugin location="zellij:{bar}"\n{pad}}}\n' for bar in _BARS]
    body = _split([*tab.panes], depth) if tab.panes else f"{pad}pane\n"
    return f"{bars[0]}{body}{bars[1]}"


@contextmanager
def _layout_file(text: str) -> Iterator[str]:
    with tempfile.NamedTemporaryFile("w", suffix=".kdl", prefix="imi-") as file:
        file.write(text)
        file.flush()
        yield file.name


def _split(panes: Sequence[LayoutPane], depth: int, share: str = "") -> str:
    """The panes as nested splits, found by cutting their rectangles from edge to edge."""
    pad = "    " * depth
    if len(panes) == 1:
        return _leaf(panes[0], pad, share)
    for direction, axis in (("vertical", 0), ("horizontal", 1)):
        parts = _cut(panes, axis)
        if len(parts) > 1:
            total = sum(_extent(part, axis) for part in parts) or 1
            inner = "".join(_split(part, depth + 1, f' size="{_percent(part, axis, total)}%"') for part in parts)
            return f'{pad}pane{share} split_direction="{direction}" {{\n{inner}{pad}}}\n'
    inner = "".join(_leaf(one, pad + "    ", "") for one in panes)  # no edge goes through, as with stacked panes
    return f"{pad}pane{share} {{\n{inner}{pad}}}\n"


def _cut(panes: Sequence[LayoutPane], axis: int) -> list[list[LayoutPane]]:
    """The panes in groups between which a straight line runs, in order along the axis."""
    groups: list[list[LayoutPane]] = []
    end = -1
    for one in sorted(panes, key=lambda pane: pane.rectangle[axis]):
        start, size = one.rectangle[axis], one.rectangle[axis + 2]
        if not groups or start >= end:
            groups.append([])
        groups[-1].append(one)
        end = max(end, start + size)
    return groups


def _extent(panes: Sequence[LayoutPane], axis: int) -> int:
    first = min(one.rectangle[axis] for one in panes)
    return max(one.rectangle[axis] + one.rectangle[axis + 2] for one in panes) - first


def _percent(panes: Sequence[LayoutPane], axis: int, total: int) -> int:
    return max(1, min(99, round(100 * _extent(panes, axis) / total)))


def _leaf(pane: LayoutPane, pad: str, share: str) -> str:
    words = _words(pane.command)
    folder = f" cwd={_quoted(pane.folder)}" if os.path.isdir(pane.folder) else ""
    focus = " focus=true" if pane.focused else ""
    if not words:
        return f"{pad}pane{share}{folder}{focus}\n"
    args = f"{pad}    args {' '.join(map(_quoted, words[1:]))}\n" if words[1:] else ""
    head = f"{pad}pane{share}{folder}{focus} command={_quoted(words[0])}"
    return f"{head} {{\n{args}{pad}    start_suspended true\n{pad}}}\n"


def _words(command: str) -> list[str]:
    if not terminal_layout.is_typeable(command):
        return []
    with suppress(ValueError):
        return shlex.split(command)
    return []


def _quoted(text: str) -> str:
    return '"' + "".join(f"\\{sign}" if sign in '"\\' else sign for sign in text if sign.isprintable()) + '"'


def _pane(row: Mapping[str, Any], commands: bool) -> LayoutPane:
    line = str(row.get("pane_command") or row.get("terminal_command") or "")
    program = os.path.basename(line.split(" ")[0]).lstrip("-")
    shell = program in _SHELLS and " " not in line.strip()
    names = ("pane_x", "pane_y", "pane_columns", "pane_rows")
    rectangle = tuple(value if isinstance(value := row.get(name), int) else 1 for name in names)
    return LayoutPane(
        str(row.get("pane_cwd") or ""),
        "" if shell else program,
        "" if shell else terminal_layout.kept_command(line, commands),
        str(row.get("title") or ""),
        row.get("is_focused") is True,
        rectangle,  # type: ignore[arg-type]
    )


def _rows(session: str, question: str) -> list[dict[str, Any]]:
    """The rows of a list that is never empty; right after a change the answer may be, and then it is asked again."""
    for _ in range(_EMPTY_ANSWERS):
        rows = zellij.parse_rows(_act(session, question, "--json", "--all"))
        if rows:
            return rows
        time.sleep(_EMPTY_PAUSE)
    raise Refused(f"zellij gives no answer to {question}: try again", code="no-answer")


def _act(session: str, *words: str) -> str:
    return run_multiplexer("zellij", "--session", session, "action", *words)
