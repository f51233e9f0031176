"""The base of all actions: how an action declares its verbs, key, help, arguments and conditions, and what it returns.

Lean on purpose: `imi claim` and `imi release` import this module on every call.
"""

from __future__ import annotations

from imi_monitor.model.errors import ImiError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from imi_monitor.actions.context import Context

FLAG = ""

GROUPS = ("Worktrees", "Status", "Claims", "Changes", "Merge and remove", "Agents", "Board", "Setup")
"""The headings of actions in the help pages and in the dashboard's help, in their order."""


def _label(name: str) -> str:
    return name.replace("-", " ").capitalize()


class Argument:
    """A positional word. `rest` takes all words that follow; `choices` are the words that completion offers; with `suggested`
    a dialog lists the action's suggestions below its field, with `multiline` it has an editor for it."""

    __slots__ = ("choices", "help", "label", "multiline", "name", "optional", "rest", "suggested")

    def __init__(
        self,
        name: str,
        help: str,
        *,
        optional: bool = False,
        rest: bool = False,
        choices: tuple[str, ...] = (),
        label: str = "",
        suggested: bool = False,
        multiline: bool = False,
    ) -> None:
        self.name = name
        self.suggested = suggested
        self.multiline = multiline
        self.label = label or _label(name)  # in a dialog
        self.choices = choices
        self.help = help
        self.optional = optional
        self.rest = rest


class Option:
    """`--name VALUE`, or a flag when `value` is empty. `number`: the value must be a number that is not negative."""

    __slots__ = (
        "aliases",
        "choices",
        "goes_with",
        "help",
        "label",
        "listed",
        "multiline",
        "name",
        "needed",
        "number",
        "optional_value",
        "overrides",
        "replaces_worktree",
        "ticked",
        "value",
    )

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
        choices: tuple[str, ...] = (),
        label: str = "",
        ticked: float | str | None = None,
        needed: bool = False,
        multiline: bool = False,
        listed: bool = False,
        replaces_worktree: bool = False,
    ) -> None:
        self.name = name
        self.multiline = multiline  # a dialog has an editor of several lines for it
        self.listed = listed  # a dialog shows the action's choices side by side, none of them first
        self.label = label or _label(name)  # in a dialog
        self.replaces_worktree = replaces_worktree  # in a dialog: given, the selected worktree does not count
        self.ticked = ticked  # a dialog shows a tick box that gives this value
        self.needed = needed  # a dialog asks for it first and does not act without it
        self.help = help
        self.value = value
        self.aliases = aliases
        self.number = number
        self.optional_value = optional_value
        self.overrides = (
            overrides  # kinds of refusals (`refusal_kinds`); a dialog offers the option only after one of them
        )
        self.choices = choices  # the values that completion offers
        self.goes_with = goes_with  # other options; a dialog offers this one only beside one of them

    @property
    def spellings(self) -> list[str]:
        """`--quiet`, `-q`: the name and its aliases as they are typed."""
        return [("-" if len(name) == 1 else "--") + name for name in (self.name, *self.aliases)]


GLOBAL_OPTIONS = (
    Option("json", "print one JSON object on stdout and nothing else"),
    Option("db", "use this registry file", value="FILE"),
    Option("repo", "act on this repository: a path, or a name from the registry", value="REPO", aliases=("C",)),
    Option("help", "show what a command does and takes", aliases=("h",)),
    Option("version", "show the version"),
    Option("read-only", "open a dashboard that cannot change anything"),
    Option("ascii", "open a dashboard without Unicode"),
    Option("color", "colour the output", value="WHEN", choices=("auto", "always", "never")),
    Option("redis", "use this Redis of a team: an address without a password", value="URL"),
    Option("quiet", "show no progress on stderr", aliases=("q",)),
)
"""Options that stand before or after any verb."""

OF_REPOSITORY = "Shows the repository around you; outside of one, and with --all, all repositories of the registry."
ALL_REPOSITORIES = Option("all", "of all repositories of the registry, not of the one around you", aliases=("a",))


