"""The filter of the lead's view: words that all must fit an agent.

Plain text is part of its name, program, worktree, repository, model or what it does; `!word` is the opposite, `@name` its
name, and `is:` how it stands: asks, works, idle, dead, … Capitals count only if the word has any.
"""

from __future__ import annotations

from imi_monitor.model import attention
from imi_monitor.model.agent import Agent

# other words for the same, as they stand in headings and in the filter of worktrees
_SAME = {
    "asking": attention.ASKS,
    "waiting": attention.ASKS,
    "working": attention.WORKS,
    "done": attention.ENDED,
    "intruder": attention.INTRUDES,
    "intruded": attention.INTRUDES,
}


def matches(agent: Agent, wanted: str) -> bool:
    """Whether every word fits; a lone `!` is being typed."""
    return all(_fits(agent, word.removeprefix("!")) != word.startswith("!") for word in wanted.split() if word != "!")


def _fits(agent: Agent, word: str) -> bool:
    if word.startswith("@"):
        return _holds(f"{agent.name} {agent.cli}", word[1:])
    if word.startswith("is:"):
        stands = word[3:].lower()
        return attention.standing(agent).startswith(_SAME.get(stands, stands))
    where = f"{agent.key.repo}/{agent.key.worktree}" if agent.key else ""
    doing = f"{agent.truth.detail or ''} {agent.truth.tool or ''} {agent.facts.title or ''}"
    return _holds(f"{agent.name} {agent.cli} {where} {agent.facts.model or ''} {doing}", word)


def _holds(text: str, word: str) -> bool:
    return word in text if word != word.lower() else word in text.lower()
