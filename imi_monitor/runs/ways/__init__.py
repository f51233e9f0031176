"""What holds the process of a run: one module each. All start the keeper, which records the agent's birth and its end.

`task_way` gives the agent files and a pipe; `tmux_way`, `zellij_way` and `dtach_way` give it a terminal that people can look at.
"""

from __future__ import annotations

import os
import sys
import time
from importlib import import_module
from typing import Protocol

from imi_monitor import programs
from imi_monitor.model.errors import Refused, UsageError
from imi_monitor.mux import multiplexer
from imi_monitor.runs import launch_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from imi_monitor.runs.launch_folder import LaunchFolder

TASK = "task"
_REPORT_SECONDS = 30.0
_POLL_SECONDS = 0.005


class Way(Protocol):
    """One holder of windows. `holder` is what `find_holder` has returned; the others find the terminal by its folder."""

    def start(self, folder: LaunchFolder, holder: dict[str, str], title: str, cwd: str) -> None:
        """Start the keeper in a new terminal without taking the focus; Refused with the holder's reason."""

    def focus(self, folder: LaunchFolder) -> bool:
        """Show the agent's terminal in the multiplexer around this process; False if it is in another one."""

    def attach_command(self, folder: LaunchFolder) -> tuple[list[str], str]:
        """The command that shows the agent's terminal in this one, and its folder; Refused if it is gone."""

    def type(self, folder: LaunchFolder, text: str) -> None:
        """Paste a text; nothing is submitted."""

    def press(self, folder: LaunchFolder, key: str) -> None:
        """Press `Enter`, `Escape`, `C-c`, a digit or a letter."""

    def screen(self, folder: LaunchFolder) -> str:
        """What the terminal shows; Refused if its holder does not say."""


def by_name(name: str) -> Way:
    made: Way = import_module(f"{__name__}.{name}_way").make()
    return made


def of(folder: LaunchFolder) -> Way:
    """The way of a started run; Refused if it has no terminal."""
    holder = folder.holder()
    if holder is None:
        raise Refused("it runs without a terminal", code="no-terminal")
    return by_name(holder["way"])


def find_holder() -> dict[str, str] | None:
    """The multiplexer around this process, which can hold a window; None outside of both."""
    around = multiplexer.current()
    if around == "tmux":
        server, _, session = os.environ["TMUX"].rsplit(",", 2)  # a folder's name may have commas
        return {"way": "tmux", "server": server, "session": f"${session}"}
    if around == "zellij":
        sockets = os.environ.get("ZELLIJ_SOCKET_DIR", "")
        return {"way": "zellij", "session": os.environ.get("ZELLIJ_SESSION_NAME", ""), "sockets": sockets}
    return None


def needed_holder() -> dict[str, str]:
    """What can hold a window, dtach included; UsageError if nothing can."""
    found = find_holder()
    if found is not None:
        return found
    if programs.find("dtach") is not None:
        return {"way": "dtach"}
    raise UsageError(
        "--way window needs tmux or Zellij around it, or dtach: use --way task, or install dtach", code="no-holder"
    )


def start(folder: LaunchFolder, title: str, cwd: str) -> None:
    """Start the keeper of a run in its way, and wait until the agent runs; Refused with the reason if it does not."""
    holder = folder.holder()
    if holder is None:
        from imi_monitor.runs.ways import task_way

        task_way.start(folder)
        return
    by_name(holder["way"]).start(folder, holder, title, cwd)
    until = time.monotonic() + _REPORT_SECONDS
    while (answer := folder.report()) is None:
        if time.monotonic() > until:
            if not folder.shut_gate():
                return  # the agent runs
            raise Refused(f"its keeper in {holder['way']} did not answer", code="keeper")
        time.sleep(_POLL_SECONDS)
    check_report(answer)


def check_report(answer: str) -> None:
    """Refused unless the keeper's answer says that the agent runs."""
    kind, _, value = answer.partition(" ")
    if kind == "error" and value.isdecimal():
        raise Refused(os.strerror(int(value)), code="exec")
    if kind != "pid":
        raise Refused("its keeper died" if not answer else "its start was given up", code="keeper")


def keeper_command(folder: LaunchFolder, *options: str) -> Sequence[str]:
    program = os.path.join(os.path.dirname(os.path.abspath(launch_folder.__file__)), "keeper.py")
    return [sys.executable, "-I", "-S", program, *options, folder.path]
