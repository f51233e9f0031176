"""`python -m bench.ui_rows ROWS SHARE`: the dashboard on invented rows, a share of which changes every second (bench.ui)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import cast

from imi_monitor.actions.context import Context
from imi_monitor.cli import crash_log
from imi_monitor.engine import Engine
from imi_monitor.model import times
from imi_monitor.model.change import Change
from imi_monitor.model.snapshot import ClaimState, FileState, GitState, Key, Snapshot, SourceHealth, Worktree
from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.shutdown import run_app


class Rows:
    """An engine that invents."""

    def __init__(self, rows: int, share: float) -> None:
        self._trees = [tree(number) for number in range(rows)]
        self._changing = int(rows * share)

    def measure(self, *, disk_use: bool, unread: bool) -> None:
        """These rows use nothing."""

    async def snapshots(self) -> AsyncIterator[Snapshot]:
        seq, at = 0, 0
        while True:
            seq += 1
            now = times.stamp()
            yield Snapshot(
                seq,
                now,
                "desk",
                tuple(self._trees),
                changes=(),
                health=(SourceHealth("worktrees", now, None),),
                complete=True,
                repositories=("app",),
            )
            await asyncio.sleep(1.0)
            while not self._changing:
                await asyncio.sleep(1.0)
            for _ in range(self._changing):
                self._trees[at] = changed(self._trees[at], seq)
                at = (at + 1) % len(self._trees)


def tree(number: int) -> Worktree:
    key = Key("desk", "app", f"feat-{number:03d}")
    file = FileState("src/a.py", ".", "M", added=1, removed=1)
    state = GitState(
        times.stamp(),
        f"feat/{number:03d}",
        "a" * 40,
        "origin/x",
        1,
        0,
        "origin/main",
        2,
        1,
        (file,),
        1,
        1,
        0,
        0,
        None,
        0,
        None,
        1,
        1,
    )
    claim = ClaimState(key, f"claude-{number}", "held", 1, times.stamp(), None, "T-1", 4711, "claude")
    return Worktree(
        key,
        f"/code/feat-{number:03d}",
        "feat",
        f"feat/{number:03d}",
        False,
        False,
        None,
        None,
        claim if number % 3 == 0 else None,
        state,
        None,
        "live",
        None,
    )


def changed(tree: Worktree, seq: int) -> Worktree:
    assert tree.git is not None
    git = replace(tree.git, staged=seq % 9, unstaged=(seq * 7) % 9 + 1, untracked=seq % 3, trunk_ahead=seq % 20)
    change = Change(tree.key.repo, tree.key.worktree, "modified", f"src/f{seq % 50}.py", times.stamp())
    minute = int(times.now().timestamp() // 60)
    return replace(tree, git=git, last_change=change, activity=((minute - 1, 3), (minute, seq % 9 + 1)))


def main(rows: int, share: float) -> int:
    @asynccontextmanager
    async def live() -> AsyncIterator[Engine]:
        yield cast(Engine, Rows(rows, share))

    return run_app(ImiApp(live, lambda where: Context(repo=where)), crash_log.recorded)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), float(sys.argv[2])))
