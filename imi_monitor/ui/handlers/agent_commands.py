"""Commands about agents: select the next one that needs a person, go to an agent's pane, peek at its messages."""

from __future__ import annotations

from imi_monitor.model import agent_text, attention, state_words
from imi_monitor.model.agent import Agent
from imi_monitor.model.snapshot import Worktree
from imi_monitor.model.text import count
from imi_monitor.ui.command_conditions import reason_watched
from imi_monitor.ui.panels.agents_panel import agent_of_row
from imi_monitor.ui.panels.worktrees_panel import row_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.ui.app import ImiApp


class AgentCommands:
    """They are about the agent chosen last: in the view on top, in the agents panel, or in the list of worktrees."""

    def __init__(self, app: ImiApp) -> None:
        self._app = app
        self._home = app.home

    # -- which agent ------------------------------------------------------------------------------------------------

    def find(self, ident: str | None) -> Agent | None:
        """Return the agent with this id, as it is on the screen."""
        shown = self._home.shown
        return next((agent for agent in shown.agents if agent.id == ident), None) if shown is not None else None

    @property
    def chosen(self) -> Agent | None:
        """The agent a command is about now."""
        for screen in reversed(self._app.screen_stack[1:]):
            ident = getattr(screen, "agent_id", None)  # by name: importing the views takes time
            if isinstance(ident, str):
                return self.find(ident)
        panel = self._home.agents_panel
        chosen = self.find(agent_of_row(panel.lines.cursor)) if panel.has_focus_within else None
        return chosen or next(iter(self._agents_in(self._home.selected_tree)), None)

    def _agents_in(self, tree: Worktree | None) -> tuple[Agent, ...]:
        """Return the agents of a worktree, the one that needs a person most first."""
        facts = self._home.facts
        return facts.agents_in(tree) if tree is not None and facts is not None else ()

    # -- the next one -----------------------------------------------------------------------------------------------

    def do_next(self) -> None:
        """Select the next worktree whose agent waits, the longest wait first; then what else needs a person."""
        facts = self._home.facts
        if facts is None:
            return
        worktrees = self._home.worktrees
        needing = [tree for tree in worktrees.listed if facts.needs_attention(tree)]
        needing.sort(key=lambda tree: (facts.waits_since(tree) is None, facts.waits_since(tree) or ""))
        if not needing:
            hidden = sum(map(facts.needs_attention, facts.snapshot.worktrees))
            verb = "needs" if hidden == 1 else "need"
            more = f"; {count(hidden, 'worktree')} outside the list {verb} you" if hidden else ""
            self._app.say(f"nothing here needs you{more}")
            return
        here = next((place for place, tree in enumerate(needing) if tree.key == self._home.selected), -1)
        worktrees.lines.select(row_key(needing[(here + 1) % len(needing)]))
        worktrees.lines.focus()

    @property
    def any_asks(self) -> bool:
        """Whether an agent waits for an answer."""
        return self._home.facts is not None and self._home.facts.standings[state_words.ASKS] > 0

    # -- going there ------------------------------------------------------------------------------------------------

    def with_pane(self, tree: Worktree) -> Agent | None:
        """Return the first agent of this worktree whose pane can be focused."""
        from imi_monitor.mux import multiplexer

        return next((agent for agent in self._agents_in(tree) if multiplexer.may_have_pane(agent)), None)

    def go_to_chosen(self) -> None:
        agent = self.chosen
        if agent is not None:
            self.go_to(agent)

    def go_to(self, agent: Agent) -> None:
        """Focus the agent's pane where it is known; else select its worktree."""
        from imi_monitor.mux import multiplexer

        self._mark_seen(agent)
        shown, around = self._home.shown, multiplexer.current()
        tree = shown.worktree(agent.key) if shown is not None and agent.key is not None else None
        if tree is None:
            self._app.say("it works in none of the worktrees shown here", bad=True)
        elif multiplexer.may_have_pane(agent):
            layout, name = self._app.preferences.tab_layout, tree.key.worktree
            self._app.run_and_say(
                lambda: multiplexer.open_agent(around, agent, tree.path, name, layout=layout), opens_tab=True
            )
        else:
            while len(self._app.screen_stack) > 1:
                self._app.pop_screen()
            self._home.select(tree.key)

    def act_on_run(self, agent: Agent | None, verb: str) -> None:
        """Open the dialog of an action for the run of an agent; one that imi did not start takes answers to its questions
        where a hook of it waits for them."""
        shown = self._home.shown
        run = shown.run_of(agent) if shown is not None else None
        if run is not None and run.origin is not None:
            self._app.say(reason_watched(run), bad=True)
            return
        if run is None and verb == "answer" and agent is not None and agent.facts.ask is not None:
            values: dict[str, object] = {"name": agent.session or agent.name, "ask": agent.facts.ask}
            self._app.action_commands.open(verb, [], values=values)
            return
        if run is None and agent is not None and agent.run is not None:  # over for long: the action says so
            self._app.action_commands.open(verb, [], values={"name": agent.run[:8]})
            return
        if run is None:
            self._app.say(
                agent_text.not_started(agent.name, agent.cli, asked=verb == "answer")
                if agent is not None
                else "no agent is chosen",
                bad=True,
            )
            return
        asked: dict[str, object] = {"ask": run.question.id} if verb == "answer" and run.question is not None else {}
        self._app.action_commands.open(verb, [], values={"name": run.short, **asked})

    def answer_chosen(self) -> None:
        self.act_on_run(self.chosen, "answer")

    def choose_row(self, row: str | None) -> None:
        """Enter on a row of the agents panel: an agent, or a claim whose agent is not running."""
        agent = self.find(agent_of_row(row))
        if agent is not None:
            self.go_to(agent)
            return
        for tree in self._home.shown.worktrees if self._home.shown is not None else ():
            if row_key(tree) == row:
                self._home.select(tree.key)

    # -- looking ----------------------------------------------------------------------------------------------------

    def do_peek(self) -> None:
        from imi_monitor.ui.views.peek_view import PeekView

        agent = self.chosen
        if agent is not None:
            self._app.open_view(PeekView(agent.key, self._app.open_context), agent)

    def view_closed(self, view: object) -> None:
        """A view about a single agent was closed: its end needs no more attention."""
        if getattr(view, "about_one_agent", False):
            self._mark_seen(self.find(getattr(view, "agent_id", None)))

    def do_seen(self) -> None:
        """Every agent that died or failed counts as looked at."""
        unseen = [one for one in self._home.shown.agents if attention.is_unseen_end(one)] if self._home.shown else []
        for agent in unseen:
            self._mark_seen(agent)
        self._app.say(f"{count(len(unseen), 'agent')} marked as seen" if unseen else "no agent died or failed unseen")

    def _mark_seen(self, agent: Agent | None) -> None:
        """An agent that died or failed counts as looked at: in the registry, so in every dashboard."""
        engine = self._app.engine
        if agent is not None and engine is not None and attention.is_unseen_end(agent):
            engine.mark_looked_at(agent)
