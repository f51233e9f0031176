"""Agents with one prompt, side by side: what each changed, what its check said, what it cost; `c` keeps one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from textual import on
from textual.binding import Binding
from textual.content import Content

from imi_monitor.model import columns, times
from imi_monitor.model.agent_text import format_tokens
from imi_monitor.model.columns import OptionalColumn
from imi_monitor.model.errors import Refused
from imi_monitor.model.run import word_of
from imi_monitor.model.snapshot import Key, Snapshot
from imi_monitor.model.text import count, safe
from imi_monitor.ui.agent_cells import SIGNS
from imi_monitor.ui.background_query import ShouldStop
from imi_monitor.ui.cells import MUTED
from imi_monitor.ui.views.registry_view import NARROW, RegistryView
from imi_monitor.ui.views.view import action_data, folder_in_repository
from imi_monitor.ui.widgets.row_list import ListRow, RowList

if TYPE_CHECKING:
    from imi_monitor.ui.app import ImiApp

_SECONDS = 3  # between two reads while nothing is recorded: files change without an event
_TITLES = {
    "name": "worktree",
    "state": "state",
    "took": "for",
    "files": "files",
    "lines": "lines",
    "check": "check",
    "tokens": "tokens",
    "cost": "cost",
    "unread": "unread",
    "same": "same files",
}
_RIGHT = ("took", "files", "lines", "tokens", "cost", "unread", "same")
_NO_ANSWER = "?"


class CompareView(RegistryView):
    word = "compare"
    opening_key = "equals_sign"
    label = "Compare"
    help = "agents with one prompt, side by side: changes, check, cost, time; one is kept"
    BINDINGS = [
        Binding("enter", "diff", "Diff", key_display="⏎", tooltip="show what this one changed"),
        Binding("c", "keep", "Keep", tooltip="keep this one, and move the others to the trash"),
        Binding("V", "session", "Session", id="session", tooltip="show the whole session of its agent"),
    ]

    def version(self, snapshot: Snapshot) -> object:
        last = snapshot.events[-1].seq if snapshot.events else None
        return (last, int(times.now().timestamp()) // _SECONDS)

    def read(self, stop: ShouldStop) -> dict[str, Any]:
        """The group of the worktree that was selected, else the newest."""
        where = folder_in_repository(self.snapshot, self.key)
        if self.key is not None:
            try:
                return action_data(self.open_context, where, "compare", {"name": self.key.worktree}, stop)
            except Refused:
                self.key = Key(self.key.host, self.key.repo, "")
        return action_data(self.open_context, where, "compare", {}, stop)

    def title_text(self, data: dict[str, Any] | None) -> tuple[str, str]:
        if data is None:
            return "Compare", ""
        prompt = safe((data["prompt"] or "").split("\n")[0], 200)
        return "Compare", f"{safe(data['group'], 60)}  {count(data['count'], 'agent')}  > {prompt}"

    def rows(self, data: dict[str, Any], now: datetime, width: int) -> Sequence[ListRow]:
        shown = [(one, cells_of(one)) for one in data["runs"]]
        if width < NARROW:
            return [ListRow(one["run"], two_lines(row, width)) for one, row in shown]
        widths = plan([row for _, row in shown], width)
        heads = Content("  ").append(
            line({name: Content.styled(text, MUTED) for name, text in _TITLES.items()}, widths)
        )
        return [
            ListRow("titles", (heads.truncate(width),), heading=True),
            *(ListRow(one["run"], (row["sign"].append(line(row, widths)).truncate(width),)) for one, row in shown),
        ]

    # -- keys -------------------------------------------------------------------------------------------------------

    @property
    def _chosen(self) -> dict[str, Any] | None:
        found = self._data["runs"] if self._data else ()
        return next((one for one in found if one["run"] == self.query_one(RowList).cursor), None)

    def _key_of(self, one: dict[str, Any]) -> Key | None:
        """The key of its worktree, while the dashboard shows it."""
        trees = self.snapshot.worktrees if self.snapshot is not None else ()
        wanted = (one["repo"], one["worktree_name"])
        return next((tree.key for tree in trees if (tree.key.repo, tree.key.worktree) == wanted), None)

    @on(RowList.RowChosen)
    def action_diff(self) -> None:
        chosen = self._chosen
        key = self._key_of(chosen) if chosen is not None else None
        if key is not None:
            cast("ImiApp", self.app).open_worktree_view("diff", key)

    def action_keep(self) -> None:
        """Open the dialog that keeps the one under the cursor."""
        chosen = self._chosen
        if chosen is not None:
            app = cast("ImiApp", self.app)
            app.action_commands.open("keep", [], values={"name": chosen["worktree_name"]})

    def action_session(self) -> None:
        from imi_monitor.ui.views.session_view import SessionView

        chosen, app = self._chosen, cast("ImiApp", self.app)
        agents = self.snapshot.agents if self.snapshot is not None else ()
        agent = next((one for one in agents if chosen is not None and one.run == chosen["run"]), None)
        if agent is None:
            app.say("its agent is not visible any more: J lists its log", bad=True)
        else:
            app.open_view(SessionView(agent.key, self.open_context), agent)


def cells_of(one: dict[str, Any]) -> dict[str, Content]:
    """The texts of one run, by column; what is unknown is `?`."""
    sign, style = SIGNS.get(word_of(str(one["state"])), ("·", MUTED))
    gone = one["removed_from_disk"]
    lines = Content(_NO_ANSWER)
    if one["added"] is not None:
        lines = Content.styled(f"+{one['added']}", "$success").append(Content.styled(f" −{one['removed']}", "$error"))
    check, cost, same = one["check"], one["cost_usd"], one["same_files"]
    said = Content("")
    if check is not None:
        passed = check["status"] == 0
        text = f"{'✓' if passed else '✗'} {safe(str(check['command'] or 'a command'), 60)}"
        said = Content.styled(text, "$success" if passed else "$error")
    unread = _NO_ANSWER if one["unread"] is None else f"{one['unread']}/{one['total']}"
    return {
        "sign": Content.styled(f"{'✗' if gone else sign} ", MUTED if gone else style),
        "name": Content.styled(safe(str(one["worktree_name"]), 60), "bold"),
        "state": Content.styled("removed" if gone else safe(word_of(str(one["state"])), 20), MUTED if gone else style),
        "took": Content(_NO_ANSWER if one["seconds"] is None else times.age(one["seconds"])),
        "files": Content(_NO_ANSWER if one["files"] is None else str(one["files"])),
        "lines": lines,
        "check": said,
        "tokens": Content(format_tokens(one["tokens"])),
        "cost": Content("$?" if cost is None else f"${cost:.2f}"),
        "unread": Content(unread),
        "same": Content(_NO_ANSWER if same is None else str(len(same))),
    }


def plan(rows: Sequence[dict[str, Content]], width: int) -> dict[str, int]:
    """The width of each column: as wide as its longest text; where that is too much the last ones are left out."""
    widest = {
        name: max(columns.cell_width(title), *(row[name].cell_length for row in rows))
        for name, title in _TITLES.items()
    }
    least = {"name": min(widest["name"], 30), "state": widest["state"]}
    wanted = [OptionalColumn(name, min(size, 30) + 1) for name, size in widest.items() if name not in least]
    found, _ = columns.fit_optional(width - 2 - sum(least.values()) - 2 * len(least), wanted)
    chosen = least | {name: size - 1 for name, size in found.items()}
    return {name: chosen[name] for name in _TITLES if name in chosen}


def line(row: dict[str, Content], plan: dict[str, int]) -> Content:
    parts = []
    for name, width in plan.items():
        text = row[name].truncate(width, ellipsis=True)
        gap = " " * (width - text.cell_length)
        parts.append(Content(gap).append(text) if name in _RIGHT else text.append(Content(gap)))
    return Content("  ").join(parts)


def two_lines(row: dict[str, Content], width: int) -> tuple[Content, Content]:
    """Worktree, state and lines; below them check, time, tokens and money."""
    first = row["sign"].append(Content("  ").join([row["name"], row["state"], row["lines"]]))
    rest = [row["took"], row["tokens"].append(Content(" tok")), row["cost"], row["unread"].append(Content(" unread"))]
    second = Content("  ").append(Content("  ").join([*([row["check"]] if row["check"].plain else []), *rest]))
    return first.truncate(width, ellipsis=True), Content.styled(second.plain, MUTED).truncate(width, ellipsis=True)


VIEW = CompareView
