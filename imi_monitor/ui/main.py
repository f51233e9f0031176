"""Opens the dashboard: which repositories, and which registry.

In the order in which a person sees something soonest: what is known at once is read before the terminal library is loaded, so
that it is on the very first picture; everything that watches, asks or runs starts behind that.
"""

from __future__ import annotations

import gc
import threading
from typing import TYPE_CHECKING

from imi_monitor import engine
from imi_monitor.actions.context import Context

if TYPE_CHECKING:
    from imi_monitor.config import Settings
    from imi_monitor.sources.glance import Glance
    from imi_monitor.ui.ending import Recorded

PATIENCE = 0.25  # seconds that the first picture waits for a disk; later than that, worktrees come when they come


def run(
    database: str,
    common_dirs: list[str] | None,
    *,
    remote: str,
    trunk: str | None,
    settings: Settings,
    recorded: Recorded,
    read_only: bool = False,
    ascii_only: bool = False,
) -> int:
    """Until the person quits; gives the exit status. `recorded` puts an error into the log and says so in a sentence."""
    gc.disable()  # until the first picture: what is loaded now stays, and looking through it again and again takes 15 ms
    glance = _glance(database, common_dirs)
    from imi_monitor.ui import preferences, remembered
    from imi_monitor.ui.app import ImiApp
    from imi_monitor.ui.ending import shown

    chosen = preferences.of(settings, ascii_only=ascii_only, state_file=remembered.file_for(common_dirs))
    app = ImiApp(
        lambda: engine.live(database, common_dirs, remote=remote, trunk=trunk, glance=glance),
        lambda repo: Context(database=database, repo=repo),
        read_only=read_only,
        preferences=chosen,
        first=None if glance is None else engine.picture(glance),
    )
    app.painted = _collect_again
    return shown(app, recorded)


def _glance(database: str, common_dirs: list[str] | None) -> Glance | None:
    """None when it cannot be had, or not soon enough."""
    seen: list[Glance | None] = []
    look = threading.Thread(target=lambda: seen.append(engine.glance_at(database, common_dirs)), daemon=True)
    look.start()
    look.join(PATIENCE)
    return seen[0] if seen else None


def _collect_again() -> None:
    gc.freeze()  # what lives as long as the program is never looked through again
    gc.enable()
