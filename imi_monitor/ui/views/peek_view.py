"""A small live window on one agent: its prompts, messages and tool calls, like `tail -f`.

It shows the session as the registry recorded it; while nothing is recorded, what the agent's program shows now.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from imi_monitor.actions.action import KeyChoice
from imi_monitor.actions.history import session_timeline
from imi_monitor.actions.history.session_timeline import TimelineLine
from imi_monitor.actions.runs import message_actions
from imi_monitor.model import agent_text, attention, columns, state_words, times
from imi_monitor.model.agent import Agent
from imi_monitor.model.errors import ImiError
from imi_monitor.model.session_record import session_id
from imi_monitor.model.snapshot import Snapshot
from imi_monitor.model.text import safe
from imi_monitor.store import db, sessions
from imi_monitor.ui import agent_cells, cells
from imi_monitor.ui.background_query import BackgroundQuery, ShouldStop
from imi_monitor.ui.cells import MUTED
from imi_monitor.ui.views.explain_view import agent_title
from imi_monitor.ui.views.single_agent_view import ASKING, OTHERS, SingleAgentView
from imi_monitor.ui.widgets.key_bar import KeyBar
from imi_monitor.ui.widgets.parts_line import PartsLine
from imi_monitor.ui.widgets.row_list import ListRow, RowList

MAX_LINES = 300  # lines kept; `imi session show` has all
_INTERVAL = 0.4  # seconds between two small reads of the registry
_MAX_TEXT_LINES = 4  # lines that one message takes
_STYLES = {
    "prompt": "bold $primary",
    "asks": "bold $agent-asks",
    "failed": "$agent-failed",
    "tool": "$accent",
    "finished": "$success",
    "wrote": "$success",
    "process gone": "$agent-dead",
    "interrupted": "$error",
}
_OUTCOMES = {
    "failure": ("✗", "$error"),
    "cancelled": ("–", MUTED),
    "success": ("✓", "$success"),
    "running": ("…", "$accent"),
}
_CLOCK, _WORD, _LONGEST_WORD = 9, 9, 12
_NOTHING = {None: "looking…", False: "nothing of this session is recorded yet", True: "the session has no messages yet"}


@dataclass(frozen=True, slots=True)
class SessionPart:
    """The new lines of a session, and the cursor behind them."""

    lines: list[TimelineLine]
    cursor: int
    recorded: bool


class PeekView(SingleAgentView, ModalScreen[None]):
    BINDINGS = [
        Binding("enter", "go", "Go", key_display="⏎", priority=True, tooltip="go to the agent's pane or worktree"),
        Binding("W", "answer", "Answer", id="answer", tooltip="answer the question of the agent"),
        ASKING,
        *OTHERS,
        Binding("space", "leave", "Close", id="peek", show=False, tooltip="close the window"),
        Binding("E", "explain", "Explain", id="explain", tooltip="show what its state rests on"),
    ]

    def compose(self) -> ComposeResult:
        with Vertical(id="peek-window"):
            yield PartsLine(id="view-title")
            yield RowList(id="peek", follow_end=True)
        yield KeyBar()

    def on_mount(self) -> None:
        self._query: BackgroundQuery[SessionPart] = BackgroundQuery(self, self._received)
        self._lines: dict[str, TimelineLine] = {}
        self._cursor = 0
        self._recorded: bool | None = None  # whether the registry has the session; None: not read yet
        self._failed: str | None = None
        self._replaced: int | None = None  # the snapshot's number of the registry that was read
        self._offered: tuple[str, tuple[KeyChoice, ...]] = "", ()  # the id of a question, and its answers
        self.query_one(RowList).focus()
        self._start_read()
        self.set_interval(_INTERVAL, self._start_read)

    # -- reading ----------------------------------------------------------------------------------------------------

    def agent_changed(self) -> None:
        self._lines, self._cursor, self._recorded, self._failed = {}, 0, None, None
        self._query.cancel()
        self._start_read()
        self._draw()

    def show(self, snapshot: Snapshot, now: datetime) -> None:
        if self._replaced is not None and self._replaced != snapshot.registry.replaced:
            self.agent_changed()  # the lines are those of another registry
        self._replaced = snapshot.registry.replaced
        if self._recorded is None and self._failed is None:
            self._start_read()  # the agent was not known before the first snapshot
        self._draw()

    def _start_read(self) -> None:
        agent, behind, asked = self.agent, self._cursor, self._asked
        if agent is None or self._query.busy:
            return

        def question(_stop: ShouldStop) -> SessionPart:
            with self.open_context(None) as context:
                if asked is not None and asked != self._offered[0]:
                    self._offered = asked, message_actions.answers(context, agent.run or "", asked)
                return db.read(context.connection, read, agent, behind)

        self._query.start(question)

    def _received(self, result: SessionPart | ImiError) -> None:
        if isinstance(result, ImiError):
            self._failed = result.sentence
        else:
            self._failed, self._recorded, self._cursor = None, result.recorded, result.cursor
            for line in result.lines:
                self._lines[_key(line)] = line
            for old in list(self._lines)[:-MAX_LINES]:
                del self._lines[old]
        self._draw()

    # -- drawing ----------------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        agent, now, lines = self.agent, times.now(), self.query_one(RowList)
        if agent is None:
            self.set_title(Content.styled("this agent is not visible any more: esc closes", MUTED))
            return
        self.set_title(agent_title(agent, now).append(beside_title(agent)))
        width = max(20, lines.room)
        lines.show(list(self._rows(agent, width)))

    def _rows(self, agent: Agent, width: int) -> Iterator[ListRow]:
        lines = sorted(self._lines.values(), key=lambda line: (line.at, line.seq))
        for line in lines:
            for number, drawn in enumerate(drawn_line(line, width)):
                yield ListRow(f"{_key(line)} {number}", (drawn,))
        if self._failed is not None:
            yield from _sentence("failed", cells.failure(self._failed), width)
        seen = [] if lines else list(_seen_now(agent, width))
        yield from seen
        if self._failed is None and (self._recorded is None or not (lines or seen)):
            yield ListRow("why", (Content.styled(_NOTHING[self._recorded], MUTED),))
        if attention.standing(agent) == state_words.ASKS:
            waits = Content.styled(f"◆ asks: {safe(agent_cells.waits_for(agent), 300)}", "bold $agent-asks")
            yield from _sentence("waits", waits, width)
            if self._asked is not None and self._asked == self._offered[0]:
                yield ListRow("answers", (_answers(self._offered[1]).truncate(width, ellipsis=True),))
            elif self._asked is None and agent.run is None:
                why = Content.styled(f"{agent_text.not_started(agent.name, agent.cli, asked=True)}", MUTED)
                yield from _sentence("answers", why, width)

    @property
    def _asked(self) -> str | None:
        """The id of the open question that imi can answer."""
        agent, shown = self.agent, self.snapshot
        run = shown.run_of(agent) if shown is not None else None
        if run is not None and run.question is not None:
            return run.question.id
        return agent.facts.ask if agent is not None else None

    # -- the way out ------------------------------------------------------------------------------------------------

    @on(RowList.RowChosen)
    async def _go(self, event: RowList.RowChosen) -> None:
        event.stop()
        await self.action_go()

    async def action_go(self) -> None:
        await self.run_action("app.go_to_chosen")

    def on_click(self, event: events.Click) -> None:
        """A click beside the window closes it."""
        if event.widget is self:
            self.action_leave()

    async def action_answer(self) -> None:
        await self.run_action("app.answer_chosen")

    async def action_explain(self) -> None:
        await self.run_action("app.view('explain')")


def read(connection: sqlite3.Connection, agent: Agent, behind: int) -> SessionPart:
    """The recorded lines of the agent's session behind line `behind`."""
    ident = session_id(agent)
    session = next((one for one in sessions.find_by_prefix(connection, ident) if one.id == ident), None)
    if session is None:
        return SessionPart([], 0, recorded=False)
    cursor = session_timeline.cursor(connection, session.seq)
    lines = session_timeline.timeline(connection, session.seq, behind, MAX_LINES) if cursor > behind else []
    return SessionPart(lines, cursor, recorded=True)


