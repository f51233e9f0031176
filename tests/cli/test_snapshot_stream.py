"""The first snapshot of a stream: complete, and with `watched` when the files are followed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from imi_monitor.cli import snapshot_stream
from imi_monitor.model.snapshot import Snapshot
from tests.ui import sample_snapshots


class SnapshotsInOrder:
    """Stands in for an engine: publishes these snapshots one after the other."""

    def __init__(self, *snapshots: Snapshot) -> None:
        self._left = list(snapshots)

    async def snapshots(self) -> AsyncIterator[Snapshot]:
        while self._left:
            yield self._left[0]
            if len(self._left) == 1:
                await asyncio.Event().wait()
            self._left.pop(0)


def first_shown(*snapshots: Snapshot, watched: bool) -> Snapshot:
    async def first() -> Snapshot:
        engine: Any = SnapshotsInOrder(*snapshots)
        return await anext(snapshot_stream.snapshots(engine, 0.0, watched=watched))

    return asyncio.run(first())


def test_the_first_snapshot_waits_until_files_are_followed() -> None:
    live = sample_snapshots.rich()
    starting = replace(live, worktrees=tuple(replace(tree, watched="starting") for tree in live.worktrees))
    incomplete = replace(live, complete=False)
    assert first_shown(incomplete, starting, live, watched=True) is live
    assert first_shown(incomplete, starting, live, watched=False) is starting
