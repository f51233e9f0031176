"""Merging without touching anything until it is known to work: the merge is computed in the object store, shown, made a
commit there, and only then does a branch move forward to it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from imi_monitor.git.layout import read_head
from imi_monitor.git.refs import check_commit_id, check_revision, resolve
from imi_monitor.git.run import git_version
from imi_monitor.model.errors import GitError, Refused
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from imi_monitor.git.run import Git

_SINCE = (2, 38, 0)


@dataclass(frozen=True, slots=True)
class MergePreview:
    """What a merge would give: the resulting tree, or None and the files in conflict with git's words about them.

    `marked` is the tree as git left it, where the files in conflict hold their conflict markers.
    """

    tree: str | None
    conflicts: tuple[str, ...]
    messages: tuple[str, ...]
    marked: str = ""


def preview(git: Git, ours: str, theirs: str, *, env: dict[str, str] | None = None) -> MergePreview:
    """Merge `theirs` into `ours` (full refs or ids) in the object store only; no work tree, index or ref changes.

    `env` may name another object store: then both are ids, and are not looked up first.
    """
    if git_version() < _SINCE:
        raise GitError("git can show a merge beforehand since 2.38 only: install a newer git", code="git-too-old")
    sides = [check_commit_id(ours), check_commit_id(theirs)] if env else [_commit(git, ours), _commit(git, theirs)]
    try:
        done = git.run(
            "merge-tree",
            "--write-tree",
            "-z",
            "--name-only",
            "--messages",
            "--end-of-options",
            *sides,
            ok=(0, 1),
            timeout=60.0,
            env=env,
        )
    except GitError as problem:
        if "refusing to merge unrelated histories" in problem.stderr:
            sentence = f"{safe(ours)} and {safe(theirs)} have no common history"
            raise GitError(sentence, code="unrelated", stderr=problem.stderr) from problem
        raise
    tree, conflicts, messages = _parse(os.fsdecode(done.stdout).split("\0"))
    return MergePreview(None if done.returncode else tree, conflicts, messages, tree)


def merge_commit(git: Git, tree: str, parents: Sequence[str], message: str) -> str:
    """A commit of `tree` with these parents that no ref points to yet. GitError "no-identity" if nobody is named."""
    arguments = [word for parent in parents for word in ("-p", check_commit_id(parent))]
    try:
        made = git.text(
            "commit-tree",
            "--no-gpg-sign",
            *arguments,
            "-F",
            "-",
            "--end-of-options",
            check_commit_id(tree),
            stdin=message.encode("utf-8", "surrogateescape"),
            settings=_committing(),
        )
    except GitError as problem:
        if any(mark in problem.stderr for mark in ("tell me who you are", "auto-detection is disabled", "empty ident")):
            raise GitError(
                'git does not know who you are: run `git config --global user.name "…"` and `… user.email "…"`',
                code="no-identity",
                stderr=problem.stderr,
            ) from problem
        raise
    return check_commit_id(made)


def _committing() -> list[tuple[str, str]]:
    """Nobody is guessed from the machine's name: a trunk keeps its committers for ever. $EMAIL is no guess."""
    return [("user.useConfigOnly", "false" if os.environ.get("EMAIL") else "true"), ("i18n.commitEncoding", "UTF-8")]


def fast_forward(git: Git, sha: str, *, timeout: float = 120.0) -> None:
    """Move the branch checked out in git's work tree forward to `sha`, files included; Refused if that cannot be."""
    if git.work_tree is None:
        raise GitError(f"{safe(git.common_dir)} is bare here: there is nothing checked out to move", code="bare")
    try:
        # Ignored files count as somebody's work too, so a file in the way stops it instead of being overwritten.
        git.run(
            "merge",
            "--ff-only",
            "--no-overwrite-ignore",
            "--no-autostash",
            "--no-stat",
            "--no-verify-signatures",
            "--end-of-options",
            check_commit_id(sha),
            timeout=timeout,
            settings=_no_options(git),
        )
    except GitError as problem:
        raise _not_forward(git, sha, problem) from problem
    if resolve(git, "HEAD") != sha and not _has(git, sha):
        raise GitError(f"git did not move {safe(git.work_tree)} to {sha[:10]}, though it did not complain")


def _no_options(git: Git) -> list[tuple[str, str]]:
    """`branch.NAME.mergeOptions` could say --squash or --no-commit, which would leave the work tree half merged."""
    branch, _ = read_head(git.admin_dir, git.common_dir)
    return [(f"branch.{branch}.mergeOptions", "")] if branch else []


def _not_forward(git: Git, sha: str, problem: GitError) -> GitError | Refused:
    where = safe(git.work_tree or git.common_dir)
    reasons = (
        ("Not possible to fast-forward", "not-forward", f"{where} has commits of its own that {sha[:10]} has not"),
        ("iverging branches", "not-forward", f"{where} has commits of its own that {sha[:10]} has not"),
        ("would be overwritten", "dirty", f"files in {where} would be overwritten"),
        ("unmerged files", "operation", f"{where} is in the middle of a merge"),
        ("have not concluded", "operation", f"{where} is in the middle of a merge"),
        ("index.lock", "busy", problem.sentence),
    )
    for mark, code, sentence in reasons:
        if mark in problem.stderr:
            return Refused(sentence, code=code, details=() if code == "busy" else problem.stderr.splitlines())
    return problem


def _has(git: Git, sha: str) -> bool:
    return git.run("merge-base", "--is-ancestor", "--end-of-options", sha, "HEAD", ok=(0, 1)).returncode == 0


def _commit(git: Git, revision: str) -> str:
    sha = resolve(git, check_revision(revision))
    if sha is None:
        raise GitError(f"{safe(revision)} does not exist here", code="no-ref")
    return sha


def _parse(fields: list[str]) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """tree, conflicted names, an empty field, then messages: a count, so many names, a kind and the text."""
    tree, rest = fields[0], fields[1:]
    end = rest.index("") if "" in rest else len(rest)
    messages = []
    position = end + 1
    while position < len(rest) and rest[position].isdecimal():
        position += int(rest[position]) + 2
        messages.append(safe(rest[position].strip(), 1000))
        position += 1
    return tree, tuple(rest[:end]), tuple(messages)
