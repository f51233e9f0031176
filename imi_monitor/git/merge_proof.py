"""Proves that a branch is merged: by ancestry, by content, or by the same changes in other commits.

A branch may be deleted because of this proof, so any doubt is None: no proof. A branch that was merged as a copy (squash,
rebase) and then reverted is not merged. One whose own commits are in the trunk is merged even if reverted, because nothing can be
lost.

Changes are compared by hashes of patches, which stay equal when a commit is moved. They are like `git patch-id`, but exact about
white space (in Python an indentation is a change) and binary files.
"""

from __future__ import annotations

import hashlib
import os
import re

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.git.commits import UNALTERED_HISTORY
from imi_monitor.git.refs import resolve
from imi_monitor.git.runner import git_version
from imi_monitor.model.errors import GitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from imi_monitor.git.runner import Git


_MERGE_TREE_SINCE = (2, 38, 0)
_MOST_OWN = 500  # commits of the branch that are compared one by one
_MOST_TRIED = 20  # trunk commits into which the branch is merged for a trial
_PLAIN_MERGE = [("merge.default", "text")]  # a merge driver could drop the changes of a file


def merge_proof(git: Git, tip_sha: str, base_ref: str) -> str | None:
    """Return the proof that `tip_sha` is in `base_ref`: "ancestor", "same tree", "patch-id", "squash"; None without one."""
    try:
        tip, base = resolve(git, tip_sha), resolve(git, base_ref)
        return _prove(git, tip, base) if tip and base else None
    except GitError as problem:
        if problem.code in ("git-missing", "cancelled"):
            raise
        return None  # a failure proves nothing


def _prove(git: Git, tip: str, base: str) -> str | None:
    forks = _lines(git, "merge-base", "--all", "--end-of-options", tip, base, ok=(0, 1))
    if forks == [tip]:
        return "ancestor"
    if len(forks) != 1:
        return None  # no common history, or several merge bases: the branch's changes are not well-defined
    files = _changed(git, forks[0], tip)
    if not set(files) <= set(_changed(git, forks[0], base)):
        return None  # the trunk has not changed one of the files: not merged, or reverted
    own = _own_commits(git, tip, base)
    if not files:  # empty commits count as merged; changes that undo each other may be nowhere in the trunk
        return "same tree" if _all_empty(git, own) else None
    if _contained(git, tip, base, files):
        return "same tree"
    return _copied(git, tip, base, forks[0], own, files)


def _copied(git: Git, tip: str, base: str, fork: str, own: list[list[str]], files: list[str]) -> str | None:
    """Return a proof by copies of the changes in the trunk that were not reverted."""
    theirs = touching(git, tip, base, files)
    kept = not_reverted(git, theirs)
    simple = len(own) <= _MOST_OWN and all(len(parents) <= 1 for _, *parents in own)
    mine = {patch.mark for patch in patches_of(git, [sha for sha, *_ in own]) if patch.mark} if simple else set()
    if mine and mine <= set(kept):
        return "patch-id"
    if whole_patch(git, fork, tip) in kept:
        return "squash"
    if len(kept) < len(theirs):
        return None  # something was reverted, and a trial merge cannot show whether it came from the branch
    return "squash" if _was_contained(git, tip, theirs, files) else None


def _own_commits(git: Git, tip: str, base: str) -> list[list[str]]:
    """Return the commits that only the branch has, each with its parents."""
    limit = f"--max-count={_MOST_OWN + 1}"
    lines = _lines(git, "rev-list", "--parents", limit, "--end-of-options", tip, f"^{base}", "--")
    return [line.split(" ") for line in lines]


def _all_empty(git: Git, own: list[list[str]]) -> bool:
    """Return whether these commits are all empty, as made by `git commit --allow-empty`."""
    if len(own) > _MOST_OWN or any(len(parents) > 1 for _, *parents in own):
        return False
    return all(patch.mark is None for patch in patches_of(git, [sha for sha, *_ in own]))


