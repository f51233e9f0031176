"""Agents as styled text: which glyph, word and colour stands for how one stands, what it does, how we know.

Unknown has its `?`, a guess its `~`; both are words of their own beside it, never a colour alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from textual.content import Content

from imi_monitor.model import agent_text, attention, columns
from imi_monitor.model.agent import EXACT, GUESS, WORKING, Agent, Truth
from imi_monitor.model.attention import ASKS, DIED, ENDED, FAILS, IDLE, INTRUDES, SUSPENDED, UNCLEAR, WORKS
from imi_monitor.model.snapshot import NOT_LOOKED_FOR, Snapshot, Worktree
from imi_monitor.model.text import count, safe
from imi_monitor.ui import cells
from imi_monitor.ui.cells import MUTED

SIGNS = {
    ASKS: ("◆", "$agent-asks"),
    INTRUDES: ("⚠", "$agent-intrudes"),
    FAILS: ("!", "$agent-failed"),
    DIED: ("✗", "$agent-dead"),
    SUSPENDED: ("‖", "$agent-suspended"),
    WORKS: ("▸", "$agent-works"),
    UNCLEAR: ("?", MUTED),
    IDLE: ("✓", "$agent-idle"),
    ENDED: ("·", MUTED),
}
_CERTAIN = (INTRUDES, SUSPENDED, ENDED, UNCLEAR)  # no guess, whatever its state is
_LONGEST = 300


def no_agents_text(snapshot: Snapshot) -> str:
    """Why there are no agents."""
    return "no agent is seen" if snapshot.sees_agents else NOT_LOOKED_FOR


def state_style(agent: Agent) -> str:
    return SIGNS[attention.standing(agent)][1]


def glyph(agent: Agent) -> Content:
    sign, colour = SIGNS[attention.standing(agent)]
    return Content.styled(sign, colour)


def state_word(agent: Agent) -> str:
    """How it stands in one word; a guess is marked as one."""
    stands = attention.standing(agent)
    told = (
        stands if stands in (INTRUDES, SUSPENDED, ENDED) else agent_text.WORDS.get(agent.state, safe(agent.state, 20))
    )
    return f"~{told}" if agent.truth.confidence == GUESS and stands not in _CERTAIN else told


def state_age(agent: Agent, now: datetime) -> str:
    """For how long it stands so; nothing when nobody knows since when."""
    if agent.truth.since is None or attention.standing(agent) == SUSPENDED:  # when it was stopped nobody told
        return ""
    return cells.age(agent.truth.since, now)


def source_text(truth: Truth) -> str:
    """`registry`; `~transcript` when that is less than exact; nothing when nobody told anything."""
    if truth.source is None:
        return "–"
    return safe(truth.source, 20) if truth.confidence == EXACT else f"~{safe(truth.source, 20)}"


def token_count(number: int | None) -> str:
    """`61k`, `1.2M`; nothing when it is not known."""
    return "" if number is None or number < 0 else agent_text.format_tokens(number)


def activity(agent: Agent, *, short: bool = False) -> Content:
    """What it does, waits for, or came to. In `short`, with its state in front, for rows that have no column for that."""
    told = _doing(agent, short=short)
    if not agent.suspended or (not short and attention.standing(agent) == SUSPENDED):
        return told
    return Content.styled(f"{SUSPENDED}: " if told.plain else SUSPENDED, "$agent-suspended").append(told)


def _doing(agent: Agent, *, short: bool) -> Content:
    stands = attention.standing(agent)
    if stands == ASKS:
        return _headed("asks", "$agent-asks bold", waits_for(agent, short=short), "", short=short)
    if stands == INTRUDES:
        return _intruding(agent, short=short)
    if stands == FAILS:
        return _headed("failed", "$agent-failed", agent.truth.detail or "why is not known", "", short=short)
    if stands == DIED:
        return _headed("dead", "$agent-dead", _last_words(agent), MUTED, short=short)
    if stands == WORKS or (stands == SUSPENDED and agent.state in WORKING):
        return _working(agent, short=short)
    detail = agent.truth.detail or agent.facts.last_message or ""
    if stands == UNCLEAR and agent.facts.format_note:  # `unknown (format) claude 9.9.9: …`
        detail = agent.facts.format_note.removeprefix("unknown ")
    head = agent_text.WORDS.get(agent.state, safe(agent.state, 20)) if stands == SUSPENDED else state_word(agent)
    return _headed(head, state_style(agent), detail, MUTED, short=short)


def waits_for(agent: Agent, *, short: bool = False) -> str:
    return agent_text.waits_for(agent.truth, tool_first=short) or "something"


def _headed(head: str, colour: str, text: str, text_style: str, *, short: bool) -> Content:
    body = Content.styled(safe(text, _LONGEST), text_style)
    if not short:
        return body
    return Content.styled(f"{head}: " if text else head, colour).append(body)


def _intruding(agent: Agent, *, short: bool) -> Content:
    """In short the owner's column says who holds the claim."""
    head = f"{safe(agent.name, 30)} intrudes" if short else f"{safe(agent.claimed_by or 'another', 40)} holds the claim"
    told = Content.styled(head, "$agent-intrudes bold" if short else "$agent-intrudes")
    return told.append(Content.styled(f" · {safe(str(agent.truth.tool), 80)}", MUTED)) if agent.truth.tool else told


