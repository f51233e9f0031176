"""`imi agents describe`: an emoji, a role and a team, shown beside the agent's name in `imi tasks` and `imi agents`."""

from __future__ import annotations

from imi_monitor.actions import integrations
from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.actions.status import status_action
from imi_monitor.model import names
from imi_monitor.model.columns import Column, table
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.text import safe
from imi_monitor.store import agents, claims, db

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.store.agents import AgentDescription

_TEAMS = (
    Column("Team"),
    Column("Agents", least=12),
    Column("Items", right=True),
    Column("Completed", right=True),
    Column("Failed", right=True),
)
_INTEGRATIONS = (
    Column("Name"),
    Column("Kind"),
    Column("Status"),
    Column("Reachable", least=12),
    Column("Since", least=8),
)
_PROBLEMS = {"emoji": names.emoji_problem, "role": names.label_problem, "team": names.label_problem}


class DescribeAction(Action):
    words = ("agents describe",)
    group = "Agents"
    label = "Describe an agent"
    help = "set or show the emoji, role and team of an agent"
    more = """The name is the one the agent claims with. An agent can be described before its first claim; where its name is
    close to that of another one, with --new. An empty value ("") deletes a text. `imi agents forget` deletes the entry."""
    arguments = (Argument("agent", "the agent, as `imi claims` shows it"),)
    options = (
        Option("emoji", "one character, at most two columns wide", value="EMOJI"),
        Option("role", "its task: reviewer, tests", value="ROLE"),
        Option("team", "its team", value="TEAM"),
        Option("new", "describe an agent that never claimed, although its name resembles another one"),
    )

    def refuse(self, context: Context, request: Request) -> None:
        _changes(request)

    def run(self, context: Context, request: Request) -> Outcome:
        changes, name = _changes(request), request.text("agent") or ""
        problem = names.agent_problem(name)
        if problem:
            raise UsageError(f"agent {safe(name)!r} {problem}", code="bad-agent")
        now = db.transact(context.connection, agents.describe, name, changes)
        if now is None and changes and (request.flag("new") or _near(context, name) is None):
            now = db.transact(context.connection, lambda inner: agents.describe(inner, name, changes, new=True))
        if now is None:
            raise _unknown_agent(context, name)
        return Outcome([f"{safe(name, 60)}: {sentence(now) or 'no description'}"], {"name": name, **now.data()})


def sentence(described: AgentDescription) -> str:
    """`🦊 reviewer, team web`."""
    team = f"team {safe(described.team, 60)}" if described.team else ""
    texts = ", ".join(filter(None, (safe(described.role or "", 60), team)))
    return " ".join(filter(None, (safe(described.emoji or "", 8), texts)))


def _changes(request: Request) -> dict[str, str | None]:
    """The checked values of the options; None deletes a text."""
    changes: dict[str, str | None] = {}
    for option, problem in _PROBLEMS.items():
        text = request.text(option)
        if text is None:
            continue
        text = names.plain_emoji(text.strip()) if option == "emoji" else text.strip()
        why = problem(text) if text else None
        if why is not None:
            raise UsageError(f"--{option} {safe(text, 60)!r} {why}", code="bad-option")
        changes[option] = text or None
    return changes


class ForgetAgentAction(Action):
    words = ("agents forget",)
    group = "Agents"
    label = "Forget an agent"
    help = "delete the entry of an agent with its description; its claims, tasks and sessions stay"
    arguments = (Argument("agent", "the agent, as `imi query 'SELECT * FROM agents'` shows it"),)

    def run(self, context: Context, request: Request) -> Outcome:
        name = request.text("agent") or ""
        held = [one.worktree_name for one in db.read(context.connection, claims.list_held) if one.agent_id == name]
        if held:
            where = ", ".join(safe(one, 60) for one in held[:3])
            raise Refused(f"{safe(name, 60)} holds {where}: `imi release` it first", code="holds")
        if not db.transact(context.connection, agents.forget_described, name):
            raise _unknown_agent(context, name)
        return Outcome([f"forgot {safe(name, 60)}"], {"name": name})


class TeamsAction(Action):
    words = ("agents teams",)
    group = "Agents"
    label = "Teams"
    help = "list the teams with their agents and items"
    changes = False

    def run(self, context: Context, request: Request) -> Outcome:
        found = db.read(context.connection, agents.list_teams)
        rows = [
            [safe(team, 60), ", ".join(safe(one, 40) for one in members), str(items), str(done), str(failed)]
            for team, members, items, done, failed in found
        ]
        names_of = ("team", "agents", "items", "completed", "failed")
        data: dict[str, object] = {"teams": [dict(zip(names_of, one, strict=True)) for one in found]}
        empty = ["no teams yet: `imi agents describe AGENT --team NAME` makes one"]
        return Outcome(table(_TEAMS, rows, status_action.terminal_width()) if rows else empty, data)


class IntegrationsAction(Action):
    words = ("integrations",)
    group = "Setup"
    label = "Integrations"
    help = "list what imi can be connected with: configured, reachable, since when"
    more = "Servers are asked once, for at most some seconds. Addresses are not shown, because they may hold passwords."
    changes = False
    needs_registry = False

    def run(self, context: Context, request: Request) -> Outcome:
        found = integrations.check(context)
        rows = [[safe(one.name, 40), one.kind, one.status, one.reachable, one.since] for one in found]
        data: dict[str, object] = {"integrations": [one.data() for one in found]}
        return Outcome(table(_INTEGRATIONS, rows, status_action.terminal_width()), data)


def _near(context: Context, name: str) -> str | None:
    """The known agent whose name is close to this one."""
    from difflib import get_close_matches

    known = [one.name for one in db.read(context.connection, agents.list_agents)]
    return next(iter(get_close_matches(name, known, 1)), None)


def _unknown_agent(context: Context, name: str) -> Refused:
    near = _near(context, name)
    hint = f"did you mean {safe(near, 60)}?" if near else "give it an --emoji, a --role or a --team to add it"
    return Refused(f"no agent is called {safe(name, 60)!r}: {hint}", code="no-agent")


ACTIONS = (DescribeAction(), ForgetAgentAction(), TeamsAction(), IntegrationsAction())
