"""Front-end verbs: they show the engine's snapshots or handle the terminal, instead of returning an outcome."""

from __future__ import annotations

from imi_monitor.actions.action import Action, Argument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Outcome
    from imi_monitor.actions.context import Context
    from imi_monitor.cli.argument_parser import ParsedCommandLine

REPOSITORIES = Argument("repo", "repositories: paths, or names from the registry", rest=True)


class FrontEndVerb(Action):
    """Declared like an action, and listed in `cli.MODULES`. Its module imports heavy modules inside `show` only."""

    changes = False
    front_end = True

    def show(self, parsed: ParsedCommandLine) -> Outcome | int:
        """Run until it is finished; return the exit status, or an outcome to print."""
        raise NotImplementedError


def show(verb: Action, parsed: ParsedCommandLine) -> Outcome | int:
    """Run a front-end verb."""
    assert isinstance(verb, FrontEndVerb)
    return verb.show(parsed)


def common_dirs_of(context: Context, names: list[str]) -> list[str] | None:
    """The git directories of the named repositories, else of the one around the caller; None: of all registered ones."""
    if names:
        return list(dict.fromkeys(context.repository(name).common_dir for name in names))
    found = context.find_repository()
    return None if found is None else [found.common_dir]
