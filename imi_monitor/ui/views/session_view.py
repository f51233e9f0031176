"""One session on the whole screen: its stream, followed; its tool calls, files and checkpoints. Observed ones and runs alike."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.style import Style
from textual.widgets import Static

from imi_monitor.actions.history import session_timeline
from imi_monitor.actions.history.session_timeline import TimelineLine
from imi_monitor.model import times
from imi_monitor.model.agent import Agent
from imi_monitor.model.errors import ImiError
from imi_monitor.model.run import Run
from imi_monitor.model.session_record import session_id
from imi_monitor.model.snapshot import Key, Snapshot
from imi_monitor.store import checkpoints, db, runs, session_events, sessions
from imi_monitor.store.session_events import Artifact, CallRow
from imi_monitor.ui import cells, filters, stored_agent
from imi_monitor.ui.background_query import BackgroundQuery, ShouldStop
from imi_monitor.ui.cells import MUTED
from imi_monitor.ui.views import session_lines
from imi_monitor.ui.views.explain_view import agent_title
from imi_monitor.ui.views.filtered_view import FILTER, FilteredView
from imi_monitor.ui.views.peek_view import beside_title
from imi_monitor.ui.views.single_agent_view import ASKING, OTHERS, SingleAgentView
from imi_monitor.ui.widgets.key_bar import ClickableLine
from imi_monitor.ui.widgets.row_list import ListRow, RowList, message_row

if TYPE_CHECKING:
    from imi_monitor.ui.app import ImiApp

STREAM, TOOLS, FILES, CHECKPOINTS = range(4)
_TABS = ("Stream", "Tools", "Files", "Checkpoints")
_NOTHING = (
    "the session has no messages yet",
    "it has used no tool yet",
    "it has written no file yet",
    "it has no checkpoint yet",
)
_INTERVAL = 0.4  # seconds between two small reads of the registry
_MOST_LINES = 2000


@dataclass(frozen=True, slots=True)
class SessionParts:
    """What is new in the stream, the cursor behind it, and everything else that is recorded of a session."""

    recorded: bool
    agent: Agent | None = None  # made from the record if the snapshot does not have it
    cursor: int = 0
    lines: Sequence[TimelineLine] = ()
    calls: Sequence[CallRow] = ()
    artifacts: Sequence[Artifact] = ()
    checkpoints: Sequence[dict[str, Any]] = ()


class SessionView(SingleAgentView, FilteredView):
    word = "session"
    opening_key = "V"
    label = "Session"
    help = "all of the agent's session, or of the last one there: the stream, followed; tool calls, files, checkpoints"
    requires = ("session",)
    needs_worktree = True
    BINDINGS = [
        Binding("tab", "tab(1)", "Next part", tooltip="show the next part: stream, tools, files, checkpoints"),
        Binding("shift+tab", "tab(-1)", "Part before", show=False, tooltip="show the part before"),
        *(
            Binding(str(at + 1), f"part({at})", name, show=False, tooltip=f"show {name.lower()}")
            for at, name in enumerate(_TABS)
        ),
        Binding("W", "act('answer')", "Answer", id="answer", tooltip="answer the question of the agent"),
        Binding("s", "act('say')", "Say", tooltip="send the agent a follow-up prompt"),
        Binding("X", "act('stop')", "Stop", id="stop", show=False, tooltip="end the agent and all that it started"),
        Binding("g", "go", "Go there", tooltip="go to the agent's own screen"),
        *OTHERS,
        ASKING,
        FILTER,
    ]

    def body(self) -> ComposeResult:
        yield ClickableLine(id="session-parts")
        yield self.filter_box("text, !not")
        yield RowList(id="session", follow_end=True)

    def on_mount(self) -> None:
        self._query: BackgroundQuery[SessionParts] = BackgroundQuery(self, self._received)
        self._lines: dict[str, TimelineLine] = {}
        self._parts: SessionParts | None = None
        self._failed: str | None = None
        self._part = STREAM
        self._opened: str | None = None  # the key of the row that shows all of its text
        self._replaced: int | None = None
        self._stored: Agent | None = None  # of a session that is over
        self.query_one(RowList).focus()
        self._start_read()
        self.set_interval(_INTERVAL, self._start_read)

    # -- reading ----------------------------------------------------------------------------------------------------

    @property
    def agent(self) -> Agent | None:
        """The agent that the dashboard shows, else the one that is recorded."""
        return super().agent or (self._stored if self.agent_id in (None, self._stored and self._stored.id) else None)

    def agent_changed(self) -> None:
        self._lines, self._parts, self._failed, self._opened = {}, None, None, None
        self._query.cancel()
        self._start_read()
        self._draw()

    def show(self, snapshot: Snapshot, now: datetime) -> None:
        if self._replaced is not None and self._replaced != snapshot.registry.replaced:
            self.agent_changed()  # the lines are those of another registry
        self._replaced = snapshot.registry.replaced
        if self._parts is None and self._failed is None:
            self._start_read()  # the agent was not known before the first snapshot
        self._draw()

    def _start_read(self) -> None:
        agent, behind, wanted, key = self.agent, self._parts, self.agent_id, self.key
        if self._query.busy or self.snapshot is None:
            return

        def question(_stop: ShouldStop) -> SessionParts:
            with self.open_context(None) as context:
                known = agent or db.read(context.connection, _read_agent, wanted, key)
                return SessionParts(False) if known is None else db.read(context.connection, read, known, behind)

        self._query.start(question)

    def _received(self, result: SessionParts | ImiError) -> None:
        if isinstance(result, ImiError):
            self._failed = result.sentence
        elif result is self._parts and self._failed is None:
            return
        else:
            self._failed, self._parts, self._stored = None, result, result.agent
            for line in result.lines:
                self._lines[session_lines.line_key(line)] = line
            for old in list(self._lines)[:-_MOST_LINES]:
                del self._lines[old]
        self._draw()

    # -- drawing ----------------------------------------------------------------------------------------------------

    @property
    def _run(self) -> Run | None:
        return self.snapshot.run_of(self.agent) if self.snapshot is not None else None

    def filter_changed(self) -> None:
        self._draw()

    def _draw(self) -> None:
        agent, lines = self.agent, self.query_one(RowList)
        self.query_one("#session-parts", Static).update(self._tabs(), layout=False)
        if agent is None:
            known = self._parts is not None
            self.set_title(Content.styled("no session is recorded here: esc leaves" if known else "looking…", MUTED))
            lines.show([message_row(cells.failure(self._failed))] if self._failed is not None else [])
            return
        self.set_title(agent_title(agent, times.now()).append(beside_title(agent)))
        rows = [row for row in self._rows(max(20, lines.room)) if self._matches(row)]
        if self._failed is not None:
            rows.append(message_row(cells.failure(self._failed)))
        elif self._parts is None:
            rows = [message_row("looking…")]
        elif not rows:
            rows = [message_row(self._why_nothing())]
        lines.show(rows)

    def _why_nothing(self) -> str:
        if self.filter_text:
            return "nothing matches: esc clears the filter"
        run = self._run
        if self._part == CHECKPOINTS and (run is None or run.origin is not None):
            return "only agents that imi started have checkpoints"
        recorded = self._parts is not None and self._parts.recorded
        return _NOTHING[self._part] if recorded else "nothing of this session is recorded yet"

    def _rows(self, width: int) -> Iterator[ListRow]:
        found = self._parts
        if found is None:
            return
        if self._part == STREAM:
            ordered = sorted(self._lines.values(), key=lambda line: (line.at, line.seq))
            yield from session_lines.stream_rows(ordered, self._opened, width)
        elif self._part == TOOLS:
            yield from session_lines.call_rows(found.calls, self._opened, width)
        elif self._part == FILES:
            run = self._run
            yield from session_lines.file_rows(found.artifacts, run.files if run is not None else (), width)
        else:
            yield from session_lines.checkpoint_rows(found.checkpoints, self._opened, width)

    def _matches(self, row: ListRow) -> bool:
        words = self.filter_text
        text = row.lines[0].plain
        return not words or filters.matches_words(words, lambda word: filters.contains(text, word))

    def _tabs(self) -> Content:
        """` 1 Stream 15   2 Tools 6   3 Files 2   4 Checkpoints `; a click shows the part."""
        found, run = self._parts, self._run
        files = len(run.files) if run is not None else 0
        numbers = (
            [0] * 4
            if found is None
            else [len(self._lines), len(found.calls), len(found.artifacts) + files, len(found.checkpoints)]
        )
        shown = []
        for part, (name, number) in enumerate(zip(_TABS, numbers, strict=True)):
            text = f" {part + 1} {name}{f' {number}' if number else ''} "
            tab = Content.styled(text, "bold reverse" if part == self._part else MUTED)
            shown.append(tab.stylize(Style.from_meta({"@click": f"screen.part({part})"})))
        return Content(" ").join(shown).truncate(max(10, self.size.width - 2))

    # -- keys -------------------------------------------------------------------------------------------------------

    def action_tab(self, step: int) -> None:
        self.action_part((self._part + step) % len(_TABS))

    def action_part(self, part: int) -> None:
        self._part, self._opened = part, None
        lines = self.query_one(RowList)
        lines.show(())
        self._draw()
        lines.focus()

    @on(RowList.RowChosen)
    def _open_row(self, event: RowList.RowChosen) -> None:
        """Show all of the row's text, or only its first lines again."""
        event.stop()
        key = (event.key or "").rpartition(" ")[0]
        self._opened = None if key == self._opened else key
        self._draw()

    def action_act(self, verb: str) -> None:
        """Open the dialog of an action for this agent's run."""
        cast("ImiApp", self.app).agent_commands.act_on_run(self.agent, verb)

    async def action_go(self) -> None:
        await self.run_action("app.go_to_chosen")


