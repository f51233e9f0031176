"""The lines for claimed worktrees: waiting agents, places, waiting times and holders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from textual.content import Content

from imi_monitor.model import times
from imi_monitor.model.snapshot import Snapshot
from imi_monitor.model.text import count, safe
from imi_monitor.ui import cells
from imi_monitor.ui.background_query import ShouldStop
from imi_monitor.ui.views.registry_view import NARROW, RegistryView
from imi_monitor.ui.views.view import action_data
from imi_monitor.ui.widgets.row_list import ListRow, message_row


class QueueView(RegistryView):
    word = "queue"
    opening_key = "Q"
    label = "Queue"
    help = "agents in line for a worktree, and its holder"

    def version(self, snapshot: Snapshot) -> object:
        return (snapshot.waiting, tuple(tree.claim for tree in snapshot.worktrees))

    def read(self, stop: ShouldStop) -> dict[str, Any]:
        return action_data(self.open_context, None, "queue", {}, stop)

    def title_text(self, data: dict[str, Any] | None) -> tuple[str, str]:
        waiting = data["queue"] if data else []
        trees = len({(one["repo_name"], one["worktree_name"]) for one in waiting})
        behind = (
            f"{count(len(waiting), 'agent waits', 'agents wait')} for {count(trees, 'worktree')}" if waiting else ""
        )
        return "Queue", behind

    def rows(self, data: dict[str, Any], now: datetime, width: int) -> Sequence[ListRow]:
        waiting = sorted(data["queue"], key=lambda one: (one["repo_name"], one["worktree_name"], one["place"]))
        if not waiting:
            return [message_row("no agent is in line: `imi claim NAME --wait SECONDS` waits for a worktree")]
        return list(waiting_rows(waiting, now, width))


def waiting_rows(
    waiting: Iterable[dict[str, Any]], now: datetime, width: int, *, named: bool = True
) -> Iterable[ListRow]:
    """One row for each waiter; `named` puts the worktree in front."""
    for one in waiting:
        key = f"{one['repo_name']}\0{one['worktree_name']}\0{one['place']}\0{one['agent_id']}"
        yield ListRow(key, _stacked(one, now, width) if width < NARROW else (_line(one, now, width, named=named),))


def _line(one: dict[str, Any], now: datetime, width: int, *, named: bool) -> Content:
    parts = [cells.fixed(safe(one["worktree_name"]), 20, "bold"), Content(" ")] if named else []
    parts += [
        cells.fixed(f"{one['place']}.", 4, "$accent", right=True),
        Content(" "),
        cells.fixed(safe(one["agent_id"]), 16),
        cells.fixed(f"waits {times.age_of(one['enqueued_at'], now)}", 11, "$warning"),
        _holder(one, now),
        Content("  "),
        Content.styled(safe(one["task_id"] or "", 60), cells.MUTED),
    ]
    return Content("").join(parts).truncate(width)


def _stacked(one: dict[str, Any], now: datetime, width: int) -> tuple[Content, ...]:
    first = [
        cells.fixed(f"{one['place']}.", 4, "$accent", right=True),
        Content(" "),
        Content.styled(safe(one["agent_id"], 24), "bold"),
        Content(f" for {safe(one['worktree_name'], 24)}"),
        Content.styled(f" {times.age_of(one['enqueued_at'], now)}", "$warning"),
    ]
    second = Content("     ").append(_holder(one, now))
    return Content("").join(first).truncate(width), second.truncate(width)


def _holder(one: dict[str, Any], now: datetime) -> Content:
    if not one["ready"]:
        return Content.styled("suspended: skipped until it runs", "$agent-suspended")
    if one["held_by"] is None:
        return Content.styled("it is free: the claim follows", "$success")
    return Content(f"{safe(one['held_by'], 24)} holds it for {times.age_of(one['held_since'], now)}")


VIEW = QueueView
