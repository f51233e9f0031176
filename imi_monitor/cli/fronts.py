"""The verbs that are front ends rather than acts: they show the engine's picture. `actions/fronts.py` describes them."""

from __future__ import annotations

from imi_monitor import actions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Action, Request
    from imi_monitor.cli.argument_parser import ParsedCommandLine

FRONTS: dict[str, str] = {  # verb -> module of this folder
    "monitor": "dashboard_command",
    "watch": "watch_command",
    "agents": "agents_command",
    "agents explain": "agents_command",
    "demo": "demo_command",
    "reset-terminal": "reset_terminal_command",
}


def find(verb: str) -> Action | None:
    """The front end or the action behind a verb."""
    if verb not in FRONTS:
        return actions.find(verb)
    from imi_monitor.actions.fronts import FRONTS as described

    return next(front for front in described if verb in front.words)


def verbs() -> list[str]:
    return [*actions.verbs(), *FRONTS]


def front_of(verb: str, request: Request) -> str | None:
    """The module that answers instead of an action: by its verb, or because `imi status` was asked to go on."""
    return "watch_command" if verb == "status" and request.flag("watch") else FRONTS.get(verb)


def show(module: str, parsed: ParsedCommandLine) -> int:
    """Let the front end run; gives the exit status."""
    loaded = __import__(f"imi_monitor.cli.{module}", fromlist=["show"])
    status: int = loaded.show(parsed)
    return status
