"""Opens the dashboard: which repositories, and which registry."""

from __future__ import annotations

from imi_monitor import engine
from imi_monitor.actions.context import Context
from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.ending import Recorded, shown


def run(
    database: str,
    common_dirs: list[str] | None,
    *,
    remote: str,
    trunk: str | None,
    recorded: Recorded,
    read_only: bool = False,
) -> int:
    """Until the person quits; gives the exit status. `recorded` puts an error into the log and says so in a sentence."""
    app = ImiApp(
        lambda: engine.live(database, common_dirs, remote=remote, trunk=trunk),
        lambda repo: Context(database=database, repo=repo),
        read_only=read_only,
    )
    return shown(app, recorded)
