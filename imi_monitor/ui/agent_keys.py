"""What the keys about agents do: to the next that waits, to an agent's own pane, a peek at what it says."""

from __future__ import annotations

from collections.abc import Callable

from textual.worker import Worker

from imi_monitor.model import attention
from imi_monitor.model.agent import Agent
from imi_monitor.model.snapshot import Key, Worktree
from imi_monitor.model.text import count
from imi_monitor.ui.commands import Command
from imi_monitor.ui.home_screen import Home
from imi_monitor.ui.panels.agents_panel import agent_of_row
from imi_monitor.ui.panels.worktrees_panel import row_key


class AgentKeys(Home):
    """A key about an agent is about the one that was chosen last: in the view on top, in panel 3, in the list."""

    def _tell(self, job: Callable[[], str]) -> Worker[None]:
        raise NotImplementedError

    def say(self, text: str, *, bad: bool = False) -> None:
        self.notify(text, severity="warning" if bad else "information", markup=False)

    # -- which agent ------------------------------------------------------------------------------------------------

    def agent(self, ident: str | None) -> Agent | None:
        """The agent with this id, as it is on the screen."""
        agents = self._shown.agents if self._shown is not None else ()
        return next((agent for agent in agents if agent.id == ident), None)

    @property
    def meant_agent(self) -> Agent | None:
        for screen in reversed(self.screen_stack[1:]):  # which of them are views is not asked: that would load them all
            ident = getattr(screen, "agent_id", None)
            if isinstance(ident, str):
                return self.agent(ident)
        return self._agent_on_home()

    def _agent_on_home(self) -> Agent | None:
        panel = self.agents_panel
        chosen = self.agent(agent_of_row(panel.lines.cursor)) if panel.has_focus_within else None
        return chosen or self._first_agent(self.selected_tree)

    def _first_agent(self, tree: Worktree | None) -> Agent | None:
        """Of those in a worktree the one that needs a person most; one that has left, only where no other is."""
        if tree is None or self._facts is None:
            return None
        return next(iter(self._facts.agents_in(tree)), None)

    # -- the next one -----------------------------------------------------------------------------------------------

    def do_next(self) -> None:
        """The next that waits, the most patient first; when none does, or all were seen, what else needs a person."""
        facts, listed = self._facts, self.worktrees.listed
        if facts is None:
            return
        wanting = [tree for tree in listed if facts.needs_somebody(tree)]
        wanting.sort(key=lambda tree: (facts.waits_since(tree) is None, facts.waits_since(tree) or ""))
        if not wanting:
            self.say(self._nothing_wants())
            return
        here = next((place for place, tree in enumerate(wanting) if tree.key == self._selected), -1)
        self.worktrees.lines.select(row_key(wanting[(here + 1) % len(wanting)]))
        self.worktrees.lines.focus()

    def weight(self, command: Command) -> int:
        """How early it stands in the key bar: while somebody waits, the way there comes first."""
        waits = command.word == "next" and self._facts is not None and self._facts.standings[attention.ASKS]
        return 100 if waits else command.key_bar

    def _nothing_wants(self) -> str:
        hidden = (
            [tree for tree in self._facts.snapshot.worktrees if self._facts.needs_somebody(tree)] if self._facts else []
        )
        if hidden:
            return f"nothing here needs you; {count(len(hidden), 'worktree')} that the list does not show would"
        return "nothing here needs you"

    # -- going there ------------------------------------------------------------------------------------------------

    def _pane_of(self, tree: Worktree) -> Agent | None:
        """The agent there whose own pane can be gone to."""
        from imi_monitor.mux import multiplexer

        there = self._facts.agents_in(tree) if self._facts is not None else ()
        return next((agent for agent in there if multiplexer.may_have_pane(agent)), None)

    def tree_of(self, key: Key | None) -> Worktree | None:
        return self._shown.worktree(key) if self._shown is not None and key is not None else None

    def go_to_agent(self, agent: Agent) -> None:
        """Its own pane, where that is known; else its worktree in the list."""
        from imi_monitor.mux import multiplexer

        self._looked_at(agent)
        tree, around = self.tree_of(agent.key), multiplexer.current()
        if tree is None:
            self.say("it works in none of the worktrees shown here", bad=True)
        elif multiplexer.may_have_pane(agent):
            self._tell(lambda: multiplexer.open_agent(around, agent, tree.path, tree.key.worktree))
        else:
            while len(self.screen_stack) > 1:
                self.pop_screen()
            self.select(tree.key)

    def action_go_to_chosen(self) -> None:
        agent = self.meant_agent
        if agent is not None:
            self.go_to_agent(agent)

    def looked_at(self, screen: object) -> None:
        """A screen was left: if it was about one agent alone, that one was looked at."""
        if getattr(screen, "about_one_agent", False):
            self._looked_at(self.agent(getattr(screen, "agent_id", None)))

    def _looked_at(self, agent: Agent | None) -> None:
        """Who died or failed and is over stays on top until then, and no longer."""
        if (
            agent is not None
            and self._engine is not None
            and attention.has_ended(agent)
            and attention.needs_attention(agent)
        ):
            self._engine.looked_at(agent)

    # -- a peek -----------------------------------------------------------------------------------------------------

    def do_peek(self) -> None:
        self.action_peek_at_chosen()

    def action_peek_at_chosen(self) -> None:
        from imi_monitor.ui.views.peek_view import PeekView

        agent = self.meant_agent
        if agent is not None:
            peek = PeekView(agent.key, self._surroundings)
            peek.agent_id = agent.id
            self.push_screen(peek, lambda _: self.looked_at(peek))
            self.call_after_refresh(self._draw)
