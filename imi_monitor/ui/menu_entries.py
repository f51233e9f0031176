"""The entries of the dashboard's menus: palette, help, a worktree's menu, copy, open with, theme."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from imi_monitor import programs
from imi_monitor.model.errors import Refused
from imi_monitor.model.snapshot import Worktree
from imi_monitor.model.state_words import MEANINGS
from imi_monitor.model.text import safe
from imi_monitor.ui import agent_cells, cells, command_conditions, editor, key_hints, themes
from imi_monitor.ui.commands import Command
from imi_monitor.ui.dialogs.menu import Menu, MenuEntry
from imi_monitor.ui.filters import STATES
from imi_monitor.ui.view_keys import MOVEMENT, ViewKey
from imi_monitor.ui.worktree_order import GROUPS, SORTS, WorktreeOrder

ReasonAgainst = Callable[[Command], str]
_ROW_MENU = {
    "Go there": ("Selected worktree",),
    "Look": ("Views", "Status"),
    "Agents": ("Agents",),
    "Claim": ("Claims",),
    "Changes": ("Changes",),
    "Worktree": ("Worktrees", "Merge and remove", "Setup"),
}
"""The headings of a worktree's menu, and the groups of commands below each; another group is its own heading."""
_KINDS = {"run": "an agent in its run folder", "contained": "an agent in a contained workspace"}
_LEVELS = {"write": "it changes its worktree and nothing else", "strict": "it also sees nothing of the home folder"}
NAVIGATION = (
    ("j k ↑ ↓", "Move", "move in the focused panel; also page up, page down, home, end"),
    ("1-5 tab", "Panels", "focus a panel, and show it where there is not enough space for all"),
    ("h l ← →", "Fold", "fold and unfold the group under the cursor"),
    ("esc", "Back", "go one step back: zoom, filter, marks"),
    ("mouse", "Mouse", "click to select, double-click to open, right-click for the menu, wheel to scroll"),
)


def palette_menu(commands: Sequence[Command], why: ReasonAgainst, view: Sequence[ViewKey] = ()) -> Menu:
    """Return what the open view does, then all commands, those that can run now first."""
    entries = [_entry(command, why, view) for command in _besides(commands, view) if command.word != "palette"]
    own = [_view_entry(one) for one in view if one.group != MOVEMENT]
    return Menu("Commands", [*own, *sorted(entries, key=lambda entry: bool(entry.why_not))])


def keys_menu(commands: Sequence[Command], why: ReasonAgainst, view: Sequence[ViewKey] = ()) -> Menu:
    """The help: the keys of the open view, else those of the home screen and the words of its filter; then every command."""
    entries = [] if view else [MenuEntry("", "Navigation")]
    entries += [] if view else [MenuEntry("", label, text, key) for key, label, text in NAVIGATION]
    for group in dict.fromkeys(one.group for one in view):
        entries.append(MenuEntry("", group))
        entries += [_view_entry(one) for one in view if one.group == group]
    listed = [command for command in _besides(commands, view) if command.key]
    for group in dict.fromkeys(command.group for command in listed):
        entries.append(MenuEntry("", group))
        entries += [_entry(command, why, view) for command in listed if command.group == group]
    if not view:
        entries += [MenuEntry("", "Signs of a row"), *_legend()]
        entries.append(MenuEntry("", "Words of the filter"))
        entries += [MenuEntry(f"is:{word}", f"is:{word}", what, "") for word, (what, _) in STATES.items()]
    return Menu(f"Keys in {view[0].group}" if view else "Keys", entries)


def _legend() -> list[MenuEntry]:
    """Return what the signs of a row mean: its agent's state, else its type; before the owner the wall."""
    signs = [(sign, word, MEANINGS.get(word, "")) for word, (sign, _) in agent_cells.SIGNS.items()]
    signs += [
        (sign, word, _KINDS.get(word, f"a worktree of the type {word}")) for word, sign in cells.TYPE_GLYPHS.items()
    ]
    signs += [
        (sign, word, f"before the owner: behind a wall, {_LEVELS[word]}") for word, sign in cells.WALL_SIGNS.items()
    ]
    return [MenuEntry("", f"{sign} {word}", text) for sign, word, text in signs]


def view_key_value(key: ViewKey) -> str:
    """The value of a view's entry in a menu."""
    return f"key:{key.group}:{key.action}"


def _view_entry(one: ViewKey) -> MenuEntry:
    return MenuEntry(view_key_value(one), one.label, one.help, one.key_label)


def _besides(commands: Sequence[Command], view: Sequence[ViewKey]) -> list[Command]:
    """The commands that the view has no entry of its own for."""
    own = {one.word for one in view}
    return [command for command in commands if command.word not in own]


def row_menu(title: str, commands: Sequence[Command], why: ReasonAgainst) -> Menu:
    """The commands for one worktree or the marked ones: what can be done now below the headings of its groups, then the rest."""
    listed = [command for command in commands if command.needs_worktree and command.word != "menu"]
    entries: list[MenuEntry] = []
    named = {group for groups in _ROW_MENU.values() for group in groups}
    others = {one.group: (one.group,) for one in listed if one.group not in named}
    later: list[MenuEntry] = []
    for heading, groups in (_ROW_MENU | others).items():
        found = [_entry(command, why) for command in listed if command.group in groups]
        possible = [entry for entry in found if not entry.why_not]
        later += [entry for entry in found if entry.why_not]
        entries += [MenuEntry("", heading), *possible] if possible else []
    entries += [MenuEntry("", "Not now"), *later] if later else []
    return Menu(title, entries, search=False)


