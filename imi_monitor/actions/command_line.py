"""The command line that is equivalent to a Request, as the dashboard's dialogs and command log show it."""

from __future__ import annotations

import shlex

from imi_monitor import config
from imi_monitor.model.errors import ImiError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Action, Option, Request
    from imi_monitor.actions.context import Context


def words(action: Action, request: Request, context: Context | None = None) -> list[str]:
    """`imi`, the global options of the context, the verb, its options, its arguments. Parsing them returns the request."""
    return [
        "imi",
        *(_where(context) if context else ()),
        *request.verb.split(" "),
        *_options(action, request),
        *_arguments(action, request),
    ]


def line(parts: list[str]) -> str:
    """One printable line for a POSIX-like shell (bash, zsh)."""
    return " ".join(map(_quoted, parts))


def _where(context: Context) -> list[str]:
    found = ["--db", context.database] if context.database != config.database_path(None) else []
    if context.repo_option is None:
        return found
    try:
        return [*found, "--repo", context.repository().home]  # valid even after the named worktree is removed
    except ImiError:
        return [*found, "--repo", context.repo_option]


def _options(action: Action, request: Request) -> list[str]:
    given = [(option, request.values[option.name]) for option in action.options if option.name in request.values]
    return [word for option, value in given if value is not False for word in _option(option, value)]


def _option(option: Option, value: object) -> list[str]:
    name = ("-" if len(option.name) == 1 else "--") + option.name
    if not option.value or value is True:
        return [name]
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return [f"{name}={text}"] if not text or text.startswith("-") else [name, text]


def _arguments(action: Action, request: Request) -> list[str]:
    found: list[str] = []
    for argument in action.arguments:
        value = request.values.get(argument.name)
        if argument.rest and isinstance(value, list):
            found += map(str, value)
        elif isinstance(value, str):
            found.append(value)
        else:
            break  # arguments after a missing one have no position
    return ["--", *found] if any(word.startswith("-") for word in found) else found


def _quoted(word: str) -> str:
    """The word quoted for a shell; as `$'…'` when it holds control characters or bytes that are not UTF-8."""
    if word.isprintable():
        return shlex.quote(word)
    return "$'" + "".join(map(_escaped, word)) + "'"


def _escaped(char: str) -> str:
    if char in "\\'":
        return "\\" + char
    if char.isprintable():
        return char
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape"))
