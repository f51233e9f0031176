"""Panel 3: who holds what, and who waits. Until agents are seen by themselves, these are the claims."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from textual.content import Content

from imi_monitor.model import times
from imi_monitor.model.snapshot import ClaimState, Key, Snapshot
from imi_monitor.model.text import safe
from imi_monitor.ui import cells
from imi_monitor.ui.panels.base import Panel
from imi_monitor.ui.widgets.lines import Row

_GLYPHS = {"held": ("▸", "$accent"), "stale": ("◌", "$warning"), "dead": ("✗", "$error")}


class ClaimsPanel(Panel):
    name_shown = "Agents"
    empty = "no claims: c claims the selected worktree"

    def rows(self, snapshot: Snapshot, selected: Key | None, now: datetime) -> Sequence[Row]:
        claims = sorted((tree.claim for tree in snapshot.worktrees if tree.claim), key=lambda one: (one.agent, one.key))
        rows = [Row(f"{one.key.repo}\0{one.key.worktree}", (self._claim(one, now),)) for one in claims]
        rows += [
            Row(f"wait {one.key.worktree} {one.place}", (Content.styled(
                f"  {one.place}. {safe(one.agent)} waits for {safe(one.key.worktree)}", cells.MUTED),))
            for one in snapshot.waiting
        ]  # fmt: skip
        return rows

    def _claim(self, one: ClaimState, now: datetime) -> Content:
        glyph, style = _GLYPHS[one.state]
        task = f" {safe(one.task)}" if one.task else ""
        pid = f" pid {one.pid}" if one.pid else ""
        parts = [
            Content.styled(f"{glyph} ", style), cells.text(safe(one.agent), 16, "bold"), Content(" "),
            cells.text(safe(one.key.worktree), 18), Content(" "), cells.text(one.state, 6, style),
            cells.text(times.age_of(one.claimed_at, now), 4, cells.MUTED, right=True),
            Content.styled(f"{task}{pid}", cells.MUTED),
        ]  # fmt: skip
        return Content("").join(parts).truncate(self.room)