def read(connection: sqlite3.Connection, agent: Agent, before: SessionParts | None) -> SessionParts:
    """Return what is recorded of the agent's session; the same object as before if there is nothing new."""
    ident = session_id(agent)
    session = next((one for one in sessions.find_by_prefix(connection, ident) if one.id == ident), None)
    saved = _checkpoints(connection, agent, before)
    if session is None:
        return SessionParts(recorded=False, agent=agent, checkpoints=saved)
    cursor, behind = session_timeline.cursor(connection, session.seq), before.cursor if before is not None else 0
    if before is not None and before.recorded and cursor == behind and saved is before.checkpoints:
        return before
    return SessionParts(
        recorded=True,
        agent=agent,
        cursor=cursor,
        lines=session_timeline.timeline(connection, session.seq, behind, _MOST_LINES) if cursor > behind else (),
        calls=session_events.list_calls(connection, session.seq),
        artifacts=session_events.list_artifacts(connection, session.seq),
        checkpoints=saved,
    )


def _read_agent(connection: sqlite3.Connection, ident: str | None, key: Key | None) -> Agent | None:
    """The agent of a session that the dashboard does not show: of this id, else the last one of the worktree."""
    if ident is not None:
        return stored_agent.find(connection, ident)
    return stored_agent.find_newest(connection, key) if key is not None else None


def _checkpoints(connection: sqlite3.Connection, agent: Agent, before: SessionParts | None) -> Sequence[dict[str, Any]]:
    row = runs.by_id(connection, agent.run) if agent.run is not None else None
    if row is None:
        return ()
    known = before.checkpoints if before is not None else ()
    if known and checkpoints.last_number(connection, row.seq) == known[-1]["number"]:
        return known
    found = checkpoints.list_checkpoints(connection, row.seq)
    return [{"number": one.number, "kind": one.kind, "at": one.at, **json.loads(one.state)} for one in found]


VIEW = SessionView
