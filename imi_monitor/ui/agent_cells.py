"""Agents as styled text: glyph, word and colour of a state, the activity, and where the state was learnt.

An unknown state is marked with `?` and a guessed one with `~`, never with a colour alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from textual.content import Content

from imi_monitor.model import agent_text, attention, columns, usage_limit
from imi_monitor.model.agent import EXACT, GUESS, PLANNING, WORKING, Agent, Truth
from imi_monitor.model.snapshot import NOT_LOOKED_FOR, UNKNOWN_CLAIM, Snapshot, Worktree
from imi_monitor.model.state_words import (
    ASKS,
    DEAD,
    DONE,
    FAILED,
    IDLE,
    INTRUDES,
    LIMITED,
    QUEUED,
    READY,
    STALLED,
    SUSPENDED,
    UNKNOWN,
    WORKS,
)
from imi_monitor.model.text import count, safe
from imi_monitor.ui import cells
from imi_monitor.ui.cells import MUTED, WALL_SIGNS

SIGNS = {
    ASKS: ("◆", "$agent-asks"),
    INTRUDES: ("⚠", "$agent-intrudes"),
    FAILED: ("!", "$agent-failed"),
    LIMITED: ("◷", "$agent-asks"),
    DEAD: ("✗", "$agent-dead"),
    STALLED: ("◌", "$agent-asks"),
    SUSPENDED: ("‖", "$agent-suspended"),
    WORKS: ("▸", "$agent-works"),
    UNKNOWN: ("?", MUTED),
    QUEUED: ("…", MUTED),
    READY: ("✓", "$agent-idle"),
    IDLE: ("✓", "$agent-idle"),
    DONE: ("·", MUTED),
}
_NEVER_GUESSED = (INTRUDES, SUSPENDED, DONE, UNKNOWN)  # however sure the state itself is
_MAX_TEXT = 300  # characters


def no_agents_text(snapshot: Snapshot) -> str:
    """Return why no agents are shown."""
    return "no agent is seen" if snapshot.sees_agents else NOT_LOOKED_FOR


def state_style(agent: Agent) -> str:
    return SIGNS[attention.standing(agent)][1]


def glyph(agent: Agent) -> Content:
    sign, colour = SIGNS[attention.standing(agent)]
    return Content.styled(sign, colour)


def state_word(agent: Agent) -> str:
    """The agent's state in one word, with `~` in front of a guess."""
    guessed = agent.truth.confidence == GUESS and attention.standing(agent) not in _NEVER_GUESSED
    return f"~{attention.word(agent)}" if guessed else attention.word(agent)


def state_age(agent: Agent, now: datetime) -> str:
    """The age of the agent's state; empty when its beginning is unknown, as it is of a suspended process."""
    if agent.truth.since is None or attention.standing(agent) == SUSPENDED:
        return ""
    return cells.age(agent.truth.since, now)


def source_text(truth: Truth) -> str:
    """The source of the state: `registry`; `~transcript` when it is less than exact; `–` without any."""
    if truth.source is None:
        return "–"
    return safe(truth.source, 20) if truth.confidence == EXACT else f"~{safe(truth.source, 20)}"


def token_count(number: int | None) -> str:
    """`61k`, `1.2M`; empty when unknown."""
    return "" if number is None or number < 0 else agent_text.format_tokens(number)


def activity(agent: Agent, *, short: bool = False) -> Content:
    """What the agent does, asks for or ended with; `short` puts the state in front, for rows without a column for it."""
    text = _activity(agent, short=short)
    if not agent.suspended or (not short and attention.standing(agent) == SUSPENDED):
        return text
    return Content.styled(f"{SUSPENDED}: " if text.plain else SUSPENDED, "$agent-suspended").append(text)


def _activity(agent: Agent, *, short: bool) -> Content:
    standing = attention.standing(agent)
    if standing == ASKS:
        return _headed(ASKS, "$agent-asks bold", waits_for(agent), "", short=short)
    if standing == INTRUDES:
        return _intruding(agent, short=short)
    if standing == FAILED:
        return _headed(FAILED, "$agent-failed", agent.truth.detail or "for an unknown reason", "", short=short)
    reached = attention.usage_limit_of(agent)
    if reached is not None:
        return _headed(LIMITED, "$agent-asks", usage_limit.words(reached).removeprefix("limited "), "", short=short)
    if standing == DEAD:
        return _headed(DEAD, "$agent-dead", _last_words(agent), MUTED, short=short)
    if standing == WORKS or (standing == SUSPENDED and agent.state in WORKING):
        return _working(agent, short=short)
    detail = "" if attention.own_state(agent) == READY else agent.truth.detail or agent.facts.last_message or ""
    if standing == UNKNOWN and agent.facts.format_note:  # `unknown (format) claude 9.9.9: …`
        detail = agent.facts.format_note.removeprefix("unknown ")
    head = attention.own_state(agent) if standing == SUSPENDED else state_word(agent)
    return _headed(head, state_style(agent), detail, MUTED, short=short)


def waits_for(agent: Agent) -> str:
    """Return what an agent asks for, the tool call first: rows are cut at their end."""
    return agent_text.waits_for(agent.truth, tool_first=True) or "something"


