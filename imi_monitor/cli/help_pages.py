"""Help pages, made from the actions' own descriptions, so that they cannot lag behind."""

from __future__ import annotations

from imi_monitor import __version__
from imi_monitor.actions.action import GLOBAL_OPTIONS, Action, Argument, Option
from imi_monitor.cli import fronts, output
from imi_monitor.model.errors import UsageError
from imi_monitor.model.text import safe

_GROUPS = (
    ("Worktrees", ("feat", "fix", "aiops", "devops", "add", "review", "go", "trunk", "types list")),
    (
        "Looking",
        ("monitor", "list", "status", "diff", "log", "collisions", "agents", "agents explain", "watch", "demo"),
    ),
    ("Claims", ("claim", "heartbeat", "verify-lock", "release", "claims", "queue")),
    ("Agents", ("sessions", "session show", "tasks", "stats", "agents describe")),
    ("Ending", ("merge", "close", "remove", "undo", "trash list", "prune", "rename", "repair")),
    ("Agents", ("hooks status", "hooks install", "hooks uninstall")),
    ("Around", ("sync", "trust", "events", "doctor", "config", "paths", "shell-init", "completion", "reset-terminal")),
)


def show(words: list[str]) -> int:
    """`imi help` and `imi help VERB`."""
    if not words:
        _show_all()
        return 0
    for verb in (" ".join(words[:2]), words[0], f"{words[0]} list"):
        action = fronts.find(verb)
        if action is not None:
            return show_action(action, verb)
    raise UsageError(unknown_verb(words[0]), code="unknown-verb")


def show_action(action: Action, verb: str) -> int:
    """One action: usage, what it does, its words and options."""
    output.line(f"imi {verb} {usage(action)}".rstrip())
    output.line("")
    output.line(action.help)
    for text in action.more.strip().splitlines():
        output.line(text.strip())
    _table("Arguments", [(_argument(argument), argument.help) for argument in action.arguments])
    _table("Options", [(_option(option), option.help) for option in action.options])
    _table("Everywhere", [(_option(option), option.help) for option in GLOBAL_OPTIONS])
    others = [word for word in action.words if word != verb]
    if others:
        output.line("")
        output.line(f"Also: {', '.join('imi ' + word for word in others)}")
    return 0


def usage(action: Action) -> str:
    """`NAME [--agent ID]`: the words after the verb."""
    words = [_argument(argument) for argument in action.arguments]
    return " ".join([*words, *(f"[{_option(option, short=True)}]" for option in action.options)])


def unknown_verb(word: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, fronts.verbs(), 2)
    hint = f"did you mean {' or '.join(near)}?" if near else "`imi help` lists all commands"
    return f"imi has no command {safe(word)!r}: {hint}"


def _show_all() -> None:
    output.line(f"imi {__version__}: git worktrees for many coding agents, their claims, and one pane that shows them")
    output.line("")
    output.line("imi                     the dashboard (in a pipe: imi status)")
    listed: set[Action] = set()
    for title, verbs in _GROUPS:
        rows = []
        for verb in verbs:
            action = fronts.find(verb)
            if action is not None and action not in listed:
                listed.add(action)
                names = [name for name in verbs if fronts.find(name) is action]
                rows.append((", ".join(names), action.help))
        _table(title, rows)
    _table("Everywhere", [(_option(option), option.help) for option in GLOBAL_OPTIONS])
    output.line("")
    output.line("imi help COMMAND says more about each.")


def _table(title: str, rows: list[tuple[str, str]]) -> None:
    if not rows:
        return
    output.line("")
    output.line(f"{title}:")
    width = min(28, max(len(left) for left, _ in rows))
    for left, right in rows:
        output.line(f"  {left:<{width}}  {right}")


def _argument(argument: Argument) -> str:
    name = argument.name.upper() + ("…" if argument.rest else "")
    return f"[{name}]" if argument.optional or argument.rest else name


def _option(option: Option, *, short: bool = False) -> str:
    spellings = [("-" if len(name) == 1 else "--") + name for name in (option.name, *option.aliases)]
    value = f" {option.value}" if option.value else ""
    return (spellings[0] if short else ", ".join(spellings)) + value
