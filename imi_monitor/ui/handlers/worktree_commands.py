"""Commands about the selected worktree: open it, open its pull request, copy its parts, mark it."""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
from collections.abc import Sequence

from textual.app import SuspendNotSupported

from imi_monitor import programs
from imi_monitor.model.errors import ImiError
from imi_monitor.model.run import Run
from imi_monitor.model.snapshot import HomeState, Worktree
from imi_monitor.model.text import safe
from imi_monitor.ui import command_conditions
from imi_monitor.ui.panels.worktrees_panel import group_of_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.ui.app import ImiApp


class WorktreeCommands:
    """They do nothing when no worktree is selected."""

    def __init__(self, app: ImiApp) -> None:
        self._app = app
        self._home = app.home

    def choose_row(self, row: str | None) -> None:
        """Enter or a double click: open the worktree, or fold the group of a heading."""
        group = group_of_row(row)
        if group is not None:
            self._home.action_fold(group not in self._home.worktrees.folded)
        elif self._app.command("open") is not None:
            self._app.action_do("open")

    # -- opening ----------------------------------------------------------------------------------------------------

    def do_open(self) -> None:
        """Focus the pane of the agent there, else open a shell; over ssh in another home. A watched run shows its log."""
        tree = self._home.selected_tree
        home = self._home.facts.home_of(tree) if tree is not None and self._home.facts is not None else None
        if tree is not None and home is not None:
            self._open_over_ssh(tree, home)
            return
        watched = command_conditions.watched_run(tree) if tree is not None else None
        if tree is not None and watched is not None:
            self._open_watched(tree, watched)
            return
        agent = self._app.agent_commands.with_pane(tree) if tree is not None else None
        if agent is not None:
            self._app.agent_commands.go_to(agent)
        else:
            self.do_shell()

    def _open_watched(self, tree: Worktree, run: Run) -> None:
        """The log of a run of another program; without one what is recorded of its session."""
        if run.log is None:
            self._app.action_view("session")
            return
        from imi_monitor.ui.views.job_log_view import WatchedLogView

        self._app.open_view(WatchedLogView(tree.key, self._app.open_context, run), None)

    def do_shell(self) -> None:
        if self._home.selected_tree is not None:
            self._open(self._home.selected_tree)

    def do_lazygit(self) -> None:
        if self._home.selected_tree is not None:
            self._open(self._home.selected_tree, (command_conditions.git_screen(),))

    def do_open_with(self) -> None:
        from imi_monitor.mux import multiplexer
        from imi_monitor.ui import menu_entries
        from imi_monitor.ui.dialogs.menu import Menu

        tree = self._home.selected_tree
        if tree is None:
            return
        ways = menu_entries.open_ways(tree, multiplexer.current())

        def open_chosen(word: str | None) -> None:
            if word == "start":
                self._app.call_after_refresh(self._app.action_do, "start")
            elif word is not None:
                self._open(tree, ways[word].command, here=ways[word].here)

        title = f"Open {safe(tree.key.worktree, 40)} with"
        self._app.push_screen(Menu(title, menu_entries.open_with_entries(ways), search=False), open_chosen)

    def _open_over_ssh(self, tree: Worktree, home: HomeState) -> None:
        """Open a shell in the worktree of another home, or in the home folder there if its imi does not find the worktree."""
        destination = self._app.preferences.ssh_destination(home.label)
        if not destination:
            self._app.say(
                f"{safe(tree.key.worktree)} is on {safe(home.label)}: set ssh in [hosts.{safe(home.label)}]"
                " of the config file to open it from here",
                bad=True,
            )
            return
        find = f'cd -- "$(imi go -- {shlex.quote(tree.key.worktree)})"; exec "${{SHELL:-/bin/sh}}" -l'
        name = f"{home.label}:{tree.key.worktree}"
        self._run(os.path.expanduser("~"), name, ("ssh", "-t", "--", destination, find))

    def _open(self, tree: Worktree, command: Sequence[str] = (), *, here: bool = False) -> None:
        self._run(tree.path, tree.key.worktree, command, here=here)

    def _run(self, path: str, name: str, command: Sequence[str] = (), *, here: bool = False) -> None:
        """Run a command, or a shell, in a new pane; without a multiplexer in this terminal, with the dashboard suspended."""
        from imi_monitor.mux import multiplexer

        if command:
            program = programs.find(command[0])
            if program is None:
                self._app.say(f"{safe(command[0])} {programs.why_missing(command[0])}", bad=True)
                return
            command = (program, *command[1:])
        around = "" if here else multiplexer.current()
        if around:
            layout = self._app.preferences.tab_layout
            self._app.run_and_say(
                lambda: multiplexer.open_worktree(around, path, name, command, layout=layout), opens_tab=True
            )
        else:
            run_suspended(self._app, path, command)

    def do_pr(self) -> None:
        if self._home.selected_tree is not None:
            self._app.run_worker(self._browse(self._home.selected_tree), group="browse")

    async def _browse(self, tree: Worktree) -> None:
        from imi_monitor.ui import pull_request_page

        try:
            page = tree.pull.url if tree.pull is not None else None
            if page is None:
                page = await asyncio.to_thread(pull_request_page.pull_request_page, tree.path, tree.pr or 0)
        except (ImiError, OSError) as error:
            self._app.say(getattr(error, "sentence", str(error)), bad=True)
            return
        await self.open_page(page)

    async def open_page(self, page: str) -> None:
        """Open a page in the browser; without one its address goes to the clipboard."""
        from imi_monitor.ui import pull_request_page

        try:
            opened = await asyncio.to_thread(pull_request_page.browse, page)
        except (OSError, subprocess.TimeoutExpired) as error:
            self._app.say(f"the browser cannot be started: {safe(str(error), 200)}", bad=True)
            return
        if not opened:
            self._app.copy_to_clipboard(page)
        self._app.say(f"opened {safe(page)}" if opened else f"no browser here: {safe(page)} is in the clipboard")

    # -- the row ----------------------------------------------------------------------------------------------------

    def do_menu(self) -> None:
        from imi_monitor.ui import menu_entries

        name = safe(self._home.selected_tree.key.worktree, 40) if self._home.selected_tree else ""
        title = f"{len(self._home.marks)} marked worktrees" if self._home.marks else name
        self._app.push_screen(menu_entries.row_menu(title, self._app.commands, self._app.why_not), self._app.run_chosen)

    def do_copy(self) -> None:
        from imi_monitor.ui import menu_entries
        from imi_monitor.ui.dialogs.menu import Menu

        tree = self._home.selected_tree
        if tree is None:
            return
        texts = menu_entries.copy_choices(tree)

        def copy_chosen(word: str | None) -> None:
            if word is not None:
                self._app.copy_to_clipboard(texts[word][2])
                self._app.say(f"copied: {safe(texts[word][2], 200)}")

        menu = Menu(f"Copy from {safe(tree.key.worktree, 40)}", menu_entries.copy_entries(tree), search=False)
        self._app.push_screen(menu, copy_chosen)

    def do_mark(self) -> None:
        tree = self._home.selected_tree
        if tree is not None:
            self._home.marks ^= {tree.key}
            self._home.worktrees.lines.action_move(1)
            self._home.draw()

    def do_mark_all(self) -> None:
        """Mark all listed worktrees of this home but the repository's own and watched runs; when they are all marked, unmark
        everything."""
        facts = self._home.facts
        listed = frozenset(
            tree.key
            for tree in self._home.worktrees.listed
            if not tree.is_main
            and (facts is None or facts.home_of(tree) is None)
            and command_conditions.watched_run(tree) is None
        )
        self._home.marks = frozenset() if listed <= self._home.marks else self._home.marks | listed
        self._home.draw()


