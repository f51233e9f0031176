"""What each own key of the dashboard does: `do_<word>` for every word of `commands.DASHBOARD_FUNCTIONS`.

What only a key needs is loaded when it is pressed: the first paint does not wait for it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence

from textual import on, work
from textual.app import SuspendNotSupported

from imi_monitor import actions
from imi_monitor.model import times
from imi_monitor.model.errors import ImiError
from imi_monitor.model.snapshot import Worktree
from imi_monitor.model.text import count, safe
from imi_monitor.ui import command_conditions
from imi_monitor.ui.agent_keys import AgentKeys
from imi_monitor.ui.commands import Command
from imi_monitor.ui.header import troubles
from imi_monitor.ui.panels.agents_panel import agent_of_row
from imi_monitor.ui.panels.worktrees_panel import group_of_row
from imi_monitor.ui.widgets.row_list import RowList
from imi_monitor.ui.worktree_order import GROUPS, SORTS, WorktreeOrder, next_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Action, Outcome
    from imi_monitor.actions.context import Context

INTERVALS = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class Doing(AgentKeys):
    """The one way in is `action_do(word)`: from a key, a click, the palette or the help."""

    def command(self, word: str) -> Command | None:
        return next((command for command in self.commands if command.word == word), None)

    def why_not(self, command: Command) -> str:
        if command_conditions.about_agent(command) and self.meant_agent is not None:
            return ""
        return command_conditions.reason_against(command, self._facts, self.selected_tree, len(self._marks))

    def action_do(self, word: str) -> None:
        """Do it, or say why it cannot be done now."""
        command = self.command(word)
        if command is None or not self._in_place(command):
            return
        why = self.why_not(command)
        if why:
            self.say(why, bad=True)
        elif command.kind == "action":
            self.action_act(word)
        elif command.kind == "view":
            self.action_view(word)
        else:
            getattr(self, f"do_{word}")()

    def _in_place(self, command: Command) -> bool:
        """What is about the home screen is not done behind a view's back, and nothing behind a question's."""
        if self.screen is self.home:
            return True
        return command.everywhere and not self.screen.is_modal

    # -- acts and views ---------------------------------------------------------------------------------------------

    def action_view(self, word: str) -> None:
        from imi_monitor.ui.views import view_class

        view = view_class(word)
        agent = self.meant_agent
        if view.needs_worktree and self._selected is None and agent is None:
            self.say("select a worktree first", bad=True)
            return
        if type(self.screen) is view:  # its key within itself does nothing
            return
        made = view(self._selected, self._surroundings)
        made.agent_id = agent.id if agent is not None else None
        self.push_screen(made, lambda _: self.looked_at(made))
        self.call_after_refresh(self._draw)

    def action_act(self, word: str) -> None:
        from imi_monitor.ui.dialogs.action_dialog import dialog_for

        action = actions.find(word.replace("-", " ")) or actions.find(word)
        if action is not None:
            self.push_screen(dialog_for(action, self.targets, self._at), lambda outcome: self._acted(action, outcome))

    def _at(self, tree: Worktree | None) -> Callable[[], Context]:
        """A name alone may mean two worktrees: it is looked up in the repository of the one that was selected. Which may
        be gone by the time it is looked up, before the screen says so: any other of that repository does as well."""
        trees = self._shown.worktrees if self._shown is not None else ()
        same = [other for other in trees if tree is not None and other.key.repo == tree.key.repo and not other.missing]
        same.sort(key=lambda other: (other is not tree, not other.is_main))
        paths = [other.path for other in same]

        def surroundings() -> Context:
            return self._surroundings(next((path for path in paths if os.path.isdir(path)), next(iter(paths), None)))

        return surroundings

    def _acted(self, action: Action, outcome: Outcome | None) -> None:
        if outcome is None:
            return
        from imi_monitor.mux import multiplexer

        lines = [*outcome.lines, *(f"warning: {text}" for text in outcome.warnings)]
        self.notify("\n".join(safe(line, 200) for line in lines[:5]) or "done", markup=False)
        self._marks = frozenset()
        self._wanted_name = _made(outcome)
        self._draw()
        around = multiplexer.current()
        if action.opens_worktree and outcome.path is not None and self._wanted_name is not None and around:
            # beside the dashboard only: without a multiplexer a shell would take its place, which nobody asked for
            path, name = outcome.path, self._wanted_name
            self._tell(lambda: multiplexer.open_worktree(around, path, name))

    # -- the worktree -----------------------------------------------------------------------------------------------

    @on(RowList.Chosen)
    def _chosen(self, message: RowList.Chosen) -> None:
        """Enter or a double click: on a worktree opens it, on an agent goes there, on a heading folds it."""
        if message.lines is self.worktrees.lines:
            group = group_of_row(message.key)
            if group is not None:
                self.action_fold(group not in self.worktrees.folded)
            elif self.command("open") is not None:
                self.action_do("open")
        elif message.lines is self.agents_panel.lines:
            agent = self.agent(agent_of_row(message.key))
            if agent is not None:
                self.go_to_agent(agent)
            else:
                self._go_to_claim(message.key)

    def _go_to_claim(self, row: str | None) -> None:
        repo, _, name = (row or "").partition("\0")
        for tree in self._shown.worktrees if self._shown is not None else ():
            if (tree.key.repo, tree.key.worktree) == (repo, name):
                self.select(tree.key)

    @on(RowList.Menu)
    def _menu_wanted(self, message: RowList.Menu) -> None:
        if message.lines is self.worktrees.lines and group_of_row(message.key) is None:
            self.call_after_refresh(self.action_do, "menu")

    def do_open(self) -> None:
        """The pane of the agent that works there, else a shell of one's own."""
        tree = self.selected_tree
        agent = self._pane_of(tree) if tree is not None else None
        if agent is not None:
            self.go_to_agent(agent)
        else:
            self.do_shell()

    def do_shell(self) -> None:
        if self.selected_tree is not None:
            self._open(self.selected_tree)

    def do_lazygit(self) -> None:
        if self.selected_tree is not None:
            self._open(self.selected_tree, (command_conditions.git_screen(),))

    def do_open_with(self) -> None:
        from imi_monitor.mux import multiplexer
        from imi_monitor.ui import menu_entries
        from imi_monitor.ui.dialogs.menu import Menu

        tree = self.selected_tree
        if tree is None:
            return
        ways = menu_entries.open_ways(tree, multiplexer.current())

        def chosen(word: str | None) -> None:
            if word is not None:
                self._open(tree, ways[word].command, here=ways[word].here)

        title = f"Open {safe(tree.key.worktree, 40)} with"
        self.push_screen(Menu(title, menu_entries.open_with_entries(ways), search=False), chosen)

    def _open(self, tree: Worktree, command: Sequence[str] = (), *, here: bool = False) -> None:
        from imi_monitor.mux import multiplexer
        from imi_monitor.ui import menu_entries

        around = "" if here else multiplexer.current()
        if around:
            self._tell(lambda: multiplexer.open_worktree(around, tree.path, tree.key.worktree, command))
            return
        try:
            with self.suspend():
                problem = menu_entries.run_here(tree.path, command)
        except SuspendNotSupported:
            problem = "a shell cannot be opened from here: this terminal is not imi's own"
        if problem:
            self.say(problem, bad=True)
        self.do_refresh()

    def do_pr(self) -> None:
        if self.selected_tree is not None:
            self._browse(self.selected_tree)

    @work(exit_on_error=False, group="browse")
    async def _browse(self, tree: Worktree) -> None:
        from imi_monitor.ui import pull_request_page

        try:
            page = await asyncio.to_thread(pull_request_page.pull_request_page, tree.path, tree.pr or 0)
            opened = await asyncio.to_thread(pull_request_page.browse, page)
        except (ImiError, OSError) as error:
            self.say(getattr(error, "sentence", str(error)), bad=True)
            return
        if not opened:
            self.copy_to_clipboard(page)
        self.say(f"opened {safe(page)}" if opened else f"no browser here: {safe(page)} is in the clipboard")

    @work(exit_on_error=False, group="tell")
    async def _tell(self, job: Callable[[], str]) -> None:
        """Run something slow in a thread and say what came of it."""
        try:
            self.say(await asyncio.to_thread(job))
        except ImiError as error:
            self.say(error.sentence, bad=True)

    def do_menu(self) -> None:
        from imi_monitor.ui import menu_entries

        name = safe(self.selected_tree.key.worktree, 40) if self.selected_tree else ""
        title = f"{len(self._marks)} marked worktrees" if self._marks else name
        self.push_screen(menu_entries.row_menu(title, self.commands, self.why_not), self._picked)

    def do_copy(self) -> None:
        tree = self.selected_tree
        if tree is None:
            return
        from imi_monitor.ui import menu_entries
        from imi_monitor.ui.dialogs.menu import Menu

        texts = menu_entries.copy_choices(tree)

        def copied(word: str | None) -> None:
            if word is not None:
                self.copy_to_clipboard(texts[word][2])
                self.say(f"copied: {safe(texts[word][2], 200)}")

        self.push_screen(
            Menu(f"Copy of {safe(tree.key.worktree, 40)}", menu_entries.copy_entries(tree), search=False), copied
        )

    def do_mark(self) -> None:
        if self.selected_tree is not None:
            self._marks ^= {self.selected_tree.key}
            self.worktrees.lines.action_move(1)
            self._draw()

    def do_mark_all(self) -> None:
        """All that are listed; when they are marked already, none."""
        listed = frozenset(tree.key for tree in self.worktrees.listed if not tree.is_main)
        self._marks = frozenset() if listed <= self._marks else self._marks | listed
        self._draw()

    # -- the list ---------------------------------------------------------------------------------------------------

    def do_filter(self) -> None:
        self.filter_box.add_class("-open")
        self.home.set_focus(
            self.filter_box
        )  # now, not when it is this callback's turn: what is typed next is the filter

    def action_narrow(self, text: str) -> None:
        """A click on a count in the header: show what was counted; once more, everything."""
        box = self.filter_box
        box.value = "" if box.value == text else text
        box.set_class(bool(box.value), "-open")
        self.worktrees.lines.focus()

    def do_sort(self) -> None:
        order = self.worktrees.order
        sort = next_in(list(SORTS), order.sort)
        self._set_order(WorktreeOrder(sort, False, order.group))
        self.say(f"sorted: {SORTS[sort][0]}")

    def do_backwards(self) -> None:
        order = self.worktrees.order
        self._set_order(WorktreeOrder(order.sort, not order.backwards, order.group))

    def do_group(self) -> None:
        order = self.worktrees.order
        group = next_in(list(GROUPS), order.group)
        self.worktrees.folded = frozenset()
        self._set_order(WorktreeOrder(order.sort, order.backwards, group))
        self.say(f"grouped: {GROUPS[group][0]}")

    def do_fold(self) -> None:
        name = GROUPS[self.worktrees.order.group][1]
        every = frozenset(name(tree) for tree in self._shown.worktrees) if self._shown else frozenset()
        self._fold(frozenset() if self.worktrees.folded else every)

    # -- looking ----------------------------------------------------------------------------------------------------

    def do_only(self) -> None:
        self._only = not self._only
        self._aim()
        self._draw()
        self._remember()

    def do_refresh(self) -> None:
        if self._engine is not None:
            self._engine.refresh()
            self.say("looking at everything again")

    def do_pause(self) -> None:
        self._paused = not self._paused
        self._held_at = times.now() if self._paused else None
        self._draw()

    def do_faster(self) -> None:
        self._pace(-1)

    def do_slower(self) -> None:
        self._pace(1)

    def _pace(self, step: int) -> None:
        near = min(range(len(INTERVALS)), key=lambda place: abs(INTERVALS[place] - self._interval))
        self._set_interval(INTERVALS[max(0, min(len(INTERVALS) - 1, near + step))])
        self.say(f"ages and order every {self._interval:g} s; what happens is shown at once all the same")
        self._remember()

    def _set_interval(self, seconds: float) -> None:
        self._interval = seconds
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_interval(seconds, self._beat)
        self._draw()

    # -- the dashboard ----------------------------------------------------------------------------------------------

    def do_theme(self) -> None:
        from imi_monitor.ui import menu_entries

        before = self.theme

        def peek(name: str) -> None:
            self.theme = name

        def chosen(name: str | None) -> None:
            self.theme = name or before
            self._remember()

        self.push_screen(menu_entries.theme_menu(before, peek), chosen)

    def do_trouble(self) -> None:
        found = troubles(self._facts) if self._facts is not None else []
        if not found:
            self.say("everything can be read")
            return
        from imi_monitor.ui.dialogs.menu import Menu, MenuEntry

        now = times.now()
        entries = [
            MenuEntry(f"{n}", what, f"for {times.age_of(since, now)}: {why}")
            for n, (since, what, why) in enumerate(found)
        ]
        self.push_screen(Menu(f"{count(len(found), 'thing')} that cannot be read now", entries, search=False))

    def do_palette(self) -> None:
        from imi_monitor.ui import menu_entries

        self.push_screen(menu_entries.palette_menu(self._here(), self.why_not), self._picked)

    def do_help(self) -> None:
        from imi_monitor.ui import menu_entries

        self.push_screen(menu_entries.keys_menu(self._here(), self.why_not), self._picked)

    def _here(self) -> list[Command]:
        return [command for command in self.commands if self._in_place(command)]

    def _picked(self, word: str | None) -> None:
        """Something was chosen from the palette, the help or a row's menu."""
        if word is None:
            return
        if word.startswith("is:"):
            self.action_narrow(word)
        else:
            self.call_after_refresh(self.action_do, word)

    def do_quit(self) -> None:
        self.exit()


def _made(outcome: Outcome) -> str | None:
    """The worktree that an act has made or brought back, which the cursor goes to."""
    name = outcome.data.get("worktree_name")
    return name if isinstance(name, str) and outcome.path is not None else None
