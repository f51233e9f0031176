"""Trial merges of what two worktrees hold right now, uncommitted edits included, without writing into the repository.

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

from imi_monitor.git.distance import changed_files
from imi_monitor.git.merge import MergePreview, preview
from imi_monitor.git.refs import check_commit_id, resolve
from imi_monitor.git.run import Git
from imi_monitor.model.errors import GitError

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
class Side:
    """One worktree as it takes part: its HEAD and the files that differ from it."""

    git: Git
    head: str
    edits: tuple[str, ...]


class Trial:
    """Use as a context manager: the objects live as long as it does."""

    def __init__(self, common_dir: str) -> None:
        self._common_dir = common_dir
        self._folder = ""

    def __enter__(self) -> Trial:
        self._folder = tempfile.mkdtemp(prefix="imi-trial-")
        os.mkdir(os.path.join(self._folder, "objects"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def commit(self, side: Side) -> str:
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
        return preview(git, left, right, env=self._env)

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


def expand(root: str, paths: Sequence[str]) -> list[str]:
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
