"""Parses the command line into a verb and its Request, by the declaration of the action.

Not argparse: importing it costs 6 ms of every claim, and the declarations already feed help, completion and dialogs.
"""

from __future__ import annotations

from imi_monitor import actions
from imi_monitor.actions.action import GLOBAL_OPTIONS, Option, Request
from imi_monitor.model.errors import UsageError
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Action


WITHOUT_ACTION = ("help", "version")
"""Words that are commands of their own, beside the verbs of the actions."""


class ParsedCommandLine:
    """A whole command line: the action (None for plain `imi`), its request, and the global options."""

    __slots__ = ("action", "globals", "request", "words")

    def __init__(self, action: Action | None, request: Request, global_values: dict[str, object], words: list[str]):
        self.action = action
        self.request = request
        self.globals = global_values
        self.words = words  # the words without options; the repositories of plain `imi [REPO…]`

    def option(self, name: str) -> str | None:
        value = self.globals.get(name)
        return value if isinstance(value, str) else None

    def flag(self, name: str) -> bool:
        return name in self.globals


def parse(argv: list[str]) -> ParsedCommandLine:
    """The parsed command line; UsageError names the wrong word."""
    global_values: dict[str, object] = {}
    rest = _read_globals(argv, global_values)
    if rest and rest[0] in WITHOUT_ACTION:
        words = _read_options(rest[0], rest[1:], (), {}, global_values)
        return ParsedCommandLine(None, Request("", {}), global_values, [rest[0], *words])
    verb, words = _verb(rest)
    action = actions.find(verb) if verb else None
    if action is None:
        return ParsedCommandLine(None, Request("", {}), global_values, words)
    values: dict[str, object] = {}
    positional = _read_options(verb, words, action.options, values, global_values)
    if "help" not in global_values:
        _assign(verb, action, positional, values)
    return ParsedCommandLine(action, Request(verb, values), global_values, positional)


def _read_globals(argv: list[str], into: dict[str, object]) -> list[str]:
    """Read the global options before the verb; return the remaining words."""
    index = 0
    while index < len(argv) and argv[index].startswith("-") and argv[index] not in ("-", "--"):
        index = _read_option("", argv, index, GLOBAL_OPTIONS, into)
    return argv[index:]


def _verb(words: list[str]) -> tuple[str, list[str]]:
    known = actions.verbs()
    if len(words) > 1 and f"{words[0]} {words[1]}" in known:
        return f"{words[0]} {words[1]}", words[2:]
    if words and words[0] in known:
        return words[0], words[1:]
    if words and f"{words[0]} list" in known:  # `imi trash` means `imi trash list`
        unknown = [word for word in words[1:2] if not word.startswith("-")]
        if unknown:
            below = sorted(verb.split(" ")[1] for verb in known if verb.startswith(words[0] + " "))
            raise UsageError(f"imi {words[0]} has no {safe(unknown[0])!r}: use one of {', '.join(below)}")
        return f"{words[0]} list", words[1:]
    return "", words


def _read_options(
    verb: str, words: list[str], options: tuple[Option, ...], values: dict[str, object], globals_: dict[str, object]
) -> list[str]:
    positional: list[str] = []
    index = 0
    own = {spelling for option in options for spelling in option.spellings}
    while index < len(words):
        word = words[index]
        if word == "--":
            positional.extend(words[index + 1 :])
            break
        if word.startswith("-") and word != "-" and not word[1:].isdecimal():
            is_own = word.split("=", 1)[0] in own
            index = _read_option(
                verb, words, index, options if is_own else GLOBAL_OPTIONS, values if is_own else globals_, options
            )
        else:
            positional.append(word)
            index += 1
    return positional


def _read_option(
    verb: str,
    words: list[str],
    index: int,
    options: tuple[Option, ...],
    into: dict[str, object],
    own: tuple[Option, ...] = (),
) -> int:
    """Read the option at `index` with its value; return the index after it."""
    spelled, equals, inline = words[index].partition("=")
    option = next((option for option in options if spelled in option.spellings), None)
    if option is None:
        raise UsageError(_unknown_option(verb, spelled, (*own, *GLOBAL_OPTIONS)), code="unknown-option")
    if not option.value:
        if equals:
            raise UsageError(f"{spelled} takes no value", code="bad-option")
        into[option.name] = True
        return index + 1
    if equals:
        into[option.name] = _value(option, spelled, inline)
        return index + 1
    follows = index + 1 < len(words) and (not words[index + 1].startswith("-") or words[index + 1] == "-")
    if not follows:
        if option.optional_value:
            into[option.name] = True
            return index + 1
        raise UsageError(f"{spelled} needs a value: {spelled} {option.value}", code="bad-option")
    into[option.name] = _value(option, spelled, words[index + 1])
    return index + 2


def _value(option: Option, spelled: str, text: str) -> object:
    if not option.number:
        return text
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e12:
        raise UsageError(f"{spelled} must be a whole number, 0 or more, not {safe(text)!r}", code="bad-option")
    return number


def _assign(verb: str, action: Action, words: list[str], values: dict[str, object]) -> None:
    left = list(words)
    for argument in action.arguments:
        if argument.rest:
            values[argument.name] = left
            left = []
        elif left:
            values[argument.name] = left.pop(0)
        elif not argument.optional:
            raise UsageError(
                f"imi {verb}: {argument.name.upper()} is missing: {argument.help} (`imi {verb} --help`)", code="missing"
            )
    if left:
        raise UsageError(f"imi {verb} takes no argument {safe(left[0])!r} (`imi {verb} --help`)", code="extra")


def _unknown_option(verb: str, spelled: str, options: tuple[Option, ...]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(spelled, [text for option in options for text in option.spellings], 1)
    hint = f"did you mean {near[0]}?" if near else f"see `imi {verb} --help`".replace("  ", " ")
    return f"unknown option {safe(spelled)}: {hint}"
