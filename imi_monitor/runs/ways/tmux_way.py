"""A window of tmux."""

from __future__ import annotations

import os

from imi_monitor.model.errors import Refused
from imi_monitor.mux import tmux
from imi_monitor.runs import ways

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.runs.launch_folder import LaunchFolder

_MOST_TEXT = 12_000  # bytes; a command of tmux takes 16 KB


def make() -> TmuxWay:
    return TmuxWay()


class TmuxWay:
    def start(self, folder: LaunchFolder, holder: dict[str, str], title: str, cwd: str) -> None:
        command = ways.keeper_command(folder, "--window")
        tmux.start_window(holder["server"], holder["session"], title, cwd, command)

    def focus(self, folder: LaunchFolder) -> bool:
        server, pane = _place(folder)
        if os.environ.get("TMUX", "").split(",")[0] != server:
            return False
        tmux.focus_pane(pane)
        return True

    def attach_command(self, folder: LaunchFolder) -> tuple[list[str], str]:
        server, pane = _place(folder)
        return tmux.attach_command(server, pane), "/"

    def type(self, folder: LaunchFolder, text: str) -> None:
        if len(text.encode()) > _MOST_TEXT:
            raise Refused("the text is too long to be typed: write it to a file and name the file", code="long-text")
        tmux.paste(*_place(folder), text)

    def press(self, folder: LaunchFolder, key: str) -> None:
        tmux.press(*_place(folder), key)

    def screen(self, folder: LaunchFolder) -> str:
        return tmux.read_screen(*_place(folder))


def _place(folder: LaunchFolder) -> tuple[str, str]:
    """The socket of the server, and the pane."""
    place = folder.place()
    return place.get("TMUX", "").split(",")[0], place.get("TMUX_PANE", "")
