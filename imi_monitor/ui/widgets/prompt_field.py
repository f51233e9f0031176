"""The editor of a prompt: several lines, earlier prompts on ↑ and ↓, files of the worktree behind `@`.

Enter submits, as in the programs of agents; alt+enter, ctrl+j, or a backslash before enter begins a new line. A pasted text keeps
its lines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widgets import Static, TextArea

from imi_monitor.model import fuzzy
from imi_monitor.model.text import safe
from imi_monitor.ui import cells

_MENTION = re.compile(r"(?:^|(?<=\s))@([^\s@]*)$")
_MOST_FILES = 6
_MOST_SEARCHED = 20_000
_NEW_LINE = ("alt+enter", "shift+enter", "ctrl+enter", "ctrl+j")


class PromptField(TextArea):
    """Posts PromptSubmitted on enter. `FileMatches` below it shows what a typed `@name` may mean."""

    DEFAULT_CSS = """
    PromptField, PromptField:focus { height: auto; min-height: 3; max-height: 10; border: none; padding: 0; background: $boost; }
    PromptField:focus { background: $surface-lighten-1; }
    PromptField .text-area--cursor-line { background: transparent; }
    """

    class PromptSubmitted(Message):
        """Enter was pressed."""

    class FileMentioned(Message):
        """The text before the cursor ends in `@name`, or no longer does."""

        def __init__(self, field: str, found: Sequence[str], at: int) -> None:
            super().__init__()
            self.field = field
            self.found = found
            self.at = at

    def __init__(self, hint: str, id: str) -> None:
        super().__init__(id=id, placeholder=hint, soft_wrap=True, show_line_numbers=False, compact=True)
        self._earlier: tuple[str, ...] = ()  # earlier prompts, newest first
        self._place = -1  # the index of the shown earlier prompt; -1: the text is the user's own
        self._own = ""
        self._files: tuple[str, ...] = ()
        self._found: list[str] = []
        self._at = 0

    def aid(self, earlier: Sequence[str], files: Sequence[str]) -> None:
        """Set the earlier prompts and the files that can be named."""
        self._earlier, self._files = tuple(earlier), tuple(files[:_MOST_SEARCHED])
        self._find_files()

    @property
    def value(self) -> str:
        return self.text

    # -- keys -------------------------------------------------------------------------------------------------------

    def _on_key(self, event: events.Key) -> None:  # type: ignore[override]
        """Keys with a meaning of their own here; every other key is the editor's."""
        if self._found and event.key in ("up", "down", "tab", "enter", "escape"):
            self._choose_file(event.key)
        elif event.key in _NEW_LINE:
            self.insert("\n")
        elif event.key == "enter" and self._before_cursor().endswith("\\"):
            self.action_delete_left()
            self.insert("\n")
        elif event.key == "enter":
            self.post_message(self.PromptSubmitted())
        elif event.key == "up" and self.cursor_location[0] == 0:
            self._recall(1)
        elif event.key == "down" and self.cursor_location[0] == self.document.line_count - 1:
            self._recall(-1)
        else:
            return
        event.stop()
        event.prevent_default()

    def _on_paste(self, event: events.Paste) -> None:  # type: ignore[override]
        """Insert the text without control characters; its lines stay."""
        event.stop()
        event.prevent_default()
        text = event.text.replace("\r\n", "\n").replace("\r", "\n")
        self.insert("".join(char for char in text if char in "\n\t" or char.isprintable()))

    def _recall(self, by: int) -> None:
        """The prompt before (1) or after (-1); where there is none, or the text was edited, the focus moves on."""
        place = self._place + by
        untouched = self.text == self._earlier[self._place] if self._place >= 0 else not self.text.strip()
        if not untouched or not -1 <= place < len(self._earlier):
            if by > 0:
                self.screen.focus_previous()
            else:
                self.screen.focus_next()
            return
        self._own = self.text if self._place < 0 else self._own
        self._place = place
        self.text = self._own if place < 0 else self._earlier[place]
        self.move_cursor(self.document.end)

    # -- files ------------------------------------------------------------------------------------------------------

    def on_text_area_changed(self) -> None:
        self._find_files()

    def on_text_area_selection_changed(self) -> None:
        self._find_files()

    def _before_cursor(self) -> str:
        row, column = self.cursor_location
        return self.document.get_line(row)[:column]

    def _find_files(self) -> None:
        typed = _MENTION.search(self._before_cursor())
        found = _matching(self._files, typed.group(1)) if typed is not None else []
        if found != self._found:
            self._found, self._at = found, 0
            self._show_files()

    def _choose_file(self, key: str) -> None:
        if key in ("up", "down"):
            self._at = (self._at + (1 if key == "down" else -1)) % len(self._found)
        elif key == "escape":
            self._found = []
        else:
            typed = _MENTION.search(self._before_cursor())
            if typed is not None:
                row, column = self.cursor_location
                name = f"@{self._found[self._at]} "
                self._found = []
                self.replace(name, (row, typed.start()), (row, column))
                self.move_cursor((row, typed.start() + len(name)))
        self._show_files()

    def _show_files(self) -> None:
        self.post_message(self.FileMentioned(self.id or "", tuple(self._found), self._at))


class FileMatches(Static):
    """The files that a typed `@name` may mean; ↑ ↓ move, tab or enter takes one."""

    DEFAULT_CSS = "FileMatches { height: auto; display: none; padding-left: 14; }"

    def show(self, found: Sequence[str], at: int) -> None:
        self.display = bool(found)
        lines = []
        for place, path in enumerate(found):
            style = "bold reverse" if place == at else cells.MUTED
            lines.append(Content.styled(f" @{cells.path_tail(safe(path, 400), 60)} ", style))
        self.update(Content("\n").join(lines))


def _matching(files: Sequence[str], typed: str) -> list[str]:
    """The files that fit best: the name begins with it, it is part of the path, or its letters are there in order."""
    if not files:
        return []
    wanted = typed.lower()
    begins = [path for path in files if path.rpartition("/")[2].lower().startswith(wanted)]
    if len(begins) >= _MOST_FILES:
        return begins[:_MOST_FILES]
    part = [path for path in files if wanted in path.lower() and path not in begins]
    found = [*begins, *part][:_MOST_FILES]
    if found or not wanted:
        return found
    scored = [(score, path) for path in files if (score := fuzzy.match(wanted, path)) is not None]
    return [path for _, path in sorted(scored, key=lambda pair: (pair[0], pair[1]))[:_MOST_FILES]]
