"""What git says about one worktree: its changed, untracked, conflicted and ignored files, and where its branch stands.

Odd states (unborn, detached, no upstream, in the middle of a rebase) are values here, not errors.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from imi_monitor.git.layout import read_small
from imi_monitor.model.errors import GitError
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from imi_monitor.git.run import Git

# In the order of asking: a rebase stops at picks and merges of its own, and is then the better answer.
_OPERATIONS = (
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("BISECT_LOG", "bisect"),
    ("BISECT_START", "bisect"),
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One file with its two states as git letters it (`.` unchanged, `M A D R C T U`, `?` untracked, `!` ignored)."""

    path: str
    index: str
    tree: str
    origin: str | None = None  # where a renamed or copied file came from


@dataclass(frozen=True, slots=True)
class Status:
    """One worktree; `ahead` and `behind` are None without an upstream or when that is gone, `oid` when unborn."""

    branch: str | None
    oid: str | None
    upstream: str | None
    ahead: int | None
    behind: int | None
    entries: tuple[Entry, ...]
    staged: tuple[str, ...]
    unstaged: tuple[str, ...]
    untracked: tuple[str, ...]
    conflicted: tuple[str, ...]
    ignored: tuple[str, ...]

    @property
    def detached(self) -> bool:
        return self.branch is None

    @property
    def dirty(self) -> bool:
        """Whether there is anything uncommitted, ignored files aside."""
        return bool(self.staged or self.unstaged or self.untracked or self.conflicted)


def read_status(
    git: Git,
    ignored: bool = False,
    untracked: str = "all",
    paths: Sequence[str] = (),
    *,
    cancelled: Callable[[], bool] | None = None,
) -> Status:
    """The state of git's work tree, or of only `paths` in it (a rename then shows as what it is for those paths)."""
    if git.work_tree is None:
        raise GitError(f"{safe(git.common_dir)} is bare here: it has no files to look at", code="bare")
    output = git.run(
        "status",
        "--porcelain=v2",
        "--branch",
        "-z",
        f"--untracked-files={untracked}",
        "--ignore-submodules=dirty",
        f"--ignored={'matching' if ignored else 'no'}",
        "--find-renames",
        "--end-of-options",
        *(["--", *(f":(top,literal){path}" for path in paths)] if paths else []),
        timeout=60.0,
        cancelled=cancelled,
    ).stdout
    return _parse(os.fsdecode(output).split("\0"))


def operation(admin_dir: str) -> str | None:
    """What is going on in a worktree: merge, rebase, am, cherry-pick, revert or bisect; None when nothing is."""
    try:
        names = set(os.listdir(admin_dir))
    except OSError as problem:
        raise GitError(
            f"the git directory {safe(admin_dir)} cannot be read: {problem.strerror}", code="unreadable"
        ) from problem
    if "rebase-apply" in names and os.path.lexists(os.path.join(admin_dir, "rebase-apply", "applying")):
        return "am"
    for name, act in _OPERATIONS:
        if name in names:
            return act
    return _sequence(admin_dir) if "sequencer" in names else None


def stashes(git: Git, branch: str | None) -> list[str]:
    """The stash entries made on `branch` (None: on a detached HEAD), newest first; all worktrees share one stash."""
    on = branch if branch is not None else "(no branch)"
    lines = git.lines0("stash", "list", "-z", "--no-show-signature", "--format=%gd: %gs")
    own = (f"WIP on {on}: ", f"On {on}: ")
    return [line for line in lines if line.partition(": ")[2].startswith(own)]


def _sequence(admin_dir: str) -> str | None:
    """Between two picks of a series only its list of things to do tells which kind it is."""
    todo = read_small(os.path.join(admin_dir, "sequencer", "todo"))
    if not todo:
        return None
    return "revert" if todo.startswith("revert ") else "cherry-pick"


def _parse(tokens: list[str]) -> Status:
    heads: dict[str, str] = {}
    entries = tuple(_entries(iter(tokens), heads))
    oid, head = heads.get("branch.oid", "(initial)"), heads.get("branch.head", "(detached)")
    ahead, behind = _distance(heads.get("branch.ab", ""))
    return Status(
        branch=None if head == "(detached)" else head,
        oid=None if oid == "(initial)" else oid,
        upstream=heads.get("branch.upstream"),
        ahead=ahead,
        behind=behind,
        entries=entries,
        staged=tuple(one.path for one in entries if one.index not in ".?!U"),
        unstaged=tuple(one.path for one in entries if one.tree not in ".?!U"),
        untracked=tuple(one.path for one in entries if one.index == "?"),
        conflicted=tuple(one.path for one in entries if one.index == "U"),
        ignored=tuple(one.path for one in entries if one.index == "!"),
    )


def _entries(tokens: Iterator[str], heads: dict[str, str]) -> Iterator[Entry]:
    for token in tokens:
        kind, _, rest = token.partition(" ")
        if kind == "#":
            key, _, heads[key] = rest.partition(" ")
        elif kind in "?!" and kind:
            yield Entry(rest, kind, kind)
        elif kind == "u":  # whatever the two letters are, both sides count as conflicted
            yield Entry(rest.split(" ", 9)[9], "U", "U")
        elif kind == "1":
            yield Entry(rest.split(" ", 7)[7], rest[0], rest[1])
        elif kind == "2":
            yield Entry(rest.split(" ", 8)[8], rest[0], rest[1], next(tokens))


def _distance(text: str) -> tuple[int | None, int | None]:
    """`+1 -2`; git writes `?` for a number it was told not to count."""
    ahead, _, behind = text.partition(" ")
    return _number(ahead), _number(behind)


def _number(text: str) -> int | None:
    return int(text[1:]) if text[1:].isdecimal() else None
