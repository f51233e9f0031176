"""Opens the dashboard: which repositories, and which registry."""

from __future__ import annotations

from imi_monitor import engine
from imi_monitor.actions.context import Context
from imi_monitor.config import Settings
from imi_monitor.ui import preferences, remembered
from imi_monitor.ui.app import ImiApp
from imi_monitor.ui.ending import Recorded, shown


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
    chosen = preferences.of(settings, ascii_only=ascii_only, state_file=remembered.file_for(common_dirs))
    app = ImiApp(
        lambda: engine.live(database, common_dirs, remote=remote, trunk=trunk),
        lambda repo: Context(database=database, repo=repo),
        read_only=read_only,
        preferences=chosen,
    )
    return shown(app, recorded)
