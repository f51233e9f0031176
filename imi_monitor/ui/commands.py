"""The dashboard's commands: actions and views from the command table, and the functions of the dashboard itself.

The key bindings, the key bar, `?`, the palette and the menu of a worktree are all made from `table()`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from textual.keys import _character_to_key, format_key

from imi_monitor import command_table
from imi_monitor.model.errors import UsageError
from imi_monitor.model.own_command import OWN_PREFIX, OwnCommand
from imi_monitor.model.text import safe
from imi_monitor.ui.panels import PANELS

Kind = Literal["action", "view", "function", "own"]


@dataclass(frozen=True, slots=True)
class Command:
    """One entry of the command table. `word` names it in `[ui.keymap]`; a function is the app's handler `do_<word>`."""

    word: str
    key: str  # as Textual names it; empty: only in palette and menus
    label: str
    help: str
    group: str
    kind: Kind = "function"
    changes: bool = False
    needs_registry: bool = False  # not available while the registry cannot be used
    needs_worktree: bool = False  # acts on the selected worktree, so it is in that worktree's menu
    requires: tuple[str, ...] = ()  # names of `command_conditions.CONDITIONS`
    everywhere: bool = False  # also available while a view is open
    key_bar: int = 0  # rank in the key bar, the highest first; 0: not in the bar
    refused: str = ""  # why this dashboard never runs it
    for_other_homes: bool = False  # takes a worktree of another home
    displaced_by: str = ""  # the command that got this one's default key from `[ui.keymap]`

    @property
    def key_label(self) -> str:
        """The key as the screen shows it."""
        return key_label(self.key)


_KEY_LABELS = {
    "enter": "⏎",
    "escape": "esc",
    "plus": "+",
    "minus": "-",
    "colon": ":",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
}


def key_label(key: str) -> str:
    """A key of Textual as the screen shows it."""
    return _KEY_LABELS.get(key) or (format_key(key) if key else "")


READ_ONLY = "this dashboard is read-only: start imi without --read-only to change something"

READ_ONLY_IN_BROWSER = "this dashboard is read-only: start `imi web --write` to change something"
IN_BROWSER = "this needs a terminal of its own: use imi in a terminal instead of a browser"
_OF_TERMINALS = ("open", "open_with", "shell", "lazygit", "attach")
"""Commands that show another program in the dashboard's terminal, or a pane beside it. So do own commands with a pane."""

NAVIGATION_KEYS = frozenset(
    (
        *("tab", "shift+tab", "escape", "ctrl+c"),
        *("j", "k", "up", "down", "pageup", "pagedown", "home", "end", "G"),
        *("left", "right", "h", "l"),
        *(str(panel.number) for panel in PANELS),
    )
)
"""Keys that no command can have."""

_WORKTREE, _LIST, _DISPLAY, _DASHBOARD = "Selected worktree", "List", "Display", "Dashboard"


def _of_worktree(
    word: str, key: str, label: str, help: str, key_bar: int = 0, requires: tuple[str, ...] = ()
) -> Command:
    return Command(word, key, label, help, _WORKTREE, needs_worktree=True, requires=requires, key_bar=key_bar)


DASHBOARD_FUNCTIONS = (
    _of_worktree("open", "enter", "Open", "go to its agent's pane, else open a shell there", 95, ("folder",)),
    _of_worktree(
        "open_with", "O", "Open with…", "open a shell, the editor, an agent or lazygit there", requires=("folder",)
    ),
    _of_worktree("peek", "space", "Peek", "show its agent's last messages and tool calls, live", 65, ("agent",)),
    Command(
        "seen",
        "full_stop",
        "Mark all seen",
        "mark every agent that died or failed as seen",
        _WORKTREE,
        needs_worktree=True,
        requires=("unseen",),
        everywhere=True,
    ),
    _of_worktree("menu", "a", "Actions…", "list everything that can be done with the worktree"),
    _of_worktree("shell", "", "Shell", "open a shell there, even when its agent has a pane", requires=("folder",)),
    _of_worktree("lazygit", "g", "lazygit", "open lazygit (or tig) there", requires=("folder", "git-screen")),
    _of_worktree("pr", "o", "PR in browser", "open its pull request in the browser", requires=("pull-request",)),
    Command(
        "own_commands",
        "exclamation_mark",
        "Commands…",
        "run one of your own commands there, or one of its repository",
        _WORKTREE,
        changes=True,
        needs_worktree=True,
    ),
    _of_worktree("copy", "y", "Copy…", "copy its path, branch, name or a command to the clipboard"),
    _of_worktree("mark", "m", "Mark", "mark it, to act on several worktrees at once"),
    Command("mark_all", "M", "Mark all", "mark every listed worktree, or none", _LIST),
    Command("filter", "slash", "Filter", "narrow the list: text, !not, @agent, type:feat, is:dirty", _LIST, key_bar=60),
    Command("sort", "s", "Sort…", "choose the order of the list; `by disk use` shows it", _LIST, key_bar=20),
    Command("backwards", "S", "Backwards", "reverse the order", _LIST),
    Command("group", "b", "Group…", "choose the groups of the list: repository, type or owner", _LIST),
    Command("fold", "", "Fold", "fold all groups, or unfold them", _LIST),
    Command(
        "next",
        "w",
        "Next",
        "go to the agent that has waited longest, then to other worktrees that need you",
        _LIST,
        key_bar=55,
    ),
    Command("only", "F", "Only this", "show changes and events of the selected worktree only, or of all", _DISPLAY),
    Command("zoom", "z", "Zoom", "show one panel on the whole screen, or all panels", _DISPLAY),
    Command("all_panels", "6", "All panels", "show all panels there is room for", _DISPLAY),
    Command("list_and_agents", "7", "List and agents", "show the worktrees and the agents alone", _DISPLAY),
    Command("agents_only", "8", "Agents only", "show the agents alone", _DISPLAY),
    Command("list_only", "9", "List only", "show the worktrees alone", _DISPLAY),
    Command("refresh", "r", "Refresh", "read everything again now", _DISPLAY, everywhere=True),
    Command("pause", "p", "Pause", "stop updating the screen, or go on", _DISPLAY, everywhere=True),
    Command("faster", "plus", "Faster", "refresh ages and order more often", _DISPLAY),
    Command("slower", "minus", "Slower", "refresh ages and order less often", _DISPLAY),
    Command(
        "theme",
        "T",
        "Theme…",
        "choose colours: dark, light, for colour-blind eyes, sixteen, or a known theme",
        _DASHBOARD,
        everywhere=True,
    ),
    Command("trouble", "", "What is wrong", "list every source that cannot be read, since when and why", _DASHBOARD),
    Command("palette", "colon", "Palette", "search all commands", _DASHBOARD, everywhere=True),
    Command("help", "question_mark", "Help", "list the keys that work here", _DASHBOARD, everywhere=True, key_bar=50),
    Command("quit", "q", "Quit", "leave; no agent is stopped", _DASHBOARD, everywhere=True, key_bar=40),
)
"""What the dashboard does itself; the app has a handler `do_<word>` for each."""


