"""The changed files of one worktree: git's letters, changed lines, age, owner, and the worktrees that changed them too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from imi_monitor.model import times
from imi_monitor.model.diff import Diff, FileDiff
from imi_monitor.model.snapshot import Snapshot, Worktree


@dataclass(frozen=True, slots=True)
class FileDetails:
    """What a snapshot does not hold: changed lines of new files, committed changes, and when files were written."""

    uncommitted: Diff = field(default_factory=Diff)
    committed: Diff = field(default_factory=Diff)
    written: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FileRow:
    """One changed file; `at` is its last change, None when unknown."""

    path: str
    letters: str
    origin: str | None
    added: int | None
    removed: int | None
    binary: bool
    at: str | None
    by: str | None
    overlaps: tuple[str, ...]  # other worktrees that changed it
    committed: bool = False


def changed_files(snapshot: Snapshot, tree: Worktree, details: FileDetails | None) -> list[FileRow]:
    """Uncommitted files, those in conflict first; then files that only the branch's commits changed."""
    known = {file.path: file for file in tree.git.files} if tree.git else {}
    overlaps, changed = _overlaps(snapshot, tree), _seen_changes(snapshot, tree)
    lines = {file.path: file for file in details.uncommitted.files} if details else {}
    written = details.written if details else {}

    def row(path: str, letters: str, origin: str | None, counted: FileDiff | None, *, committed: bool) -> FileRow:
        at, by = changed.get(path) or (None, None)
        seconds = written.get(path)
        if at is None and seconds is not None:
            at = times.stamp(datetime.fromtimestamp(seconds, UTC))
        state = known.get(path)
        return FileRow(
            path,
            letters,
            origin,
            counted.added if counted else state.added if state else None,
            counted.removed if counted else state.removed if state else None,
            counted.binary if counted else False,
            None if committed else at,
            None if committed else by or _holder(tree, at),
            overlaps.get(path, ()),
            committed,
        )

    folders = tuple(path for path in known if path.endswith("/"))
    inside = [path for path in lines if path not in known and path.startswith(folders)] if folders else []
    shown = [path for path in known if not any(name.startswith(path) for name in inside)]
    found = [
        row(path, f"{known[path].index}{known[path].tree}", known[path].origin, lines.get(path), committed=False)
        for path in shown
    ]
    found += [row(path, "??", None, lines[path], committed=False) for path in inside]
    found.sort(key=lambda file: ("U" not in file.letters, file.path))
    taken = {file.path for file in found}
    rest = details.committed.files if details else ()
    return found + [
        row(file.path, f"{file.state} ", file.origin, file, committed=True) for file in rest if file.path not in taken
    ]


def _overlaps(snapshot: Snapshot, tree: Worktree) -> dict[str, tuple[str, ...]]:
    """Path -> the other worktrees that changed it, the trunk among them."""
    found: dict[str, list[str]] = {}
    for one in snapshot.collisions:
        if tree.key in (one.left, one.right):
            other = one.right if one.left == tree.key else one.left
            for path in one.files:
                found.setdefault(path, []).append(other.worktree if other else "the trunk")
    return {path: tuple(names) for path, names in found.items()}


def _seen_changes(snapshot: Snapshot, tree: Worktree) -> dict[str, tuple[str, str | None]]:
    """Path -> when it was last seen to change, and the owner at that time."""
    own = (one for one in snapshot.changes if (one.repo, one.worktree) == (tree.key.repo, tree.key.worktree))
    return {one.path: (one.at, one.by) for one in own if one.count == 1}


def _holder(tree: Worktree, at: str | None) -> str | None:
    """The owner of the worktree, if the claim is older than this time."""
    claimed = times.parse(tree.claim.claimed_at) if tree.claim else None
    moment = times.parse(at)
    if tree.claim is None or claimed is None or moment is None:
        return None
    return tree.claim.agent if claimed <= moment else None
