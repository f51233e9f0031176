"""The lists that open on top of the home screen, all made from the one table of commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from imi_monitor.ui import themes
from imi_monitor.ui.commands import Command
from imi_monitor.ui.dialogs.menu import Menu, MenuEntry
from imi_monitor.ui.filters import STATES

Why = Callable[[Command], str]
_MOVING = (
    ("j k ↑ ↓", "Move", "in the panel that has the focus; page up and down, home and end too"),
    ("1-5 tab", "Panels", "where there is no room for all, the number shows its panel"),
    ("h l ← →", "Fold", "and unfold the group under the cursor"),
    ("esc", "Back", "one step out: the zoom, the filter, the marks"),
    ("mouse", "All of it", "click selects, double click opens, right button offers, wheel scrolls"),
)


def palette(commands: Sequence[Command], why: Why) -> Menu:
    """Everything by name, what can be done now first."""
    entries = [_entry(command, why) for command in commands if command.word != "palette"]
    return Menu("Do what?", sorted(entries, key=lambda entry: bool(entry.why_not)))


def keys(commands: Sequence[Command], why: Why) -> Menu:
    """The help: what every key does, by what it is about."""
    entries = [MenuEntry("", "Moving")]
    entries += [MenuEntry("", label, text, key) for key, label, text in _MOVING]
    for group in dict.fromkeys(command.group for command in commands):
        entries.append(MenuEntry("", group))
        entries += [_entry(command, why) for command in commands if command.group == group and command.key]
    entries.append(MenuEntry("", "Words of the filter"))
    entries += [MenuEntry(f"is:{word}", f"is:{word}", what, "") for word, (what, _) in STATES.items()]
    return Menu("Keys", entries)


def of_row(title: str, commands: Sequence[Command], why: Why) -> Menu:
    """What can be done with one worktree."""
    entries = [_entry(command, why) for command in commands if command.about_one and command.word != "menu"]
    return Menu(title, entries, search=False)


def theme(now: str, peek: Callable[[str], None]) -> Menu:
    entries = [MenuEntry(name, name, what) for name, what in themes.NAMES.items()]
    return Menu("Colours", entries, search=False, at=now, peek=peek)


def _entry(command: Command, why: Why) -> MenuEntry:
    return MenuEntry(command.word, command.label, _phrase(command.help), command.key_shown, why(command))


def _phrase(sentence: str) -> str:
    """Actions write sentences or phrases; beside each other they read better alike."""
    text = sentence.rstrip(".")
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text
