"""`imi agents` and `imi agents explain`: where each agent works, what it does, and the evidence for it."""

from __future__ import annotations

from imi_monitor.actions.action import Argument, Outcome
from imi_monitor.cli.front_end import REPOSITORIES, FrontEndVerb

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.cli.argument_parser import ParsedCommandLine
    from imi_monitor.model.agent import Agent
    from imi_monitor.store.agents import AgentDescription


class AgentsVerb(FrontEndVerb):
    words = ("agents",)
    group = "Agents"
    label = "Agents"
    help = "show where each agent works, what it is doing and which one waits for an answer"
    more = """
    imi detects Claude Code, Codex, Gemini, opencode, Copilot and aider without anything installed into them
    (`imi hooks install` makes it exact and instant). Without REPO: the repository around you, or all registered ones.
    """
    arguments = (REPOSITORIES,)

    def show(self, parsed: ParsedCommandLine) -> Outcome:
        from imi_monitor.actions.status.status_action import terminal_width
        from imi_monitor.model import agent_text, snapshot_json, times
        from imi_monitor.store.agents import NOT_DESCRIBED

        agents, descriptions, warnings = _read_agents(parsed)
        labels = {name: description_label(one) for name, one in descriptions.items()}
        lines = agent_text.table(agents, times.now(), labels, terminal_width()) or [
            "no agent was found in these worktrees"
        ]
        rows = [{**snapshot_json.agent_data(one), **descriptions.get(one.name, NOT_DESCRIBED).data()} for one in agents]
        return Outcome(lines, {"agents": rows, "count": len(agents)}, warnings=warnings)


class ExplainAgentVerb(FrontEndVerb):
    words = ("agents explain",)
    group = "Agents"
    label = "Explain an agent"
    help = "show the evidence for an agent's state: what was used and what was set aside"
    arguments = (Argument("name", "the agent, its worktree, or the beginning of its session id"),)

    def show(self, parsed: ParsedCommandLine) -> Outcome:
        from imi_monitor.actions.history import describe_action
        from imi_monitor.model import agent_text, snapshot_json, times
        from imi_monitor.store.agents import NOT_DESCRIBED

        agents, descriptions, warnings = _read_agents(parsed)
        agent = find_agent(agents, parsed.request.text("name") or "")
        description = descriptions.get(agent.name, NOT_DESCRIBED)
        sentence = describe_action.sentence(description)
        lines = agent_text.explain(agent, times.now()) + ([f"  described as: {sentence}"] if sentence else [])
        data: dict[str, object] = {"agent": {**snapshot_json.agent_data(agent), **description.data()}}
        return Outcome(lines, data, warnings=warnings)


ACTIONS = (AgentsVerb(), ExplainAgentVerb())


def description_label(description: AgentDescription) -> str:
    """Emoji and team, shown behind the agent's name: `🦊 (web)`."""
    from imi_monitor.model.text import safe

    team = f"({safe(description.team, 20)})" if description.team else ""
    return " ".join(filter(None, (safe(description.emoji or "", 8), team)))


def find_agent(agents: tuple[Agent, ...], name: str) -> Agent:
    """The agent of that name, else the one in the worktree of that name, else the one whose session begins with it."""
    from imi_monitor.model.errors import Refused
    from imi_monitor.model.text import safe

    tests = (
        lambda one: name in (one.name, one.id, one.session),
        lambda one: one.key is not None and one.key.worktree == name,
        lambda one: (one.session or "").startswith(name) or one.id.startswith(name),
    )
    for test in tests:
        found = [one for one in agents if name and test(one)]
        if len(found) == 1:
            return found[0]
        if found:
            several = ", ".join(safe(one.id, 60) for one in found)
            raise Refused(f"{safe(name)!r} may be any of {several}: name one of these", code="ambiguous")
    known = ", ".join(dict.fromkeys(safe(one.name, 60) for one in agents))
    raise Refused(
        f"no agent is called {safe(name)!r}: " + (f"there are {known}" if known else "no agent was found"),
        code="no-agent",
    )


def _read_agents(parsed: ParsedCommandLine) -> tuple[tuple[Agent, ...], dict[str, AgentDescription], list[str]]:
    """The agents, their descriptions by name, and the sources that could not be read."""
    from imi_monitor.actions.context import Context
    from imi_monitor.cli.front_end import common_dirs_of
    from imi_monitor.model.text import safe
    from imi_monitor.sources.agents import agent_poll
    from imi_monitor.sources.registry_source import read_claims
    from imi_monitor.sources.worktrees_source import read_roster
    from imi_monitor.store import agents as described_agents
    from imi_monitor.store import db

    with Context(database=parsed.option("db"), repo=parsed.option("repo")) as context:
        dirs = common_dirs_of(context, parsed.request.rest("repo"))
        scope = dirs
        roster, _ = db.read(context.connection, read_roster, scope, context.database)
        registry = db.read(context.connection, read_claims)
        descriptions = db.read(context.connection, described_agents.list_descriptions)
    agents, broken = agent_poll.read_agents_once(roster, registry.claims)
    return agents, descriptions, [safe(text, 300) for text in broken]
