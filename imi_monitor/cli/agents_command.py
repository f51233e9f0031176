"""`imi agents` and `imi agents explain`: where each agent works, what it does, and the evidence for it."""

from __future__ import annotations

from contextlib import suppress

from imi_monitor.actions.action import Argument, Option, Outcome
from imi_monitor.cli.front_end import REPOSITORIES, FrontEndVerb

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from imi_monitor.actions.context import Context
    from imi_monitor.cli.argument_parser import ParsedCommandLine
    from imi_monitor.model.agent import Agent
    from imi_monitor.model.agent_names import GivenName
    from imi_monitor.store.agents import AgentDescription


class AgentsVerb(FrontEndVerb):
    words = ("agents",)
    group = "Agents"
    label = "Agents"
    help = "show where each agent works, what it is doing and which one asks"
    more = """
    imi detects Claude Code, Codex, Gemini, opencode, Copilot, Qwen Code and aider without anything installed into them
    (`imi hooks install` makes it exact and instant). Without REPO: the repository around you, or all registered ones.
    Ended agents are left out, except for the newest that died or failed: it stays on top until you look at it.
    """
    arguments = (REPOSITORIES,)
    options = (
        Option("ended", "also show agents that have ended in the last day"),
        Option("all", "show the agents of all registered repositories"),
        Option("all-hosts", "also show the agents of the other homes of the team"),
    )

    def show(self, parsed: ParsedCommandLine) -> Outcome:
        from imi_monitor.actions.status.status_action import terminal_width
        from imi_monitor.model import agent_text, snapshot_json, times
        from imi_monitor.model.text import count
        from imi_monitor.store.agents import NOT_DESCRIBED

        found, descriptions, warnings = _read_agents(parsed)
        if parsed.request.flag("all-hosts"):
            found = (*found, *_of_other_homes(parsed))
        agents = found if parsed.request.flag("ended") else without_ended(found)
        labels = {name: description_label(one) for name, one in descriptions.items()}
        lines = agent_text.table(agents, times.now(), labels, terminal_width()) or [
            "no agent was found in these worktrees"
        ]
        described = [NOT_DESCRIBED if one.truth.source == "home" else descriptions.get(one.name) for one in agents]
        rows = [
            {**snapshot_json.agent_data(one), **(own or NOT_DESCRIBED).data()}
            for one, own in zip(agents, described, strict=True)
        ]
        hidden = len(found) - len(agents)
        if hidden:
            lines.append(f"{count(hidden, 'ended agent')} not shown: imi agents --ended")
        return Outcome(lines, {"agents": rows, "count": len(agents), "not_shown": hidden}, warnings=warnings)


class ExplainAgentVerb(FrontEndVerb):
    words = ("agents explain",)
    group = "Agents"
    label = "Explain an agent"
    help = "show the evidence for an agent's state: what counts, what does not, and why"
    arguments = (Argument("name", "the agent, its worktree, or the beginning of its session id"),)

    def show(self, parsed: ParsedCommandLine) -> Outcome:
        from imi_monitor.actions.history import describe_action
        from imi_monitor.model import agent_text, attention, snapshot_json, times
        from imi_monitor.model.errors import ImiError
        from imi_monitor.store.agents import NOT_DESCRIBED

        agents, descriptions, warnings = _read_agents(parsed)
        agent = find_agent(agents, parsed.request.text("name") or "")
        with suppress(ImiError):  # without a registry it is not remembered
            _mark_looked_at(parsed, [agent] if attention.is_unseen_end(agent) else [])
        description = descriptions.get(agent.name, NOT_DESCRIBED)
        sentence = describe_action.sentence(description)
        lines = agent_text.explain(agent, times.now()) + ([f"  described as: {sentence}"] if sentence else [])
        data: dict[str, object] = {"agent": {**snapshot_json.agent_data(agent), **description.data()}}
        return Outcome(lines, data, warnings=warnings)


