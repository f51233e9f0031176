"""Builds small snapshots for tests of pure functions; all ages are relative to NOW."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from imi_monitor.model import times
from imi_monitor.model.change import Change
from imi_monitor.model.commit import Commit
from imi_monitor.model.snapshot import ClaimState, Collision, FileState, GitState, Key, Snapshot, Worktree
from imi_monitor.ui.snapshot_facts import SnapshotFacts

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def ago(seconds: float) -> str:
    return times.stamp(NOW - timedelta(seconds=seconds))


def state(**fields: object) -> GitState:
    known: dict[str, object] = {
        "read_at": ago(0),
        "branch": "feat/x",
        "head": "a" * 40,
        "upstream": None,
        "ahead": None,
        "behind": None,
        "trunk": "main",
        "trunk_ahead": 0,
        "trunk_behind": 0,
        "files": (),
        "staged": 0,
        "unstaged": 0,
        "untracked": 0,
        "conflicted": 0,
        "operation": None,
        "stashes": 0,
        "last_commit": Commit("a" * 40, "one", "ada", ago(600)),
        "added": 0,
        "removed": 0,
    }
    return GitState(**{**known, **fields})  # type: ignore[arg-type]


def dirty(number: int = 1, **fields: object) -> GitState:
    return state(files=tuple(FileState(f"f{n}", ".", "M") for n in range(number)), unstaged=number, **fields)


def claim(key: Key, agent: str = "claude-1", how: str = "held", **fields: object) -> ClaimState:
    known: dict[str, object] = {"epoch": 1, "claimed_at": ago(120), "heartbeat_at": None, "task": None, "pid": None}
    return ClaimState(key, agent, how, **{**known, **fields})  # type: ignore[arg-type]


def tree(
    name: str,
    *,
    by: str | None = None,
    how: str = "held",
    repo: str = "app",
    changed: float | None = None,
    **fields: object,
) -> Worktree:
    key = Key("here", repo, name)
    change = Change(repo, name, "modified", "src/x.py", ago(changed)) if changed is not None else None
    known: dict[str, object] = {
        "path": f"/w/{repo}" if name == "main" else f"/w/{name}",
        "type": name.partition("-")[0],
        "branch": name.replace("-", "/", 1),
        "is_main": name == "main",
        "missing": False,
        "locked": None,
        "pr": None,
        "claim": claim(key, by, how) if by else None,
        "git": state(),
        "failure": None,
        "watched": "live",
        "watched_why": None,
        "last_change": change,
    }
    return Worktree(key=key, **{**known, **fields})  # type: ignore[arg-type]


def world(*trees: Worktree, **fields: object) -> Snapshot:
    repos = tuple(dict.fromkeys(one.key.repo for one in trees))
    return Snapshot(1, ago(0), "here", worktrees=trees, complete=True, repositories=repos, **fields)  # type: ignore[arg-type]


def conflict(left: Worktree, right: Worktree | None) -> Collision:
    return Collision(left.key, right.key if right else None, ("src/x.py",), ("src/x.py",))


def facts(*trees: Worktree, me: str = "", **fields: object) -> SnapshotFacts:
    return SnapshotFacts(world(*trees, **fields), NOW, me)
