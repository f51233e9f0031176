"""`imi reset-terminal`: make a terminal usable that a killed program left broken. It needs no registry and no Textual."""

from __future__ import annotations

import os

from imi_monitor.actions.action import Outcome
from imi_monitor.cli.front_end import FrontEndVerb

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.cli.argument_parser import ParsedCommandLine


class ResetTerminalVerb(FrontEndVerb):
    words = ("reset-terminal",)
    group = "Setup"
    label = "Reset the terminal"
    help = "make this terminal usable again after a program was killed: echo, cursor, mouse, keys, screen"
    more = "If you cannot see what you type: press ctrl-j, type the command, press ctrl-j. Nothing is cleared."
    recovers = False

    def show(self, parsed: ParsedCommandLine) -> Outcome:
        """Reset the terminal of the standard streams, else the controlling terminal."""
        from imi_monitor import terminal
        from imi_monitor.model.errors import Refused

        fd = terminal.terminal_fd()
        fd = _controlling_terminal() if fd is None else fd
        if fd is None:
            raise Refused("there is no terminal here to reset", code="no-terminal")
        terminal.reset(fd)
        return Outcome(data={"reset": True})


ACTIONS = (ResetTerminalVerb(),)


def _controlling_terminal() -> int | None:
    try:
        return os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)  # stays open until the process ends, a moment later
    except OSError:
        return None