class Tool:
    """An action as `imi mcp` offers it to agents. `options`: what an agent may give beside the arguments; `needs`: must give."""

    __slots__ = ("help", "inside", "name", "needs", "options")

    def __init__(
        self, name: str, *, help: str = "", options: tuple[str, ...] = (), needs: tuple[str, ...] = (), inside: str = ""
    ) -> None:
        self.name = name
        self.help = help  # instead of the action's
        self.inside = inside  # offered only where this variable is set
        self.options = options
        self.needs = needs


class Request:
    """The verb that was typed and the values of its arguments and options."""

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

    @property
    def narrows(self) -> bool:
        """Whether a listing was narrowed by an option."""
        return any(name != ALL_REPOSITORIES.name for name in self.values)

    def rest(self, name: str) -> list[str]:
        value = self.values.get(name)
        return value if isinstance(value, list) else []


class Outcome:
    """What an action returns: `lines` for people, `data` for scripts, `path` for the shell function to change into.

    `screen`: a command that takes the terminal over, and its folder; the front end runs it.
    """

    __slots__ = ("data", "exit_status", "lines", "path", "screen", "warnings")

    def __init__(
        self,
        lines: list[str] | None = None,
        data: dict[str, object] | None = None,
        *,
        path: str | None = None,
        warnings: list[str] | None = None,
        exit_status: int = 0,
        screen: tuple[list[str], str] | None = None,
    ) -> None:
        self.lines = lines or []
        self.data = data or {}
        self.path = path
        self.warnings = warnings or []
        self.exit_status = exit_status
        self.screen = screen


class Suggestion:
    """A value that a dialog offers, with two texts that are safe to show; `words` find it, too."""

    __slots__ = ("help", "label", "value", "words")

    def __init__(self, value: str, label: str, help: str, words: str = "") -> None:
        self.value = value
        self.label = label
        self.help = help
        self.words = words


class Suggestions:
    """What a dialog offers for a field, and where it is from. `accepts`: whether a typed text is a value by itself."""

    __slots__ = ("accepts", "offered", "origin")

    def __init__(self, offered: list[Suggestion], origin: str, accepts: Callable[[str], bool]) -> None:
        self.offered = offered
        self.origin = origin
        self.accepts = accepts


class WritingAids:
    """What a dialog offers beside an editor: earlier texts, the newest first, and files that can be named."""

    __slots__ = ("earlier", "files")

    def __init__(self, earlier: list[str], files: list[str]) -> None:
        self.earlier = earlier
        self.files = files


class KeyChoice:
    """An answer that a dialog offers with a key of its own; an empty value gives the request none."""

    __slots__ = ("key", "label", "value")

    def __init__(self, key: str, value: str, label: str) -> None:
        self.key = key
        self.value = value
        self.label = label

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyChoice) and (self.key, self.value) == (other.key, other.value)

    def __hash__(self) -> int:
        return hash((self.key, self.value))


class Preview:
    """What an action would do, and the refusal that prevents it, if any.

    `bound`: values that the request then gets, so that it acts on what is shown and on nothing that comes later.
    `choices`: values of `chosen_by_key` that a key alone gives.
    """

    __slots__ = ("bound", "choices", "lines", "refusal")

    def __init__(
        self,
        lines: list[str],
        refusal: ImiError | None = None,
        bound: dict[str, object] | None = None,
        choices: tuple[KeyChoice, ...] = (),
    ) -> None:
        self.lines = lines
        self.refusal = refusal
        self.bound = bound or {}
        self.choices = choices


def refusal_kinds(refusal: ImiError | None) -> set[str]:
    """The code of a refusal, and the state of the claim that causes it, if a claim does."""
    if refusal is None:
        return set()
    state = (refusal.data or {}).get("state")
    return {refusal.code, state} if isinstance(state, str) else {refusal.code}


