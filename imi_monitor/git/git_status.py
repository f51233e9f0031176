"""Reads `git status` of one worktree: changed, untracked, conflicted and ignored files, the branch and its upstream.

Unusual states (unborn, detached, no upstream, during a rebase) are values, not errors. `hidden_edits` finds edits that `git
status` does not show: files marked assume-unchanged or skip-worktree that differ from the index. A removal must not miss them.
"""

from __future__ import annotations

import os
import stat

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.git.layout import has_reftable, read_small
from imi_monitor.model.errors import GitError
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from imi_monitor.git.runner import Git


# In the order of the checks: a rebase may stop at its own picks and merges, and is then the operation.
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
class GitStatusEntry:
    """One file with git's two state letters (`.` unchanged, `M A D R C T U`, `?` untracked, `!` ignored)."""

    path: str
    index: str
    tree: str
    origin: str | None = None  # where a renamed or copied file came from


@dataclass(frozen=True, slots=True)
class GitStatus:
    """The status of one worktree; `ahead` and `behind` are None without an existing upstream, `oid` when unborn."""

    branch: str | None
    oid: str | None
    upstream: str | None
    ahead: int | None
    behind: int | None
    entries: tuple[GitStatusEntry, ...]
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
        """Whether anything is uncommitted, ignored files aside."""
        return bool(self.staged or self.unstaged or self.untracked or self.conflicted)


def read_status(
    git: Git,
    ignored: bool = False,
    untracked: str = "all",
    paths: Sequence[str] = (),
    *,
    cancelled: Callable[[], bool] | None = None,
) -> GitStatus:
    """Read the status of git's work tree, or of only `paths` in it (a rename then shows as an added or deleted file)."""
    if git.work_tree is None:
        raise GitError(f"{safe(git.common_dir)} is bare here: it has no files", code="bare")
    output = git.run(
        "status",
        "--porcelain=v2",
        "--branch",
        "-z",
        f"--untracked-files={untracked}",
        "--ignore-submodules=dirty",
        f"--ignored={'matching' if ignored else 'no'}",
        "--find-renames",
        "--",
        *(f":(top,literal){path}" for path in paths),
        timeout=60.0,
        cancelled=cancelled,
    ).stdout
    return _parse(os.fsdecode(output).split("\0"))


def operation_in_progress(admin_dir: str) -> str | None:
    """Return the operation in progress in a worktree: merge, rebase, am, cherry-pick, revert or bisect; None without one."""
    try:
        names = set(os.listdir(admin_dir))
    except OSError as problem:
        raise GitError(
            f"the git directory {safe(admin_dir)} cannot be read: {problem.strerror}", code="unreadable"
        ) from problem
    if os.path.lexists(os.path.join(admin_dir, "rebase-apply", "applying")):
        return "am"
    for name, act in _OPERATIONS:
        if name in names:
            return act
    return _sequence(admin_dir)


def stashes(git: Git, branch: str | None) -> list[str]:
    """Return the stash entries made on `branch` (None: on a detached HEAD), newest first; all worktrees share one stash."""
    on = branch if branch is not None else "(no branch)"
    own = (f"WIP on {on}: ", f"On {on}: ")
    return [line for line in all_stashes(git) if line.partition(": ")[2].startswith(own)]


def all_stashes(git: Git) -> list[str]:
    """Return every stash entry of the repository, newest first."""
    if not has_reftable(git.common_dir) and not os.path.lexists(os.path.join(git.common_dir, "logs", "refs", "stash")):
        return []  # the entries are that log; most repositories have none, and the answer costs two processes
    return git.lines0("stash", "list", "-z", "--format=%gd: %gs")


def _sequence(admin_dir: str) -> str | None:
    """Return the kind of a series between two of its picks, which only its todo list shows."""
    todo = read_small(os.path.join(admin_dir, "sequencer", "todo"))
    if not todo:
        return None
    return "revert" if todo.startswith("revert ") else "cherry-pick"


