"""Shared by the tests of removal: verbs in this process, and a fingerprint of all that a removal must not change."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from imi_monitor import actions
from imi_monitor.actions import recovery
from imi_monitor.actions.action import Outcome, Request
from imi_monitor.actions.context import Context
from imi_monitor.config import database_path
from imi_monitor.git import layout
from imi_monitor.store import db, worktrees
from tests.helpers import Repo, git, tree_hash
from tests.limits import LIMIT


def act(verb: str, *, cwd: Path, repo: Path | None = None, **values: Any) -> Outcome:
    """One verb in this process, after recovery, as the command line does it."""
    with Context(str(cwd), repo=str(repo) if repo else None) as context:
        recovery.recover(context)
        action = actions.find(verb)
        assert action is not None
        return action.run(context, Request(verb, {key.replace("_", "-"): value for key, value in values.items()}))


def remove(repo: Repo, name: str, **values: Any) -> Outcome:
    return act("remove", cwd=repo.path, name=name, **values)


def undo(repo: Repo, which: str | None = None, **values: Any) -> Outcome:
    return act("undo", cwd=repo.path, which=which, **values)


def force(name: str) -> dict[str, Any]:
    """Both overrides."""
    return {"force": True, "yes_really": name}


def register(context: Context, repo: Repo, tree: Repo) -> None:
    """Give the worktree `feat-x` a row in the registry."""
    name = context.register(layout.repository_at(str(repo.path / ".git")))
    row = {"branch": "feat/x", "kind": "feat", "path": str(tree.path), "base_branch": "main", "pr_number": 7}
    db.transact(context.connection, worktrees.register, name, "feat-x", **row)


def admin_of(worktree: Path) -> Path:
    """Where git keeps the worktree, by its own `.git` file."""
    target = layout.gitfile(str(worktree / ".git"))
    assert target is not None
    return Path(os.path.realpath(target))


def common_of(repo: Repo) -> Path:
    return repo.path / repo.git("rev-parse", "--git-common-dir")


def fingerprint(repo: Repo, worktree: Path) -> dict[str, Any]:
    """Everything that must be the same after an undo: bytes and modes of folder and admin directory, all refs, the stash."""
    return {
        "files": tree_hash(worktree),
        "admin": tree_hash(admin_of(worktree)),
        "refs": refs(repo),
        "stash": repo.git("stash", "list", check=False),
        "status": git("status", "--porcelain=v2", "--ignored", "--branch", cwd=worktree),
    }


def refs(repo: Repo) -> str:
    return repo.git("for-each-ref", "--format=%(refname) %(objectname)") + repo.git("rev-parse", "HEAD")


@contextmanager
def process_inside(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process with its working directory there."""
    child = subprocess.Popen(["sleep", "60"], cwd=folder)
    try:
        yield child
    finally:
        child.kill()
        child.wait(LIMIT)


def trash_root(repo: Repo) -> Path:
    return common_of(repo) / "imi" / "trash"


def assert_same(after: dict[str, Any], before: dict[str, Any]) -> None:
    """Equal fingerprints; else only what differs is shown."""
    for part in before:
        if isinstance(before[part], dict):
            keys = {**before[part], **after[part]}
            changed = {
                k: (before[part].get(k), after[part].get(k)) for k in keys if before[part].get(k) != after[part].get(k)
            }
            assert not changed, f"{part}: {changed}"
        assert after[part] == before[part], part


def set_registry_aside(into: Path) -> Path:
    """Move the registry away, as imi advises for a damaged one, and start a new one by a person's word."""
    database = Path(database_path(None))
    aside = into / f"aside-{len(list(into.iterdir()))}"
    aside.mkdir()
    for path in database.parent.iterdir():
        path.rename(aside / path.name)
    db.connect(str(database), begin_new=True).close()
    return aside


def note_of(repo: Repo, identity: object) -> Path:
    return trash_root(repo) / str(identity) / "note.json"
