"""Panel 2: what git says about the selected worktree."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from textual.content import Content

from imi_monitor.model import times
from imi_monitor.model.snapshot import GitState, Key, Snapshot, Worktree
from imi_monitor.model.text import count, safe
from imi_monitor.ui import cells
from imi_monitor.ui.panels.base import Panel
from imi_monitor.ui.widgets.lines import Row


class GitPanel(Panel):
    name_shown = "Git"
    empty = "select a worktree"

    def rows(self, snapshot: Snapshot, selected: Key | None, now: datetime) -> Sequence[Row]:
        tree = snapshot.worktree(selected) if selected else None
        title = f"{self.number} Git · {safe(tree.key.worktree, 40)}" if tree else f"{self.number} Git"
        if self.border_title != title:
            self.border_title = Content(title)
        if tree is None:
            return ()
        rows = [Row(f"head {index}", (line,)) for index, line in enumerate(self._head(tree, now))]
        if tree.git is not None:
            rows += self._files(snapshot, tree, tree.git)
        rows += [
            Row(f"collision {index}", (cells.collision(one).truncate(self.room),))
            for index, one in enumerate(snapshot.collisions)
            if tree.key in (one.left, one.right)
        ]
        return rows

    def _head(self, tree: Worktree, now: datetime) -> list[Content]:
        lines = [Content.styled(safe(tree.path), cells.MUTED)]
        state = tree.git
        if tree.failure is not None:
            lines.append(Content.styled(f"? {safe(tree.failure.why)}", "$error"))
        if state is None:
            lines.append(cells.note(tree))
            return lines
        upstream = f" → {safe(state.upstream)}" if state.upstream else ""
        lines.append(
            Content("").join([
                Content.styled(safe(state.branch or "(detached)"), "bold"), Content(f"{upstream} "),
                cells.arrows(state.ahead, state.behind, 8) if state.upstream else Content(""),
                Content.styled(f" {safe(state.trunk or '')} ", cells.MUTED) if state.trunk else Content(""),
                cells.arrows(state.trunk_ahead, state.trunk_behind, 8),
            ])
        )  # fmt: skip
        if state.operation:
            lines.append(Content.styled(f"{state.operation} in progress", "$warning bold"))
        if state.last_commit is not None:
            commit = state.last_commit
            who = safe(commit.by or commit.author)
            lines.append(
                Content.styled(f"{commit.sha[:8]} ", cells.MUTED).append(Content(safe(commit.subject)))
                .append(Content.styled(f"  {who} {times.age_of(commit.at, now)}", cells.MUTED))
            )  # fmt: skip
        if state.stashes:
            lines.append(Content.styled(count(state.stashes, "stash entry", "stash entries"), cells.MUTED))
        return [line.truncate(self.room) for line in lines]

    def _files(self, snapshot: Snapshot, tree: Worktree, state: GitState) -> list[Row]:
        shared: dict[str, str] = {}
        for one in snapshot.collisions:
            if tree.key in (one.left, one.right) and one.right is not None:
                other = one.right if one.left == tree.key else one.left
                shared.update(dict.fromkeys(one.files, safe(other.worktree)))
        if not state.files:
            return [Row("clean", (Content.styled("✓ nothing uncommitted", "$success"),))]
        return [
            Row(f"file {entry.path}", (cells.file(entry, self.room, shared.get(entry.path)),)) for entry in state.files
        ]
