"""Opens the dashboard: which repositories, which registry, and a terminal that is left as it was found."""

from __future__ import annotations

from imi_monitor import engine
from imi_monitor.actions.context import Context
from imi_monitor.config import Settings
from imi_monitor.ui import preferences, remembered
from imi_monitor.ui.app import ImiApp


def run(
    database: str,
    common_dirs: list[str] | None,
    *,
    remote: str,
    trunk: str | None,
    settings: Settings,
    read_only: bool = False,
    ascii_only: bool = False,
) -> int:
    """Until the person quits; gives the exit status."""
    chosen = preferences.of(settings, ascii_only=ascii_only, state_file=remembered.file_for(common_dirs))
    app = ImiApp(
        lambda: engine.live(database, common_dirs, remote=remote, trunk=trunk),
        lambda repo: Context(database=database, repo=repo),
        read_only=read_only,
        preferences=chosen,
    )
    app.run()
    return app.return_code or 0
