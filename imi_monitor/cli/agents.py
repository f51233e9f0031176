"""`imi agents` and `imi agents explain`: which agent works where, what it does, and how we know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imi_monitor.actions.base import Outcome
from imi_monitor.actions.context import Context
from imi_monitor.cli import out
from imi_monitor.cli.scope import common_dirs_of
from imi_monitor.model import agent_words, times
from imi_monitor.model.agent import Agent
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe
from imi_monitor.store import db

if TYPE_CHECKING:
    from imi_monitor.cli.args import Parsed


def show(parsed: Parsed) -> int:
    agents, broken = _look(parsed)
    if parsed.request.verb == "agents explain":
        found = _meant(agents, parsed.request.text("name") or "")
        outcome = Outcome(agent_words.explanation(found, times.now()), {"agent": agent_words.data(found)})
    else:
        lines = agent_words.table(agents, times.now()) or ["no agent works in these worktrees, as far as can be seen"]
        outcome = Outcome(lines, {"agents": [agent_words.data(one) for one in agents], "count": len(agents)})
    outcome.warnings.extend(safe(text, 300) for text in broken)
    out.outcome(outcome, as_json=parsed.flag("json"))
    return 0


def _look(parsed: Parsed) -> tuple[tuple[Agent, ...], list[str]]:
    from imi_monitor.sources.agents import once
    from imi_monitor.sources.registry import read_picture
    from imi_monitor.sources.worktrees import Scope, read_roster

    with Context(database=parsed.option("db"), repo=parsed.option("repo")) as context:
        dirs = common_dirs_of(context, parsed.request.rest("repo"))
        scope = Scope(None if dirs is None else tuple(dirs))
        entries, _ = db.reading(context.connection, read_roster, scope, context.database)
        picture = db.reading(context.connection, read_picture, 0)
    return once.look(entries, picture.claims)


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
