"""Opens the dashboard: which repositories, and which registry.

In the order in which a person sees something soonest: what can be known at once is read while the terminal library is loaded,
so that it is on the very first picture; everything that watches, asks or runs starts behind that.
"""

from __future__ import annotations

import gc

from imi_monitor.ui.preload import Preload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from imi_monitor.actions.context import Context
    from imi_monitor.config import Settings
    from imi_monitor.engine import Engine
    from imi_monitor.model.snapshot import Snapshot
    from imi_monitor.ui.shutdown import RecordError

PATIENCE = 0.25  # seconds that the first picture waits for a disk; later than that, worktrees come when they come


def run(
    database: str,
    common_dirs: list[str] | None,
    *,
    settings: Settings,
    recorded: RecordError,
    read_only: bool = False,
    ascii_only: bool = False,
) -> int:
    """Until the person quits; gives the exit status. `recorded` puts an error into the log and says so in a sentence."""
    gc.disable()  # until the first picture: what is loaded now stays, and looking through it again and again takes 10 ms
    ahead: Preload[Snapshot] = Preload(
        "imi_monitor.sources.first_snapshot", "read_first_snapshot", database, common_dirs
    )
    from imi_monitor.ui import preferences, saved_layout
    from imi_monitor.ui.app import ImiApp
    from imi_monitor.ui.shutdown import run_app

    chosen = preferences.from_settings(settings, ascii_only=ascii_only, state_file=saved_layout.path_for(common_dirs))
    first = ahead.result(PATIENCE)

    def live() -> AbstractAsyncContextManager[Engine]:
        from imi_monitor import engine

        return engine.open_engine(database, common_dirs, settings=settings, first=first)

    def surroundings(repo: str | None) -> Context:
        from imi_monitor.actions.context import Context

        return Context(database=database, repo=repo)

    app = ImiApp(live, surroundings, read_only=read_only, preferences=chosen, first=first)
    app.on_first_paint = _collect_again
    return run_app(app, recorded)


def _collect_again() -> None:
    gc.freeze()  # what lives as long as the program is never looked through again
    gc.enable()
