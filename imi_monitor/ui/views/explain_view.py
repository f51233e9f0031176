"""How imi knows an agent's state: the evidence it used, the evidence it rejected and why, and everything else it knows."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator, Sequence
from datetime import datetime

from textual.app import ComposeResult
from textual.content import Content

from imi_monitor.model import agent_text, attention, columns, state_words, times
from imi_monitor.model.agent import EXACT, GUESS, LIKELY, Agent, Evidence, RejectedEvidence
from imi_monitor.model.snapshot import Snapshot
from imi_monitor.model.text import count, safe
from imi_monitor.ui import agent_cells, cells
from imi_monitor.ui.cells import MUTED
from imi_monitor.ui.views.single_agent_view import ASKING, OTHERS, SingleAgentView
from imi_monitor.ui.widgets.row_list import ListRow, RowList

_LABEL = 11
_SOURCE, _STATE, _AGE = 11, 13, 5
_BESIDE = 2 + _SOURCE + 1 + _STATE + _AGE + 2
_MOST_FILES = 12
_GAUGE = 20
_CONFIDENCE = {EXACT: "exact", LIKELY: "likely: the source cannot distinguish it from other states", GUESS: "a guess"}
_SHOWN_ELSEWHERE = ("context", "files", "claim")


class ExplainView(SingleAgentView):
    word = "explain"
    opening_key = "E"
    requires = ("agent",)
    label = "Explain"
    help = "how imi knows what the agent does: evidence used and set aside, tokens, files"
    needs_worktree = True
    BINDINGS = [*OTHERS, ASKING]

    def body(self) -> ComposeResult:
        yield RowList(id="explain")

    def on_mount(self) -> None:
        self.query_one(RowList).focus()

    def show(self, snapshot: Snapshot, now: datetime) -> None:
        self._draw(now)

    def agent_changed(self) -> None:
        self._draw(times.now())

    def _draw(self, now: datetime) -> None:
        agent = self.agent
        lines = self.query_one(RowList)
        width = max(20, lines.room)
        if agent is None:
            self.set_title(Content.styled("Explain", "bold"))
            lines.show([ListRow("", (Content.styled("this agent is not visible any more", MUTED),))])
            return
        self.set_title(agent_title(agent, now))
        lines.show([ListRow(f"{number}", (line,)) for number, line in enumerate(explanation_lines(agent, now, width))])


def agent_title(agent: Agent, now: datetime) -> Content:
    """`◆ gemini-2 · feat-ui  asks 2m`."""
    where = f" · {safe(agent.key.worktree, 40)}" if agent.key else ""
    span = agent_cells.state_age(agent, now)
    parts = [
        agent_cells.glyph(agent),
        Content.styled(f" {safe(agent.name, 40)}", "bold"),
        Content(where),
        Content("  "),
        Content.styled(agent_cells.state_word(agent), agent_cells.state_style(agent)),
        Content.styled(f" {span}" if span else "", MUTED),
    ]
    return Content("").join(parts)


def explanation_lines(agent: Agent, now: datetime, width: int) -> list[Content]:
    """Everything about one agent, line by line."""
    lines = [
        *_headed("State", _state(agent, now, width)),
        *_headed("Believed", _used(agent.truth.used, now, width), "no evidence of its state: unknown is not idle"),
        *_headed("Set aside", _rejected(agent.truth.rejected, now, width)),
        *_headed("Session", _session(agent, now, width)),
    ]
    return [line.truncate(width, ellipsis=True) for line in lines]


def _headed(name: str, lines: Iterator[Content], otherwise: str = "") -> list[Content]:
    found = list(lines)
    if not found and not otherwise:
        return []
    return [Content.styled(name, "bold $primary"), *(found or [Content.styled(f"  {otherwise}", MUTED)]), Content("")]


def _state(agent: Agent, now: datetime, width: int) -> Iterator[Content]:
    truth = agent.truth
    head = Content("  ").append(agent_cells.glyph(agent)).append(Content(" "))
    for line in cells.wrapped(agent_cells.activity(agent, short=True), max(8, width - 4)) or [Content("")]:
        yield head.append(line)
        head = Content("    ")
    if truth.since:
        yield from _fact("since", f"{cells.clock(truth.since)}, {cells.age(truth.since, now)} ago", width)
    known = _CONFIDENCE.get(truth.confidence, safe(truth.confidence, 20))
    yield from _fact("known from", f"{safe(truth.source or 'nothing', 20)} ({known})", width)
    yield from _fact("claim", _claim(agent), width, "$agent-intrudes" if agent.intruder else "")


def _claim(agent: Agent) -> str:
    holder = safe(agent.claimed_by or "", 60)
    where = safe(agent.key.worktree, 60) if agent.key else ""
    if agent.key is None:
        return "it works outside of the worktrees shown here"
    if not holder:
        return f"{where} has no claim"
    if agent.intruder:
        return f"{holder} holds {where}: this one intrudes"
    return f"it holds {where}" if holder == safe(agent.name, 60) else f"{holder} holds {where}"


def _used(used: Sequence[Evidence], now: datetime, width: int) -> Iterator[Content]:
    for one in used:
        yield from _evidence(one, now, width)


def _rejected(rejected: Sequence[RejectedEvidence], now: datetime, width: int) -> Iterator[Content]:
    for one in rejected:
        yield from _evidence(one.evidence, now, width, MUTED)
        yield from _wrapped(f"└ {safe(one.why)}", width, 4 if _narrow(width) else 2 + _SOURCE + 1)


def _evidence(one: Evidence, now: datetime, width: int, style: str = "") -> Iterator[Content]:
    """`registry   works         50s  sessions/4711.json says busy`."""
    others = "/".join(sorted(state_words.of_status(state) for state in one.or_else))
    state = agent_text.evidence_word(one) + (f" or {others}" if others else "")
    age = "now" if one.standing else cells.age(one.at, now)
    head = [
        Content("  "),
        cells.fixed(safe(one.source, 20), _SOURCE, style or "bold"),
        Content(" "),
        cells.fixed(state, _STATE, style),
        cells.fixed(age, _AGE, MUTED, right=True),
        Content("  "),
    ]
    tool = f" ({one.tool})" if one.tool else ""
    detail = f": {one.detail}" if one.detail and one.detail not in one.says else ""
    says = safe(f"{one.says}{detail}{tool}", 600)
    if _narrow(width):
        yield Content("").join(head).rstrip()
        yield from _wrapped(says, width, 4, style or MUTED)
        return
    first, *more = _wrapped(says, width, _BESIDE, style)
    yield Content("").join([*head, first[_BESIDE:]])
    yield from more


def _narrow(width: int) -> bool:
    """Whether the text of evidence stands below its source, because it has no room beside it."""
    return width < _BESIDE + 24


def _session(agent: Agent, now: datetime, width: int) -> Iterator[Content]:
    for label, text in agent_text.list_facts(agent, now):
        if label not in _SHOWN_ELSEWHERE:
            yield from _fact(label, text, width, "$warning" if label == "note" else "")
    yield from _context(agent, width)
    yield from _files(agent, width)


def _context(agent: Agent, width: int) -> Iterator[Content]:
    """`context    ██████████░░░░░░░░░░ 59%  118k of 200k`."""
    share, facts = attention.context_fill(agent), agent.facts
    if share is not None:
        text = f" {share:.0%}  {agent_cells.token_count(facts.context_used)} of {agent_cells.token_count(facts.context_size)}"
        room = min(_GAUGE, width - _LABEL - 3 - len(text))
        yield _labelled("context").append(agent_cells.gauge(share, max(0, room))).append(Content(text))
    elif facts.context_used is not None:
        yield _labelled("context").append(Content(f"{agent_cells.token_count(facts.context_used)}, of an unknown size"))


def _files(agent: Agent, width: int) -> Iterator[Content]:
    files = agent.facts.files
    if not files:
        return
    left = len(files) - _MOST_FILES
    shown = [_inside(path, agent.cwd) for path in files[-_MOST_FILES:][::-1]]
    yield from _fact("wrote", count(len(files), "file"), width)
    for path in [*shown, *([f"… and {left} earlier ones"] if left > 0 else [])]:
        yield _labelled("").append(Content.styled(safe(path, 400), MUTED)).truncate(width, ellipsis=True)


def _inside(path: str, folder: str | None) -> str:
    return os.path.relpath(path, folder) if folder and path.startswith(folder.rstrip("/") + "/") else path


def _labelled(label: str) -> Content:
    return Content.styled(f"  {columns.pad(label, _LABEL)} ", MUTED)


def _fact(label: str, text: str, width: int, style: str = "") -> Iterator[Content]:
    indent = 2 + _LABEL + 1
    for number, line in enumerate(_wrapped(text, width, indent, style)):
        yield _labelled(label).append(line[indent:]) if number == 0 else line


def _wrapped(text: str, width: int, indent: int, style: str = "") -> Iterator[Content]:
    """The text in indented lines of at most `width` cells. With wide characters a line gets half as many characters."""
    room = max(8, width - indent)
    if columns.cell_width(text) > len(text):
        room //= 2
    for line in textwrap.wrap(text, room, break_on_hyphens=False) or [""]:
        yield Content(" " * indent).append(Content.styled(line, style))


VIEW = ExplainView
