"""Help pages, made from the declarations of the actions."""

from __future__ import annotations

from collections.abc import Iterable

from imi_monitor import __version__, actions
from imi_monitor.actions.action import GLOBAL_OPTIONS, GROUPS, Action, Argument, Option, Outcome
from imi_monitor.model import columns
from imi_monitor.model.errors import UsageError
from imi_monitor.model.styled_text import HEADING, MUTED, NAME, join, styled
from imi_monitor.model.text import safe

_WIDEST_LEFT = 28


EXIT_STATUSES = [
    ("0", "done"),
    ("1", "refused, or failed: the reason is on stderr"),
    ("2", "a wrong command line or a wrong setting; of verify-lock: unknown"),
    ("130", "interrupted"),
]


def of_words(words: list[str]) -> Outcome:
    """`imi help` and `imi help VERB`."""
    if not words or words[0] == "help":
        every = [_data(one) for one in actions.all_actions()]
        return Outcome(_wrapped(_overview()), {"commands": every, "options": _option_data(GLOBAL_OPTIONS)})
    for verb in (" ".join(words[:2]), words[0], f"{words[0]} list"):
        action = actions.find(verb)
        if action is not None:
            return of_action(action, verb)
    raise UsageError(unknown_verb(words[0]), code="unknown-verb")


def of_action(action: Action, verb: str) -> Outcome:
    """`imi VERB --help`."""
    lines = [*page(action, verb), "", "`imi help` lists the options of every command."]
    return Outcome(_wrapped(lines), {"command": _data(action)})


def page(action: Action, verb: str) -> list[str]:
    """One action: usage, what it does, its arguments, options and other verbs."""
    others = [word for word in action.words if word != verb]
    return [
        join((styled(f"imi {verb}", NAME), f" {usage(action)}".rstrip())),
        "",
        action.help,
        *(text.strip() for text in action.more.strip().splitlines()),
        *_table("Arguments", [(_argument(argument), argument.help) for argument in action.arguments]),
        *_table("Options", option_rows(action.options)),
        *_other_spellings(action.options),
        *(["", styled("Examples:", HEADING), *_example_lines(action)] if action.examples else []),
        *(["", f"Also: {', '.join('imi ' + word for word in others)}"] if others else []),
        *_related(verb),
    ]


def _related(verb: str) -> list[str]:
    """A line with the other commands that begin with the same word, as `imi trash restore` beside `imi trash list`."""
    head = verb.split(" ")[0]
    others = [word for word in actions.verbs() if word.split(" ")[0] == head and word != verb]
    return ["", f"See also: {', '.join('imi ' + word for word in others)}"] if others else []


def _example_lines(action: Action) -> list[str]:
    return [
        line for command, meaning in action.examples for line in (f"  {command}", styled(f"      {meaning}", MUTED))
    ]


def usage(action: Action) -> str:
    """`NAME [--agent ID]`: the words after the verb."""
    words = [_argument(argument) for argument in action.arguments]
    return " ".join([*words, *(f"[{option.spellings[0]}{_value(option)}]" for option in action.options)])


def option_rows(options: Iterable[Option]) -> list[tuple[str, str]]:
    """The name of each option, its letter and its value, and its help."""
    return [(", ".join(_shown_spellings(option)) + _value(option), _option_help(option)) for option in options]


def _option_help(option: Option) -> str:
    return f"{option.help}: {', '.join(option.choices)}" if option.choices else option.help


def _shown_spellings(option: Option) -> list[str]:
    return [text for text in option.spellings if text == option.spellings[0] or len(text) == 2]


def _other_spellings(options: Iterable[Option]) -> list[str]:
    """A line that names the aliases which the table of options leaves out."""
    found = []
    for option in options:
        others = [text for text in option.spellings if text not in _shown_spellings(option)]
        if others:
            found.append(f"{' and '.join(others)} for {option.spellings[0]}")
    return ["", f"Also accepted: {', '.join(found)}"] if found else []


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
        "imi demo                open it on three simulated agents, in a temporary folder",
    ]
    every = actions.all_actions()
    for group in GROUPS:
        lines += _table(group, [(", ".join(one.words), one.help) for one in every if one.group == group])
    lines += _table("Options of every command", option_rows(GLOBAL_OPTIONS))
    lines += _table("Exit status", EXIT_STATUSES)
    return [*lines, "", "`imi help COMMAND` shows the arguments and options of a command."]


def _table(title: str, rows: list[tuple[str, str]]) -> list[str]:
    if not rows:
        return []
    width = min(_WIDEST_LEFT, max(len(left) for left, _ in rows))
    return ["", styled(f"{title}:", HEADING), *(f"  {left:<{width}}  {right}" for left, right in rows)]


def _argument(argument: Argument) -> str:
    name = argument.name.upper() + ("…" if argument.rest else "")
    return f"[{name}]" if argument.optional or argument.rest else name


def _value(option: Option) -> str:
    return f" {option.value}" if option.value else ""


def _wrapped(lines: list[str]) -> list[str]:
    """Wrap lines that are wider than the terminal; what follows a line stands below its last column."""
    import textwrap

    from imi_monitor.actions.status.status_action import terminal_width

    width = terminal_width()
    if width is None:
        return lines
    found: list[str] = []
    for line in lines:
        if columns.cell_width(line) <= width:
            found.append(line)
            continue
        indent = " " * _text_column(line, width)
        found += textwrap.wrap(line, width, subsequent_indent=indent, break_on_hyphens=False)
    return found


def _text_column(line: str, width: int) -> int:
    """Return where the text of a table's row begins; a usage line is indented, other text is not."""
    if not line.startswith("  "):
        return 4 if line.startswith("imi ") and " [" in line else 0
    left = line.rstrip().rfind("  ", 2, _WIDEST_LEFT + 6) + 2
    return left if 2 < left < width - 20 else 4


def _data(action: Action) -> dict[str, object]:
    return {
        "words": list(action.words),
        "group": action.group,
        "key": action.key or None,
        "help": action.help,
        "examples": [{"command": command, "help": meaning} for command, meaning in action.examples],
        "arguments": [
            {"name": one.name, "help": one.help, "optional": one.optional or one.rest, "several": one.rest}
            for one in action.arguments
        ],
        "options": _option_data(action.options),
    }


def _option_data(options: Iterable[Option]) -> list[dict[str, object]]:
    return [{"spellings": one.spellings, "value": one.value or None, "help": one.help} for one in options]