def _last_words(agent: Agent) -> str:
    told = agent.truth.detail or "its process is gone"
    return f"{told}, in {agent.truth.tool}" if agent.truth.tool else told


def _working(agent: Agent, *, short: bool) -> Content:
    guess = "~" if agent.truth.confidence == GUESS else ""
    more = f" +{count(agent.facts.subagents, 'subagent')}" if agent.facts.subagents else ""
    tool = agent.truth.tool
    if tool is not None:
        told = Content.styled(f"{guess}{safe(tool.name, 60)}", "$agent-works")
        target = safe(tool.target, _LONGEST) if tool.target else ""
        return told.append(Content(f" {target}" if target else "")).append(Content.styled(more, MUTED))
    head = Content.styled(state_word(agent) if short else "", "$agent-works")
    on = agent.truth.detail or agent.facts.prompt or agent.facts.title or ""
    gap = " · " if short and on else ""
    return head.append(Content.styled(f"{gap}{safe(on, _LONGEST)}{more}", MUTED))


def owner_text(tree: Worktree, agents: Sequence[Agent], width: int = 1000) -> str:
    """`claude-1`; `claude, unclaimed` where nobody claimed it, `(claude)` where that has no room; ` +1` for others there."""
    here = [one for one in agents if not attention.has_ended(one)]
    if not here:
        return safe(tree.owner)
    others = len(here) - 1
    if tree.claim is not None:
        others = sum(one.name != tree.claim.agent for one in here)
        told = [safe(tree.owner)]
    else:
        name = safe(here[0].name)
        told = [f"{name}, unclaimed", f"({name})"]
    more = f" +{others}" if others else ""
    return next((one + more for one in told if columns.cell_width(one + more) <= width), told[-1] + more)


def worktree_glyph(tree: Worktree, agents: Sequence[Agent]) -> Content:
    """How the first agent there stands, while there is one that matters; else what the worktree is."""
    first = next(iter(agents), None)
    return glyph(first) if first is not None and not tree.missing and _matters(first) else cells.glyph(tree)


def worktree_activity(tree: Worktree, agents: Sequence[Agent]) -> Content:
    """Who asks or intrudes first, then what is wrong with the worktree, then what its agent does, then what changed there."""
    first = next(iter(agents), None)
    if first is None or tree.missing or not _matters(first):
        return cells.activity(tree)
    if attention.standing(first) in (ASKS, INTRUDES):
        return activity(first, short=True)
    wrong = cells.problem(tree)
    return wrong if wrong.plain and tree.git is not None else activity(first, short=True)


def _matters(agent: Agent) -> bool:
    return not attention.has_ended(agent) or attention.needs_attention(agent)


def gauge(share: float, width: int) -> Content:
    """`████░░░░`: how full; the last fifth is a warning, told in numbers beside it."""
    full = round(share * width)
    colour = "$error" if share > 0.95 else "$warning" if share > 0.8 else "$accent"
    return Content.styled("█" * full, colour).append(Content.styled("░" * (width - full), "$foreground 30%"))
