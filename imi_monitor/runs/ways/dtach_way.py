"""A terminal that dtach holds: for people without tmux and Zellij. `ctrl-\\` leaves it."""

from __future__ import annotations

import os
import subprocess

from imi_monitor import programs
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe
from imi_monitor.runs import ways
from imi_monitor.runs.run_plan import SURROUNDINGS, own_environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.runs.launch_folder import LaunchFolder

_SOCKET = "screen"  # relative to the launch folder: the path of a socket is short
_SECONDS = 10.0
_KEYS = {"Enter": "\r", "Escape": "\x1b", "C-c": "\x03"}
_PASTE = "\x1b[200~{}\x1b[201~"


def make() -> DtachWay:
    return DtachWay()


class DtachWay:
    def start(self, folder: LaunchFolder, holder: dict[str, str], title: str, cwd: str) -> None:
        _dtach(folder, "-n", _SOCKET, "-z", *ways.keeper_command(folder, "--window"))

    def focus(self, folder: LaunchFolder) -> bool:
        return False

    def attach_command(self, folder: LaunchFolder) -> tuple[list[str], str]:
        if not os.path.exists(folder.file(_SOCKET)):
            raise Refused("its terminal is gone", code="no-terminal")
        return [_program(), "-a", _SOCKET, "-z", "-r", "winch"], folder.path

    def type(self, folder: LaunchFolder, text: str) -> None:
        _dtach(folder, "-p", _SOCKET, given=_PASTE.format(text))

    def press(self, folder: LaunchFolder, key: str) -> None:
        _dtach(folder, "-p", _SOCKET, given=_KEYS.get(key, key))

    def screen(self, folder: LaunchFolder) -> str:
        raise Refused("dtach does not keep what its terminal shows", code="no-screen")


def _program() -> str:
    found = programs.find("dtach")
    if found is None:
        raise Refused(f"dtach {programs.why_missing('dtach')}", code="no-holder")
    return found


def _dtach(folder: LaunchFolder, *words: str, given: str = "") -> None:
    env = {name: value for name, value in own_environment().items() if name not in SURROUNDINGS}
    try:
        done = subprocess.run(
            [_program(), *words],
            cwd=folder.path,
            env={"TERM": "xterm-256color", **env},
            input=given,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refused(f"dtach does not answer: {safe(str(error), 200)}", code="no-holder") from error
    if done.returncode:
        raise Refused(f"dtach failed: {safe(done.stderr.strip() or str(done.returncode), 200)}", code="no-holder")