def _sentence(key: str, text: Content, width: int) -> Iterator[ListRow]:
    """A sentence in as many rows as it needs."""
    for number, line in enumerate(cells.wrapped(text, width)):
        yield ListRow(f"{key} {number}" if number else key, (line,))


def _answers(offered: tuple[KeyChoice, ...]) -> Content:
    """`W answers  y yes  n no`."""
    parts = [Content.styled(f"  {one.key} ", "bold $accent").append(Content(safe(one.label, 60))) for one in offered]
    return Content("").join([Content.styled("  W answers", MUTED), *parts])


def _key(line: TimelineLine) -> str:
    """A tool call that ended has the key of its beginning, whose place it takes."""
    return f"call {line.call}" if line.call is not None and line.outcome is not None else str(line.seq)


def drawn_line(line: TimelineLine, width: int, most: int = _MAX_TEXT_LINES) -> list[Content]:
    """`14:02:09 tool     Edit src/api.ts   ✓ 2s`; a long text continues below, in at most so many lines."""
    clock = cells.fixed(cells.clock(line.at) if line.at else "", _CLOCK, MUTED) if width >= 50 else Content("")
    word = safe(line.word, 20)
    wide = max(_WORD, min(_LONGEST_WORD, columns.cell_width(word)) + 1)  # `interrupted` is whole, out of its column
    head = clock.append(cells.fixed(word, wide, _STYLES.get(line.word, MUTED)))
    subagent = f"[{safe(line.subagent, 30)}] " if line.subagent else ""
    tail = _outcome(line)
    room = max(8, width - head.cell_length - (tail.cell_length + 1 if tail.plain else 0))
    texts = [
        text
        for part in line.text.split("\n")
        if part.strip()
        for text in _chunks(safe(part, 600), room - len(subagent))
    ]
    shown = texts[:most]
    first = Content(subagent + (shown[0] if shown else "")).truncate(room, ellipsis=True)
    if tail.plain:
        first = cells.padded(first, room).append(Content(" ")).append(tail)
    below = [Content(" " * head.cell_length).append(Content(text)) for text in shown[1:]]
    if len(texts) > len(shown):
        below.append(Content(" " * head.cell_length).append(Content.styled("…", MUTED)))
    return [head.append(first), *below]


