"""Starts the dashboard.

The first snapshot is read in a second process while Textual is imported, so that the first paint shows the worktrees; the
engine starts after that paint.
"""

from __future__ import annotations

import gc
import os

from imi_monitor import installation
from imi_monitor.fast import quick_process
from imi_monitor.terminal import IN_BROWSER
from imi_monitor.ui import late_imports, process_title
from imi_monitor.ui.preload import Preload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from imi_monitor.actions.context import Context
    from imi_monitor.config import Settings
    from imi_monitor.engine import Engine
    from imi_monitor.model.snapshot import Snapshot
    from imi_monitor.ui.shutdown import RecordError

FIRST_SNAPSHOT_TIMEOUT = 0.25  # seconds; without it the first paint shows no worktrees


def run(
    database: str,
    common_dirs: list[str] | None,
    *,
    settings: Settings,
    recorded: RecordError,
    read_only: bool = False,
    ascii_only: bool = False,
) -> int:
    """Run until the user quits and return the exit status. `recorded` writes an error to the log and returns its sentence."""
    process_title.set_title("imi")
    gc.disable()  # until the first paint: collections during the imports find nothing and take 15 ms
    ahead: Preload[Snapshot] = Preload(
        "imi_monitor.sources.first_snapshot", "read_first_snapshot", database, common_dirs
    )
    with late_imports.stand_ins():
        from imi_monitor.ui import preferences, saved_layout
        from imi_monitor.ui.app import ImiApp
        from imi_monitor.ui.shutdown import run_app

    chosen = preferences.from_settings(settings, ascii_only=ascii_only, state_file=saved_layout.path_for(common_dirs))
    first = ahead.result(FIRST_SNAPSHOT_TIMEOUT)

    def live() -> AbstractAsyncContextManager[Engine]:
        from imi_monitor import engine

        installation.refuse_changed_files()  # this version and another one must not share a process
        return engine.open_engine(database, common_dirs, settings=settings, first=first, read_only=read_only)

    def surroundings(repo: str | None) -> Context:
        from imi_monitor.actions.context import Context

        return Context(database=database, repo=repo)

    app = ImiApp(
        live,
        surroundings,
        read_only=read_only,
        in_browser=bool(os.environ.pop(IN_BROWSER, "")),  # programs that it starts are not in a browser
        preferences=chosen,
        first=first,
        every_repository=common_dirs is None,
    )
    app.on_first_paint = quick_process.resume_garbage_collection
    return run_app(app, recorded)