def _headed(head: str, colour: str, text: str, text_style: str, *, short: bool) -> Content:
    body = Content.styled(safe(text, _MAX_TEXT), text_style)
    if not short:
        return body
    return Content.styled(f"{head}: " if text else head, colour).append(body)


def _intruding(agent: Agent, *, short: bool) -> Content:
    """`short` leaves out the claim's owner, shown in the owner's column."""
    head = f"{safe(agent.name, 30)} intrudes" if short else f"{safe(agent.claimed_by or 'another', 40)} holds the claim"
    text = Content.styled(head, "$agent-intrudes bold" if short else "$agent-intrudes")
    return text.append(Content.styled(f" · {safe(str(agent.truth.tool), 80)}", MUTED)) if agent.truth.tool else text


def _last_words(agent: Agent) -> str:
    text = agent.truth.detail or "its process is gone"
    return f"{text}, in {agent.truth.tool}" if agent.truth.tool else text


def _working(agent: Agent, *, short: bool) -> Content:
    guess = "~" if agent.truth.confidence == GUESS else ""
    more = f" +{count(agent.facts.subagents, 'subagent')}" if agent.facts.subagents else ""
    tool = agent.truth.tool
    if tool is not None:
        text = Content.styled(f"{guess}{safe(tool.name, 60)}", "$agent-works")
        target = safe(tool.target, _MAX_TEXT) if tool.target else ""
        return text.append(Content(f" {target}" if target else "")).append(Content.styled(more, MUTED))
    word = f"{guess}{PLANNING}" if agent.state == PLANNING else state_word(agent) if short else ""
    on = agent.truth.detail or agent.facts.prompt or agent.facts.title or ""
    gap = " · " if word and on else ""
    return Content.styled(word, "$agent-works").append(Content.styled(f"{gap}{safe(on, _MAX_TEXT)}{more}", MUTED))


def owner_text(tree: Worktree, agents: Sequence[Agent], width: int = 1000) -> str:
    """The claim's owner, else the first agent: `claude-1`, `claude, unclaimed` or where it fits `(claude)`; ` +1` for others.

    Behind a wall its sign stands before the name: `▢ claude-1`.
    """
    here = [one for one in agents if not attention.has_ended(one)]
    level = tree.run.wall if tree.run is not None else next((one.wall for one in here if one.wall in WALL_SIGNS), None)
    sign = WALL_SIGNS.get(level or "", "")
    if sign:
        return f"{sign} {_owner_names(tree, here, width - 2)}"
    return _owner_names(tree, here, width)


def _owner_names(tree: Worktree, here: Sequence[Agent], width: int) -> str:
    if tree.run is not None:
        return _workspace_names(tree, tree.run.agent, {one.name for one in here}, width)
    if not here:
        return safe(tree.owner)
    others = len(here) - 1
    if tree.claim is not None and tree.claim.state == UNKNOWN_CLAIM:
        names = [f"{safe(here[0].name)}, claim ?", f"({safe(here[0].name)}) ?"]
    elif tree.claim is not None:
        others = sum(one.name != tree.claim.agent for one in here)
        names = [safe(tree.owner)]
    else:
        name = safe(here[0].name)
        names = [f"{name}, unclaimed", f"({name})"]
    more = f" +{others}" if others else ""
    return next((one + more for one in names if columns.cell_width(one + more) <= width), names[-1] + more)


def _workspace_names(tree: Worktree, agent: str, here: set[str], width: int) -> str:
    """The claim's owner and the agent of a workspace that is no worktree, and how many others; the owner alone where both do
    not fit, cut where it does not fit either."""
    owner = tree.claim.agent if tree.claim is not None else agent
    if owner != agent:
        text = _with_others(f"{safe(owner)}, {safe(agent)}", here - {owner, agent})
        if columns.cell_width(text) <= width:
            return text
    others = _with_others("", here - {owner})
    return columns.clip_middle(safe(owner), max(1, width - len(others))) + others if others else safe(owner)


def _with_others(text: str, others: set[str]) -> str:
    return f"{text} +{len(others)}" if others else text


def worktree_glyph(tree: Worktree, agents: Sequence[Agent]) -> Content:
    """The glyph of the most urgent agent there, else that of the worktree's claim or type."""
    first = next(iter(agents), None)
    return glyph(first) if first is not None and not tree.missing and _is_relevant(first) else cells.glyph(tree)


def worktree_activity(tree: Worktree, agents: Sequence[Agent], *, task: bool = True) -> Content:
    """An agent that asks or intrudes, else a problem of the worktree, else an agent's activity, else the worktree's own."""
    first = next(iter(agents), None)
    if first is None or tree.missing or not _is_relevant(first):
        return cells.activity(tree, task=task)
    if attention.standing(first) in (ASKS, INTRUDES):
        return activity(first, short=True)
    wrong = cells.problem(tree)
    return wrong if wrong.plain and tree.git is not None else activity(first, short=True)


def _is_relevant(agent: Agent) -> bool:
    return not attention.has_ended(agent) or attention.needs_attention(agent)


def gauge(share: float, width: int) -> Content:
    """`████░░░░`: the share as a bar, in the colour of a warning above 80 % and of an error above 95 %."""
    full = round(share * width)
    colour = "$error" if share > 0.95 else "$warning" if share > 0.8 else "$accent"
    return Content.styled("█" * full, colour).append(Content.styled("░" * (width - full), "$foreground 30%"))