def run_suspended(app: ImiApp, path: str, command: Sequence[str]) -> None:
    """Run a command, or a shell, in this terminal with the dashboard suspended."""
    try:
        with app.suspend():
            problem = run_here(path, command)
    except SuspendNotSupported:
        problem = "a shell cannot be opened from here: this terminal is not imi's own"
    if problem:
        app.say(problem, bad=True)
    app.action_do("refresh")


def run_here(path: str, command: Sequence[str] = ()) -> str:
    """Run the user's shell, or `command`, in this terminal until it ends; return an error sentence, or ""."""
    wanted, *arguments = command or (os.environ.get("SHELL") or "/bin/sh",)
    program = programs.find(wanted)
    if program is None:
        return f"{safe(wanted)} cannot be started: it {programs.why_missing(wanted)}"
    whole = programs.users_environment() if command else os.environ  # the user's shell keeps the user's PATH
    # these two belong to the shell function that started this imi, not to an imi started in the new shell
    env = {name: value for name, value in whole.items() if name not in ("IMI_CD_FILE", "IMI_SHELL")}
    try:
        subprocess.run([program, *arguments], cwd=path, env=env, check=False)
    except OSError as error:
        return f"{safe(program)} cannot be started in {safe(path)}: {error.strerror}"
    return ""
