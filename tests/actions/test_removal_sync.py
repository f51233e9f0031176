"""What a removal and its undo rename is on the disk before the next step: the content first, then the folder."""

from __future__ import annotations

import os

import pytest

from tests.actions.removal_kit import remove, undo
from tests.helpers import Repo

_FOLDERS = ("worktree", "feat-x")


class DiskSteps:
    """The renames of this process, and what it synced, in their order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[tuple[str, str]] = []
        sync, rename = os.fsync, os.rename

        def record_sync(fd: int) -> None:
            sync(fd)
            self.steps.append(("synced", os.readlink(f"/proc/self/fd/{fd}")))

        def record_rename(source: str, target: str, **where: int) -> None:
            rename(source, target, **where)
            self.steps.append((source, target))

        monkeypatch.setattr(os, "fsync", record_sync)
        for name in ("rename", "replace"):
            monkeypatch.setattr(os, name, record_rename)

    def take(self) -> list[tuple[str, str]]:
        taken, self.steps = self.steps, []
        return taken


def unsynced(steps: list[tuple[str, str]]) -> list[str]:
    """The files whose content, and the renames whose folders, were not synced in time."""
    found = []
    for number, (source, target) in enumerate(steps):
        if source == "synced":
            continue
        later = {path for act, path in steps[number:] if act == "synced"}
        found += [f"{target} is not in its folder" for folder in {os.path.dirname(target)} - later]
        if os.path.basename(target) not in _FOLDERS and ("synced", source) not in steps[:number]:
            found.append(f"{target} may be empty")
    return found


def test_each_step_of_a_removal_and_its_undo_is_synced(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = repo.worktree("feat-x")
    disk = DiskSteps(monkeypatch)
    remove(repo, "feat-x")
    removal = disk.take()
    undo(repo)
    restore = disk.take()
    moves = {os.path.basename(target) for source, target in removal + restore if source != "synced"}
    assert moves == {"note.json", "locked", "worktree", "gitdir", "HEAD", "feat-x"}, "every rename is seen"
    assert unsynced(removal) == []
    assert unsynced(restore) == []
    assert ("synced", str(tree.path.parent)) in removal, "the place that the worktree left"
    (moved,) = (number for number, (_, target) in enumerate(removal) if os.path.basename(target) == "worktree")
    assert {"note.json", "locked"} == {os.path.basename(b) for a, b in removal[:moved] if a != "synced"}
    noted = max(number for number, (_, target) in enumerate(removal[:moved]) if target.endswith("note.json"))
    assert ("synced", os.path.dirname(removal[noted][1])) in removal[noted:moved], "the note comes before the move"
    last_head = max(number for number, (_, target) in enumerate(removal) if target.endswith("/HEAD"))
    recorded = max(number for number, (_, target) in enumerate(removal) if target.endswith("note.json"))
    admin = os.path.dirname(removal[last_head][1])
    assert ("synced", admin) in removal[last_head:recorded], "HEAD is on the disk before the removal counts as done"