def _parse(tokens: list[str]) -> GitStatus:
    heads: dict[str, str] = {}
    entries = tuple(_entries(iter(tokens), heads))
    oid, head = heads.get("branch.oid", "(initial)"), heads.get("branch.head", "(detached)")
    ahead, behind = _distance(heads.get("branch.ab", ""))
    return GitStatus(
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


def _entries(tokens: Iterator[str], heads: dict[str, str]) -> Iterator[GitStatusEntry]:
    for token in tokens:
        kind, _, rest = token.partition(" ")
        if kind == "#":
            key, _, heads[key] = rest.partition(" ")
        elif kind in "?!" and kind:
            yield GitStatusEntry(rest, kind, kind)
        elif kind == "u":  # with any two letters, both sides count as conflicted
            yield GitStatusEntry(rest.split(" ", 9)[9], "U", "U")
        elif kind == "1":
            yield GitStatusEntry(rest.split(" ", 7)[7], rest[0], rest[1])
        elif kind == "2":
            yield GitStatusEntry(rest.split(" ", 8)[8], rest[0], rest[1], next(tokens))


def _distance(text: str) -> tuple[int | None, int | None]:
    """Parse `+1 -2`; git writes `?` for a number that it does not count."""
    ahead, _, behind = text.partition(" ")
    return _number(ahead), _number(behind)


def _number(text: str) -> int | None:
    return int(text[1:]) if text[1:].isdecimal() else None


_CAP = 128 << 20  # a line for every file of the index


@dataclass(frozen=True, slots=True)
class _Marked:
    path: str
    mode: str
    sha: str
    sparse: bool  # skip-worktree: absent on purpose


def hidden_edits(git: Git) -> tuple[str, ...]:
    """Return the marked files that differ from the index. An unreadable file counts as an edit."""
    marked = [one for line in git.lines0("ls-files", "-z", "-v", "--stage", cap=_CAP) if (one := _marked(line))]
    edits: list[str] = []
    unsure: list[_Marked] = []
    for one in marked:
        edited = _edited_by_stat(os.path.join(git.work_tree or "", one.path), one)
        if edited is None:
            unsure.append(one)
        elif edited:
            edits.append(one.path)
    return tuple(sorted([*edits, *_differing(git, unsure)]))


def _marked(line: str) -> _Marked | None:
    """Parse `S 100644 <sha> 0<TAB>path`: lower case is assume-unchanged, S is skip-worktree, s both."""
    words, _, path = line.partition("\t")
    tag, mode, sha, _ = words.split(" ")
    return _Marked(path, mode, sha, tag in "Ss") if tag == "S" or tag.islower() else None


def _edited_by_stat(path: str, one: _Marked) -> bool | None:
    """Return True if edited, False if as in the index, None if only the content can show it."""
    try:
        info = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return not one.sparse
    except OSError:
        return True
    if one.mode == "160000":  # a hidden submodule counts as edited if it exists
        return os.path.lexists(os.path.join(path, ".git"))
    if one.mode == "120000":
        return not stat.S_ISLNK(info.st_mode) or _blob_id(os.fsencode(os.readlink(path)), one.sha) != one.sha
    return None if stat.S_ISREG(info.st_mode) and os.access(path, os.R_OK) else True


def _blob_id(content: bytes, like: str) -> str:
    import hashlib  # 2 ms that only a removal with marked files needs

    algorithm = "sha1" if len(like) == 40 else "sha256"
    return hashlib.new(algorithm, b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _differing(git: Git, files: Sequence[_Marked]) -> list[str]:
    """Return the files whose content has another id in git (line endings converted as the repository configures)."""
    if not files:
        return []
    names = b"".join(_quoted(os.fsencode(one.path)) + b"\n" for one in files)
    shas = git.text("hash-object", "--stdin-paths", stdin=names, timeout=60.0).split("\n")
    return [one.path for one, sha in zip(files, shas, strict=True) if sha != one.sha]


def _quoted(path: bytes) -> bytes:
    """Return a path as one line in git's quotes, so that a newline or a quote stays part of it."""
    return b'"' + path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'
