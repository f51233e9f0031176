"""An agent in words: one line of it, the reasons behind it, and all of it as data for scripts.

The same words stand on the dashboard, in `imi agents` and in notifications, so that one thing has one name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime

from imi_monitor.model import attention, columns, times
from imi_monitor.model.agent import (
    CANCELLED,
    COMPLETED,
    DEAD,
    FAILED,
    GUESS,
    LIKELY,
    PLANNING,
    RUNNING,
    UNKNOWN,
    WAITING,
    Agent,
    Evidence,
    Truth,
)
from imi_monitor.model.attention import SUSPENDED
from imi_monitor.model.text import count, safe

WORDS = {
    WAITING: "asks",
    FAILED: "failed",
    DEAD: "dead",
    UNKNOWN: "unknown",
    PLANNING: "plans",
    RUNNING: "works",
    CANCELLED: "stopped",
    COMPLETED: "done",
}
_SURE = {LIKELY: "likely", GUESS: "a guess"}


def describe_activity(agent: Agent, limit: int = 120) -> str:
    """What it does, without since when: `asks: permission prompt (Bash pytest)`, `Edit src/api.ts`, `done`; while its
    process is stopped that is what it will go on with: `suspended: Edit src/api.ts`."""
    told = _doing(agent, limit)
    return f"{SUSPENDED}: {told}" if agent.suspended else told


def state_age(agent: Agent, now: datetime) -> str:
    """For how long; empty while it is suspended, as nobody told since when."""
    return "" if agent.suspended else times.age_of(agent.truth.since, now)


def _doing(agent: Agent, limit: int) -> str:
    truth = agent.truth
    word = WORDS.get(agent.state, agent.state)
    tool = safe(str(truth.tool), limit) if truth.tool else ""
    detail = safe(truth.detail, limit) if truth.detail else ""
    if agent.state == WAITING:
        what = safe(waits_for(truth), limit)
        return f"{word}: {what}" if what else word
    if agent.state in (RUNNING, PLANNING) and tool:
        return tool if agent.state == RUNNING else f"{word}: {tool}"
    return f"{word}: {detail}" if detail else word


def waits_for(truth: Truth, *, tool_first: bool = False) -> str:
    """`permission prompt (Bash pytest)`, or with what it is about in front, for a short line: `Bash pytest · permission prompt`;
    empty when nobody told. Many sources say `permission for Bash pytest`: that tells of the tool already."""
    tool, detail = str(truth.tool) if truth.tool else "", truth.detail or ""
    if not tool or not detail:
        return detail or tool
    if tool_first:
        return f"{tool} · {detail.replace(f' for {tool}', '', 1)}"
    return detail if tool in detail else f"{detail} ({tool})"


def worktree_label(agent: Agent) -> str:
    return safe(agent.key.worktree, 60) if agent.key else "?"


def format_tokens(number: int | None) -> str:
    """`61k`, `1.2M`; unknown is `?`."""
    if number is None:
        return "?"
    if number < 1000:
        return str(number)
    if number < 1_000_000:
        return f"{number / 1000:.0f}k" if number >= 9950 else f"{number / 1000:.1f}k"
    return f"{number / 1_000_000:.1f}M"


def table(agents: Iterable[Agent], now: datetime, beside: Mapping[str, str] | None = None) -> list[str]:
    """One line an agent, in columns; `beside` is what stands behind some names."""
    rows = [_columns(one, now, (beside or {}).get(one.name, "")) for one in attention.by_attention(agents)]
    widths = [max(columns.cell_width(row[index]) for row in rows) for index in range(len(rows[0]))] if rows else []
    padded = ([columns.pad(text, width) for text, width in zip(row, widths, strict=True)] for row in rows)
    return ["  ".join(row).rstrip() for row in padded]


def _columns(one: Agent, now: datetime, beside: str) -> tuple[str, ...]:
    used = attention.total_tokens(one)
    return (
        f"{safe(one.name, 30)} {beside}".rstrip(),
        worktree_label(one),
        describe_activity(one, 60),
        state_age(one, now),
        f"{format_tokens(used)} tok" if used is not None else "",
        describe_source(one),
        f"works where {safe(one.claimed_by or '?', 40)} holds the claim!" if one.intruder else "",
    )


def describe_source(agent: Agent) -> str:
    """Where the state was learnt, and how sure that is."""
    told = agent.truth.source or "nobody says"
    sure = _SURE.get(agent.truth.confidence)
    return f"{told} ({sure})" if sure and agent.truth.source else told


def explain(agent: Agent, now: datetime) -> list[str]:
    """Why it is shown as it is: what decided, what was set aside and why, and everything else that is known."""
    truth = agent.truth
    lines = [
        f"{safe(agent.name, 60)} in {worktree_label(agent)}: {describe_activity(agent)}, since {times.age_of(truth.since, now)}",
        *(
            ["its process is suspended (ctrl-z, SIGSTOP): nothing goes on until it is continued"]
            if agent.suspended
            else []
        ),
        f"learnt from: {describe_source(agent)}",
        "",
        "this decided:" if truth.used else "nothing tells what it does",
        *(f"  {_witness(one, now)}" for one in truth.used),
    ]
    if truth.rejected:
        lines += ["", "this was set aside:"]
        for one in truth.rejected:
            lines += [f"  {_witness(one.evidence, now)}", f"      because {safe(one.why, 200)}"]
    return [*lines, "", "known beside it:", *(f"  {name}: {value}" for name, value in list_facts(agent, now))]


def _witness(one: Evidence, now: datetime) -> str:
    tool = f", {safe(str(one.tool), 80)}" if one.tool else ""
    maybe = f" (or {', '.join(WORDS.get(state, state) for state in sorted(one.or_else))})" if one.or_else else ""
    kind = "now" if one.standing else f"{times.age_of(one.at, now)} ago"
    return f"{one.source}, {kind}: {WORDS.get(one.state, one.state)}{maybe}{tool}: {safe(one.says, 200)}"


def list_facts(agent: Agent, now: datetime) -> Sequence[tuple[str, str]]:
    """(name, value) of every fact that is known, for people."""
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
        ("began", _ago(facts.started_at, now)),
        ("turn began", _ago(facts.turn_at, now)),
        ("ended", _ago(facts.ended_at, now)),
        ("heard of", _ago(agent.seen_at, now)),
        ("asked for", facts.prompt),
        ("said last", facts.last_message),
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
    told = [f"{format_tokens(number)} {word}" for word, number in parts if number is not None]
    return ", ".join(told) or None


def data(agent: Agent) -> dict[str, object]:
    """All of it, flat where scripts look first; unknown is null."""
    truth = agent.truth
    return {
        "id": agent.id,
        "cli": agent.cli,
        "name": agent.name,
        "host": agent.key.host if agent.key else None,
        "repo": agent.key.repo if agent.key else None,
        "worktree": agent.key.worktree if agent.key else None,
        "state": agent.state,
        "suspended": agent.suspended,
        "since": truth.since,
        "detail": truth.detail,
        "tool": asdict(truth.tool) if truth.tool else None,
        "source": truth.source,
        "confidence": truth.confidence,
        "seen_at": agent.seen_at,
        "ended": truth.ended,
        "group": attention.group(agent),
        "session": agent.session,
        "pid": agent.pid,
        "cwd": agent.cwd,
        "claim": agent.claim,
        "claimed_by": agent.claimed_by,
        "facts": {**asdict(agent.facts), "files": list(agent.facts.files)},
        "used": [_evidence(one) for one in truth.used],
        "rejected": [{**_evidence(one.evidence), "why": one.why} for one in truth.rejected],
    }


def _evidence(one: Evidence) -> dict[str, object]:
    return {**asdict(one), "or_else": sorted(one.or_else)}
