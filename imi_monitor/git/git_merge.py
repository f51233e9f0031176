"""Computes merges in the object store, without changing a work tree, index or ref.

`preview_merge` and `merge_commit` prepare a merge, to which `fast_forward` then moves a branch. `TrialMerge` merges the present
content of two worktrees, uncommitted edits included: it copies the index and writes the objects to a temporary folder, so the
repository is not written to.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

from imi_monitor.git.commit_signature import read_signature
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
    """The result of a merge: its tree, or None and the files in conflict, with git's messages.

    `marked` is the tree with conflict markers in the files in conflict.
    """

    tree: str | None
    conflicts: tuple[str, ...]
    messages: tuple[str, ...]
    marked: str = ""


def preview_merge(git: Git, ours: str, theirs: str, *, env: dict[str, str] | None = None) -> MergePreview:
    """Merge `theirs` into `ours` (full refs or ids) in the object store only.

    `env` may name another object store; then both must be ids, which are not resolved first.
    """
    if git_version() < _SINCE:
        raise GitError("a preview of a merge needs git 2.38 or newer: install a newer git", code="git-too-old")
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


def merge_commit(
    git: Git, tree: str, parents: Sequence[str], message: str, *, author: dict[str, str] | None = None
) -> str:
    """Make a commit of `tree` with these parents and without a ref. GitError "no-identity" without a committer.

    `author`: git's variables for another author than the committer. It is signed if the user's settings ask for that.
    """
    signature = read_signature()
    arguments = [word for parent in parents for word in ("-p", check_commit_id(parent))]
    try:
        made = git.text(
            "commit-tree",
            signature.option,
            *arguments,
            "-F",
            "-",
            "--end-of-options",
            check_commit_id(tree),
            stdin=message.encode("utf-8", "surrogateescape"),
            env=author,
            timeout=60.0,
            settings=[*committing_settings(), *signature.settings],
        )
    except GitError as problem:
        if any(mark in problem.stderr for mark in ("tell me who you are", "auto-detection is disabled", "empty ident")):
            raise GitError(
                'git does not know who you are: run `git config --global user.name "…"` and `… user.email "…"`',
                code="no-identity",
                stderr=problem.stderr,
            ) from problem
        raise signature.failure(problem) from problem
    return check_commit_id(made)


def committing_settings() -> list[tuple[str, str]]:
    """Keep git from making up a committer from the host name, which would stay in the trunk's history. $EMAIL is allowed."""
    return [("user.useConfigOnly", "false" if os.environ.get("EMAIL") else "true"), ("i18n.commitEncoding", "UTF-8")]


def _commit(git: Git, revision: str) -> str:
    sha = resolve(git, check_revision(revision))
    if sha is None:
        raise GitError(f"{safe(revision)} does not exist here", code="no-ref")
    return sha


def _parse(fields: list[str]) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Parse the tree, the names in conflict, an empty field, and messages (a count, that many names, a kind, the text)."""
    tree, rest = fields[0], fields[1:]
    end = rest.index("") if "" in rest else len(rest)
    messages = []
    position = end + 1
    while position < len(rest) and rest[position].isdecimal():
        position += int(rest[position]) + 2
        messages.append(safe(rest[position].strip(), 1000))
        position += 1
    return tree, tuple(rest[:end]), tuple(messages)


# A fixed author and date, so that the same content gives the same commit.
TRIAL_AUTHOR = {
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
    """One worktree of a trial merge: its HEAD and the files that differ from it."""

    git: Git
    head: str
    edits: tuple[str, ...]


class TrialMerge:
    """A context manager; its objects are deleted when it ends."""

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
        """Return a commit of the worktree's present content; its HEAD if nothing is uncommitted."""
        if not side.edits:
            return side.head
        if len(side.edits) > _MOST_EDITS:
            raise GitError("too many edited files for a trial merge", code="too-many")
        index = os.path.join(self._folder, "index")
        shutil.copyfile(os.path.join(side.git.admin_dir, "index"), index)
        env = {**self._env, "GIT_INDEX_FILE": index, **TRIAL_AUTHOR}
        names = b"".join(os.fsencode(path) + b"\0" for path in side.edits)
        side.git.run("update-index", "--add", "--remove", "-z", "--stdin", stdin=names, env=env, timeout=30)
        tree = side.git.text("write-tree", env=env)
        return side.git.text("commit-tree", "--no-gpg-sign", "-p", side.head, "-m", "trial", tree, env=env)

    def conflicts(self, git: Git, left: str, right: str) -> tuple[str, ...]:
        """Return the files in which merging the two commits conflicts."""
        return self.merge(git, left, right).conflicts

    def merge(self, git: Git, left: str, right: str) -> MergePreview:
        """Merge the two commits."""
        return preview_merge(git, left, right, env=self._env)

    def content(self, git: Git, tree: str, path: str, most: int) -> bytes | None:
        """Return a file of a merged tree, None if it has none; GitError "git-too-much" beyond `most` bytes."""
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
    """Return the commit of the trunk (`origin/main`, else the local `main`); None when it is unknown."""
    refs = (f"refs/remotes/{name}", f"refs/heads/{name}") if name else ()
    return next((found for ref in refs if (found := resolve(git, ref)) is not None), None)


def branch_files(git: Git, head: str, trunk: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the files that the branch and the trunk changed since their merge base."""
    fork = git.run("merge-base", "--end-of-options", head, trunk, ok=(0, 1)).stdout.decode("ascii").strip()
    if not fork:
        return frozenset(), frozenset()  # no common history
    return frozenset(changed_files(git, fork, head)), frozenset(changed_files(git, fork, trunk))


def expand_folders(root: str, paths: Sequence[str]) -> list[str]:
    """Return the paths with untracked folders (`new/`) replaced by the files in them, cut at the limit of a trial merge."""
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