def _was_contained(git: Git, tip: str, theirs: Sequence[TrunkCommit], files: Sequence[str]) -> bool:
    """Return whether merging the branch into an earlier trunk commit changes nothing: that commit was a squash."""
    made = int(
        git.text("rev-list", "--no-commit-header", "--max-count=1", "--format=%ct", "--end-of-options", tip, "--")
    )
    later = [landed.sha for landed in reversed(theirs) if landed.seconds >= made]
    return any(_contained(git, tip, sha, files) for sha in later[:_MOST_TRIED])


def _contained(git: Git, tip: str, base: str, files: Sequence[str]) -> bool:
    """Return whether merging `tip` into `base` changes nothing."""
    if git_version() < _MERGE_TREE_SINCE:
        return False
    done = git.run(
        "merge-tree",
        "--write-tree",
        "--no-messages",
        "--end-of-options",
        base,
        tip,
        ok=(0, 1),
        env=UNALTERED_HISTORY,
        settings=_PLAIN_MERGE,
    )
    if done.returncode:
        return False  # conflicts
    merged = done.stdout.decode("ascii").strip()
    same = merged in _lines(git, "rev-parse", "--verify", "--end-of-options", base + "^{tree}")
    return same and _plainly_merged(git, tip, base, files)


def _plainly_merged(git: Git, tip: str, base: str, files: Sequence[str]) -> bool:
    """Return whether git's own merge made the result, under the files' own names.

    A driver (`merge=ours` and the like) drops changes. A file that the trunk has renamed is merged with the attributes of its
    new name, which no option of git before 2.49 prevents.
    """
    if set(files) & set(_changed(git, tip, base, "--diff-filter=D")):
        return False
    names = b"".join(os.fsencode(name) + b"\0" for name in files)
    attributes = git.lines0("check-attr", "-z", "--stdin", "merge", stdin=names)
    return all(value in ("unspecified", "set", "text") for value in attributes[2::3])


def _changed(git: Git, before: str, after: str, *options: str) -> list[str]:
    """Return the files that differ between two commits."""
    names = ("-r", "-z", "--no-renames", "--name-only", "--ignore-submodules=none", *options)
    return git.lines0("diff-tree", *names, "--end-of-options", before, after, "--", env=UNALTERED_HISTORY)


def _lines(git: Git, *args: str, ok: tuple[int, ...] = (0,)) -> list[str]:
    return [line for line in git.text(*args, ok=ok, env=UNALTERED_HISTORY).split("\n") if line]


_MOST_FILES = 300  # as path arguments; fewer files find fewer commits, never wrong ones
_MOST_COMMITS = 500
_REVERTED = re.compile(r"This reverts commit ([0-9a-f]{7,64})")
_REVERT_TITLE = re.compile(r'^(Revert ".+")(?: \(#\d+\))?$')


@dataclass(frozen=True, slots=True)
class TrunkCommit:
    """A commit of the trunk, with the commits that its message says it reverts."""

    sha: str
    seconds: int
    title: str
    reverts: tuple[str, ...]  # beginnings of commit ids; `Revert "title"` where no id is given


def touching(git: Git, tip: str, base: str, files: Sequence[str]) -> list[TrunkCommit]:
    """Return the commits of `base` that `tip` does not have and that change one of `files`, newest first."""
    paths = [f":(top,literal){name}" for name in files[:_MOST_FILES]]
    output = git.text(
        "rev-list",
        "--no-commit-header",
        "--format=%H %ct%n%B%x00",
        "--encoding=UTF-8",
        "--full-history",
        "--topo-order",
        "--no-merges",
        f"--max-count={_MOST_COMMITS}",
        "--end-of-options",
        base,
        f"^{tip}",
        "--",
        *paths,
        env=UNALTERED_HISTORY,
    )
    return [_trunk_commit(record.lstrip("\n")) for record in output.split("\0") if record.strip()]


