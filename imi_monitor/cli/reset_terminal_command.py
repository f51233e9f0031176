"""`imi reset-terminal`: a terminal that a killed program left broken, usable again. It needs nothing: no registry, no Textual."""

from __future__ import annotations

import os

from imi_monitor import terminal
from imi_monitor.cli import output
from imi_monitor.model.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.cli.argument_parser import ParsedCommandLine


def show(parsed: ParsedCommandLine) -> int:
    """Reset the terminal of the standard streams, else the one that controls us."""
    fd = terminal.terminal_fd()
    fd = _controlling() if fd is None else fd
    if fd is None:
        raise Refused("there is no terminal here to reset", code="no-terminal")
    terminal.reset(fd)
    if parsed.flag("json"):
        output.envelope(True, {"reset": True}, None)
    return 0


def _controlling() -> int | None:
    try:
        return os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)  # open until the process ends, which is at once
    except OSError:
        return None
