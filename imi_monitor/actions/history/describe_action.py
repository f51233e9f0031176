"""`imi agents describe`: what a person says of an agent, shown beside its name in `imi tasks` and `imi agents`."""

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
    help = "give an agent an emoji, a role and a team, or see which it has"
    more = """The name is the one it claims with; it is known from its first claim or session on. An empty value ("") takes
    back what was said."""
    arguments = (Argument("agent", "the agent, as `imi claims` shows it"),)
    options = (
        Option("emoji", "one sign for it, at most two columns wide", value="EMOJI"),
        Option("role", "what it does: reviewer, tests", value="ROLE"),
        Option("team", "to whom it belongs", value="TEAM"),
    )

    def refuse(self, context: Context, request: Request) -> None:
        _said(request)

    def run(self, context: Context, request: Request) -> Outcome:
        said, name = _said(request), request.text("agent") or ""
        now = db.transact(context.connection, agents.describe, name, said)
        if now is None:
            raise _nobody(context, name)
        return Outcome([f"{safe(name, 60)}: {sentence(now) or 'nothing is said of it'}"], {"name": name, **now.data()})


def sentence(said: AgentDescription) -> str:
    """`🦊 reviewer, team web`."""
    team = f"team {safe(said.team, 60)}" if said.team else ""
    told = ", ".join(filter(None, (safe(said.role or "", 60), team)))
    return " ".join(filter(None, (safe(said.emoji or "", 8), told)))


def _said(request: Request) -> dict[str, str | None]:
    """What the options say, checked; an empty one takes back what was said before."""
    said: dict[str, str | None] = {}
    for option, problem in _PROBLEMS.items():
        text = request.text(option)
        if text is None:
            continue
        text = names.plain_emoji(text.strip()) if option == "emoji" else text.strip()
        why = problem(text) if text else None
        if why is not None:
            raise UsageError(f"--{option} {safe(text, 60)!r} {why}", code="bad-option")
        said[option] = text or None
    return said


def _nobody(context: Context, name: str) -> Refused:
    from difflib import get_close_matches

    known = [one.name for one in db.read(context.connection, agents.list_agents)]
    near = get_close_matches(name, known, 1)
    hint = f"did you mean {safe(near[0], 60)}?" if near else "one is known from its first claim or session on"
    return Refused(f"no agent is called {safe(name, 60)!r}: {hint}", code="no-agent")


ACTIONS = (DescribeAction(),)
