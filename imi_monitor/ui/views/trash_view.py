"""The trash: removed worktrees, cleaned workspaces and discarded files, newest first; restores them or deletes them for good."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from textual import on
from textual.binding import Binding
from textual.content import Content

from imi_monitor.model import repository_names, times
from imi_monitor.model.contained_names import HOMES
from imi_monitor.model.repository_names import RepositoryNames
from imi_monitor.model.snapshot import Snapshot
from imi_monitor.model.text import count, safe
from imi_monitor.ui import cells
from imi_monitor.ui.background_query import ShouldStop
from imi_monitor.ui.views.registry_view import NARROW, RegistryView
from imi_monitor.ui.views.view import action_data
from imi_monitor.ui.widgets.row_list import ListRow, RowList, message_row

if TYPE_CHECKING:
    from imi_monitor.ui.app import ImiApp


class TrashView(RegistryView):
    word = "trash"
    opening_key = "K"
    label = "Trash"
    help = "removed worktrees, cleaned workspaces and discarded files: restore any of them, or delete it for good"
    BINDINGS = [
        Binding("enter", "restore", "Restore", tooltip="bring it back, with everything in it"),
        Binding("x", "purge", "Delete for good", tooltip="delete it for good"),
    ]

    def version(self, snapshot: Snapshot) -> object:
        last = snapshot.events[-1].seq if snapshot.events else None
        return (last, tuple(tree.key for tree in snapshot.worktrees))

    def read(self, stop: ShouldStop) -> dict[str, Any]:
        shown = self.snapshot.repositories if self.snapshot is not None else ()
        data = action_data(self.open_context, None, "trash list", {}, stop)
        return {**data, "entries": [one for one in data["entries"] if one["repo"] in (*shown, *HOMES, None)]}

    def title_text(self, data: dict[str, Any] | None) -> tuple[str, str]:
        if not data or not data["entries"]:
            return "Trash", ""
        trees = all(one["kind"] == "worktree" for one in data["entries"])
        number = count(len(data["entries"]), *(("removed worktree",) if trees else ("entry", "entries")))
        return "Trash", f"{number}; each is kept for {count(data['keep_days'], 'day')}"

    def rows(self, data: dict[str, Any], now: datetime, width: int) -> Sequence[ListRow]:
        names = repository_names.of_snapshot(self.snapshot) if self.snapshot is not None else RepositoryNames()
        newest_first = sorted(data["entries"], key=lambda one: one["removed_at"] or "", reverse=True)
        rows = [ListRow(one["id"], _lines(one, now, width, names)) for one in newest_first]
        return rows or [message_row("the trash is empty: D moves a worktree into it")]

    @on(RowList.RowChosen)
    def action_restore(self) -> None:
        """Open the dialog that restores the entry under the cursor."""
        self._open("trash restore", lambda identity: {"which": identity})

    def action_purge(self) -> None:
        """Open the dialog that deletes the entry under the cursor for good."""
        self._open("trash purge", lambda identity: {"which": [identity], "yes": True})

    def _open(self, verb: str, values: Any) -> None:
        app = cast("ImiApp", self.app)
        entries = self._data["entries"] if self._data else ()
        chosen = next((one for one in entries if one["id"] == self.query_one(RowList).cursor), None)
        if chosen is not None:
            app.action_commands.open(verb, values=values(chosen["id"]))


def _lines(one: dict[str, Any], now: datetime, width: int, names: RepositoryNames) -> tuple[Content, ...]:
    name = cells.fixed(safe(one["worktree_name"] or one["id"], 60), 28, "bold")
    age = cells.fixed(f"{times.age_of(one['removed_at'], now)} ago", 10, cells.MUTED)
    of = "contained" if one["kind"] == "workspace" else names.shown(one["repo"] or "?")
    repo = [Content.styled(f"{safe(of, 24)}  ", cells.MUTED)] if names.several else []
    by = Content(f"{one['how'] or 'removed'} by {safe(one['removed_by'] or '?', 24)}")
    what = ", ".join(one["files"]) if one["files"] else one["branch"] or one["why"] or ""
    branch = Content.styled(f"  {safe(what, 60)}", cells.MUTED)
    problem = _problem(one)
    if width < NARROW:
        second = Content("  ").append(problem if problem.plain else by)
        return Content("").join([name, *repo, age]).truncate(width), second.append(branch).truncate(width)
    return (Content("").join([name, *repo, age, by, branch, Content("  "), problem]).truncate(width),)


def _problem(one: dict[str, Any]) -> Content:
    """Return why it cannot be restored, or that the registry does not list it."""
    if one["problem"]:
        return Content.styled(safe(one["problem"], 200), "$error")
    if not one["restorable"]:
        return Content.styled("deleted on disk: it cannot be restored", "$error")
    return Content.styled("" if one["listed"] else "not in the registry: its own note restores it", "$warning")


VIEW = TrashView
