"""One table of everything a key can do on the dashboard: imi's own actions, the views, and what the home screen does itself.

The key bar, `?`, the palette, the menu of a row and the keys themselves are all made from it, so none can lag behind. What is
said here of acts and views is also said by themselves, and a test compares the two: loading a hundred modules for twenty keys
would keep the first paint waiting for 60 ms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from textual.keys import _character_to_key, format_key

from imi_monitor.actions.action import Action
from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model.errors import UsageError
from imi_monitor.model.text import safe

Kind = Literal["act", "view", "own"]


@dataclass(frozen=True, slots=True)
class Command:
    """One thing to do. `word` names it in `[ui.keymap]`; an own one is carried out by the app's `do_<word>`."""

    word: str
    key: str  # as Textual names it; empty: only in the palette
    label: str
    help: str
    group: str
    kind: Kind = "own"
    changes: bool = False
    about_one: bool = False  # about the selected worktree: it is in the menu of a row
    everywhere: bool = False  # also while a view is open
    weight: int = 0  # how early it stands in the key bar; 0: not there

    @property
    def key_shown(self) -> str:
        return SHOWN.get(self.key) or (format_key(self.key) if self.key else "")


SHOWN = {"enter": "⏎", "plus": "+", "minus": "-", "colon": ":", "left_square_bracket": "[", "right_square_bracket": "]"}

_FIXED = (
    "1",
    "2",
    "3",
    "4",
    "5",
    "tab",
    "shift+tab",
    "escape",
    "j",
    "k",
    "up",
    "down",
    "pageup",
    "pagedown",
    "home",
    "end",
    "G",
    "left",
    "right",
    "h",
    "l",
    "ctrl+c",
)
"""Keys that no command may take: moving about."""


def _act(word: str, key: str, label: str, help: str, weight: int = 0, *, about_one: bool = False) -> Command:
    return Command(word, key, label, help, "Acting", "act", changes=True, about_one=about_one, weight=weight)


def _view(word: str, key: str, label: str, help: str, weight: int = 0, *, about_one: bool = False) -> Command:
    return Command(word, key, label, help, "Views", "view", about_one=about_one, everywhere=True, weight=weight)


ACTS = (
    _act("add", "n", "New worktree", "Make a worktree of any type, or go to it.", 75),
    _act(
        "review",
        "v",
        "Review a pull request",
        "Put a pull request into a worktree of its own, or bring that up to date.",
        70,
    ),
    _act("claim", "c", "Claim", "Claim a worktree for one agent alone.", 90, about_one=True),
    _act("release", "R", "Release", "Give a claimed worktree back.", 85, about_one=True),
    _act(
        "remove",
        "D",
        "Remove",
        "move a worktree into the trash, after looking whether anything would be missed",
        80,
        about_one=True,
    ),
    _act("undo", "U", "Undo", "bring back the worktree that was removed last, with everything in it", 30),
    _act(
        "merge",
        "i",
        "Merge",
        "merge a worktree's branch into its base, after showing whether it conflicts",
        about_one=True,
    ),
    _act(
        "rename",
        "N",
        "Rename",
        "give a worktree another name: its folder and, if it follows the naming, its branch",
        about_one=True,
    ),
    _act(
        "prune",
        "P",
        "Prune",
        "forget missing worktrees, put merged and clean ones into the trash, name orphaned folders",
    ),
    _act("repair", "Z", "Repair", "find worktrees and repositories that were moved, and mend what points at them"),
    _act(
        "sync",
        "Y",
        "Sync",
        "link the shared files of sync/ into every worktree, and take away links whose file is gone",
    ),
)
VIEWS = (
    _view("agents", "A", "Agents", "the lead's view: every agent by who needs you, works, is idle, done or dead", 45),
    _view(
        "explain",
        "E",
        "Explain",
        "how imi knows what the agent does: evidence used and set aside, tokens, files",
        about_one=True,
    ),
    _view(
        "diff",
        "d",
        "Diff",
        "what the selected worktree changed, staged, unstaged or against the trunk",
        35,
        about_one=True,
    ),
    _view(
        "files",
        "f",
        "Files",
        "the files the selected worktree changed: lines, age, who, and who else touches them",
        about_one=True,
    ),
    _view(
        "log",
        "L",
        "Log",
        "the commits of the selected worktree's branch, its own first, then those of the trunk",
        about_one=True,
    ),
    _view("collisions", "x", "Collisions", "which worktrees touch the same files, and in which lines they conflict"),
    _view(
        "history",
        "H",
        "Claim history",
        "who held the selected worktree, for how long, and how it ended",
        about_one=True,
    ),
    _view("queue", "Q", "Queue", "everybody who waits for a worktree, and who has it"),
    _view("events", "t", "Events", "the log of everything that happened, with a filter"),
    _view("commands", "at", "Command log", "everything this dashboard did, as command lines"),
)

