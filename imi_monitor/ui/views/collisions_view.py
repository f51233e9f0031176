"""Collisions of worktrees with each other and the trunk, and the files and conflicting lines of the selected pair.

The matrix shows the snapshot; the lines are read in a thread when the cursor rests on a pair in conflict.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content

from imi_monitor.actions.status.collisions_action import TRUNK
from imi_monitor.model import collision, repository_names
from imi_monitor.model.errors import ImiError
from imi_monitor.model.files_in_hand import list_in_hand
from imi_monitor.model.repository_names import RepositoryNames
from imi_monitor.model.snapshot import Collision, Key, Snapshot
from imi_monitor.model.text import count, safe
from imi_monitor.ui import cells
from imi_monitor.ui.background_query import BackgroundQuery
from imi_monitor.ui.views.view import View, action_data, folder_in_repository
from imi_monitor.ui.widgets.matrix import Matrix
from imi_monitor.ui.widgets.row_list import ListRow, RowList

Pair = tuple[Key, Key | None]
_MOST_FILES = 200
_SIDES = {
    collision.OURS: ("<", "$text-accent"),
    collision.THEIRS: (">", "$text-primary"),
    collision.BASE: ("|", cells.MUTED),
    collision.SAME: (" ", cells.MUTED),
    collision.CUT: ("…", cells.MUTED),
}


class CollisionsView(View):
    word = "collisions"
    opening_key = "x"
    label = "Collisions"
    help = "worktrees that changed the same files, and the lines in which they conflict"

    def on_mount(self) -> None:
        self._query: BackgroundQuery[dict[str, Any]] = BackgroundQuery(self, self._received, pause=0.15)
        self._pairs: dict[tuple[str, str], Collision] = {}
        self._shown: object = None  # the pair whose lines are read, and its collision
        self._lines: list[ListRow] = []
        self.query_one(Matrix).focus()

    def body(self) -> ComposeResult:
        with Container(id="collisions"):
            yield Matrix(id="matrix")
            yield RowList(id="collision")

    # -- the matrix -------------------------------------------------------------------------------------------------

    def show(self, snapshot: Snapshot, now: datetime) -> None:
        self._pairs = both_ways(snapshot.collisions)
        keys = sorted({key for one in snapshot.collisions for key in (one.left, one.right) if key is not None})
        several = len({key.repo for key in keys}) > 1
        names = repository_names.of_snapshot(snapshot) if several else RepositoryNames(here=snapshot.host)
        rows = [(_id(key), names.worktree(key)) for key in keys]
        columns = [*rows, *([("", TRUNK)] if any(one.right is None for one in snapshot.collisions) else [])]
        marks = {cell: sign(one) for cell, one in self._pairs.items()}
        matrix = self.query_one(Matrix)
        self.query_one("#collisions").set_class(2 * Matrix.least_width(rows, columns) <= self.app.size.width, "-roomy")
        matrix.show(rows, columns, marks, self._start(rows))
        self._title(snapshot)
        self._detail()

    def _start(self, rows: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
        """The worst collision of the selected worktree, else of all; without any the first cell."""
        own = _id(self.key) if self.key else ""
        ranked = sorted(self._pairs, key=lambda cell: (cell[0] != own, not self._pairs[cell].conflicts, cell))
        first = rows[0][0] if rows else ""
        return ranked[0] if ranked else (first, first) if rows else None

    def _title(self, snapshot: Snapshot) -> None:
        found = snapshot.collisions
        hard = sum(bool(one.conflicts) for one in found)
        untried = sum(one.conflicts is None and not _between_homes(one) for one in found)
        parts = [count(len(found), "pair overlaps", "pairs overlap")] if found else []
        parts += [f"⚡ {hard} in conflict"] if hard else []
        parts += [f"{untried} not tried yet"] if untried else []
        title = Content.styled("Collisions", "bold").append(Content.styled(f"  {', '.join(parts)}", cells.MUTED))
        self.set_title(title)

    # -- the chosen pair --------------------------------------------------------------------------------------------

    @on(Matrix.CursorMoved, "#matrix")
    def _moved(self, event: Matrix.CursorMoved) -> None:
        event.stop()
        self._detail()

    @property
    def _chosen(self) -> Collision | None:
        cursor = self.query_one(Matrix).cursor
        return self._pairs.get(cursor) if cursor else None

    def _detail(self) -> None:
        """Show the files at once, and read the lines of a pair in conflict."""
        chosen = self._chosen
        shown = (self.query_one(Matrix).cursor, chosen)
        if shown != self._shown:
            self._shown, self._lines = shown, []
            if chosen is not None and chosen.conflicts:
                self._lines = [_row("looking", "reading the conflicting lines…", cells.MUTED)]
                self._read(chosen)
            else:
                self._query.cancel()
        self.query_one("#collision", RowList).show(self._rows(chosen))

    def _read(self, chosen: Collision) -> None:
        where = folder_in_repository(self.snapshot, chosen.left)
        other = TRUNK if chosen.right is None else chosen.right.worktree
        values: dict[str, object] = {"name": chosen.left.worktree, "other": other}
        self._query.start(lambda stop: action_data(self.open_context, where, "collisions", values, stop))

    def _received(self, result: dict[str, Any] | ImiError) -> None:
        if isinstance(result, ImiError):
            self._lines = [_row("failed", f"? {safe(result.sentence, 400)}", "$error")]
        else:
            self._lines = [row for one in result["conflicts"] for row in conflict_rows(one)]
        self.query_one("#collision", RowList).show(self._rows(self._chosen))

    def _rows(self, chosen: Collision | None) -> list[ListRow]:
        if chosen is not None:
            in_hand = in_hand_rows(self.snapshot, {chosen.left, chosen.right}) if self.snapshot else []
            return [*pair_rows(chosen), *in_hand, *self._lines]
        if self.snapshot is not None and not self.snapshot.collisions:
            keys = {one.key for one in self.snapshot.worktrees}
            return [_row("", self._why_none(self.snapshot), cells.MUTED), *in_hand_rows(self.snapshot, keys)]
        return [_row("", "the two have no changed file in common", cells.MUTED)]

    def _why_none(self, snapshot: Snapshot) -> str:
        failed = next((one.failure for one in snapshot.health if one.source == "collisions" and one.failure), None)
        if failed is not None:
            return f"collisions cannot be read: {safe(failed.why, 300)}"
        return "no two worktrees changed the same file" if snapshot.complete else "looking…"


def both_ways(found: Sequence[Collision]) -> dict[tuple[str, str], Collision]:
    """(row, column) -> the collision of the two, in both orders; the trunk is only a column."""
    cells_ = {(_id(one.left), _id(one.right)): one for one in found}
    return {**cells_, **{(right, left): one for (left, right), one in cells_.items() if right}}


def sign(one: Collision) -> Content:
    """`⚡2` files in conflict, `3` that only overlap, `3?` when the merge was not tried; `=`: only the same branch."""
    if one.conflicts is None:
        return Content.styled(f"{len(one.files)}?" if one.files else "=", cells.MUTED)
    if one.conflicts:
        return Content.styled(f"⚡{len(one.conflicts)}", "$collision bold")
    return Content.styled(f"{len(one.files)}", "$overlap")


def pair_rows(one: Collision) -> list[ListRow]:
    """The names of the pair, the verdict, and the files, those in conflict first."""
    left, right = safe(one.left.worktree, 40), TRUNK if one.right is None else safe(one.right.worktree, 40)
    verdicts = {None: "not tried yet", True: f"{count(len(one.conflicts or ()), 'file')} in conflict"}
    verdict = verdicts.get(None if one.conflicts is None else bool(one.conflicts), "merges cleanly")
    if _between_homes(one):
        verdict = "on two machines: a merge cannot be tried from here"
    head = Content.styled(f"< {left}", "bold $text-accent").append(
        Content.styled(f"   > {right}", "bold $text-primary")
    )
    rows = [ListRow("head", (head,)), _row("verdict", f"{count(len(one.files), 'file')} in common, {verdict}", "")]
    if one.branch is not None:
        rows.append(_row("branch", f"both have the branch {safe(one.branch, 80)}", "$warning"))
    hard = one.conflicts or ()
    files = [*hard, *(path for path in one.files if path not in hard)]
    for path in files[:_MOST_FILES]:
        mark = Content.styled("⚡ ", "$collision") if path in hard else Content("  ")
        rows.append(ListRow(f"file {path}", (mark.append(Content(safe(path, 300))),)))
    if len(files) > _MOST_FILES:
        rows.append(_row("more", f"  … and {len(files) - _MOST_FILES} more", cells.MUTED))
    return [*rows, _row("gap", "", "")]


def in_hand_rows(snapshot: Snapshot, keys: Collection[Key | None]) -> list[ListRow]:
    """What agents edit in these worktrees, or have written and not committed: an edit of the same file would collide."""
    rows = []
    for tree in snapshot.worktrees:
        if tree.key not in keys:
            continue
        changed = {one.path for one in tree.git.files} if tree.git is not None else None
        for path, agent in sorted(dict(list_in_hand(snapshot.agents, tree.key, tree.path, changed)).items()):
            text = f"  {safe(agent.name, 40)} has {safe(path, 300)} in hand in {safe(tree.key.worktree, 40)}"
            rows.append(_row(f"hand {tree.key} {path}", text, "$text-accent"))
    return [*rows[:_MOST_FILES], *([_row("hand-gap", "", "")] if rows else [])]


def conflict_rows(one: dict[str, Any]) -> list[ListRow]:
    """The conflicting lines of one file, each marked with its side."""
    path = str(one["path"])
    why = f"  {safe(str(one['why']), 200)}" if one["why"] else ""
    name = Content.styled(safe(path, 300), "bold").append(Content.styled(why, cells.MUTED))
    rows = [ListRow(f"conflict {path}", (name,))]
    for number, hunk in enumerate(one["hunks"]):
        rows.append(_row(f"{path}\0{number}", f"  line {hunk['at']}", cells.MUTED))
        for index, each in enumerate(hunk["lines"]):
            mark, style = _SIDES[each["side"]]
            text = safe(str(each["text"]).expandtabs(4), 500)
            rows.append(_row(f"{path}\0{number}\0{index}", f"  {mark} {text}", style))
    return rows


def _row(key: str, text: str, style: str) -> ListRow:
    return ListRow(key, (Content.styled(text, style) if style else Content(text),))


def _between_homes(one: Collision) -> bool:
    return one.right is not None and one.left.host != one.right.host


def _id(key: Key | None) -> str:
    return "" if key is None else f"{key.host}\0{key.repo}\0{key.worktree}"


VIEW = CollisionsView
