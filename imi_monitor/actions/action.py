"""What an action is: one thing a person can do. Its command, key, help, confirmation and refusals all follow from it.

Lean on purpose: claiming and releasing go through here a hundred times a minute.
"""

from __future__ import annotations

from imi_monitor.model.errors import ImiError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context

FLAG = ""


class Argument:
    """A positional word. `rest` takes all that follow."""

    __slots__ = ("help", "name", "optional", "rest")

    def __init__(self, name: str, help: str, *, optional: bool = False, rest: bool = False) -> None:
        self.name = name
        self.help = help
        self.optional = optional
        self.rest = rest


class Option:
    """`--name VALUE`, or a flag when `value` is empty. `number` values must be numbers that are not negative."""

    __slots__ = ("aliases", "goes_with", "help", "name", "number", "optional_value", "overrides", "value")

    def __init__(
        self,
        name: str,
        help: str,
        *,
        value: str = FLAG,
        aliases: tuple[str, ...] = (),
        number: bool = False,
        optional_value: bool = False,
        overrides: tuple[str, ...] = (),
        goes_with: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.help = help
        self.value = value
        self.aliases = aliases
        self.number = number
        self.optional_value = optional_value
        self.overrides = (
            overrides  # the `kinds` of refusals it is an answer to: a dialog offers it only after one of these
        )
        self.goes_with = goes_with  # options that it says more about: a dialog offers it only beside one of these


# Options that stand before any verb, and that every verb takes.
GLOBAL_OPTIONS = (
    Option("json", "one JSON object on stdout and nothing else"),
    Option("db", "the registry file to use", value="FILE"),
    Option("repo", "the repository to act on: a path, or a name from the registry", value="REPO", aliases=("C",)),
    Option("help", "what this command does and takes", aliases=("h",)),
    Option("version", "the version"),
    Option("read-only", "a dashboard that cannot change anything"),
    Option("ascii", "a dashboard without Unicode"),
    Option("quiet", "no progress on stderr", aliases=("q",)),
)


class Request:
    """What was asked: the verb it was asked by, and the values of arguments and options."""

    __slots__ = ("values", "verb")

    def __init__(self, verb: str, values: dict[str, object]) -> None:
        self.verb = verb
        self.values = values

    def text(self, name: str) -> str | None:
        value = self.values.get(name)
        return value if isinstance(value, str) else None

    def flag(self, name: str) -> bool:
        return self.values.get(name, False) is not False

    def number(self, name: str) -> float | None:
        value = self.values.get(name)
        return value if isinstance(value, float) else None

    def whole(self, name: str) -> int | None:
        value = self.number(name)
        return None if value is None else int(value)

    def rest(self, name: str) -> list[str]:
        value = self.values.get(name)
        return value if isinstance(value, list) else []


class Outcome:
    """What came of it. `lines` are for people, `data` for scripts; `path` is where a shell should go."""

    __slots__ = ("data", "exit_status", "lines", "path", "warnings")

    def __init__(
        self,
        lines: list[str] | None = None,
        data: dict[str, object] | None = None,
        *,
        path: str | None = None,
        warnings: list[str] | None = None,
        exit_status: int = 0,
    ) -> None:
        self.lines = lines or []
        self.data = data or {}
        self.path = path
        self.warnings = warnings or []
        self.exit_status = exit_status


def refusal_kinds(refusal: ImiError | None) -> set[str]:
    """What a refusal is about: its code, and the state of the claim that stands in the way, if one does."""
    if refusal is None:
        return set()
    state = (refusal.data or {}).get("state")
    return {refusal.code, state} if isinstance(state, str) else {refusal.code}


class Preview:
    """What would happen, and what stands against it if anything does."""

    __slots__ = ("lines", "refusal")

    def __init__(self, lines: list[str], refusal: ImiError | None = None) -> None:
        self.lines = lines
        self.refusal = refusal


class Action:
    """Base of all actions. Subclasses set the texts and write `run`; `refuse` and `consequences` where they apply.

    `refuse` raises when the act must not happen as things are; `consequences` says what it will do, for a dialog or a
    dry run, and raises what `run` would find in the way as far as that can be told before; `run` checks all of it itself,
    so no front end can forget it.
    """

    words: tuple[str, ...] = ()  # the verbs; the first is its name, the others are aliases
    label = ""
    help = ""  # one sentence
    more = ""  # what a person wants to know beyond it
    key = ""
    dialog_options: tuple[str, ...] = ()  # options that a dialog offers beside the required arguments
    makes_new = False  # its first argument names something new, so that the selected worktree is no answer to it
    opens_worktree = False  # where it leads is what the person wants to see next
    arguments: tuple[Argument, ...] = ()
    options: tuple[Option, ...] = ()
    dangerous = False  # asks before it acts, in the dashboard
    changes = True  # refused under --read-only
    recovers = True  # what a crash left half done is settled first; not by what must work without a registry
    hot = False  # called by agents all day: no recovery, no ballast, nothing heavy imported
    streams = False  # prints as it goes; `--json` is one object a line then

    def refuse(self, context: Context, request: Request) -> None:
        """Raise Refused or UsageError if this must not be done; say why in one sentence."""

    def consequences(self, context: Context, request: Request) -> list[str]:
        """What will happen, line by line, for somebody who has to decide."""
        return [self.help]

    def preview(self, context: Context, request: Request) -> Preview:
        """Both in one look, for whoever wants to see what stands against it beside what it would do."""
        try:
            self.refuse(context, request)
            return Preview(self.consequences(context, request))
        except ImiError as error:
            return Preview([], error)

    def choices(self, context: Context, name: str) -> list[str]:
        """The values that an argument can have, when they are few and known."""
        return []

    def override(self, refusal: ImiError, name: str) -> dict[str, object] | None:
        """The values that would go past this refusal after `name` was typed; None when nothing does, or no typing is asked."""
        return None

    def run(self, context: Context, request: Request) -> Outcome:
        raise NotImplementedError
