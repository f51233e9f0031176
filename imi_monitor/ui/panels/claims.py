"""Panel 3: who holds what, and who waits. Until agents are seen by themselves, these are the claims."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from textual.content import Content

from imi_monitor.model.snapshot import ClaimState, Key, Snapshot
from imi_monitor.model.text import safe
from imi_monitor.ui import cells
from imi_monitor.ui.panels.base import Panel
from imi_monitor.ui.widgets.lines import Row

# state -> glyph, colour, the word, in the order in which they need a person
_STATES = {
    "dead": ("✗", "$error", "dead"),
    "stale": ("◌", "$warning", "silent"),
    "held": ("▸", "$accent", "holds"),
}


class ClaimsPanel(Panel):
    name_shown = "Agents"
    empty = "no claims: c claims the selected worktree"

    def rows(self, snapshot: Snapshot, selected: Key | None, now: datetime) -> Sequence[Row]:
        claims = sorted((tree.claim for tree in snapshot.worktrees if tree.claim), key=_rank)
        room = self.room
        rows = [
            self.row(f"{one.key.repo}\0{one.key.worktree}", (one, room, self._ages(one, now)),
                     lambda one=one: (self._claim(one, now, room),))  # type: ignore[misc]
            for one in claims
        ]  # fmt: skip
        rows += [
            Row(f"wait {one.key.repo} {one.key.worktree} {one.place}", (Content.styled(
                f"… {safe(one.agent)} waits for {safe(one.key.worktree)}, {_place(one.place)} in line", cells.MUTED),))
            for one in snapshot.waiting
        ]  # fmt: skip
        return rows

    def _ages(self, one: ClaimState, now: datetime) -> tuple[str, str]:
        return cells.age(one.claimed_at, now), cells.age(one.heartbeat_at, now) if one.heartbeat_at else ""

    def _claim(self, one: ClaimState, now: datetime, room: int) -> Content:
        """Who, where, its state and since when, its process, its task; the last ones go first when it is narrow."""
        glyph, style, word = _STATES.get(one.state, ("?", cells.MUTED, safe(one.state)))
        since, beat = self._ages(one, now)
        agent, tree = (12, 14) if room >= 48 else (10, 10)
        parts = [
            Content.styled(f"{glyph} ", style), cells.text(safe(one.agent), agent, "bold"), Content(" "),
            cells.text(safe(one.key.worktree), tree), Content(" "), cells.text(word, 6, style),
            cells.text(since, 4, cells.MUTED, right=True),
        ]  # fmt: skip
        process = f"{safe(one.process)} " if one.process else ""
        told = [
            f"{process}pid {one.pid}" if one.pid else "",
            f"heard {beat} ago" if beat and beat != since else "",
            safe(one.task or ""),
        ]
        rest = "  ".join(text for text in told if text)
        return Content("").join([*parts, Content.styled(f"  {rest}", cells.MUTED)]).truncate(room, ellipsis=True)


def _rank(one: ClaimState) -> tuple[int, str, Key]:
    order = list(_STATES)
    return order.index(one.state) if one.state in order else 0, one.agent, one.key


def _place(number: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(number, f"number {number}")
