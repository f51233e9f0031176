"""Help pages, made from the declarations of the actions."""

from __future__ import annotations

from collections.abc import Iterable

from imi_monitor import __version__, actions
from imi_monitor.actions.action import GLOBAL_OPTIONS, GROUPS, Action, Argument, Option
from imi_monitor.cli import output
from imi_monitor.model.errors import UsageError
from imi_monitor.model.text import safe

_WIDEST_LEFT = 28


def show(words: list[str]) -> int:
    """`imi help` and `imi help VERB`."""
    if not words:
        _print(_overview())
        return 0
    for verb in (" ".join(words[:2]), words[0], f"{words[0]} list"):
        action = actions.find(verb)
        if action is not None:
            return show_action(action, verb)
    raise UsageError(unknown_verb(words[0]), code="unknown-verb")


def show_action(action: Action, verb: str) -> int:
    """`imi VERB --help`."""
    _print([*page(action, verb), "", "`imi help` lists the options of every command."])
    return 0


def page(action: Action, verb: str) -> list[str]:
    """One action: usage, what it does, its arguments, options and other verbs."""
    others = [word for word in action.words if word != verb]
    return [
        f"imi {verb} {usage(action)}".rstrip(),
        "",
        action.help,
        *(text.strip() for text in action.more.strip().splitlines()),
        *_table("Arguments", [(_argument(argument), argument.help) for argument in action.arguments]),
        *_table("Options", option_rows(action.options)),
        *(["", f"Also: {', '.join('imi ' + word for word in others)}"] if others else []),
    ]


def usage(action: Action) -> str:
    """`NAME [--agent ID]`: the words after the verb."""
    words = [_argument(argument) for argument in action.arguments]
    return " ".join([*words, *(f"[{option.spellings[0]}{_value(option)}]" for option in action.options)])


def option_rows(options: Iterable[Option]) -> list[tuple[str, str]]:
    """The spellings of each option with its value, and its help."""
    return [(", ".join(option.spellings) + _value(option), option.help) for option in options]


def unknown_verb(word: str) -> str:
    """The error sentence for a word that is no verb."""
    from difflib import get_close_matches

    near = get_close_matches(word, actions.verbs(), 2)
    hint = f"did you mean {' or '.join(near)}?" if near else "`imi help` lists all commands"
    return f"imi has no command {safe(word)!r}: {hint}"


def _overview() -> list[str]:
    lines = [
        f"imi {__version__}: git worktrees for many coding agents, their claims, and a dashboard that shows them",
        "",
        "imi                     open the dashboard (in a pipe: imi status)",
    ]
    every = actions.all_actions()
    for group in GROUPS:
        lines += _table(group, [(", ".join(one.words), one.help) for one in every if one.group == group])
    lines += _table("Options of every command", option_rows(GLOBAL_OPTIONS))
    return [*lines, "", "`imi help COMMAND` shows the arguments and options of a command."]


def _table(title: str, rows: list[tuple[str, str]]) -> list[str]:
    if not rows:
        return []
    width = min(_WIDEST_LEFT, max(len(left) for left, _ in rows))
    return ["", f"{title}:", *(f"  {left:<{width}}  {right}" for left, right in rows)]


def _argument(argument: Argument) -> str:
    name = argument.name.upper() + ("…" if argument.rest else "")
    return f"[{name}]" if argument.optional or argument.rest else name


def _value(option: Option) -> str:
    return f" {option.value}" if option.value else ""


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        output.line(line)
