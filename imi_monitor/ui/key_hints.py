"""Advice of actions as the dashboard shows it: instead of `imi VERB` the key of the same command, as the user has it.

A text names commands by their command line. What the dashboard cannot do (`imi doctor`) stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from imi_monitor.model.advice import on_dashboard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.ui.commands import Command

_FORM = re.compile(r"(?:\b(run|use|see) )?`imi ([a-z][a-z-]*)((?: [^`|]*)?)`")
# verbs whose command in the dashboard has another name
_SAME = {
    "feat": "add",
    "fix": "add",
    "aiops": "add",
    "devops": "add",
    "pr": "review",
    "mv": "rename",
    "runs": "agents",
    "command": "own_commands",
    "commands": "own_commands",
}
_WITH_VALUE = {"undo": "trash", "agents seen": "seen", "agents describe": ""}


class _KeyHints:
    """The commands of the dashboard of this process; before it is there, those with the default keys."""

    def __init__(self) -> None:
        self._found: dict[str, Command] = {}

    def use(self, found: Iterable[Command]) -> None:
        self._found = {command.word: command for command in found if not command.refused}

    def command(self, word: str) -> Command | None:
        if not self._found:
            from imi_monitor.ui import commands  # which imports the panels, and they this module

            self.use(commands.table())
        return self._found.get(word)


_hints = _KeyHints()
use = _hints.use


def in_keys(text: str) -> str:
    """Return the text with keys instead of command lines."""
    return _FORM.sub(_replacement, on_dashboard(text))


def label(word: str) -> str:
    """Return the key of a command as the screen shows it; where it has none, its name and the key of the menu."""
    command, menu = _hints.command(word), _hints.command("menu")
    if command is None:
        return word
    return command.key_label or f"{command.label} ({menu.key_label if menu else ''})".removesuffix(" ()")


def _replacement(found: re.Match[str]) -> str:
    word = _word(found[2], found[3].strip())
    if not word or _hints.command(word) is None:
        return found[0]
    verb = "press " if found[1] and found[1] != "see" else f"{found[1]} " if found[1] else ""
    return verb + label(word)


def _word(verb: str, rest: str) -> str:
    if rest:
        for known in (f"{verb} {rest.split()[0]}", verb):
            if known in _WITH_VALUE:
                return _WITH_VALUE[known]
    return _SAME.get(verb, verb)
