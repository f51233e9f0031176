"""The lines for claimed worktrees: waiting agents, places, waiting times and holders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from textual.binding import Binding
from textual.content import Content

from imi_monitor.model import times
from imi_monitor.model.contained_names import HOMES
from imi_monitor.model.run import workspace_name
from imi_monitor.model.snapshot import Snapshot
from imi_monitor.model.text import count, safe
from imi_monitor.ui import cells
from imi_monitor.ui.background_query import ShouldStop
from imi_monitor.ui.views.registry_view import NARROW, RegistryView
from imi_monitor.ui.views.view import action_data
from imi_monitor.ui.widgets.row_list import ListRow, RowList, message_row

if TYPE_CHECKING:
    from imi_monitor.ui.app import ImiApp


class QueueView(RegistryView):
    word = "queue"
    opening_key = "Q"
    label = "Queue"
    help = "agents in line for a worktree, and its holder"
    BINDINGS = [
        Binding("c", "join", "Wait in line", id="claim", tooltip="wait in line for the worktree"),
        Binding("x", "leave_line", "Leave the line", tooltip="give up this dashboard's place in the line"),
    ]

    @property
    def _chosen(self) -> tuple[str, str] | None:
        """Repository and worktree of the row under the cursor; without rows those of the selected worktree."""
        row = (self.query_one(RowList).cursor or "").split("\0")
        if len(row) > 1:
            return row[0], row[1]
        return (self.key.repo, self.key.worktree) if self.key is not None else None

    def action_join(self) -> None:
        """Open the claim's dialog for the worktree of the row."""
        app = cast("ImiApp", self.app)
        trees = self.snapshot.worktrees if self.snapshot is not None else ()
        tree = next((tree for tree in trees if (tree.key.repo, tree.key.worktree) == self._chosen), None)
        if tree is None:
            app.say("select a worktree first", bad=True)
        else:
            app.action_commands.open("claim", [tree])

    def action_leave_line(self) -> None:
        """Give up this dashboard's place; the places of other processes are theirs."""
        app = cast("ImiApp", self.app)
        repo, name = self._chosen or ("", "")
        if app.action_commands.places.has(repo, name):
            app.action_commands.places.leave(repo, name)
        else:
            here = f"this dashboard is not in line for {safe(name, 60)}" if name else "no agent is in line"
            app.say(f"{here}: only the process that waits can leave a line", bad=True)

    def version(self, snapshot: Snapshot) -> object:
        return (snapshot.waiting, tuple(tree.claim for tree in snapshot.worktrees))

    def read(self, stop: ShouldStop) -> dict[str, Any]:
        shown = self.snapshot.repositories if self.snapshot is not None else ()
        data = action_data(self.open_context, None, "queue", {"all": True}, stop)
        return {**data, "queue": [one for one in data["queue"] if one["repo_name"] in (*shown, *HOMES)]}

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
            return [message_row("no agent is in line: `imi claim` waits in line for the selected worktree")]
        return list(waiting_rows(waiting, now, width))


def waiting_rows(
    waiting: Iterable[dict[str, Any]], now: datetime, width: int, *, named: bool = True
) -> Iterable[ListRow]:
    """One row for each waiter; `named` puts the worktree in front."""
    for one in waiting:
        key = f"{one['repo_name']}\0{one['worktree_name']}\0{one['place']}\0{one['agent_id']}"
        yield ListRow(key, _stacked(one, now, width) if width < NARROW else (_line(one, now, width, named=named),))


def _line(one: dict[str, Any], now: datetime, width: int, *, named: bool) -> Content:
    parts = [cells.fixed_name(_place_name(one), 20, "bold"), Content(" ")] if named else [Content("  ")]
    parts += [
        cells.fixed(f"{one['place']}.", 4, "$accent", right=True),
        Content(" " if named else "  "),
        cells.fixed(safe(one["agent_id"]), 18 if not named else 16, "" if named else "bold"),
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
        Content(f" for {_place_name(one)}"),
        Content.styled(f" {times.age_of(one['enqueued_at'], now)}", "$warning"),
    ]
    second = Content("     ").append(_holder(one, now))
    return Content("").join(first).truncate(width), second.truncate(width)


def _place_name(one: dict[str, Any]) -> str:
    return safe(workspace_name(one["repo_name"], one["worktree_name"]), 24)


def _holder(one: dict[str, Any], now: datetime) -> Content:
    if not one["ready"]:
        return Content.styled("suspended: skipped until it runs", "$agent-suspended")
    if one["held_by"] is None:
        return Content.styled("unclaimed: the claim follows", "$success")
    return Content(f"{safe(one['held_by'], 24)} has held it for {times.age_of(one['held_since'], now)}")


VIEW = QueueView
