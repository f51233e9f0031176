"""Shared by the tests of creation: everything a creation could leave behind, and a git that misbehaves."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from pathlib import Path
from typing import Any

from imi_monitor.actions import recovery
from imi_monitor.actions.context import Context
from tests.helpers import Repo, git

REAL_GIT = shutil.which("git") or "git"


def database() -> Path:
    return Path(os.environ["HOME"]) / ".config" / "iMi" / "iMi.db"


def query(sql: str, *values: object) -> list[Any]:
    """The registry as another program sees it."""
    if not database().exists():
        return []
    connection = sqlite3.connect(f"file:{database()}?mode=ro", uri=True)
    try:
        return connection.execute(sql, values).fetchall()
    finally:
        connection.close()


def rows() -> list[tuple[str, str, str, str]]:
    """(name, branch, type, base) of the active worktrees."""
    return query(
        "SELECT worktree_name, branch_name, worktree_type, base_branch FROM worktrees WHERE active = 1 ORDER BY 1"
    )


def created_events() -> list[str]:
    return [name for (name,) in query("SELECT worktree_name FROM events WHERE type = 'worktree.created' ORDER BY seq")]


def operations() -> int:
    found = query("SELECT count(*) FROM operations")
    return int(found[0][0]) if found else 0


def branches(repo: Repo) -> dict[str, str]:
    lines = repo.git("for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads").splitlines()
    return dict(line.split(" ") for line in lines)  # type: ignore[misc]


def picture(repo: Repo) -> dict[str, object]:
    """Everything a creation touches: equal pictures mean that nothing was left or changed."""
    common = Path(repo.git("rev-parse", "--path-format=absolute", "--git-common-dir"))
    admins = sorted(p.name for p in (common / "worktrees").iterdir()) if (common / "worktrees").is_dir() else []
    return {
        "branches": branches(repo),
        "reflogs": sorted(
            str(p.relative_to(common)) for p in (common / "logs" / "refs" / "heads").rglob("*") if p.is_file()
        ),
        "config": (common / "config").read_text(),
        "worktrees": admins,
        "common": sorted(
            p.name for p in common.iterdir() if p.name not in ("worktrees", "logs", "index", "FETCH_HEAD")
        ),
        "around": sorted(p.name for p in repo.path.parent.iterdir() if p.name not in ("home", "bin")),
        "made": sorted(str(p) for p in (repo.path.parent / f"{repo.path.name}.worktrees").glob("*")),
        "status": repo.git("status", "--porcelain"),
        "rows": rows(),
        "events": created_events(),
        "operations": operations(),
    }


def next_imi() -> list[str]:
    """The recovery lines of the next command."""
    with Context() as context:
        return recovery.recover(context)


def shim(folder: Path, script: str) -> dict[str, str]:
    """An environment in which `git` is this shell script; $GIT is the real one, $* its arguments."""
    folder.mkdir(exist_ok=True)
    program = folder / "git"
    program.write_text(f'#!/bin/sh\nGIT={REAL_GIT}\n{script}\nexec $GIT "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def files(repo: Repo, number: int) -> None:
    """Enough files that a checkout takes a moment."""
    for index in range(number):
        repo.write(f"many/d{index % 20}/f{index}.txt", f"{index}\n" * 200)
    repo.commit("many files")


def worktree_paths(repo: Repo) -> list[str]:
    lines = git("worktree", "list", "--porcelain", cwd=repo.path).splitlines()
    return [line.removeprefix("worktree ") for line in lines if line.startswith("worktree ")]
