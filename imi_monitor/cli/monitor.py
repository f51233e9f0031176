"""`imi monitor [REPO…]`: the dashboard by its name, for scripts and layouts of Zellij and tmux."""

from __future__ import annotations

import sys

from imi_monitor.cli import home
from imi_monitor.model.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.cli.args import Parsed


def show(parsed: Parsed) -> int:
    """Until the person quits."""
    if parsed.flag("json") or not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()):
        raise Refused(
            "the dashboard needs a terminal: `imi status` prints one picture, `imi watch` streams JSON",
            code="no-terminal",
        )
    status = home.dashboard(parsed, parsed.request.rest("repo"))
    return home.welcome() if status is None else status
