"""`imi agents` and `imi agents explain`: which agent works where, what it does, and how we know."""

from __future__ import annotations

from imi_monitor.actions.action import Outcome
from imi_monitor.actions.context import Context
from imi_monitor.actions.history import describe_action
from imi_monitor.cli import output
from imi_monitor.cli.front_end import common_dirs_of
from imi_monitor.model import agent_text, snapshot_json, times
from imi_monitor.model.agent import Agent
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe
from imi_monitor.store import agents as store
from imi_monitor.store import db
from imi_monitor.store.agents import NOT_DESCRIBED, AgentDescription

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.cli.argument_parser import ParsedCommandLine

_NOBODY = "no agent works in these worktrees, as far as can be seen"


def show(parsed: ParsedCommandLine) -> int:
    agents, described, broken = _look(parsed)
    if parsed.request.verb == "agents explain":
        found = _meant(agents, parsed.request.text("name") or "")
        said = described.get(found.name, NOT_DESCRIBED)
        lines = [*agent_text.explain(found, times.now()), *_said(said)]
        outcome = Outcome(lines, {"agent": {**snapshot_json.agent_data(found), **said.data()}})
    else:
        known = {name: beside(said) for name, said in described.items()}
        lines = agent_text.table(agents, times.now(), known) or [_NOBODY]
        rows = [{**snapshot_json.agent_data(one), **described.get(one.name, NOT_DESCRIBED).data()} for one in agents]
        outcome = Outcome(lines, {"agents": rows, "count": len(agents)})
    outcome.warnings.extend(safe(text, 300) for text in broken)
    output.outcome(outcome, as_json=parsed.flag("json"))
    return 0


def beside(said: AgentDescription) -> str:
    """What stands behind the name: `🦊 (web)`."""
    team = f"({safe(said.team, 20)})" if said.team else ""
    return " ".join(filter(None, (safe(said.emoji or "", 8), team)))


def _said(said: AgentDescription) -> list[str]:
    told = describe_action.sentence(said)
    return [f"  described as: {told}"] if told else []


def _look(parsed: ParsedCommandLine) -> tuple[tuple[Agent, ...], dict[str, AgentDescription], list[str]]:
    from imi_monitor.sources.agents import agent_poll
    from imi_monitor.sources.registry_source import read_registry
    from imi_monitor.sources.worktrees_source import RepositoryScope, read_roster

    with Context(database=parsed.option("db"), repo=parsed.option("repo")) as context:
        dirs = common_dirs_of(context, parsed.request.rest("repo"))
        scope = RepositoryScope(None if dirs is None else tuple(dirs))
        entries, _ = db.read(context.connection, read_roster, scope, context.database)
        picture = db.read(context.connection, read_registry, 0)
        described = db.read(context.connection, store.list_descriptions)
    found, broken = agent_poll.read_agents_once(entries, picture.claims)
    return found, described, broken


def _meant(agents: tuple[Agent, ...], name: str) -> Agent:
    """The agent called so, or the one that works in the worktree of that name, or whose session begins like that."""
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
        f"no agent is called {safe(name)!r}: " + (f"there are {known}" if known else "none is to be seen"),
        code="no-agent",
    )