class Action:
    """One thing a user can do. Subclasses set the class attributes and `run`; `refuse` and `consequences` where they apply.

    The attributes are the action's only declaration: `make docs` copies them into the command table, from which the
    dashboard's keys and menus, the help pages and the shell completion are made.
    """

    words: tuple[str, ...] = ()  # the verbs: the name, then aliases
    group = ""  # its heading, one of GROUPS
    label = ""
    help = ""  # imperative, lower case, no full stop
    more = ""  # what the help page says beyond it
    examples: tuple[tuple[str, str], ...] = ()  # (command line, what it does) for the help page
    key = ""  # its key on the dashboard
    in_menus = False  # without a key: in the dashboard's palette and menus all the same
    key_bar = 0  # rank in the dashboard's key bar, the highest first; 0: not in the bar
    requires: tuple[str, ...] = ()  # names of ui.command_conditions that must hold for the selected worktree
    arguments: tuple[Argument, ...] = ()
    options: tuple[Option, ...] = ()
    dialog_options: tuple[str, ...] = ()  # options, and optional or last arguments, that a dialog offers as well
    chosen_by_key = ""  # the option or argument whose values a preview offers with keys of their own
    worktree_option = ""  # the option that names its worktree, if no argument does
    makes_new = False  # its first argument names something new, so a dialog does not fill in the selected worktree
    returns_path = False  # its outcome can hold a path, into which the shell function changes
    background_option = ""  # with this option the dashboard runs it in the background
    opens_worktree = False  # the dashboard opens the resulting path in a new pane
    opens_page = False  # the dashboard opens the `url` of the data in the browser
    ends_in_view = ""  # the word of the view of its worktree that the dashboard shows afterwards
    for_other_homes = False  # takes a worktree of another home: a question to it, never an act on its disk
    dangerous = False  # the dashboard asks for confirmation
    brings_work = False  # dangerous, but it adds work to a branch: its dialog does not look like a removal
    changes = True  # refused under --read-only
    needs_registry = True  # False: works from git alone while the registry cannot be used (`without_registry`)
    reads_only = False  # True: it also works on a registry that can be read and not written
    recovers = True  # the command line runs crash recovery first; False for what must work without a registry
    tools: tuple[Tool, ...] = ()  # how `imi mcp` offers it to agents
    hot = False  # agents call it often: no recovery, no upkeep, lean imports
    answers_by_status = False  # its exit status is the answer: 0 yes, 1 no, 2 when imi itself fails
    tolerates: tuple[str, ...] = ()  # sections of the settings whose problems do not refuse it
    streams = False  # prints while it runs; with --json one object per line
    front_end = False  # has `show` instead of `run` (cli.front_end.FrontEndVerb)

    @property
    def worktree_value(self) -> str:
        """The argument or option that names its worktree, so that the dashboard's selection can fill it in; or empty."""
        if self.arguments and self.arguments[0].name == "name" and not self.makes_new:
            return "name"
        return self.worktree_option

    @property
    def needs_worktree(self) -> bool:
        """Whether it acts on an existing worktree."""
        return bool(self.worktree_value)

    def recovers_for(self, request: Request) -> bool:
        """Whether crash recovery runs before this request."""
        return self.recovers and not self.hot

    def refuse(self, context: Context, request: Request) -> None:
        """Raise Refused or UsageError when the action must not run; the error says why in one sentence."""

    def consequences(self, context: Context, request: Request) -> list[str]:
        """What the action will do, line by line, for a dialog or a dry run. Raises what `run` would, as far as it is known."""
        return [self.help]

    def preview(self, context: Context, request: Request) -> Preview:
        """The consequences, or the refusal."""
        try:
            self.refuse(context, request)
            return Preview(self.consequences(context, request))
        except ImiError as error:
            return Preview([], error)

    def choices(self, context: Context, name: str) -> list[str]:
        """The possible values of an argument, when they are few and known."""
        return []

    def shared_values(self, worktrees: Sequence[str]) -> dict[str, object]:
        """What the requests of one dialog for several worktrees have in common, besides what was typed."""
        return {}

    def writing_aids(self, context: Context, request: Request) -> WritingAids | None:
        """Return what a dialog offers beside the editor of a field with several lines."""
        return None

    def suggestions(self, context: Context, name: str, *, ask: bool) -> Suggestions | None:
        """What a dialog offers for a suggested argument: at once what is known, then, with `ask`, what a server answers."""
        return None

    def override(self, refusal: ImiError, name: str) -> dict[str, object] | None:
        """The values that pass this refusal once the user has typed `name`; None when typing does not help."""
        return None

    def run(self, context: Context, request: Request) -> Outcome:
        """Check everything that `refuse` checks, then act."""
        raise NotImplementedError
