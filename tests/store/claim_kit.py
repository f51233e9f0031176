"""Helpers for tests of claims: a registry with worktrees, worker processes, and a check of the whole history."""

from __future__ import annotations

import itertools
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from imi_monitor import host
from imi_monitor.store import claim_requests, db, repositories, worktrees
from imi_monitor.store.claims import ClaimRequest
from tests.helpers import ROOT

REPO = "app"


def registry(path: Path, names: list[str]) -> sqlite3.Connection:
    """An open registry with the repository `app` and these worktrees."""
    connection = db.connect(str(path))

    def fill(inner: sqlite3.Connection) -> None:
        place = {"common_dir": f"{path}.git", "path": str(path.parent)}
        repositories.register(
            inner, repositories.RepositoryRegistration(REPO, **place, remote_url="", default_branch="main")
        )
        for name in names:
            worktrees.register(inner, REPO, name, branch=name, kind="feat", path=str(path.parent / name))

    db.transact(connection, fill)
    return connection


def request(agent: str, pid: int | None = None, **rights: object) -> ClaimRequest:
    return ClaimRequest(agent, host.identify_process(pid), **rights)  # type: ignore[arg-type]


def become_machine(monkeypatch: pytest.MonkeyPatch, machine: str, boot: str) -> None:
    """Let the program take itself for a process of this boot of this machine."""
    for name, value in (("_this_machine", machine), ("_this_boot", f"{boot}/pid:[1]")):
        monkeypatch.setattr(host, name, [value])


def claim_worktree(connection: sqlite3.Connection, name: str, asked: ClaimRequest) -> claim_requests.ClaimAnswer:
    return db.transact(connection, claim_requests.claim, REPO, name, asked)


def worker(mode: str, *args: str | Path, stdin: int | None = subprocess.DEVNULL) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.store.claim_worker", mode, *map(str, args)],
        cwd=ROOT,
        text=True,
        stdin=stdin,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def check_history(connection: sqlite3.Connection) -> int:
    """Check that grants and ends alternate for every worktree, in history and log; returns the number of grants."""
    by_worktree: dict[str, list[tuple[int, str, str | None]]] = {}
    rows = connection.execute(
        "SELECT worktree_name, epoch, claimed_at, released_at FROM claim_history ORDER BY worktree_name, epoch"
    )
    for name, epoch, claimed, released in rows:
        by_worktree.setdefault(name, []).append((epoch, claimed, released))
    for name, grants in by_worktree.items():
        assert [epoch for epoch, _, _ in grants] == list(range(1, len(grants) + 1)), name
        for (_, _, released), (_, claimed, _) in itertools.pairwise(grants):
            assert released is not None and released <= claimed, name
    last: dict[str, tuple[str, int]] = {}
    for name, kind, epoch in connection.execute(
        "SELECT worktree_name, type, epoch FROM events WHERE type IN ('worktree.claimed', 'worktree.released')"
        " ORDER BY seq"
    ):
        before = last.get(name, ("worktree.released", 0))
        if kind == "worktree.claimed":
            assert before == ("worktree.released", epoch - 1), (name, epoch, before)
        else:
            assert before == ("worktree.claimed", epoch), (name, epoch, before)
        last[name] = (kind, epoch)
    return sum(map(len, by_worktree.values()))
