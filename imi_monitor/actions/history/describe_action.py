"""`imi agents describe`: an emoji, a role and a team, shown beside the agent's name in `imi tasks` and `imi agents`."""

from __future__ import annotations

from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.model import names
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.model.text import safe
from imi_monitor.store import agents, db

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.store.agents import AgentDescription

_PROBLEMS = {"emoji": names.emoji_problem, "role": names.label_problem, "team": names.label_problem}


class DescribeAction(Action):
    words = ("agents describe",)
    group = "Agents"
    label = "Describe an agent"
    help = "set or show the emoji, role and team of an agent"
    more = """The name is the one the agent claims with; it is listed from its first claim or session on. An empty value ("")
    deletes a text."""
    arguments = (Argument("agent", "the agent, as `imi claims` shows it"),)
    options = (
        Option("emoji", "one character, at most two columns wide", value="EMOJI"),
        Option("role", "its task: reviewer, tests", value="ROLE"),
        Option("team", "its team", value="TEAM"),
    )

    def refuse(self, context: Context, request: Request) -> None:
        _changes(request)

    def run(self, context: Context, request: Request) -> Outcome:
        changes, name = _changes(request), request.text("agent") or ""
        now = db.transact(context.connection, agents.describe, name, changes)
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


def _unknown_agent(context: Context, name: str) -> Refused:
    from difflib import get_close_matches

    known = [one.name for one in db.read(context.connection, agents.list_agents)]
    near = get_close_matches(name, known, 1)
    hint = f"did you mean {safe(near[0], 60)}?" if near else "an agent is listed from its first claim or session on"
    return Refused(f"no agent is called {safe(name, 60)!r}: {hint}", code="no-agent")


ACTIONS = (DescribeAction(),)