class SeenVerb(FrontEndVerb):
    words = ("agents seen",)
    group = "Agents"
    label = "Mark agents as seen"
    help = "mark agents that died or failed as seen: they no longer need attention"
    more = "Without NAME all of them. The registry keeps the mark, so it applies to every dashboard."
    arguments = (Argument("name", "one agent, its worktree, or the beginning of its session id", optional=True),)
    options = (Option("all", "those of all registered repositories"),)

    def show(self, parsed: ParsedCommandLine) -> Outcome:
        from imi_monitor.model import attention
        from imi_monitor.model.text import count, safe

        agents, _, warnings = _read_agents(parsed)
        name = parsed.request.text("name")
        chosen = agents if name is None else (find_agent(agents, name),)
        unseen = [one for one in chosen if attention.is_unseen_end(one)]
        _mark_looked_at(parsed, unseen)
        names = [one.name for one in unseen]
        listed = f": {', '.join(safe(one, 40) for one in names[:5])}{', …' if len(names) > 5 else ''}" if names else ""
        lines = [
            f"{count(len(names), 'agent')} marked as seen{listed}" if names else "no unseen agent has died or failed"
        ]
        return Outcome(lines, {"marked": names, "count": len(names)}, warnings=warnings)


ACTIONS = (AgentsVerb(), ExplainAgentVerb(), SeenVerb())


def description_label(description: AgentDescription) -> str:
    """Emoji and team, shown behind the agent's name: `🦊 (web)`."""
    from imi_monitor.model.text import safe

    team = f"({safe(description.team, 20)})" if description.team else ""
    return " ".join(filter(None, (safe(description.emoji or "", 8), team)))


def find_agent(agents: tuple[Agent, ...], name: str) -> Agent:
    """The agent of that name, else the one in the worktree of that name, else the one whose session begins with it.

    A living one is meant rather than an ended one of the same name.
    """
    from imi_monitor.model.errors import Refused
    from imi_monitor.model.text import safe

    tests = (
        lambda one: name in (one.name, one.label, one.id, one.session),
        lambda one: one.key is not None and one.key.worktree == name,
        lambda one: (one.session or "").startswith(name) or one.id.startswith(name),
    )
    for test in tests:
        found = [one for one in agents if name and test(one)]
        living = [one for one in found if not one.truth.ended]
        found = living if len(living) == 1 else found
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


def without_ended(agents: tuple[Agent, ...]) -> tuple[Agent, ...]:
    """The agents that run, and the newest that ended in death or failure and was not looked at."""
    from imi_monitor.model import attention

    newest = attention.newest_unseen_end(agents)
    return tuple(one for one in agents if one is newest or not attention.has_ended(one))


def _of_other_homes(parsed: ParsedCommandLine) -> list[Agent]:
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.team import published_homes

    with Context(database=parsed.option("db"), repo=parsed.option("repo")) as context:
        return [agent for home in published_homes.read_homes(context) if not home.own for agent in home.agents]


def _mark_looked_at(parsed: ParsedCommandLine, agents: Sequence[Agent]) -> None:
    """Deaths and failures that a person has looked at need no more attention."""
    from imi_monitor import host
    from imi_monitor.actions.context import Context
    from imi_monitor.store import db, given_names

    if not agents:
        return
    with Context(database=parsed.option("db"), repo=parsed.option("repo")) as context:
        db.transact_unsynced(context.connection, given_names.mark_looked_at, host.hostname(), *agents)


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
        scope = None if parsed.request.flag("all") else common_dirs_of(context, parsed.request.rest("repo"))
        roster, _ = db.read(context.connection, read_roster, scope, context.database)
        registry = db.read(context.connection, read_claims)
        descriptions = db.read(context.connection, described_agents.list_descriptions)
        agents, broken = agent_poll.read_agents_once(
            roster, registry.claims, lambda found: _given_names(context, found)
        )
    return agents, descriptions, [safe(text, 300) for text in broken]


def _given_names(context: Context, agents: Sequence[Agent]) -> Mapping[str, GivenName]:
    """The names of the agents; new ones get one. While the registry cannot be written, those without have none."""
    from imi_monitor import host
    from imi_monitor.model import times
    from imi_monitor.model.agent_names import NOT_NAMED, name_key
    from imi_monitor.model.errors import ImiError
    from imi_monitor.store import db, given_names

    here = host.hostname()
    known = db.read(context.connection, given_names.read_names, here, agents)
    if all(one.truth.ended or known.get(name_key(one), NOT_NAMED).name is not None for one in agents):
        return known
    try:
        return db.transact_unsynced(context.connection, given_names.give_names, here, agents, times.now())
    except ImiError:
        return known
