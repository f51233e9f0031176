"""Panel 4: changed files, the newest last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from textual.content import Content

from imi_monitor.model import columns
from imi_monitor.model.change import Change
from imi_monitor.model.snapshot import Key, Snapshot
from imi_monitor.model.text import count, safe
from imi_monitor.ui import cells
from imi_monitor.ui.panels.feed_panel import FeedPanel


class ChangesPanel(FeedPanel[Change]):
    number = 4
    column = 2
    label = "Changes"
    source = "files"

    def empty_text(self, snapshot: Snapshot) -> str:
        """What git lists decides whether anything is uncommitted: of a deleted file no time is known."""
        trees = [tree for tree in snapshot.worktrees if self.only in (None, tree.key)]
        listed = sum(tree.git.uncommitted for tree in trees if tree.git is not None)
        of = f" of {safe(self.only.worktree)}" if self.only else ""
        if listed:
            return f"no file{of} has changed since the start; {count(listed, 'uncommitted file')}: 2 lists them"
        clean = all(tree.git is not None for tree in trees)
        return f"nothing{of} is uncommitted or has changed" if clean else f"no file{of} has changed since the start"

    def entries(self, snapshot: Snapshot) -> Sequence[Change]:
        """The changes seen, behind those of uncommitted files from before."""
        if not snapshot.earlier:
            return snapshot.changes
        seen = {
            (change.repo, change.worktree, path) for change in snapshot.changes for path in _with_folders(change.path)
        }
        return (*(one for one in snapshot.earlier if (one.repo, one.worktree, one.path) not in seen), *snapshot.changes)

    def row_inputs(self, snapshot: Snapshot, selected: Key | None) -> tuple[object, ...]:
        inputs = super().row_inputs(snapshot, selected)
        return inputs if inputs[0] else (*inputs, self.empty_text(snapshot))

    def entry_key(self, entry: Change) -> str:
        return f"{entry.at} {entry.worktree} {entry.path} {entry.kind}"

    def entry_line(self, entry: Change, room: int) -> Content:
        return cells.change_line(entry, room, self.names)

    def name_width(self, entries: Sequence[Change], room: int) -> int:
        """The longest name, in a third of the line or what the longest path leaves."""
        longest = max((columns.cell_width(safe(entry.worktree)) for entry in entries), default=0)
        paths = max(
            (columns.cell_width(safe(entry.path)) + (9 if entry.count > 1 else 0) for entry in entries), default=0
        )
        agents = max((columns.cell_width(safe(entry.by)) + 1 for entry in entries if entry.by), default=0)
        return min(longest, max(9, min(20, room // 3), room - 12 - paths - agents))


def _with_folders(path: str) -> Iterator[str]:
    """The path, and the folders it is in as git lists an untracked one: `new/`."""
    yield path
    end = path.rfind("/")
    while end > 0:
        yield path[: end + 1]
        end = path.rfind("/", 0, end)


PANEL = ChangesPanel
