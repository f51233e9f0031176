"""Shows long output of commands that change nothing in the user's pager; in a pipe nothing is paged.

The pager is `GIT_PAGER`, else `core.pager` of the user or the system, else `PAGER`, else `less`. `core.pager` of a repository
is never read, because agents can write it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from imi_monitor import programs
from imi_monitor.cli import output

_NO_PAGER = ("", "cat")
_NOT_STARTED = (126, 127)  # exit statuses of a shell whose command cannot be run or found


def show(lines: list[str]) -> None:
    """Print the lines, through the pager if they do not fit on the terminal."""
    command = users_pager() if len(lines) >= _terminal_height() else ""
    if command in _NO_PAGER or not _page(command, "".join(f"{output.shown(text)}\n" for text in lines)):
        for text in lines:
            output.line(text)


def users_pager() -> str:
    """Return the shell command of the user's pager; empty without one."""
    from imi_monitor.git.user_settings import read_user_setting

    chosen = os.environ.get("GIT_PAGER")
    if chosen is None:
        chosen = read_user_setting("core.pager")
    if chosen is None:
        chosen = os.environ.get("PAGER", "less" if programs.find("less") else "")
    return chosen.strip()


def _terminal_height() -> float:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).lines or float("inf")
    except (OSError, ValueError):  # no terminal
        return float("inf")


def _page(command: str, text: str) -> bool:
    """Return False if the pager could not be started."""
    shell = programs.find("sh")
    if shell is None:
        return False
    output.flush()
    env = programs.environment()
    env.setdefault("LESS", "FRX")  # end at once if it fits, show colours, leave the text on the screen; as git has it
    env.setdefault("LV", "-c")
    ignored = signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-c is for the pager
    try:
        process = subprocess.Popen(
            [shell, "-c", command], stdin=subprocess.PIPE, env=env, preexec_fn=_accept_interrupts
        )
        assert process.stdin is not None
        try:
            process.stdin.write(text.encode(sys.stdout.encoding or "utf-8", "backslashreplace"))
            process.stdin.close()
        except BrokenPipeError:  # the user has read enough
            pass
        return process.wait() not in _NOT_STARTED
    except OSError:
        return False
    finally:
        signal.signal(signal.SIGINT, ignored)


def _accept_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