_LOOK, _LIST, _TREE, _APP = "Looking", "The list", "The worktree", "The dashboard"
OWN = (
    Command(
        "open",
        "enter",
        "Open",
        "its agent's own pane, else a shell there: a tab or window, or the one already open",
        _TREE,
        about_one=True,
        weight=95,
    ),
    Command(
        "open_with",
        "O",
        "Open with…",
        "a shell, the editor, an agent or lazygit in the worktree",
        _TREE,
        about_one=True,
    ),
    Command(
        "peek",
        "space",
        "Peek",
        "what its agent says and does, live: the last messages and tools",
        _TREE,
        about_one=True,
        weight=65,
    ),
    Command("menu", "a", "Actions…", "everything that can be done with the worktree", _TREE, about_one=True),
    Command("shell", "", "Shell", "a shell in the worktree, also when its agent has a pane", _TREE, about_one=True),
    Command("lazygit", "g", "lazygit", "lazygit in the worktree (or tig)", _TREE, about_one=True),
    Command("pr", "o", "PR in browser", "the worktree's pull request in the browser", _TREE, about_one=True),
    Command("copy", "y", "Copy…", "its path, branch, name or a command to the clipboard", _TREE, about_one=True),
    Command("mark", "m", "Mark", "mark it, to act on several at once", _TREE, about_one=True),
    Command("mark_all", "M", "Mark all", "mark all that are listed, or none", _LIST),
    Command("filter", "slash", "Filter", "narrow the list: text, !not, @agent, type:feat, is:dirty", _LIST, weight=60),
    Command("sort", "s", "Sort", "the next order of the list", _LIST, weight=20),
    Command("backwards", "S", "Backwards", "the order the other way round", _LIST),
    Command("group", "b", "Group", "in groups: by repository, type or owner", _LIST),
    Command("fold", "", "Fold", "fold all groups, or unfold them", _LIST),
    Command(
        "next",
        "w",
        "Next",
        "the next agent that waits for you, the most patient first; then what else needs you",
        _LIST,
        weight=55,
    ),
    Command("only", "F", "Only this", "changes and events of the selected worktree only, or of all", _LOOK),
    Command("zoom", "z", "Zoom", "one panel on the whole screen, and back", _LOOK),
    Command("refresh", "r", "Refresh", "look at everything again now", _LOOK, everywhere=True),
    Command("pause", "p", "Pause", "hold the picture still, and go on", _LOOK, everywhere=True),
    Command("faster", "plus", "Faster", "refresh ages and order more often", _LOOK),
    Command("slower", "minus", "Slower", "refresh ages and order less often", _LOOK),
    Command("theme", "T", "Theme…", "colours: dark, light, for colour-blind eyes, sixteen", _APP, everywhere=True),
    Command("trouble", "", "What is wrong", "every source that cannot be read, since when and why", _APP),
    Command("palette", "colon", "Palette", "search for anything that can be done", _APP, everywhere=True),
    Command("help", "question_mark", "Help", "the keys of where you are", _APP, everywhere=True, weight=50),
    Command("quit", "q", "Quit", "leave; nothing is stopped by it", _APP, everywhere=True, weight=40),
)


def table(keymap: Mapping[str, str] | None = None, *, read_only: bool = False) -> tuple[Command, ...]:
    """All commands with the keys a person wants; UsageError when two want the same one."""
    all_of_them = (*ACTS, *VIEWS, *OWN)
    wanted = _remapped(all_of_them, keymap or {})
    _refuse_clashes(wanted)
    return tuple(command for command in wanted if not (read_only and command.changes))


def takes_worktree(action: Action) -> bool:
    """Whether the action is about an existing worktree, which the selection can name."""
    return bool(action.arguments) and action.arguments[0].name == "name" and not action.makes_new


def _remapped(commands: Sequence[Command], keymap: Mapping[str, str]) -> list[Command]:
    words = {command.word for command in commands}
    for word in keymap:
        if word not in words:
            raise UsageError(
                f"[ui.keymap] names {safe(word)!r}, which is nothing: use one of {', '.join(sorted(words))}"
            )
    return [replace(c, key=named(keymap[c.word])) if c.word in keymap else c for c in commands]


def named(key: str) -> str:
    """`?` as Textual calls it; names such as `f5` or `space` stay."""
    return _character_to_key(key) if len(key) == 1 else key


def _refuse_clashes(commands: Sequence[Command]) -> None:
    taken: dict[str, str] = dict.fromkeys(_FIXED, "moving about")
    for command in commands:
        if command.key and command.key in taken:
            raise UsageError(
                f"the key {safe(command.key_shown)!r} is wanted by {command.word} and by {taken[command.key]}:"
                f" give one of them another in [ui.keymap]",
                code="key-clash",
            )
        taken[command.key] = command.word
