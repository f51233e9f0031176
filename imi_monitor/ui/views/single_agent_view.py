"""Views about one agent, which is found again in every snapshot, with keys for the other agents."""

from __future__ import annotations

from textual.binding import Binding

from imi_monitor.model import attention, state_words
from imi_monitor.model.agent import Agent
from imi_monitor.ui.views.view import View

OTHERS = (
    Binding("left,h", "other(-1)", "Previous", key_display="←", tooltip="show the previous agent"),
    Binding("right,l", "other(1)", "Next", key_display="→", tooltip="show the next agent"),
)
ASKING = Binding(
    "w", "next_question", "Next that asks", id="next", tooltip="go to the agent that has waited longest for an answer"
)


class SingleAgentView(View):
    """The caller sets `agent_id`; without an agent the view says so."""

    about_one_agent = True  # the agent counts as looked at when the view is left

    @property
    def agents(self) -> tuple[Agent, ...]:
        return attention.by_attention(self.snapshot.agents) if self.snapshot is not None else ()

    @property
    def agent(self) -> Agent | None:
        return next((agent for agent in self.agents if agent.id == self.agent_id), None)

    def show_agent(self, agent: Agent) -> None:
        self.agent_id = agent.id
        self.agent_changed()

    def agent_changed(self) -> None:
        """Draw the other agent."""
        raise NotImplementedError

    def action_other(self, step: int) -> None:
        agents = self.agents
        if agents:
            here = next((place for place, agent in enumerate(agents) if agent.id == self.agent_id), -step)
            self.show_agent(agents[(here + step) % len(agents)])

    def action_next_question(self) -> None:
        """Show the next agent that asks, the one that has waited longest first."""
        asking = [agent for agent in self.agents if attention.standing(agent) == state_words.ASKS]
        if not asking:
            self.notify("no agent asks", markup=False)
            return
        here = next((place for place, agent in enumerate(asking) if agent.id == self.agent_id), -1)
        self.show_agent(asking[(here + 1) % len(asking)])
