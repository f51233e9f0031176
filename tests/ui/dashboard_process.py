"""`python -m tests.ui.dashboard_process NAME…`: the real dashboard on hand-written snapshots, for tests in a terminal.

The first snapshot is shown at once, the next on each SIGUSR1. The file `published` counts the signals, because the kernel merges
two that come together; the file `unfocused` exists once the window has lost focus. `hostile:NAME` is a rich snapshot with that
payload in every text; in `hostile_loss:NAME` it is the name of an agent that loses its claim.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast

from imi_monitor import config
from imi_monitor.cli import crash_log
from imi_monitor.engine import Engine
from imi_monitor.model.errors import ImiError
from imi_monitor.model.snapshot import Snapshot
from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.preferences import from_settings
from imi_monitor.ui.shutdown import run_app
from tests.ui import sample_agents, sample_snapshots
from tests.ui.payloads import PAYLOADS
from tests.ui.snapshot_kit import no_context


def world(name: str) -> Snapshot:
    kind, _, payload = name.partition(":")
    if kind == "hostile":
        return cast(Snapshot, sample_snapshots.hostile(sample_agents.rich(), PAYLOADS[payload]))
    if kind == "hostile_loss":
        taken = sample_snapshots.taken_over()
        event = replace(taken.events[-1], agent=PAYLOADS[payload], worktree=PAYLOADS[payload])
        return replace(taken, events=(*taken.events[:-1], event))
    made: Snapshot = getattr(sample_agents if hasattr(sample_agents, name) else sample_snapshots, name)()
    return made


def main(names: list[str]) -> int:
    waiting = [replace(world(name), seq=number) for number, name in enumerate(names, 1)]

    @asynccontextmanager
    async def live() -> AsyncIterator[Engine]:
        feed = sample_snapshots.FakeEngine(waiting.pop(0))

        def publish() -> None:
            feed.publish(waiting.pop(0))
            Path("published").write_text(str(len(names) - len(waiting)))

        def note_focus(focused: bool) -> None:
            if not focused:
                Path("unfocused").touch()

        app.watch(app, "app_focus", note_focus)
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, lambda: waiting and publish())
        yield cast(Engine, feed)

    app = ImiApp(live, no_context, preferences=from_settings(config.read()))
    return run_app(app, crash_log.recorded)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ImiError as error:
        print(error.sentence, file=sys.stderr)
        sys.exit(1)
