"""The changed files of one worktree with everything known about each: git's letters, lines, age, who, and whom it meets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from imi_monitor.model import times
from imi_monitor.model.diff import Diff, FileDiff
from imi_monitor.model.snapshot import Snapshot, Worktree


@dataclass(frozen=True, slots=True)
class FileDetails:
    """What a snapshot does not hold, read when somebody looks: lines of new files too, and what is committed."""

    uncommitted: Diff = field(default_factory=Diff)
    committed: Diff = field(default_factory=Diff)
    written: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FileRow:
    """One file; `at` is when it changed last, None when nobody knows."""

    path: str
    letters: str
    origin: str | None
    added: int | None
    removed: int | None
    binary: bool
    at: str | None
    by: str | None
    meets: tuple[str, ...]
    committed: bool = False


def changed_files(snapshot: Snapshot, tree: Worktree, details: FileDetails | None) -> list[FileRow]:
    """What is not committed, conflicts first; then what only the branch's commits changed."""
    known = {file.path: file for file in tree.git.files} if tree.git else {}
    meets, changed = _meets(snapshot, tree), _changed(snapshot, tree)
    lines = {file.path: file for file in details.uncommitted.files} if details else {}
    written = details.written if details else {}

    def made(path: str, letters: str, origin: str | None, counted: FileDiff | None, *, committed: bool) -> FileRow:
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
            meets.get(path, ()),
            committed,
        )

    folders = tuple(path for path in known if path.endswith("/"))
    inside = [path for path in lines if path not in known and path.startswith(folders)] if folders else []
    shown = [path for path in known if not any(name.startswith(path) for name in inside)]
    found = [
        made(path, f"{known[path].index}{known[path].tree}", known[path].origin, lines.get(path), committed=False)
        for path in shown
    ]
    found += [made(path, "??", None, lines[path], committed=False) for path in inside]
    found.sort(key=lambda row: ("U" not in row.letters, row.path))
    taken = {row.path for row in found}
    rest = details.committed.files if details else ()
    return found + [
        made(file.path, f"{file.state} ", file.origin, file, committed=True) for file in rest if file.path not in taken
    ]


def _meets(snapshot: Snapshot, tree: Worktree) -> dict[str, tuple[str, ...]]:
    """path -> the other worktrees that touch it; the trunk is called so."""
    found: dict[str, list[str]] = {}
    for one in snapshot.collisions:
        if tree.key in (one.left, one.right):
            other = one.right if one.left == tree.key else one.left
            for path in one.files:
                found.setdefault(path, []).append(other.worktree if other else "the trunk")
    return {path: tuple(names) for path, names in found.items()}


def _changed(snapshot: Snapshot, tree: Worktree) -> dict[str, tuple[str, str | None]]:
    """path -> when it was seen to change last, and who held the worktree then."""
    own = (one for one in snapshot.changes if (one.repo, one.worktree) == (tree.key.repo, tree.key.worktree))
    return {one.path: (one.at, one.by) for one in own if one.count == 1}


def _holder(tree: Worktree, at: str | None) -> str | None:
    """Who holds the worktree, if that was so when the file was written."""
    claimed = times.parse(tree.claim.claimed_at) if tree.claim else None
    moment = times.parse(at)
    if tree.claim is None or claimed is None or moment is None:
        return None
    return tree.claim.agent if claimed <= moment else None
