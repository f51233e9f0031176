"""Describes an agent in words: its state, the evidence for it, and its facts.

The dashboard, `imi agents` and alerts share these words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from imi_monitor.model import attention, columns, state_words, times, usage_limit
from imi_monitor.model.agent import (
    COMPLETED,
    GUESS,
    LIKELY,
    NOTHING_ASKED,
    PLANNING,
    RUNNING,
    WAITING,
    Agent,
    Evidence,
    Truth,
)
from imi_monitor.model.agent_walls import NO_WALL, WALLED
from imi_monitor.model.styled_text import ERROR, MUTED, NAME, join, styled
from imi_monitor.model.text import count, safe

_HOOKED = "no hook of it waits for an answer (`imi hooks install {}`)"
_NO_ANSWER = {
    "claude": _HOOKED.format("claude"),
    "opencode": _HOOKED.format("opencode"),
    "codex": "it has no daemon of Codex",
}
_CONFIDENCE = {LIKELY: "likely", GUESS: "a guess"}


def evidence_word(one: Evidence) -> str:
    """Return the word for what the evidence says."""
    fresh = one.state == COMPLETED and one.detail == NOTHING_ASKED
    return state_words.READY if fresh else safe(state_words.of_status(one.state), 20)


def describe_activity(agent: Agent, limit: int = 120) -> str:
    """Return what the agent does: `asks: permission prompt (Bash pytest)`, `Edit src/api.ts`, `idle`.

    A suspended agent has what it continues with: `suspended: Edit src/api.ts`.
    """
    activity = _activity(agent, limit)
    return f"{state_words.SUSPENDED}: {activity}" if agent.suspended else activity


def state_age(agent: Agent, now: datetime) -> str:
    """Return the age of the state; empty for a suspended agent, whose stop has no recorded time."""
    return "" if agent.suspended else times.age_of(agent.truth.since, now)


def _activity(agent: Agent, limit: int) -> str:
    truth = agent.truth
    word = attention.own_state(agent)
    if word == state_words.READY:
        return word
    tool = safe(str(truth.tool), limit) if truth.tool else ""
    detail = safe(truth.detail, limit) if truth.detail else ""
    reached = attention.usage_limit_of(agent)
    if reached is not None:
        return usage_limit.words(reached)
    if agent.state == WAITING:
        what = safe(waits_for(truth), limit)
        return f"{word}: {what}" if what else word
    if agent.state in (RUNNING, PLANNING) and not truth.ended and (tool or agent.state == PLANNING):
        return tool if agent.state == RUNNING else f"{word}: " + " · ".join(filter(None, (PLANNING, tool)))
    return f"{word}: {detail}" if detail else word


def not_started(name: str, cli: str = "", *, asked: bool = False) -> str:
    """Return why imi does nothing with an agent that it did not start; `asked`: why it gives its question no answer."""
    if asked:
        why = _NO_ANSWER.get(cli, "its program takes no answers from outside")
        return f"enter goes to its own screen: imi did not start {safe(name, 60)}, and {why}"
    return f"{safe(name, 60)} was not started by imi: enter goes to its own screen"


def waits_for(truth: Truth, *, tool_first: bool = False) -> str:
    """Return what an agent waits for: `permission prompt (Bash pytest)`; empty when unknown.

    `tool_first` is for short lines: `Bash pytest · permission prompt`. A detail such as `permission for Bash pytest`
    names the tool already.
    """
    tool, detail = str(truth.tool) if truth.tool else "", truth.detail or ""
    if not tool or not detail:
        return detail or tool
    if tool_first:
        return f"{tool} · {detail.replace(f' for {tool}', '', 1)}"
    return detail if tool in detail else f"{detail} ({tool})"


def worktree_label(agent: Agent) -> str:
    """Return the agent's worktree, in another home as `HOST:NAME`."""
    if agent.key is None:
        return "?"
    name = safe(agent.key.worktree, 60)
    return f"{safe(agent.key.host, 60)}:{name}" if agent.truth.source == "home" else name


def format_tokens(number: int | None) -> str:
    """Return a short number of tokens: `61k`, `1.2M`; unknown is `?`."""
    if number is None:
        return "?"
    if number < 1000:
        return str(number)
    if number < 1_000_000:
        return f"{number / 1000:.0f}k" if number >= 9950 else f"{number / 1000:.1f}k"
    return f"{number / 1_000_000:.1f}M"


def table(
    agents: Iterable[Agent], now: datetime, beside: Mapping[str, str] | None = None, width: int | None = None
) -> list[str]:
    """Return one line for each agent, in columns; `beside` maps agent names to a text shown after the name."""
    rows = [_table_row(one, now, (beside or {}).get(one.name, "")) for one in attention.by_attention(agents)]
    return columns.table(_COLUMNS, rows, width)


