"""Merging without touching anything until it is known to work: the merge is computed in the object store, shown, made a
commit there, and only then does a branch move forward to it.

Trial merges of what two worktrees hold right now, uncommitted edits included, without writing into the repository.

The edits become objects in a folder of our own, through a copy of the index: neither the worktree's index nor the
repository's object store is touched. The folder goes when the trial is over.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

from imi_monitor.git.refs import changed_files, check_commit_id, check_revision, resolve
from imi_monitor.git.runner import Git, git_version
from imi_monitor.model.errors import GitError
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from imi_monitor.git.runner import Git


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


def preview_merge(git: Git, ours: str, theirs: str, *, env: dict[str, str] | None = None) -> MergePreview:
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


# Whoever makes the trial commit does not matter, and must not: the same content has to give the same commit.
_NOBODY = {
    "GIT_AUTHOR_NAME": "imi",
    "GIT_AUTHOR_EMAIL": "imi@localhost",
    "GIT_AUTHOR_DATE": "@0 +0000",
    "GIT_COMMITTER_NAME": "imi",
    "GIT_COMMITTER_EMAIL": "imi@localhost",
    "GIT_COMMITTER_DATE": "@0 +0000",
}
_MOST_EDITS = 2000


@dataclass(frozen=True, slots=True)
class TrialSide:
    """One worktree as it takes part: its HEAD and the files that differ from it."""

    git: Git
    head: str
    edits: tuple[str, ...]


class TrialMerge:
    """Use as a context manager: the objects live as long as it does."""

    def __init__(self, common_dir: str) -> None:
        self._common_dir = common_dir
        self._folder = ""

    def __enter__(self) -> TrialMerge:
        self._folder = tempfile.mkdtemp(prefix="imi-trial-")
        os.mkdir(os.path.join(self._folder, "objects"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def commit(self, side: TrialSide) -> str:
        """A commit of exactly what the worktree holds now; its own HEAD if nothing is uncommitted."""
        if not side.edits:
            return side.head
        if len(side.edits) > _MOST_EDITS:
            raise GitError("too many edited files for a trial merge", code="too-many")
        index = os.path.join(self._folder, "index")
        shutil.copyfile(os.path.join(side.git.admin_dir, "index"), index)
        env = {**self._env, "GIT_INDEX_FILE": index, **_NOBODY}
        names = b"".join(os.fsencode(path) + b"\0" for path in side.edits)
        side.git.run("update-index", "--add", "--remove", "-z", "--stdin", stdin=names, env=env, timeout=30)
        tree = side.git.text("write-tree", env=env)
        return side.git.text("commit-tree", "--no-gpg-sign", "-p", side.head, "-m", "trial", tree, env=env)

    def conflicts(self, git: Git, left: str, right: str) -> tuple[str, ...]:
        """The files in which merging the two commits conflicts; none when it goes through."""
        return self.merge(git, left, right).conflicts

    def merge(self, git: Git, left: str, right: str) -> MergePreview:
        """What merging the two commits gives, conflict markers included."""
        return preview_merge(git, left, right, env=self._env)

    def content(self, git: Git, tree: str, path: str, most: int) -> bytes | None:
        """A file of a merged tree, None if it is not in there; GitError "git-too-much" beyond `most` bytes."""
        entry = git.run("ls-tree", "-z", "--full-tree", check_commit_id(tree), "--", f":(literal){path}", env=self._env)
        kind, _, found = entry.stdout.split(b"\t", 1)[0].decode("ascii", "replace").partition(" blob ")
        if not found or kind == "160000":
            return None
        return git.run("cat-file", "blob", check_commit_id(found), cap=most, env=self._env).stdout

    @property
    def _env(self) -> dict[str, str]:
        return {
            "GIT_OBJECT_DIRECTORY": os.path.join(self._folder, "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": os.path.join(self._common_dir, "objects"),
        }


def trunk_sha(git: Git, name: str | None) -> str | None:
    """The commit of the trunk (`origin/main`, or `main` where there is no remote one); None when it is not known."""
    refs = (f"refs/remotes/{name}", f"refs/heads/{name}") if name else ()
    return next((found for ref in refs if (found := resolve(git, ref)) is not None), None)


def branch_files(git: Git, head: str, trunk: str) -> tuple[frozenset[str], frozenset[str]]:
    """(files the branch changed since it left the trunk, files the trunk changed since then)."""
    fork = git.run("merge-base", "--end-of-options", head, trunk, ok=(0, 1)).stdout.decode("ascii").strip()
    if not fork:
        return frozenset(), frozenset()  # no common history: nothing to compare
    return frozenset(changed_files(git, fork, head)), frozenset(changed_files(git, fork, trunk))


def expand_folders(root: str, paths: Sequence[str]) -> list[str]:
    """Untracked folders (`new/`) as the files in them, as far as a trial needs them."""
    found: list[str] = []
    for path in paths:
        if not path.endswith("/"):
            found.append(path)
            continue
        for folder, names, files in os.walk(os.path.join(root, path)):
            names[:] = [name for name in names if name != ".git"]
            found.extend(os.path.relpath(os.path.join(folder, name), root) for name in files)
            if len(found) > _MOST_EDITS:
                return found
    return found
