"""A peek at one agent: a small live window with what it was asked, what it says and which tools it uses, like `tail -f`.

It shows what the registry keeps of the session; of an agent whose session is not kept (yet), what is seen of it now.
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
from textual.widgets import Static

from imi_monitor.actions.history import session_timeline
from imi_monitor.actions.history.session_timeline import TimelineLine
from imi_monitor.model import attention, columns, times
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
from imi_monitor.ui.views.single_agent_view import OTHERS, WAITING, SingleAgentView
from imi_monitor.ui.widgets.row_list import ListRow, RowList

MOST = 300  # lines held; all of it is told by `imi session show`
_EVERY = 0.4  # seconds between two looks at the registry, one small question each
_MOST_TEXT = 4  # lines that one message takes
_STYLES = {
    "prompt": "bold $primary",
    "asks": "bold $agent-asks",
    "failed": "$agent-failed",
    "tool": "$accent",
    "done": "$success",
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
_CLOCK, _WORD = 9, 9
_NOTHING = {None: "looking…", False: "nothing of this session is kept yet", True: "nothing was said yet"}


@dataclass(frozen=True, slots=True)
class SessionPart:
    """One reading: what is new of the session, behind which everything else will be."""

    lines: list[TimelineLine]
    cursor: int
    kept: bool


class PeekView(SingleAgentView, ModalScreen[None]):
    BINDINGS = [
        *OTHERS,
        WAITING,
        Binding("space", "leave", "Close", id="peek"),
        Binding("E", "explain", "Explain", id="explain"),
    ]

    def compose(self) -> ComposeResult:
        with Vertical(id="peek-window"):
            yield Static(id="view-title")
            yield RowList(id="peek", follow_end=True)

    def on_mount(self) -> None:
        self._asking: BackgroundQuery[SessionPart] = BackgroundQuery(self, self._told)
        self._lines: dict[str, TimelineLine] = {}
        self._cursor = 0
        self._kept: bool | None = None  # whether the registry knows the session; None: not asked yet
        self._failed: str | None = None
        window = self.query_one("#peek-window")
        window.border_subtitle = "esc closes · ←→ others · w next waiting · ⏎ goes there · E explains"
        self.query_one(RowList).focus()
        self._ask()
        self.set_interval(_EVERY, self._ask)

    # -- reading ----------------------------------------------------------------------------------------------------

    def again(self) -> None:
        """About another agent now."""
        self._lines, self._cursor, self._kept, self._failed = {}, 0, None, None
        self._asking.drop()
        self._ask()
        self._draw()

    def show(self, snapshot: Snapshot, now: datetime) -> None:
        self._draw()

    def _ask(self) -> None:
        agent, behind = self.agent, self._cursor
        if agent is None or self._asking.busy:
            return

        def question(_stop: ShouldStop) -> SessionPart:
            with self.open_context(None) as context:
                return db.read(context.connection, read, agent, behind)

        self._asking.ask(question)

    def _told(self, told: SessionPart | ImiError) -> None:
        if isinstance(told, ImiError):
            self._failed = told.sentence
        else:
            self._failed, self._kept, self._cursor = None, told.kept, told.cursor
            for line in told.lines:
                self._lines[_key(line)] = line
            for old in list(self._lines)[:-MOST]:
                del self._lines[old]
        self._draw()

    # -- drawing ----------------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        agent, now, lines = self.agent, times.now(), self.query_one(RowList)
        if agent is None:
            self.set_title(Content.styled("nobody is seen here any more: esc closes", MUTED))
            return
        self.set_title(agent_title(agent, now).append(_beside(agent)))
        width = max(20, lines.room)
        lines.show(list(self._rows(agent, width)))

    def _rows(self, agent: Agent, width: int) -> Iterator[ListRow]:
        told = sorted(self._lines.values(), key=lambda line: (line.at, line.seq))
        for line in told:
            for number, drawn in enumerate(drawn_line(line, width)):
                yield ListRow(f"{_key(line)} {number}", (drawn,))
        if self._failed is not None:
            yield ListRow("failed", (Content.styled(f"? {safe(self._failed, 300)}", "$error"),))
        seen = [] if told else list(_seen_now(agent, width))
        yield from seen
        if self._failed is None and (self._kept is None or not (told or seen)):
            yield ListRow("why", (Content.styled(_NOTHING[self._kept], MUTED),))
        if attention.standing(agent) == attention.ASKS:
            waits = Content.styled(f"◆ waits for you: {safe(agent_cells.waits_for(agent), 300)}", "bold $agent-asks")
            yield ListRow("waits", (waits.truncate(width, ellipsis=True),))

    # -- the way out ------------------------------------------------------------------------------------------------

    @on(RowList.RowChosen)
    async def _go(self, event: RowList.RowChosen) -> None:
        event.stop()
        await self.run_action("app.go_to_chosen")

    def on_click(self, event: events.Click) -> None:
        """Beside it: enough seen."""
        if event.widget is self:
            self.action_leave()

    async def action_explain(self) -> None:
        await self.run_action("app.view('explain')")


def read(connection: sqlite3.Connection, agent: Agent, behind: int) -> SessionPart:
    """What the registry learnt of the agent's session behind line `behind`."""
    ident = session_id(agent)
    session = next((one for one in sessions.find_by_prefix(connection, ident) if one.id == ident), None)
    if session is None:
        return SessionPart([], 0, kept=False)
    cursor = session_timeline.cursor(connection, session.seq)
    lines = session_timeline.timeline(connection, session.seq, behind, MOST) if cursor > behind else []
    return SessionPart(lines, cursor, kept=True)


def _key(line: TimelineLine) -> str:
    """A call comes again when it has ended, and takes the place of its beginning."""
    return f"call {line.call}" if line.call is not None and line.outcome is not None else str(line.seq)


def drawn_line(line: TimelineLine, width: int) -> list[Content]:
    """`14:02:09 tool     Edit src/api.ts   ✓ 2s`; more of a long text below its beginning."""
    clock = cells.fixed(cells.clock(line.at) if line.at else "", _CLOCK, MUTED) if width >= 50 else Content("")
    head = clock.append(cells.fixed(safe(line.word, 20), _WORD, _STYLES.get(line.word, MUTED)))
    who = f"[{safe(line.subagent, 30)}] " if line.subagent else ""
    tail = _outcome(line)
    room = max(8, width - head.cell_length - (tail.cell_length + 1 if tail.plain else 0))
    texts = [
        text for part in line.text.split("\n") if part.strip() for text in _chunks(safe(part, 600), room - len(who))
    ]
    shown = texts[:_MOST_TEXT]
    first = Content(who + (shown[0] if shown else "")).truncate(room, ellipsis=True)
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


def _beside(agent: Agent) -> Content:
    """What it costs, behind the title."""
    told = agent_cells.token_count(attention.total_tokens(agent))
    share = attention.context_fill(agent)
    parts = [f"{told} tok" if told else "", f"context {share:.0%}" if share is not None else ""]
    return Content.styled("".join(f"  {part}" for part in parts if part), MUTED)


def _seen_now(agent: Agent, width: int) -> Iterator[ListRow]:
    """What its program shows now, when the registry has no line of it."""
    facts, tool = agent.facts, agent.truth.tool
    for word, text in (("prompt", facts.prompt), ("says", facts.last_message), ("tool", str(tool) if tool else None)):
        if text:
            for number, drawn in enumerate(drawn_line(TimelineLine(0, "", word, word, text), width)):
                yield ListRow(f"now {word} {number}", (drawn,))