_COLUMNS = (
    columns.Column("", least=8),
    columns.Column("", least=8),
    columns.Column("", least=16),
    columns.Column("", right=True),
    columns.Column("", rank=3),
    columns.Column("", right=True, rank=2),
    columns.Column("", least=8, rank=1),
    columns.Column(""),  # a warning, never cut
)


def _table_row(one: Agent, now: datetime, beside: str) -> tuple[str, ...]:
    used = attention.total_tokens(one)
    return (
        join((styled(safe(one.name, 30), NAME), f" {beside}" if beside else "")),
        worktree_label(one),
        styled(describe_activity(one, 60), state_words.style_of(attention.standing(one))),
        styled(state_age(one, now), MUTED),
        styled(f"wall {safe(one.wall or NO_WALL, 20)}" if is_walled(one) else "", MUTED),
        styled(f"{format_tokens(used)} tok" if used else "", MUTED),
        styled(describe_source(one), MUTED),
        styled(f"works where {safe(one.claimed_by or '?', 40)} holds the claim!" if one.intruder else "", ERROR),
    )


def is_walled(agent: Agent) -> bool:
    """Whether the kernel keeps it inside of its workspace."""
    return agent.wall in WALLED


def describe_source(agent: Agent) -> str:
    """Return the source of the state and its confidence: `transcript (likely)`."""
    source = agent.truth.source
    confidence = _CONFIDENCE.get(agent.truth.confidence)
    return f"{source} ({confidence})" if source and confidence else source or "no source"


def explain(agent: Agent, now: datetime) -> list[str]:
    """Return the lines of `imi agents NAME`: the state, the evidence that decided, the rejected evidence, all facts."""
    truth = agent.truth
    lines = [
        f"{safe(agent.name, 60)} in {worktree_label(agent)}: {describe_activity(agent)}, since {times.age_of(truth.since, now)}",
        *(
            ["its process is suspended (ctrl-z, SIGSTOP): it does nothing until it is continued"]
            if agent.suspended
            else []
        ),
        f"source: {describe_source(agent)}",
        "",
        "evidence that decided:" if truth.used else "no evidence of what it does",
        *(f"  {_evidence_line(one, now)}" for one in truth.used),
    ]
    if truth.rejected:
        lines += ["", "rejected evidence:"]
        for one in truth.rejected:
            lines += [f"  {_evidence_line(one.evidence, now)}", f"      because {safe(one.why, 200)}"]
    return [*lines, "", "facts:", *(f"  {name}: {value}" for name, value in list_facts(agent, now))]


def _evidence_line(one: Evidence, now: datetime) -> str:
    tool = f", {safe(str(one.tool), 80)}" if one.tool else ""
    maybe = f" (or {', '.join(state_words.of_status(state) for state in sorted(one.or_else))})" if one.or_else else ""
    kind = "now" if one.standing else f"{times.age_of(one.at, now)} ago"
    return f"{one.source}, {kind}: {evidence_word(one)}{maybe}{tool}: {safe(one.says, 200)}"


def list_facts(agent: Agent, now: datetime) -> Sequence[tuple[str, str]]:
    """Return (name, value) of every known fact, for people."""
    facts = agent.facts
    window = f" of {format_tokens(facts.context_size)}" if facts.context_size else ""
    pairs = (
        ("session", agent.session),
        ("process", f"{agent.pid}{', suspended' if agent.suspended else ''}" if agent.pid is not None else None),
        ("folder", agent.cwd),
        ("program", f"{agent.cli} {facts.version or ''}".strip()),
        ("model", facts.model),
        ("title", facts.title),
        ("branch", facts.branch),
        ("started", _ago(facts.started_at, now)),
        ("turn since", _ago(facts.turn_at, now)),
        ("ended", _ago(facts.ended_at, now)),
        ("last seen", _ago(agent.seen_at, now)),
        ("prompt", facts.prompt),
        ("last reply", facts.last_message),
        ("tokens", _tokens(agent)),
        ("context", f"{format_tokens(facts.context_used)}{window}" if facts.context_used is not None else None),
        ("cost", f"${facts.cost_usd:.2f}" if facts.cost_usd is not None else None),
        ("subagents", str(facts.subagents) if facts.subagents else None),
        ("works for", facts.parent),
        ("files", f"{count(len(facts.files), 'file')}: {', '.join(facts.files[-5:])}" if facts.files else None),
        ("terminal", facts.tmux or facts.zellij),
        ("claim", f"held by {agent.claimed_by}" if agent.claimed_by else "none"),
        ("note", facts.format_note),
    )
    return [(name, safe(value, 300)) for name, value in pairs if value]


def _ago(at: str | None, now: datetime) -> str | None:
    return f"{times.age_of(at, now)} ago" if at else None


def _tokens(agent: Agent) -> str | None:
    facts = agent.facts
    parts = (("read", facts.tokens_in), ("written", facts.tokens_out), ("from cache", facts.tokens_cached))
    if not any(number for _, number in parts):
        return None
    return ", ".join(f"{format_tokens(number)} {word}" for word, number in parts if number is not None)
