"""Plain `imi [REPO…]`: the dashboard of the repositories given, else of the one around, else of all that are known.

`imi monitor [REPO…]`: the dashboard by its name, for scripts and layouts of Zellij and tmux.
"""

from __future__ import annotations

import sys

from imi_monitor.actions.context import Context
from imi_monitor.cli import output
from imi_monitor.model.errors import Refused
from imi_monitor.store import repositories

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Outcome
    from imi_monitor.cli.argument_parser import ParsedCommandLine


_WELCOME = """\
imi shows and steers git worktrees in which several coding agents work: whose each one is, what changed, what to review.

There is nothing to show yet: you are not inside a git repository, and none is registered. First steps, inside one:

  imi feat NAME      a new worktree on a new branch
  imi review 123     a pull request in a worktree of its own
  imi status         all worktrees at a glance

imi help lists everything; imi doctor checks that all is in place."""


def show_default(parsed: ParsedCommandLine) -> int:
    """The dashboard on a terminal; in a pipe, or with nothing to show, what there is as text. Gives the exit status."""
    if not parsed.flag("json") and sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty():
        status = dashboard(parsed, parsed.words)
        if status is not None:
            return status
    return _print(parsed)


def dashboard(parsed: ParsedCommandLine, named: list[str]) -> int | None:
    """None when there is nothing yet that a dashboard could show."""
    with Context(database=parsed.option("db"), repo=parsed.option("repo")) as context:
        if named:
            meant = [context.named_repository(word) for word in named]
            common_dirs: list[str] | None = list(dict.fromkeys(repository.common_dir for repository in meant))
        else:
            here = context.find_repository()
            common_dirs = None if here is None else [here.common_dir]
        if common_dirs is None and not repositories.list_common_dirs(context.connection):
            return None
        database, settings = context.database, context.settings
    from imi_monitor.cli import crash_log

    # by name: the front ends do not know each other, one only starts the other
    ui = __import__("imi_monitor.ui.dashboard", fromlist=["run"])
    status: int = ui.run(
        database,
        common_dirs,
        recorded=crash_log.recorded,
        settings=settings,
        read_only=parsed.flag("read-only"),
        ascii_only=parsed.flag("ascii"),
    )
    return status


def welcome() -> int:
    """What to do first."""
    for text in _WELCOME.splitlines():
        output.line(text)
    return 0


def _print(parsed: ParsedCommandLine) -> int:
    as_json = parsed.flag("json")
    quiet = as_json or parsed.flag("quiet")
    context = Context(
        database=parsed.option("db"),
        repo=parsed.option("repo"),
        progress=(lambda _: None) if quiet else output.progress,
    )
    with context:
        outcome = _outcome(context, parsed.words)
    output.end_progress()
    output.outcome(outcome, as_json=as_json)
    return outcome.exit_status


def _outcome(context: Context, named: list[str]) -> Outcome:
    from imi_monitor.actions.action import Outcome
    from imi_monitor.actions.status import status_action

    if named:
        meant = [context.named_repository(word) for word in named]
        unique = list({repository.common_dir: repository for repository in meant}.values())
        return status_action.status(context, unique)
    try:
        found, warnings = status_action.selected_repositories(context, None, everything=False)
    except Refused as error:
        if error.code != "no-repository" or context.explicit_repo:
            raise
        return Outcome(_WELCOME.splitlines(), {"worktrees": [], "count": 0, "failed": 0})
    return status_action.status(context, found, warnings=warnings)


def show(parsed: ParsedCommandLine) -> int:
    """Until the person quits."""
    if parsed.flag("json") or not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()):
        raise Refused(
            "the dashboard needs a terminal: `imi status` prints one picture, `imi watch` streams JSON",
            code="no-terminal",
        )
    status = dashboard(parsed, parsed.request.rest("repo"))
    return welcome() if status is None else status
