"""Answers to agents that imi did not start: which of their open questions a user means, and what it takes."""

from __future__ import annotations

import os

from imi_monitor import host
from imi_monitor.actions import worktree_lookup
from imi_monitor.actions.action import KeyChoice
from imi_monitor.git import layout
from imi_monitor.model import agent_text, names
from imi_monitor.model.errors import Refused
from imi_monitor.model.run import NO, YES
from imi_monitor.model.text import safe
from imi_monitor.runs import found_questions, providers
from imi_monitor.store import db, sessions
from imi_monitor.store.sessions import SessionFilter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.runs.found_questions import FoundQuestion


def find(context: Context, name: str | None, ident: str | None) -> FoundQuestion | None:
    """The open question of this id, or of the agent of this name: its session, its own name or its worktree."""
    if ident is not None:
        if not found_questions.is_known(ident):
            return None
        found = found_questions.find(ident)
        if found is None:
            raise Refused("too late: this question is answered or closed already", code="too-late")
        return found
    if not name:
        return None
    wanted = names.candidates(name, worktree_lookup.name_prefixes(context))
    among = [one for one in found_questions.list_open() if _is_meant(context, one, name, wanted)]
    if len(among) > 1:
        shown = ", ".join(f"--ask {one.id} ({safe(one.question.text or one.question.tool, 60)})" for one in among[:5])
        raise Refused(f"{safe(name, 60)!r} may mean several questions: {shown}", code="ambiguous")
    return among[0] if among else None


def _is_meant(context: Context, asked: FoundQuestion, name: str, worktrees: list[str]) -> bool:
    if asked.session.startswith(name) or f"{asked.program}:{asked.session}".startswith(name):
        return True
    stored = db.read(context.connection, sessions.find_by_prefix, f"{asked.program}:{asked.session}")
    if any(one.agent_id == name for one in stored):
        return True
    place = layout.discover(asked.cwd) if asked.cwd else None
    return place is not None and place.path is not None and os.path.basename(place.path) in worktrees


def refuse_unanswered(context: Context, name: str | None) -> None:
    """Refuse an agent that works, was not started by imi, and asks nothing that imi can answer."""
    named = db.read(context.connection, sessions.find_by_prefix, name) if name else []
    named += db.read(context.connection, sessions.find, SessionFilter(agent=name), 5) if name else []
    for one in named:
        if one.ended_at is None and host.is_alive(one.host, one.boot, one.pid, one.pid_started):
            text = agent_text.not_started(str(name), one.cli, asked=True)
            raise Refused(text.replace("enter", "enter in the dashboard", 1), code="no-question")


def choices(asked: FoundQuestion) -> tuple[KeyChoice, ...]:
    """The answers with keys: yes and no, or its choices by number."""
    given = asked.question.choices
    if given == (YES, NO):
        return KeyChoice("y", YES, "yes"), KeyChoice("n", NO, "no")
    return tuple(KeyChoice(str(number), one, one) for number, one in enumerate(given[:9], 1))


def line(asked: FoundQuestion) -> str:
    return (
        f"{safe(asked.program)} {safe(asked.session[:8])} asks: {safe(asked.question.text or asked.question.tool, 500)}"
    )


def give(asked: FoundQuestion, text: str) -> None:
    """Answer it: yes, no, a choice or its number, or a reason to refuse."""
    given = asked.question.choices
    chosen = given[int(text[:6]) - 1] if text.isdecimal() and 0 < int(text[:6]) <= len(given) else text
    found_questions.send(asked, providers.by_name(asked.program).answer(asked.record, chosen))
