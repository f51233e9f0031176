"""Plain `imi [REPO…]` and `imi monitor [REPO…]`: the dashboard, or the status as text where there is no terminal."""

from __future__ import annotations

import sys

from imi_monitor.cli.front_end import REPOSITORIES, FrontEndVerb

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Outcome
    from imi_monitor.actions.context import Context
    from imi_monitor.cli.argument_parser import ParsedCommandLine
    from imi_monitor.config import Settings


_WELCOME = """\
imi shows the git worktrees that your coding agents work in: their owners, changes, and what to review.

There is nothing to show yet: you are not inside a git repository, and none is registered. See it at work first:

  imi demo           open the dashboard on three simulated agents, in a temporary folder

Then, inside a repository:

  imi feat NAME      make a worktree on a new branch
  imi review 123     open a pull request in its own worktree
  imi status         show all worktrees

imi help lists all commands; imi doctor checks the installation."""


class MonitorVerb(FrontEndVerb):
    words = ("monitor",)
    group = "Status"
    label = "Dashboard"
    help = "open the dashboard: worktrees, claims, git and changes, live (the same as plain `imi`)"
    more = """
    Without REPO: the repository around you, or all registered ones. It needs a terminal; in a pipe use `imi watch`,
    or `imi status` for the state at one moment.
    """
    arguments = (REPOSITORIES,)

    def show(self, parsed: ParsedCommandLine) -> Outcome | int:
        from imi_monitor.model.errors import Refused

        if not _interactive(parsed):
            raise Refused(
                "the dashboard needs a terminal: `imi status` prints the state once, `imi watch` streams JSON",
                code="no-terminal",
            )
        return run_dashboard(parsed, parsed.request.rest("repo"))


ACTIONS = (MonitorVerb(),)


def show_default(parsed: ParsedCommandLine) -> Outcome | int:
    """Plain `imi`: the dashboard on a terminal, which gives the exit status, else the outcome of `imi status`."""
    return run_dashboard(parsed, parsed.words) if _interactive(parsed) else _status_outcome(parsed)


def run_dashboard(parsed: ParsedCommandLine, named: list[str]) -> int:
    """The dashboard's exit status. Where there is no repository to show yet, the welcome screen finds one."""
    from imi_monitor.actions.context import Context
    from imi_monitor.cli import crash_log
    from imi_monitor.store import repositories

    with Context(database=parsed.option("db"), repo=parsed.option("repo")) as context:
        context.needs_registry = False  # the dashboard shows why it cannot be used
        if named:
            found = [context.named_repository(word) for word in named]
            common_dirs: list[str] | None = list(dict.fromkeys(repository.common_dir for repository in found))
        else:
            here = context.find_repository()
            common_dirs = None if here is None else [here.common_dir]
        nothing = common_dirs is None and not repositories.list_common_dirs(context.connection)
        database, settings = context.database, context.settings

    if nothing:
        return _welcome(parsed, settings)
    ui = __import__("imi_monitor.ui.dashboard", fromlist=["run"])  # by name: cli and ui do not import each other
    status: int = ui.run(
        database,
        common_dirs,
        recorded=crash_log.recorded,
        settings=settings,
        read_only=parsed.flag("read-only"),
        ascii_only=parsed.flag("ascii"),
    )
    if settings.old_names:
        from imi_monitor.cli import old_names_notice

        old_names_notice.show(settings)
    return status


def _welcome(parsed: ParsedCommandLine, settings: Settings) -> int:
    """Show the welcome screen, then what was chosen there."""
    from imi_monitor.cli import crash_log

    ui = __import__("imi_monitor.ui.welcome", fromlist=["run"])
    chosen: str | None = ui.run(settings, crash_log.recorded, ascii_only=parsed.flag("ascii"))
    if chosen is not None:
        _become(parsed, chosen, demo=chosen == ui.DEMO)
    return 0


def _become(parsed: ParsedCommandLine, chosen: str, *, demo: bool) -> None:
    """Go on as `imi demo`, or as `imi` in the chosen repository."""
    import os

    database = parsed.option("db")
    flags = [f"--{name}" for name in ("ascii", "read-only") if parsed.flag(name)]
    words = ["demo"] if demo else ["--db", database] if database else []
    if not demo:
        os.chdir(chosen)
    os.execv(sys.executable, [sys.executable, "-P", "-m", "imi_monitor", *flags, *words])


def _interactive(parsed: ParsedCommandLine) -> bool:
    return not parsed.flag("json") and sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()


def _status_outcome(parsed: ParsedCommandLine) -> Outcome:
    from imi_monitor.actions import without_registry
    from imi_monitor.actions.context import Context
    from imi_monitor.cli import output

    progress = None if parsed.flag("json") or parsed.flag("quiet") else output.progress
    with Context(database=parsed.option("db"), repo=parsed.option("repo"), progress=progress) as context:
        return without_registry.run(context, lambda: _status(context, parsed.words))


def _status(context: Context, named: list[str]) -> Outcome:
    from imi_monitor.actions.action import Outcome
    from imi_monitor.actions.status import status_action
    from imi_monitor.model.errors import Refused

    if named:
        found = [context.named_repository(word) for word in named]
        unique = list({repository.common_dir: repository for repository in found}.values())
        return status_action.status(context, unique)
    try:
        selected, warnings = status_action.selected_repositories(context, None, everything=False)
    except Refused as error:
        if error.code != "no-repository" or context.explicit_repo:
            raise
        return Outcome(_WELCOME.splitlines(), {"worktrees": [], "count": 0, "failed": 0})
    return status_action.status(context, selected, warnings=warnings)
