"""Runs own commands in the marked or selected worktrees: in a pane, in this terminal, or unseen."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence

from imi_monitor import programs
from imi_monitor.actions import own_commands
from imi_monitor.actions.own_commands import AvailableCommand
from imi_monitor.model.errors import ImiError, Refused
from imi_monitor.model.own_command import OWN_PREFIX, OwnCommand
from imi_monitor.model.snapshot import Worktree
from imi_monitor.model.text import count, safe
from imi_monitor.ui.commands import IN_BROWSER
from imi_monitor.ui.handlers.worktree_commands import run_suspended

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.ui.app import ImiApp

# A pane closes with its program: the shell in it waits, also after ctrl-c.
_HOLD = ("/bin/sh", "-c", 'trap : INT; "$@"; printf "\\npress enter to close "; read -r _', "imi")


class CommandPanes:
    """What runs is `imi command`, which looks the command up again: a repository's may have changed since the menu."""

    def __init__(self, app: ImiApp) -> None:
        self._app = app

    def do_own_commands(self) -> None:
        self.offer(self._app.home.targets)

    def offer(self, trees: Sequence[Worktree]) -> None:
        """Show the menu of commands for these worktrees."""
        if trees:
            self._app.run_worker(self._choose(trees), group="commands")

    async def _choose(self, trees: Sequence[Worktree]) -> None:
        from imi_monitor.ui.dialogs.menu import Menu, MenuEntry

        try:
            found = await asyncio.to_thread(self._read, trees[0].path)
        except ImiError as problem:
            self._app.say(problem.sentence, bad=True)
            return
        if not found:
            self._app.say(
                'no commands yet: declare them in your config file, [commands] with lines as test = "make test"'
            )
            return
        entries = [
            MenuEntry(
                one.command.name,
                one.command.label,
                _help(one),
                _menu_key(one, number),
                one.why_not or (IN_BROWSER if one.command.pane and self._app.in_browser else ""),
            )
            for number, one in enumerate(found, 1)
        ]
        by_name = {one.command.name: one.command for one in reversed(found)}  # the user's stand first

        def run_chosen(name: str | None) -> None:
            if name is not None:
                self._run(by_name[name], trees)

        self._app.push_screen(Menu(f"Commands for {_names(trees)}", entries, search=False), run_chosen)

    def _read(self, path: str) -> list[AvailableCommand]:
        with self._app.open_context(path) as context:
            context.needs_registry = False
            return own_commands.list_available(context, context.repository())

    def run(self, word: str) -> None:
        """Run a command of the user's file."""
        name = word.removeprefix(OWN_PREFIX)
        command = next(one for one in self._app.preferences.own_commands if one.name == name)
        self._run(command, self._app.home.targets)

    def _run(self, command: OwnCommand, trees: Sequence[Worktree]) -> None:
        """Run it once for each repository: a worktree's name is unique in its repository only."""
        for repo in dict.fromkeys(tree.key.repo for tree in trees):
            same = [tree for tree in trees if tree.key.repo == repo]
            argv = self._argv(command, same)
            if command.pane:
                self._show(f"{command.name} {_names(same)}", same[0].path, (*_HOLD, *argv))
            else:
                self._app.run_and_say(lambda argv=argv, same=same: _run_unseen(command, argv, same))

    def _argv(self, command: OwnCommand, trees: Sequence[Worktree]) -> list[str]:
        database = self._app.open_context(trees[0].path).database
        words = ["command", "--db", database, "--repo", trees[0].path, "--", command.name]
        return [sys.executable, "-P", "-m", "imi_monitor", *words, *(tree.key.worktree for tree in trees)]

    def _show(self, title: str, path: str, argv: Sequence[str]) -> None:
        from imi_monitor.mux import multiplexer

        around = multiplexer.current()
        if not around:
            run_suspended(self._app, path, argv)
            return

        def open_pane() -> str:
            multiplexer.open_worktree(around, path, title, argv, floating=True)
            return f"{safe(title, 60)}: in a new {'floating pane' if around == 'zellij' else 'window'} of {around}"

        self._app.run_and_say(open_pane)


def _run_unseen(command: OwnCommand, argv: Sequence[str], trees: Sequence[Worktree]) -> str:
    """Return the sentence about its end; Refused with its last line when it failed."""
    done = subprocess.run(
        argv,
        env=programs.users_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    what = f"{command.name} in {_names(trees)}"
    if done.returncode:
        last = next((line for line in reversed(done.stdout[-2000:].splitlines()) if line.strip()), "")
        raise Refused(f"{what} ended with status {done.returncode}: {safe(last, 200)}")
    return f"{what}: done"


def _names(trees: Sequence[Worktree]) -> str:
    return safe(trees[0].key.worktree, 40) if len(trees) == 1 else count(len(trees), "worktree")


def _help(one: AvailableCommand) -> str:
    return one.command.help if one.origin == "user" else f"{one.command.help} (of the repository)"


def _menu_key(one: AvailableCommand, number: int) -> str:
    return one.command.key or (str(number) if number < 10 else "")
