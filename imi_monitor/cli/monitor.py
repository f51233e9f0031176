"""`imi monitor [REPO…]`: the dashboard by its name, for scripts and layouts of Zellij and tmux."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from imi_monitor.actions.base import Action, Argument
from imi_monitor.cli import home
from imi_monitor.model.errors import Refused

if TYPE_CHECKING:
    from imi_monitor.cli.args import Parsed


class Monitor(Action):
    words = ("monitor",)
    label = "Dashboard"
    help = "the dashboard: worktrees, claims, git and changes, live (plain `imi` does the same)"
    more = """Without REPO: the repository around you, or all registered ones. It needs a terminal; in a pipe use `imi watch`,
    or `imi status` for one picture."""
    arguments = (Argument("repo", "repositories: paths, or names from the registry", rest=True),)
    changes = False


FRONT = Monitor()


def show(parsed: Parsed) -> int:
    """Until the person quits."""
    if parsed.flag("json") or not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()):
        raise Refused(
            "the dashboard needs a terminal: `imi status` prints one picture, `imi watch` streams JSON",
            code="no-terminal",
        )
    status = home.dashboard(parsed, parsed.request.rest("repo"))
    return home.welcome() if status is None else status
