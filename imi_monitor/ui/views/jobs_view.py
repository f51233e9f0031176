"""The agents that imi started, newest first, with state, place in the queue and question; then the runs of other programs in
watched workspaces. `enter` opens the log of one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from textual import on
from textual.binding import Binding
from textual.content import Content

from imi_monitor.model import times
from imi_monitor.model.run import CRASHED, QUEUED, Run
from imi_monitor.model.snapshot import Snapshot
from imi_monitor.model.state_words import ASKS, FAILED, IDLE, STALLED, WORKS
from imi_monitor.model.text import count, safe
from imi_monitor.ui import cells
from imi_monitor.ui.background_query import ShouldStop
from imi_monitor.ui.command_conditions import reason_watched
from imi_monitor.ui.views.job_log_view import JobLogView, RunLogView, WatchedLogView
from imi_monitor.ui.views.registry_view import NARROW, RegistryView
from imi_monitor.ui.views.session_view import SessionView
from imi_monitor.ui.views.view import action_data
from imi_monitor.ui.widgets.row_list import ListRow, RowList, message_row

if TYPE_CHECKING:
    from imi_monitor.ui.app import ImiApp

_STYLES = {
    ASKS: "$agent-asks bold",
    STALLED: "$agent-asks",
    WORKS: "$agent-works",
    IDLE: "$agent-idle",
    FAILED: "$agent-failed",
    CRASHED: "$agent-dead",
}
_STATE, _STATE_WIDTH = 3, 18  # the column of the state, with room for the hundredth place of the queue
_SECONDS = 2  # between two reads while nothing is recorded: silence becomes a stall without an event


class JobsView(RegistryView):
    word = "jobs"
    opening_key = "J"
    label = "Jobs"
    help = "the agents that imi started, and watched runs of other programs: state, questions, and the log of each"
    BINDINGS = [
        Binding("enter", "log", "Log", key_display="⏎", tooltip="follow what the agent says and does"),
        Binding(
            "V", "session", "Session", id="session", tooltip="show the whole session of its agent, also after its end"
        ),
        Binding("W", "act('answer')", "Answer", id="answer", tooltip="answer the question of the agent"),
        Binding("X", "act('stop')", "Stop", id="stop", tooltip="end the agent and all that it started"),
        Binding("c", "act('resume')", "Continue", tooltip="take the session of an ended run up again"),
    ]

    def version(self, snapshot: Snapshot) -> object:
        last = snapshot.events[-1].seq if snapshot.events else None
        return (last, snapshot.watched, int(times.now().timestamp()) // _SECONDS)

    def read(self, stop: ShouldStop) -> dict[str, Any]:
        return action_data(self.open_context, None, "runs", {}, stop)

    def title_text(self, data: dict[str, Any] | None) -> tuple[str, str]:
        found = data["runs"] if data else []
        queued = sum(one["status"] == QUEUED for one in found)
        alive = sum(one["ended_at"] is None for one in found) - queued
        parts = [count(alive, "living agent")] if found else []
        parts += [f"{count(queued, 'waits', 'wait')} in the queue"] if queued else []
        parts += [f"{len(self._watched)} watched"] if self._watched else []
        return "Jobs", ", ".join(parts)

    def rows(self, data: dict[str, Any], now: datetime, width: int) -> Sequence[ListRow]:
        rows = [ListRow(one["id"], _lines(one, now, width)) for one in data["runs"]]
        rows += [ListRow(one.id, _watched_lines(one, now, width)) for one in self._watched]
        return rows or [message_row("no agent was started yet: > starts one in the selected worktree")]

    @property
    def _watched(self) -> Sequence[Run]:
        return self.snapshot.watched if self.snapshot is not None else ()

    @property
    def _chosen_watched(self) -> Run | None:
        return next((one for one in self._watched if one.id == self.query_one(RowList).cursor), None)

    @property
    def _chosen(self) -> dict[str, Any] | None:
        found = self._data["runs"] if self._data else ()
        return next((one for one in found if one["id"] == self.query_one(RowList).cursor), None)

    @on(RowList.RowChosen)
    def action_log(self) -> None:
        chosen, watched = self._chosen, self._chosen_watched
        view: RunLogView | None = None
        if chosen is not None:
            view = JobLogView(self.key, self.open_context, chosen["id"])
        elif watched is not None:
            view = WatchedLogView(self.key, self.open_context, watched)
        if view is not None:
            self.app.push_screen(view)
            if self.snapshot is not None:
                self.call_after_refresh(view.show_snapshot, self.snapshot, times.now())

    def action_session(self) -> None:
        """Show the session of the run under the cursor, also where it is over."""
        chosen, watched = self._chosen, self._chosen_watched
        ident = watched.id if watched is not None else None
        if chosen is not None:
            ident = f"{chosen['program']}:{chosen['session'] or chosen['id']}"
        if ident is not None:
            view = SessionView(self.key, self.open_context)
            cast("ImiApp", self.app).open_view(view, None)
            view.agent_id = ident

    def action_act(self, verb: str) -> None:
        """Open the dialog of an action for the run under the cursor."""
        chosen, watched = self._chosen, self._chosen_watched
        if watched is not None:
            cast("ImiApp", self.app).say(reason_watched(watched), bad=True)
        if chosen is not None:
            cast("ImiApp", self.app).action_commands.open(verb, [], values={"name": str(chosen["id"])[:8]})


def _lines(one: dict[str, Any], now: datetime, width: int) -> tuple[Content, ...]:
    state = str(one["shown_state"])
    head = _head(one["id"][:8], one["agent_id"], state, one["ended_at"] or one["started_at"] or one["created_at"], now)
    if one["place"] is not None:
        head[_STATE] = cells.fixed(f"{state}, place {one['place']}", _STATE_WIDTH, cells.MUTED)
    asks, left = one["asks"], one["left_behind"]
    if asks:
        said = Content.styled(_first_line(asks[0]["text"]), "$agent-asks")
    else:
        said = _said(one["detail"] if one["ended_at"] else None, one["prompt"])
    if left:
        said = said.append(Content.styled(f"  left {count(len(left), 'process', 'processes')} behind", "$error"))
    return _arranged(head, one["worktree_name"] or "its run folder", said, width)


def _watched_lines(one: Run, now: datetime, width: int) -> tuple[Content, ...]:
    """Return the columns of a job for a run of another program."""
    head = _head("▥", one.agent, one.shown, one.since, now)
    return _arranged(head, one.short, _said(one.detail, one.prompt), width)


def _head(ident: str, agent: str, state: str, since: str | None, now: datetime) -> list[Content]:
    return [
        cells.fixed(ident, 9, cells.MUTED),
        cells.fixed_name(safe(agent, 40), 18, "bold"),
        Content(" "),
        cells.fixed(state, _STATE_WIDTH, _STYLES.get(state, cells.MUTED)),
        cells.fixed(times.age_of(since, now), 5, cells.MUTED),
    ]


def _said(detail: str | None, prompt: str | None) -> Content:
    """Return how it ended; without that what it was to do."""
    return Content.styled(_first_line(detail or prompt), "" if detail else cells.MUTED)


def _first_line(text: str | None) -> str:
    return safe((text or "").split("\n")[0], 300)


def _arranged(head: Sequence[Content], place: str, said: Content, width: int) -> tuple[Content, ...]:
    where = Content("").join([cells.fixed_name(safe(place, 60), 20), Content(" "), said])
    if width < NARROW:
        return (Content("").join(head).truncate(width), Content("  ").append(where).truncate(width))
    return (Content("").join([*head, where]).truncate(width),)


VIEW = JobsView
