"""Panel 1: every worktree, the one that needs a person on top."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from textual.content import Content

from imi_monitor.model import times
from imi_monitor.model.snapshot import Key, Snapshot, Worktree
from imi_monitor.model.text import count, safe
from imi_monitor.ui import cells
from imi_monitor.ui.panels.base import Panel
from imi_monitor.ui.widgets.lines import Row

NARROW = 70  # below this many cells a worktree takes three short lines


class WorktreesPanel(Panel):
    name_shown = "Worktrees"
    empty = "no worktrees yet: n makes one"

    wanted = ""  # the filter, as typed

    def rows(self, snapshot: Snapshot, selected: Key | None, now: datetime) -> Sequence[Row]:
        trees = [tree for tree in ordered(snapshot) if matches(tree, self.wanted)]
        several = len(snapshot.repositories) > 1
        if self.room < NARROW:
            return [Row(key_of(tree), self._stacked(snapshot, tree, now)) for tree in trees]
        return [Row(key_of(tree), (self._line(snapshot, tree, now, several=several),)) for tree in trees]

    def height_of_row(self) -> int:
        return 3 if self.room < NARROW else 1

    def empty_text(self, snapshot: Snapshot) -> str:
        if self.wanted and snapshot.worktrees:
            return f"no worktree matches {self.wanted!r}: esc clears the filter"
        if not any(health.source == "worktrees" for health in snapshot.health):
            return "looking for worktrees…"
        return self.empty

    def _line(self, snapshot: Snapshot, tree: Worktree, now: datetime, *, several: bool) -> Content:
        state, room = tree.git, self.room
        wide = room >= 84
        name = safe(f"{tree.key.repo}/{tree.key.worktree}" if several else tree.key.worktree)
        hits = cells.collides(snapshot, tree.key)
        parts = [cells.glyph(tree), Content(" "), cells.text(name, 22 if wide else 16, "bold"), Content(" ")]
        parts += [cells.owner(tree, 14 if wide else 11), Content(" ")]
        parts.append(cells.text(f"⚡{hits}", 3, "$error bold") if hits else Content("   "))
        parts.append(cells.arrows(state.trunk_ahead, state.trunk_behind, 8) if state else cells.text("", 8))
        parts += [cells.counts(state, 11), Content(" ")]
        if wide:
            parts += [cells.sparkline(tree, 10, now), Content(" ")]
        parts.append(cells.text(self._age(tree, now), 4, cells.MUTED, right=True))
        special = cells.note(tree)
        parts.append(Content(" ").append(special) if special.plain else Content(""))
        return Content("").join(parts).truncate(room)

    def _stacked(self, snapshot: Snapshot, tree: Worktree, now: datetime) -> tuple[Content, ...]:
        """Three short lines, as they are read in a narrow pane."""
        room = self.room
        head = Content("").join(
            [
                cells.text(f"{safe(tree.key.worktree)} ({safe(tree.owner)})", max(8, room - 14), "bold"),
                cells.counts(tree.git, 12),
            ]
        )
        state = tree.git
        special = cells.note(tree)
        if special.plain:
            second = Content("  ").append(special)
        elif state is not None and state.uncommitted:
            second = Content.styled(f"  ⚠ {state.uncommitted} uncommitted", "$warning")
        elif state is not None and state.trunk_ahead:
            second = Content.styled(f"  ✓ {count(state.trunk_ahead, 'commit')} ahead", "$success")
        else:
            second = Content.styled("  ✓ clean", cells.MUTED)
        hits = cells.collides(snapshot, tree.key)
        if hits:
            second = second.append(Content.styled(f"  ⚡{hits}", "$error bold"))
        change = tree.last_change
        third = Content.styled(
            f"  • {safe(change.path)} ({times.age_of(change.at, now)} ago)" if change else "", cells.MUTED
        )
        return head, second.truncate(room), third.truncate(room)

    def _age(self, tree: Worktree, now: datetime) -> str:
        """Of the last change seen, else of the last commit."""
        if tree.last_change is not None:
            return times.age_of(tree.last_change.at, now)
        commit = tree.git.last_commit if tree.git else None
        return times.age_of(commit.at, now) if commit else ""


def key_of(tree: Worktree) -> str:
    return f"{tree.key.host}\0{tree.key.repo}\0{tree.key.worktree}"


def ordered(snapshot: Snapshot) -> list[Worktree]:
    """What needs a person first, then what is at work, then the rest by name; the trunk last."""

    def rank(tree: Worktree) -> tuple[int, str, str]:
        state = tree.claim.state if tree.claim else ""
        needs = tree.missing or tree.failure is not None or state in ("dead", "stale")
        hurts = needs or bool(tree.git and tree.git.conflicted) or bool(cells.collides(snapshot, tree.key))
        return (0 if hurts else 3 if tree.is_main else 1 if tree.claim else 2, tree.key.repo, tree.key.worktree)

    return sorted(snapshot.worktrees, key=rank)


def matches(tree: Worktree, wanted: str) -> bool:
    """Smart case; `!` inverts; `@agent`, `type:`, `is:dirty|claimed|free|stale|missing`."""
    for word in wanted.split():
        inverted = word.startswith("!")
        if _matches(tree, word.removeprefix("!")) == inverted:
            return False
    return True


def _matches(tree: Worktree, word: str) -> bool:
    if word.startswith("@"):
        return word[1:].lower() in tree.owner.lower()
    if word.startswith("type:"):
        return tree.type == word[5:]
    if word.startswith("is:"):
        claim = tree.claim.state if tree.claim else "free"
        dirty = bool(tree.git and tree.git.uncommitted)
        return {"dirty": dirty, "clean": not dirty, "claimed": claim != "free", "missing": tree.missing}.get(
            word[3:], claim == word[3:]
        )
    text = f"{tree.key.repo}/{tree.key.worktree} {tree.branch or ''}"
    return word in text if word != word.lower() else word in text.lower()
