"""A removal and its undo survive a power failure: what a step relies on is on the disk before that step, in this order."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

from tests.actions.removal_kit import act, note_of, remove, trash_root, undo
from tests.audit_events import at_event
from tests.helpers import Repo

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


class Journal(list[tuple[str, str]]):
    """What was renamed (by its new name), deleted and flushed, in order."""

    def between(self, first: tuple[str, str], *then: tuple[str, str]) -> None:
        """Assert that these steps follow each other, with any others in between."""
        at = self.index(first)
        for step in then:
            at = self.index(step, at + 1)


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Journal]:
    found, real = Journal(), os.fsync

    def flush(handle: int) -> None:
        found.append(("flush", os.readlink(f"/proc/self/fd/{handle}")))
        real(handle)

    def renamed(_: object, target: object, *__: object) -> bool:
        found.append(("rename", str(target)))
        return False

    def deleted(path: object, *_: object) -> bool:
        found.append(("delete", str(path)))
        return False

    monkeypatch.setattr(os, "fsync", flush)
    with at_event("os.rename", list, when=renamed), at_event("os.remove", list, when=deleted):
        yield found


@pytest.mark.parametrize("locked", [False, True])
def test_each_step_is_on_the_disk_before_the_next(repo: Repo, journal: Journal, locked: bool) -> None:
    tree = repo.worktree("feat-x")
    admin = str(repo.path / ".git" / "worktrees" / "feat-x")
    if locked:
        repo.git("worktree", "lock", str(tree.path))
    identity = remove(repo, "feat-x", force=True).data["trash_id"]
    note, entry = str(note_of(repo, identity)), str(trash_root(repo) / str(identity))
    folder = f"{entry}/worktree"
    # the note and the lock are there before the folder moves
    journal.between(("flush", f"{note}.imi-new"), ("rename", note), ("flush", entry), ("rename", folder))
    journal.between(
        ("flush", f"{admin}/locked.imi-new"), ("rename", f"{admin}/locked"), ("flush", admin), ("rename", folder)
    )
    # the folder is in the trash before git's record says so, and all of it before the registry does
    journal.between(("rename", folder), ("flush", str(tree.path.parent)), ("rename", f"{admin}/gitdir"))
    journal.between(("rename", folder), ("flush", entry), ("rename", f"{admin}/gitdir"))
    journal.between(("flush", f"{admin}/gitdir.imi-new"), ("rename", f"{admin}/gitdir"), ("flush", admin))
    journal.between(("flush", f"{admin}/HEAD.lock"), ("rename", f"{admin}/HEAD"), ("flush", admin))
    del journal[:]
    undo(repo)
    journal.between(("rename", str(tree.path)), ("flush", entry), ("rename", f"{admin}/gitdir"))
    journal.between(("rename", str(tree.path)), ("flush", str(tree.path.parent)), ("rename", f"{admin}/gitdir"))
    journal.between(("flush", f"{admin}/gitdir.imi-new"), ("rename", f"{admin}/gitdir"), ("flush", admin))
    journal.between(("rename" if locked else "delete", f"{admin}/locked"), ("flush", admin))


def test_a_purge_is_on_the_disk_before_files_are_deleted(repo: Repo, journal: Journal) -> None:
    repo.worktree("feat-x")
    admin = str(repo.path / ".git" / "worktrees" / "feat-x")
    entry = str(trash_root(repo) / str(remove(repo, "feat-x").data["trash_id"]))
    del journal[:]
    act("trash purge", cwd=repo.path, which=["feat-x"], yes=True, wait=True)
    forgotten = f"{entry}.purging/forgotten"
    journal.between(("rename", f"{entry}.purging"), ("flush", str(trash_root(repo))), ("rename", forgotten))
    journal.between(("rename", forgotten), ("flush", os.path.dirname(admin)))


def test_no_descriptor_stays_open(repo: Repo) -> None:
    """A dashboard removes and restores for months in one process."""

    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    repo.worktree("feat-x")
    counts = []
    for _ in range(3):
        remove(repo, "feat-x")
        undo(repo)
        counts.append(descriptors())
    assert counts[1] == counts[2], counts