def not_reverted(git: Git, landed: Sequence[TrunkCommit]) -> list[str]:
    """Return the marks of those commits (newest first) that no later one reverts, by its content or its message."""
    shas = [one.sha for one in landed]
    undone: set[str | None] = set()
    reverted: list[str] = []
    kept: list[str] = []
    for one, made, undoing in zip(landed, patches_of(git, shas), patches_of(git, shas, reverse=True), strict=True):
        if _named_in(one, reverted) or made.mark in undone:
            undone.discard(made.mark)
            continue
        if made.mark:
            kept.append(made.mark)
            undone.add(undoing.mark)
        reverted.extend(one.reverts)
    return kept


def _trunk_commit(record: str) -> TrunkCommit:
    first, _, message = record.partition("\n")
    sha, seconds = first.split(" ")
    title = message.partition("\n")[0]
    named = _REVERT_TITLE.match(title)
    return TrunkCommit(sha, int(seconds), title, tuple(_REVERTED.findall(message)) or ((named[1],) if named else ()))


def _named_in(one: TrunkCommit, reverted: list[str]) -> bool:
    """Return whether a later commit's message reverts this one, and use that entry up."""
    for entry in reverted:
        if entry == f'Revert "{one.title}"' or one.sha.startswith(entry):
            reverted.remove(entry)
            return True
    return False


# Every setting that changes a patch is fixed, so that both sides of a comparison are made the same way.
_AS_PATCH = (
    "--root",
    "--always",
    "-p",
    "--no-ext-diff",
    "--no-textconv",
    "--no-renames",
    "--full-index",
    "--no-color",
    "--unified=3",
    "--diff-algorithm=myers",
    "--ignore-submodules=none",
    "--submodule=short",
    "--no-prefix",
)
_HUNK = re.compile(rb"^@@ [^@]* @@.*$")
_TITLE = re.compile(rb"^(?:[0-9a-f]{40}|[0-9a-f]{64})$")


@dataclass(frozen=True, slots=True)
class CommitPatch:
    """One commit and the hash of its patch; `mark` is None when it changes nothing."""

    sha: str
    mark: str | None


def whole_patch(git: Git, fork: str, tip: str) -> str | None:
    """Return the mark of all changes between two commits as one patch."""
    # diff-tree takes further ids on a line as the commit's parents, so tip becomes one commit on top of fork
    return _patches(git, [f"{tip} {fork}"])[0].mark


def patches_of(git: Git, shas: Sequence[str], *, reverse: bool = False) -> list[CommitPatch]:
    """Return the patches of these commits or, with `reverse`, of reverting them; a merge has no patch."""
    return _patches(git, shas, *(["-R"] if reverse else [])) if shas else []


def _patches(git: Git, lines: Sequence[str], *options: str) -> list[CommitPatch]:
    done = git.run(
        "diff-tree", "--stdin", *_AS_PATCH, *options, stdin="\n".join([*lines, ""]).encode(), env=UNALTERED_HISTORY
    )
    return list(_read(done.stdout))


def _read(output: bytes) -> Iterator[CommitPatch]:
    sha = ""
    lines: list[bytes] = []
    for line in output.split(b"\n"):
        # every line of a patch has a sign in front, so a bare id is the title of the next patch
        if _TITLE.match(line):
            if sha:
                yield CommitPatch(sha, _mark(lines))
            sha, lines = line.decode("ascii"), []
        else:
            lines.append(line)
    if sha:
        yield CommitPatch(sha, _mark(lines))


def _mark(lines: list[bytes]) -> str | None:
    digest = hashlib.sha256()
    index = b""
    empty = True
    for line in lines:
        if line.startswith(b"index "):
            index = line
            continue
        if not line:
            continue
        # the ids of a text file depend on the rest of the file; of a binary file only the ids can be compared
        digest.update((index if line.startswith(b"Binary files ") else b"") + _HUNK.sub(b"@@", line) + b"\n")
        empty = False
    return None if empty else digest.hexdigest()
