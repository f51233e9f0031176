"""Intents, milestones and lessons of the selected worktree, the newest first: what was to be achieved, and how far it got."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from textual.content import Content

from imi_monitor.model import times
from imi_monitor.model.snapshot import Snapshot
from imi_monitor.model.text import count, safe
from imi_monitor.store import db, notes
from imi_monitor.ui import cells
from imi_monitor.ui.background_query import ShouldStop
from imi_monitor.ui.views.registry_view import NARROW, RegistryView
from imi_monitor.ui.views.view import folder_in_repository
from imi_monitor.ui.widgets.row_list import ListRow, message_row

_LIMIT = 300
_STYLES = {notes.INTENT: "bold", notes.MILESTONE: "$success", notes.LESSON: "$accent"}


class MilestonesView(RegistryView):
    word = "milestones"
    opening_key = "comma"
    label = "Milestones"
    help = "intents, milestones and lessons of the selected worktree, by time"
    needs_worktree = True

    def version(self, snapshot: Snapshot) -> object:
        last = max((one.seq for one in snapshot.events if one.type.endswith(".logged")), default=0)
        return last, self.worktree.intent if self.worktree else None

    def read(self, stop: ShouldStop) -> dict[str, Any]:
        key, where = self.key, folder_in_repository(self.snapshot, self.key)
        if key is None:
            return {"notes": []}
        with self.open_context(where) as context:
            found = db.read(
                context.connection, notes.list_logged, repo_name=key.repo, worktree_name=key.worktree, limit=_LIMIT
            )
        return {"notes": found}

    def title_text(self, data: dict[str, Any] | None) -> tuple[str, str]:
        name = safe(self.key.worktree, 60) if self.key else ""
        reached = sum(one.kind == notes.MILESTONE for one in data["notes"]) if data else 0
        return f"Milestones of {name}", count(reached, "milestone") if reached else ""

    def rows(self, data: dict[str, Any], now: datetime, width: int) -> Sequence[ListRow]:
        rows: list[ListRow] = []
        day = ""
        for one in reversed(data["notes"]):
            moment = times.parse(one.made_at)
            local = moment.astimezone() if moment else None
            today = local.strftime("%A, %Y-%m-%d") if local else "?"
            if today != day:
                day = today
                rows.append(ListRow(f"day {day}", (Content.styled(day, "bold"),), heading=True))
            rows.append(ListRow(f"note {one.seq}", note_lines(one, local.strftime("%H:%M") if local else "?", width)))
        return rows or [
            message_row("nothing is recorded yet: I sets an intent, `imi milestone` records what is reached")
        ]


def note_lines(one: notes.NoteRow, clock: str, width: int) -> tuple[Content, ...]:
    """`14:02  milestone  claude-1  the tests pass  (report.html)`; in a narrow view on two lines."""
    done = " (done)" if one.kind == notes.INTENT and one.done_at is not None else ""
    artifacts = f"  ({', '.join(safe(name, 60) for name in one.artifact_list)})" if one.artifact_list else ""
    head = [
        Content.styled(f"{clock}  ", cells.MUTED),
        cells.fixed(one.kind, 11, _STYLES.get(one.kind, "")),
        cells.fixed(safe(one.author, 40), 18, cells.MUTED),
    ]
    text = Content(safe(one.text, 500)).append(Content.styled(f"{done}{artifacts}", cells.MUTED))
    if width < NARROW:
        return Content("").join(head).truncate(width), Content("  ").append(text).truncate(width, ellipsis=True)
    return (Content("").join([*head, text]).truncate(width, ellipsis=True),)


VIEW = MilestonesView