def _chunks(text: str, room: int) -> Iterator[str]:
    """The text in pieces of at most `room` cells, cut between words where that is possible."""
    room = max(8, room)
    while columns.cell_width(text) > room:
        piece = columns.clip(text, room + 1)[:-1]
        cut = piece.rfind(" ")
        piece = piece[:cut] if cut > room // 2 else piece
        yield piece
        text = text[len(piece) :].lstrip()
    yield text


def _outcome(line: TimelineLine) -> Content:
    if line.outcome is None:
        return Content("")
    sign, style = _OUTCOMES.get(line.outcome, ("?", MUTED))
    took = f" {times.age(line.seconds)}" if line.seconds is not None else ""
    return Content.styled(f"{sign}{took}", style)


def beside_title(agent: Agent) -> Content:
    """Tokens and context, behind the title."""
    tokens = agent_cells.token_count(attention.total_tokens(agent))
    share = attention.context_fill(agent)
    parts = [f"{tokens} tok" if tokens else "", f"context {share:.0%}" if share is not None else ""]
    return Content.styled("".join(f"  {part}" for part in parts if part), MUTED)


def _seen_now(agent: Agent, width: int) -> Iterator[ListRow]:
    """Yield the rows of what the agent's program shows now, for a session without recorded lines."""
    facts, tool = agent.facts, agent.truth.tool
    for word, text in (("prompt", facts.prompt), ("says", facts.last_message), ("tool", str(tool) if tool else None)):
        if text:
            for number, drawn in enumerate(drawn_line(TimelineLine(0, "", word, word, text), width)):
                yield ListRow(f"now {word} {number}", (drawn,))