def table(
    keymap: Mapping[str, str] | None = None,
    *,
    own: Iterable[OwnCommand] = (),
    read_only: bool = False,
    in_browser: bool = False,
) -> tuple[Command, ...]:
    """All commands with the user's keys.

    A key from `keymap` or of an own command wins over a default: the default's command then has no key and names the
    winner in `displaced_by`. UsageError when they give one key twice, take a navigation key, or name an unknown command.
    """
    own_commands = [_own_command(one) for one in own]
    commands = (*_actions(), *_views(), *DASHBOARD_FUNCTIONS, *own_commands)
    keys = {one.word: one.key for one in own_commands if one.key}
    with_keys = _apply_keymap(commands, {**keys, **(keymap or {})})
    of_terminals = {*_OF_TERMINALS, *(one.word for one in own if one.pane)} if in_browser else set()
    read_only_reason = READ_ONLY_IN_BROWSER if in_browser else READ_ONLY

    def refused(one: Command) -> Command:
        if one.word in of_terminals:
            return replace(one, refused=IN_BROWSER, key_bar=0)
        return replace(one, refused=read_only_reason, key_bar=0) if read_only and one.changes else one

    return tuple(map(refused, with_keys))


def displaced_keys_text(commands: Iterable[Command]) -> str:
    """A sentence about the commands that lost their default key to `[ui.keymap]`; empty when none did."""
    lost = [f"{command.label} (its key is {command.displaced_by}'s)" for command in commands if command.displaced_by]
    return (
        f"without a key, by your [ui.keymap] or [commands]: {', '.join(lost)}; the palette still has them"
        if lost
        else ""
    )


def textual_key(key: str) -> str:
    """Textual's name for a key: `question_mark` for `?`. Names such as `f5` or `space` stay."""
    return _character_to_key(key) if len(key) == 1 else key


def _actions() -> list[Command]:
    return [
        Command(
            row["word"].replace(" ", "-"),
            row["key"],
            row["label"],
            row["help"],
            row["group"],
            "action",
            changes=row["changes"],
            needs_registry=row["needs_registry"],
            needs_worktree=row["needs_worktree"],
            requires=row["requires"],
            key_bar=row["key_bar"],
            for_other_homes=row["for_other_homes"],
        )
        for row in command_table.ACTIONS
    ]


def _views() -> list[Command]:
    return [
        Command(
            row["word"],
            row["key"],
            row["label"],
            row["help"],
            row["group"],
            "view",
            needs_worktree=row["needs_worktree"],
            requires=row["requires"],
            everywhere=True,
            key_bar=row["key_bar"],
        )
        for row in command_table.VIEWS
    ]


def _own_command(one: OwnCommand) -> Command:
    return Command(
        one.word,
        textual_key(one.key),
        one.label,
        one.help,
        _WORKTREE,
        "own",
        changes=True,
        needs_worktree=True,
        requires=("folder",),
    )


def _apply_keymap(commands: Iterable[Command], keymap: Mapping[str, str]) -> list[Command]:
    chosen = _chosen_keys(keymap, {command.word for command in commands})
    found = []
    for command in commands:
        if command.word in keymap:
            command = replace(command, key=textual_key(keymap[command.word]))
        elif command.key in chosen:
            command = replace(command, key="", displaced_by=chosen[command.key])
        found.append(command)
    return found


def _chosen_keys(keymap: Mapping[str, str], words: set[str]) -> dict[str, str]:
    """key -> the command that the keymap gives it to."""
    chosen: dict[str, str] = {}
    for word, wanted in keymap.items():
        if word not in words:
            raise UsageError(
                f"[ui.keymap] names {safe(word)!r}, which is no command: use one of {', '.join(sorted(words))}"
            )
        key = textual_key(wanted)
        other = "navigation" if key in NAVIGATION_KEYS else chosen.get(key)
        if key and other:
            raise UsageError(
                f"{_origin(word)} gives the key {safe(wanted)!r} to {word}, but {other} has it: choose another",
                code="key-clash",
            )
        chosen[key] = word
    chosen.pop("", None)
    return chosen


def _origin(word: str) -> str:
    name = word.removeprefix(OWN_PREFIX)
    return "[ui.keymap]" if name == word else f"[commands.{name}]"
