"""Tabs and panes of a terminal session as they were captured: names, folders, geometry, and the programs in them.

A command line is kept redacted, and only a command in which nothing was redacted can be typed again. Stored as JSON.
"""

from __future__ import annotations

import json
from typing import Any

from imi_monitor.fast.frozen_dataclass import dataclass, replace
from imi_monitor.model.redact import redact
from imi_monitor.model.text import count, safe

MOST_TABS, MOST_PANES, _MOST_COMMAND, _MOST_NAME, _MOST_PATH = 50, 200, 500, 200, 1000


@dataclass(frozen=True, slots=True)
class LayoutPane:
    """A pane; `command` is the line of the program in it, empty for a shell. `rectangle` is left, top, width, height."""

    folder: str
    program: str = ""
    command: str = ""
    name: str = ""
    focused: bool = False
    rectangle: tuple[int, int, int, int] = (0, 0, 1, 1)


@dataclass(frozen=True, slots=True)
class LayoutTab:
    """A tab or window; `arrangement` is tmux's own description of its geometry."""

    name: str
    active: bool
    panes: tuple[LayoutPane, ...]
    arrangement: str = ""


@dataclass(frozen=True, slots=True)
class TerminalLayout:
    kind: str
    session: str
    tabs: tuple[LayoutTab, ...]

    @property
    def size(self) -> str:
        """`2 tabs, 5 panes`."""
        return f"{count(len(self.tabs), 'tab')}, {count(sum(len(tab.panes) for tab in self.tabs), 'pane')}"

    def encode(self) -> str:
        tabs = [
            {
                "name": tab.name,
                "active": tab.active,
                "arrangement": tab.arrangement,
                "panes": [
                    {
                        "folder": pane.folder,
                        "program": pane.program,
                        "command": pane.command,
                        "name": pane.name,
                        "focused": pane.focused,
                        "rectangle": list(pane.rectangle),
                    }
                    for pane in tab.panes
                ],
            }
            for tab in self.tabs
        ]
        return json.dumps({"kind": self.kind, "session": self.session, "tabs": tabs}, separators=(",", ":"))

    def without_places(self) -> TerminalLayout:
        """The layout as other machines see it: the last part of each folder, and no command lines."""
        tabs = tuple(
            replace(tab, panes=tuple(replace(pane, folder=last_part(pane.folder), command="") for pane in tab.panes))
            for tab in self.tabs
        )
        return replace(self, tabs=tabs)

    def lines(self) -> list[str]:
        """A line for each tab, and below it one for each pane."""
        found = []
        for tab in self.tabs:
            found.append(f"{'*' if tab.active else ' '} {safe(tab.name, 60)}")
            found += [
                f"    {safe(pane.folder, 300)}  {safe(pane.command or pane.program, 200)}".rstrip()
                for pane in tab.panes
            ]
        return found


def last_part(folder: str) -> str:
    return folder.rstrip("/").rpartition("/")[2]


def kept_command(line: str, keep: bool) -> str:
    """Return what is stored of a command line: redacted and cut; empty when command lines are not kept."""
    return redact(line.strip())[:_MOST_COMMAND] if keep else ""


def is_typeable(command: str) -> bool:
    """Whether the stored command is the whole one, on one line: only then it may stand in a pane again."""
    return (
        bool(command)
        and len(command) < _MOST_COMMAND
        and command.isprintable()
        and redact(command) == command
        and "[redacted" not in command.lower()
    )


def decode(text: str | None) -> TerminalLayout | None:
    """The layout in JSON; None for what is none."""
    try:
        row = json.loads(text or "")
        if not isinstance(row, dict) or not isinstance(row.get("tabs"), list):
            return None
        tabs = tuple(_tab(one) for one in row["tabs"][:MOST_TABS] if isinstance(one, dict))
        return TerminalLayout(_text(row, "kind", 20), _text(row, "session", _MOST_NAME), tabs)
    except (ValueError, RecursionError):
        return None


def _tab(row: dict[str, Any]) -> LayoutTab:
    panes = row.get("panes")
    read = tuple(_pane(one) for one in (panes if isinstance(panes, list) else [])[:MOST_PANES] if isinstance(one, dict))
    return LayoutTab(_text(row, "name", _MOST_NAME), row.get("active") is True, read, _text(row, "arrangement", 5000))


def _pane(row: dict[str, Any]) -> LayoutPane:
    found = row.get("rectangle")
    numbers = found if isinstance(found, list) and len(found) == 4 else [0, 0, 1, 1]
    rectangle = tuple(one if isinstance(one, int) and 0 <= one < 100_000 else 1 for one in numbers)
    return LayoutPane(
        _text(row, "folder", _MOST_PATH),
        _text(row, "program", _MOST_NAME),
        _text(row, "command", _MOST_COMMAND),
        _text(row, "name", _MOST_NAME),
        row.get("focused") is True,
        rectangle,  # type: ignore[arg-type]
    )


def _text(row: dict[str, Any], name: str, most: int) -> str:
    value = row.get(name)
    return value[:most] if isinstance(value, str) else ""
