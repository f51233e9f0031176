"""`imi command` and `imi exec`: run an own command, or any program, in a worktree; `imi commands` lists the commands."""

from __future__ import annotations

import shlex

from imi_monitor.actions import own_commands, worktree_lookup, worktree_program
from imi_monitor.actions.action import Action, Argument, Outcome
from imi_monitor.actions.status import status_action, worktree_git
from imi_monitor.model.columns import Column, table
from imi_monitor.model.errors import UsageError
from imi_monitor.model.styled_text import NAME, styled
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.own_commands import AvailableCommand
    from imi_monitor.actions.worktree_program import ProgramEnd

_SHELL = ("/bin/sh", "-c")


class CommandAction(Action):
    words = ("command",)
    group = "Worktrees"
    label = "Command"
    help = "run one of your own commands in worktrees"
    more = """
    Declare them in your config file: [commands] with lines such as test = "make test", or [commands.test] with run, key,
    label, help and pane = false (unseen, its end is shown). They run with /bin/sh in the worktree; IMI_WORKTREE,
    IMI_WORKTREE_PATH, IMI_REPOSITORY, IMI_BRANCH and IMI_PR say which it is. In the dashboard: their keys, `!`, `a` and
    the palette, for all marked worktrees. A repository's own commands (.iMi/commands.toml in its main worktree) run
    after `imi trust`. The exit status is the command's; of several worktrees the first that is not 0.
    """
    examples = (("imi command test feat-api", "run the command called test in feat-api"),)
    arguments = (
        Argument("command", "the name of the command, as `imi commands` lists them"),
        Argument("name", "the worktrees, as `imi list` shows them (default: the one around you)", rest=True),
    )
    needs_registry = False

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        name = str(request.text("command"))
        named = request.rest("name")
        targets = [worktree_lookup.find_worktree(context, word) for word in named]
        targets = targets or [worktree_git.named_worktree(context, request)]
        chosen = [(target, own_commands.find(context, target.repository, name)) for target in targets]
        ends = []
        for target, command in chosen:
            if len(chosen) > 1:
                context.notify(f"{safe(command.name)} in {safe(target.name)}")
            argv = [*_SHELL, command.run]
            ends.append(worktree_program.run(context, target, argv, command.run, command.name))
        return _ended(context, name, ends)


class CommandsAction(Action):
    words = ("commands",)
    group = "Worktrees"
    label = "Commands"
    help = "list your own commands and those of the repository"
    changes = False
    needs_registry = False

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        return _listed(own_commands.list_available(context, context.find_repository()))


class ExecAction(Action):
    words = ("exec",)
    group = "Worktrees"
    label = "Run a program"
    help = "run a program in a worktree, and keep its exit status and time"
    more = """
    Write -- before the program, so that its options are not read as options of imi. It has the terminal and the
    environment of `imi command`; the exit status is the program's (127: not found). `imi status --json` has the last end.
    """
    examples = (("imi exec feat-api -- pytest -q", "run the tests of feat-api from wherever you are"),)
    arguments = (
        Argument("name", "the worktree, as `imi list` shows it"),
        Argument("program", "the program and its arguments, after --", rest=True),
    )
    needs_registry = False

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        words = request.rest("program")
        if not words:
            raise UsageError("imi exec needs a program: imi exec NAME -- PROGRAM [ARGUMENTS]", code="missing")
        target = worktree_lookup.find_worktree(context, str(request.text("name")))
        argv = [*_SHELL, 'exec "$@"', "imi", *words]  # the shell finds it and says what is wrong, as everywhere
        end = worktree_program.run(context, target, argv, shlex.join(words))
        return _ended(context, words[0], [end])


def _ended(context: Context, what: str, ends: list[ProgramEnd]) -> Outcome:
    """The outcome; its sentences go to stderr, because stdout is the program's."""
    if context.shows_progress:
        for end in ends:
            context.notify(f"{safe(what, 60)} in {safe(end.worktree)} {end.sentence}")
    status = next((end.status for end in ends if end.status), 0)
    rows = [{"worktree_name": end.worktree, "status": end.status, "seconds": end.seconds} for end in ends]
    return Outcome([], {"command": what, "ended": rows, "status": status}, exit_status=status)


def _listed(found: list[AvailableCommand]) -> Outcome:
    rows: list[dict[str, object]] = [
        {
            "name": one.command.name,
            "run": one.command.run,
            "key": one.command.key or None,
            "label": one.command.label,
            "help": one.command.help,
            "pane": one.command.pane,
            "origin": one.origin,
            "why_not": one.why_not or None,
        }
        for one in found
    ]
    cells = [[styled(one.command.name, NAME), one.command.key, one.command.help, _remark(one)] for one in found]
    columns = (Column("Command"), Column("Key"), Column("What it does", least=20), Column("Note", least=12))
    lines = table(columns, cells, status_action.terminal_width())
    none = (
        'no commands: declare one in your config file (`imi paths`): [commands] with lines such as test = "make test"'
    )
    return Outcome(lines or [none], {"commands": rows, "count": len(rows)})


def _remark(one: AvailableCommand) -> str:
    origin = "" if one.origin == "user" else "of the repository"
    return "; ".join(filter(None, (origin, one.why_not)))


ACTIONS = (CommandAction(), CommandsAction(), ExecAction())