def sort_menu(order: WorktreeOrder) -> Menu:
    """The orders of the list, each with its letter; the cursor is on the current one."""
    keys = {"ahead": "h", "disk": "u", "unread": "r"}
    entries = [MenuEntry(sort, sort, what, keys.get(sort, sort[0])) for sort, (what, _) in SORTS.items()]
    return Menu("Sort the list (S reverses it)", entries, search=False, at=order.sort)


def group_menu(order: WorktreeOrder) -> Menu:
    entries = [MenuEntry(group, group, what, group[0]) for group, (what, _) in GROUPS.items()]
    return Menu("Group the list", entries, search=False, at=order.group)


def theme_menu(now: str, peek: Callable[[str], None]) -> Menu:
    """Our themes and the known ones by their names in the settings; the present one is marked."""
    entries = [
        MenuEntry(name, themes.config_name(name), what, "●" if name == now else "")
        for name, what in (themes.NAMES | themes.KNOWN).items()
    ]
    return Menu("Colours", entries, search=False, at=now, preview=peek)


def _entry(command: Command, why: ReasonAgainst, view: Sequence[ViewKey] = ()) -> MenuEntry:
    """The command's entry; without its key where the view uses that for something else."""
    taken = {key for one in view for key in one.keys}
    label = "" if command.key in taken else command.key_label
    return MenuEntry(command.word, command.label, key_hints.in_keys(command.help), label, why(command))


_HARMFUL = "holds control characters: copy the command, which quotes them"


def copy_choices(tree: Worktree) -> dict[str, tuple[str, str, str]]:
    """word -> (key, label, text) of everything that can be copied. The command, pasted into a shell, only changes directory."""
    found = {
        "path": ("p", "Path", tree.path),
        "branch": ("b", "Branch", tree.branch or ""),
        "name": ("n", "Name", tree.key.worktree),
        "command": ("c", "Command", f"cd -- {shlex.quote(tree.path)}"),
    }
    head = tree.git.head if tree.git else None
    if head:
        found["commit"] = ("h", "Commit", head)
    return {word: entry for word, entry in found.items() if entry[2]}


def copy_entries(tree: Worktree) -> list[MenuEntry]:
    return [
        MenuEntry(word, label, safe(text, 60), key, why_not="" if _harmless(word, text) else f"its {word} {_HARMFUL}")
        for word, (key, label, text) in copy_choices(tree).items()
    ]


def _harmless(word: str, text: str) -> bool:
    """Whether the text holds no line break, which would run a command when pasted. The command is always quoted."""
    return text.isprintable() or word == "command"


_AGENTS = (("c", "claude"), ("x", "codex"), ("i", "gemini"), ("p", "copilot"), ("k", "opencode"), ("m", "amp"))
_PLACES = {"zellij": "a new pane of Zellij", "tmux": "a new window of tmux"}


@dataclass(frozen=True, slots=True)
class OpenWay:
    """One entry of `Open with`. An empty `command` is a shell; `here`: in this terminal even inside a multiplexer."""

    key: str
    label: str
    help: str
    command: Sequence[str] = ()
    here: bool = False
    why_not: str = ""


def open_ways(tree: Worktree, around: str) -> dict[str, OpenWay]:
    """Return what a worktree can be opened with; `around` is the multiplexer around the dashboard, or empty."""
    place = _PLACES.get(around, "this terminal, until it ends")
    found = {}
    if around:
        found["shell"] = OpenWay("s", "Shell", f"{place}, or the one already there")
    found["here"] = OpenWay("h", "Shell here", "in this terminal; exit to return", here=True)
    found["editor"] = _editor(tree)
    found["start"] = OpenWay("t", "Start an agent…", "with a prompt; imi follows it and takes its questions")
    for key, program in _AGENTS:
        if installed(program):
            found[program] = OpenWay(key, program, f"the agent, in {place}", (program,))
    screen = command_conditions.git_screen()
    why_not = "" if screen else "neither lazygit nor tig is installed"
    found["screen"] = OpenWay("g", screen or "lazygit", f"in {place}", (screen,), why_not=why_not)
    return found


def open_with_entries(found: dict[str, OpenWay]) -> list[MenuEntry]:
    return [MenuEntry(word, way.label, way.help, way.key, why_not=way.why_not) for word, way in found.items()]


def installed(program: str) -> bool:
    return programs.find(program) is not None


def _editor(tree: Worktree) -> OpenWay:
    """The editor on the folder, always in this terminal: most editors need one."""
    try:
        argv = editor.command(tree.path, "")
    except Refused as refusal:
        return OpenWay("e", "Editor", "", why_not=refusal.sentence)
    return OpenWay("e", "Editor", f"{os.path.basename(argv[0])}, in this terminal", argv, here=True)
