"""One item: what is to be done, its attempts with their sessions and files, and its run; `enter` opens the log of a run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from textual.binding import Binding
from textual.content import Content

from imi_monitor.actions import time_format
from imi_monitor.model import board, state_words, times
from imi_monitor.model.snapshot import Key, Snapshot
from imi_monitor.model.text import safe, safe_lines
from imi_monitor.ui import cells
from imi_monitor.ui.background_query import ShouldStop
from imi_monitor.ui.views.job_log_view import JobLogView
from imi_monitor.ui.views.registry_view import RegistryView
from imi_monitor.ui.views.view import OpenContextAt, action_data
from imi_monitor.ui.widgets.row_list import ListRow, RowList

if TYPE_CHECKING:
    from imi_monitor.actions.action import Outcome
    from imi_monitor.ui.app import ImiApp

_LABEL = 11
_MOST_FILES = 20
_STATUS = {
    board.IN_PROGRESS: "$agent-works",
    board.BLOCKED: "$warning",
    board.COMPLETED: "$success",
    board.FAILED: "$error",
}


class ItemView(RegistryView):
    word = "item"
    label = "Item"
    BINDINGS = [
        Binding("enter,L", "log", "Log", key_display="⏎", tooltip="follow what the agent of its run says and does"),
        Binding("s", "act('item start')", "Start", tooltip="start an agent on it, in a worktree of its own"),
        Binding("e", "act('item edit')", "Edit", tooltip="change title, text, priority or team"),
        Binding("a", "act('item assign')", "Assign", tooltip="give it to an agent or person"),
        Binding("b", "act('item block')", "Block", tooltip="mark it as blocked, with the reason"),
        Binding("d", "act('item done')", "Done", tooltip="mark it as completed"),
        Binding("x", "act('item cancel')", "Cancel it", show=False, tooltip="mark it as not to be done any more"),
        Binding("T", "act('item retry')", "Retry", show=False, tooltip="put it back to pending"),
    ]

    def __init__(self, key: Key | None, open_context: OpenContextAt, item: str) -> None:
        super().__init__(key, open_context)
        self.item = item

    def version(self, snapshot: Snapshot) -> object:
        return (snapshot.events[-1].seq if snapshot.events else None, int(times.now().timestamp()) // 2)

    def read(self, stop: ShouldStop) -> dict[str, Any]:
        return action_data(self.open_context, None, "item show", {"id": self.item}, stop)

    def title_text(self, data: dict[str, Any] | None) -> tuple[str, str]:
        return "Item", safe(self.item, 40)

    def rows(self, data: dict[str, Any], now: datetime, width: int) -> Sequence[ListRow]:
        lines = [*_fields(data, now), *_text(data, width), *_attempts(data, now)]
        return [ListRow(str(number), (line.truncate(width, ellipsis=True),)) for number, line in enumerate(lines)]

    def _draw(self, now: datetime) -> None:
        super()._draw(now)
        self.query_one(RowList).show(self._rows(now, max(20, self.query_one(RowList).room)), 1)

    def action_log(self) -> None:
        run = self._data["run"] if self._data else None
        if run is None:
            cast("ImiApp", self.app).say("no agent was started on this item: s starts one")
            return
        view = JobLogView(self.key, self.open_context, run["id"])
        self.app.push_screen(view)
        if self.snapshot is not None:
            self.call_after_refresh(view.show_snapshot, self.snapshot, times.now())

    def action_act(self, verb: str) -> None:
        values: dict[str, object] = {"id": self.item}
        cast("ImiApp", self.app).action_commands.open(verb, [], values=values, done=self._read_again)

    def _read_again(self, _outcome: Outcome) -> None:
        self._query.start(self.read)


def _line(label: str, *parts: Content | str) -> Content:
    shown = [part if isinstance(part, Content) else Content(part) for part in parts]
    return Content("").join([cells.fixed(label, _LABEL, cells.MUTED), *shown])


def _fields(data: dict[str, Any], now: datetime) -> list[Content]:
    status = Content.styled(data["status"].replace("_", " "), _STATUS.get(data["status"], ""))
    run = data["run"]
    where = "/".join(filter(None, (data["repo_name"], data["worktree_name"])))
    started = f", began {times.age_of(data['started_at'], now)} ago" if data["started_at"] else ""
    pairs: list[tuple[str, Content | str]] = [
        ("status", status.append(Content.styled(started, cells.MUTED))),
        ("priority", safe(data["priority"], 10)),
        ("problem", Content.styled(safe(data["error"] or "", 300), "$error")),
        ("agent", safe(data["agent_id"] or "", 60)),
        ("team", safe(data["team"] or "", 60)),
        ("worktree", safe(where, 120)),
        ("batch", safe(data["batch"] or "", 200)),
        ("source", safe(data["source"] or "", 200)),
        ("also", safe(data["external_id"] or "", 200)),
        ("retries", str(data["retries"]) if data["retries"] else ""),
        ("run", f"{run['id'][:8]}  {run['state']}  {safe(run['folder'], 300)}" if run else ""),
    ]
    head = Content.styled(safe(data["title"], 300), "bold")
    return [head, Content(""), *(_line(name, text) for name, text in pairs if str(text))]


def _text(data: dict[str, Any], width: int) -> list[Content]:
    found = [line for line in safe_lines(data["text"], 500) if line]
    return [Content(""), *(Content(part) for line in found for part in _folded(line, width))] if found else []


def _folded(line: str, width: int) -> list[str]:
    from textwrap import wrap

    return wrap(line, max(20, width - 2)) or [""]


def _attempts(data: dict[str, Any], now: datetime) -> list[Content]:
    made: list[Content] = []
    for one in data["attempts"]:
        agent, outcome = safe(one["agent"]["name"], 40), safe(one["outcome"], 20)
        when = f"{times.age_of(one['started_at'], now)} ago for {time_format.span(one['seconds'])}"
        what = Content(f"{agent} in {safe(one['worktree_name'], 60)} ").append(
            Content.styled(outcome, _outcome_style(outcome))
        )
        made.append(_line("attempt", what, Content.styled(f"  {when}", cells.MUTED)))
        for each in one["sessions"]:
            made.append(_line("", Content.styled(f"session {safe(each['id'], 80)}  {each['state']}", cells.MUTED)))
    files = data["files"]
    made += [_line("files" if not number else "", safe(path, 300)) for number, path in enumerate(files[:_MOST_FILES])]
    if len(files) > _MOST_FILES:
        made.append(_line("", Content.styled(f"and {len(files) - _MOST_FILES} more", cells.MUTED)))
    return [Content(""), *made] if made else []


def _outcome_style(outcome: str) -> str:
    found = {board.COMPLETED: "$success", board.FAILED: "$error", "open": "$agent-works"}
    return found.get(state_words.of_status(outcome) if outcome not in found else outcome, cells.MUTED)
