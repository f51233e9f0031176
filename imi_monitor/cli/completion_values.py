"""What can follow on a command line: verbs, options, and the values of arguments and options, each with a description.

The shells' completion scripts call it with every press of the tab key (`imi completion values`), so it reads the registry and
git's lists, but runs no agent source and creates nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from imi_monitor import actions, command_table, config
from imi_monitor.actions import worktree_lookup
from imi_monitor.actions.action import GLOBAL_OPTIONS, Option
from imi_monitor.cli.argument_parser import WITHOUT_ACTION
from imi_monitor.model.errors import ImiError
from imi_monitor.model.text import safe
from imi_monitor.store import claims, repositories, sessions, trash, worktree_types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Action
    from imi_monitor.actions.context import Context

Candidate = tuple[str, str]
"""A word and its description."""

FILES = "@files"  # instead of words: the shell completes the names of files
SEPARATOR = "  "  # between a word and its description; the output has no tabs
_MOST_SESSIONS = 50

# argument -> what its values are
_ARGUMENTS = {
    "name": "worktrees",
    "query": "worktrees",
    "other": "worktrees",
    "repo": "repositories",
    "agent": "agents",
    "id": "sessions",
    "which": "trash",
    "key": "settings",
    "type": "types",
    "path": "files",
    "file": "files",
    "pr": "pull requests",
}
# option, or its value as help shows it -> what its values are
_OPTIONS = {
    "history": "worktrees",
    "worktree": "worktrees",
    "yes-really": "worktrees",
    "session": "sessions",
    "type": "events",
    "agent": "agents",
    "REPO": "repositories",
    "BRANCH": "branches",
    "REF": "branches",
    "FILE": "files",
    "PATH": "files",
}


def candidates(context: Context, words: list[str]) -> list[Candidate]:
    """Return what the last of the words can become; the words before it are complete."""
    *before, current = words or [""]
    positional, waiting = _read(before)
    action, values = _resolve(positional)
    if waiting is not None:
        found = _option_values(context, waiting)
    elif current.startswith("--") and "=" in current:
        found = _inline(context, action, current)
    elif current.startswith("-"):
        own = action.options if action is not None else ()
        found = [(option.spellings[0], option.help) for option in (*own, *GLOBAL_OPTIONS)]
    else:
        found = _second_words(positional) if len(positional) < 2 or positional[0] in WITHOUT_ACTION else []
        if action is not None:
            found += _argument(context, action, len(values))
        elif not positional or positional == ["help"]:
            found += _first_words()
    fitting = {word: help for word, help in found if word == FILES or word.startswith(current)}
    return [(word, help) for word, help in fitting.items() if safe(word, 4096) == word and SEPARATOR not in word]


def _read(words: list[str]) -> tuple[list[str], Option | None]:
    """The words that are neither options nor their values, and the option whose value comes next."""
    positional: list[str] = []
    waiting: Option | None = None
    for word in words:
        if waiting is not None:
            waiting = None
        elif word.startswith("-") and word != "-":
            waiting = None if "=" in word else _option(_resolve(positional)[0], word)
            if waiting is not None and not waiting.value:
                waiting = None
        else:
            positional.append(word)
    return positional, waiting


def _resolve(positional: list[str]) -> tuple[Action | None, list[str]]:
    """The action of the first one or two words, and the words behind them."""
    for size in (2, 1):
        verb = " ".join(positional[:size])
        if len(positional) >= size and verb in command_table.VERBS:
            return actions.find(verb), positional[size:]
    return None, positional


def _option(action: Action | None, spelled: str) -> Option | None:
    options = (*(action.options if action is not None else ()), *GLOBAL_OPTIONS)
    return next((option for option in options if spelled in option.spellings), None)


def _first_words() -> list[Candidate]:
    """The first words of all verbs; one that is no verb by itself is described by what it lists."""
    found: dict[str, str] = {}
    for action in actions.all_actions():
        for word in action.words:
            head, _, below = word.partition(" ")
            if not below or head not in found:
                found[head] = action.help
    return [*found.items(), ("help", "list all commands"), ("version", "show the version")]


def _second_words(positional: list[str]) -> list[Candidate]:
    heads = positional[1:] if positional[:1] == ["help"] else positional
    if len(heads) != 1:
        return []
    found = []
    for verb in command_table.VERBS:
        head, _, below = verb.partition(" ")
        action = actions.find(verb) if below and head == heads[0] else None
        if action is not None:
            found.append((below, action.help))
    return found


def _inline(context: Context, action: Action | None, current: str) -> list[Candidate]:
    """The values of `--option=`, each with the option before it."""
    spelled, _, _ = current.partition("=")
    option = _option(action, spelled)
    if option is None or not option.value:
        return []
    found = _option_values(context, option)
    return [(f"{spelled}={word}", help) for word, help in found if word != FILES]


def _argument(context: Context, action: Action, index: int) -> list[Candidate]:
    arguments = action.arguments
    if not arguments or (index >= len(arguments) and not arguments[-1].rest):
        return []
    argument = arguments[min(index, len(arguments) - 1)]
    kind = _ARGUMENTS.get(argument.name)
    if index == 0 and action.makes_new and argument.name == "name":
        kind = "types" if action.words == ("types remove",) else None
    return _values(context, kind, argument.choices)


def _option_values(context: Context, option: Option) -> list[Candidate]:
    return _values(context, _OPTIONS.get(option.name) or _OPTIONS.get(option.value), option.choices)


def _values(context: Context, kind: str | None, choices: tuple[str, ...]) -> list[Candidate]:
    if choices:
        return [(word, "") for word in choices]
    read = _READERS.get(kind or "")
    if kind in _OF_REGISTRY and not os.path.exists(context.database):
        read = _files if kind == "repositories" else None  # completion must not create a registry
    if read is None:
        return []
    try:
        return read(context)
    except ImiError:  # a broken registry or repository has no words to offer
        return []


# -- values -------------------------------------------------------------------------------------------------------------


def _worktrees(context: Context) -> list[Candidate]:
    repository = context.find_repository()
    among = [repository] if repository is not None else worktree_lookup.known_repositories(context)
    targets = [target for each in among for target in worktree_lookup.list_worktrees(context, each)]
    return sorted((target.name, safe(target.branch or "", 60)) for target in targets)


def _repositories(context: Context) -> list[Candidate]:
    rows = repositories.list_repositories(context.connection)
    return [(FILES, ""), *((row.name, safe(row.path, 60)) for row in rows)]


def _agents(context: Context) -> list[Candidate]:
    held = {one.agent_id: f"holds {safe(one.worktree_name, 60)}" for one in claims.list_held(context.connection)}
    return sorted((name, help) for name, help in held.items() if name)


def _sessions(context: Context) -> list[Candidate]:
    rows = sessions.find(context.connection, sessions.SessionFilter(), _MOST_SESSIONS)
    return [(one.id, safe(f"{one.agent_id} in {one.worktree_name or '?'}", 60)) for one in rows]


def _trash(context: Context) -> list[Candidate]:
    rows = trash.list_kept(context.connection, what="all")
    return [(one.id, safe(f"{one.worktree_name}, removed {one.removed_at[:16]}", 60)) for one in rows]


def _settings(_: Context) -> list[Candidate]:
    return [(key, help) for key, (_, _, help) in config.KEYS.items()]


def _types(context: Context) -> list[Candidate]:
    return [(one.name, safe(one.description or "", 60)) for one in worktree_types.list_types(context.connection)]


def _events(_: Context) -> list[Candidate]:
    from imi_monitor.store.events import EVENT_KINDS

    return [(kind, "") for kind in EVENT_KINDS]


def _branches(context: Context) -> list[Candidate]:
    from imi_monitor.git import refs

    repository = context.find_repository()
    return [] if repository is None else [(name, "") for name in refs.branches(context.git(repository))]


def _pull_requests(context: Context) -> list[Candidate]:
    from imi_monitor.actions.reviews import pull_request_lists

    repository = context.find_repository()
    if repository is None:
        return []
    found = pull_request_lists.offered(context, repository, ask=False).pulls
    return [(str(pull.number), safe(pull.title or "", 60)) for pull in found]


def _files(_: Context) -> list[Candidate]:
    return [(FILES, "")]


_OF_REGISTRY = ("worktrees", "repositories", "agents", "sessions", "trash", "types", "pull requests")
_READERS: dict[str, Callable[[Context], list[Candidate]]] = {
    "worktrees": _worktrees,
    "repositories": _repositories,
    "pull requests": _pull_requests,
    "agents": _agents,
    "sessions": _sessions,
    "trash": _trash,
    "settings": _settings,
    "types": _types,
    "events": _events,
    "branches": _branches,
    "files": _files,
}
