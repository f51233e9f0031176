"""The claims of the selected worktree: owner, time, duration, end and task; and the agents in line for it now."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from textual.content import Content

from imi_monitor.model import times
from imi_monitor.model.errors import ImiError
from imi_monitor.model.names import OURS
from imi_monitor.model.run import workspace_name
from imi_monitor.model.snapshot import Snapshot
from imi_monitor.model.text import count, safe
from imi_monitor.ui import cells
from imi_monitor.ui.background_query import ShouldStop
from imi_monitor.ui.views.queue_view import waiting_rows
from imi_monitor.ui.views.registry_view import NARROW, RegistryView
from imi_monitor.ui.views.view import action_data, folder_in_repository
from imi_monitor.ui.widgets.row_list import ListRow, message_row

_LIMIT = 500.0
_INVOLUNTARY = ("forced", "taken_over", "died")  # ends that the owner did not choose


class ClaimHistoryView(RegistryView):
    word = "history"
    opening_key = "H"
    label = "Claim history"
    help = "the claims of the selected worktree: owner, duration and end"
    needs_worktree = True

    def version(self, snapshot: Snapshot) -> object:
        claim = self.worktree.claim if self.worktree else None
        own = tuple(one for one in snapshot.waiting if one.key == self.key)
        return (claim.epoch if claim else None, claim is None, own, folder_in_repository(snapshot, self.key))

    def read(self, stop: ShouldStop) -> dict[str, Any]:
        name = self.worktree.own_name if self.worktree else self.key.worktree if self.key else ""
        where = folder_in_repository(self.snapshot, self.key)
        claims = action_data(self.open_context, where, "claims", {"history": name, "limit": _LIMIT}, stop)
        try:
            line = action_data(self.open_context, where, "queue", {"name": name}, stop)["queue"]
        except ImiError:  # a removed worktree has a history, but no line
            line = []
        return {**claims, "queue": line}

    def title_text(self, data: dict[str, Any] | None) -> tuple[str, str]:
        name = safe(workspace_name(self.key.repo, self.key.worktree), 60) if self.key else ""
        number = len(_grants(data)) if data else 0
        return f"Claims of {name}", count(number, "claim") if number else ""

    def rows(self, data: dict[str, Any], now: datetime, width: int) -> Sequence[ListRow]:
        rows = list(waiting_rows(data["queue"], now, width, named=False))
        if rows:
            above = (Content(""),) if width < NARROW else ()
            rows.insert(0, ListRow("line", (*above, Content.styled("in line", "bold")), heading=True))
            rows.append(ListRow("held", (*above, Content.styled("held by", "bold")), heading=True))
        rows += [ListRow(f"epoch {one['epoch']}", grant_lines(one, now, width)) for one in _grants(data)[::-1]]
        return rows or [message_row("it was never claimed: `imi claim` claims it")]


def _grants(data: dict[str, Any]) -> list[dict[str, Any]]:
    """The claims of agents and persons; those of imi's own operations are part of how another ended."""
    return [one for one in data["history"] if not one["agent_id"].startswith(OURS)]


def grant_lines(one: dict[str, Any], now: datetime, width: int) -> tuple[Content, ...]:
    """One claim: epoch, owner, beginning, duration and end."""
    moment = times.parse(one["claimed_at"])
    begun = moment.astimezone().strftime("%Y-%m-%d %H:%M:%S") if moment else "?"
    held_now = one["released_at"] is None
    held = times.age_of(one["claimed_at"], now) if held_now else times.age(one["held_seconds"])
    owner = cells.fixed(safe(one["agent_id"]), 18, "bold")
    span = cells.fixed(f"for {held}", 9)
    task = Content.styled(f"  {safe(one['task_id'], 60)}" if one["task_id"] else "", cells.MUTED)
    if width < NARROW:
        first = Content("").join([owner, span, Content.styled(begun, cells.MUTED)])
        second = Content("").join([Content.styled(f"  #{one['epoch']} ", cells.MUTED), _ending(one), task])
        return first.truncate(width), second.truncate(width)
    number = cells.fixed(f"#{one['epoch']}", 6, cells.MUTED, right=True)
    parts = [number, Content("  "), owner, cells.fixed(begun, 21), span, _ending(one), task]
    return (Content("").join(parts).truncate(width),)


def _ending(one: dict[str, Any]) -> Content:
    if one["released_at"] is None:
        return Content.styled("holds it", "$success")
    why = f": {safe(one['reason'], 120)}" if one["reason"] else ""
    return Content.styled(f"{one['ending']}{why}", "$warning" if one["ended"] in _INVOLUNTARY else "")


VIEW = ClaimHistoryView
