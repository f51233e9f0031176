"""A tab of Zellij; before 0.44 a pane, because a tab takes no command there."""

from __future__ import annotations

import os

from imi_monitor import programs
from imi_monitor.model.errors import Refused
from imi_monitor.mux.zellij_session import ZellijSessionCommands
from imi_monitor.runs import ways

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.runs.launch_folder import LaunchFolder

_KEYS = {"Escape": "Esc", "C-c": "Ctrl c"}


def make() -> ZellijWay:
    return ZellijWay()


class ZellijWay:
    def start(self, folder: LaunchFolder, holder: dict[str, str], title: str, cwd: str) -> None:
        session = ZellijSessionCommands(holder["session"], holder["sockets"])
        session.start_tab(title, cwd, ways.keeper_command(folder, "--window"))

    def focus(self, folder: LaunchFolder) -> bool:
        session, pane = _place(folder)
        if os.environ.get("ZELLIJ_SESSION_NAME") != session.name:
            return False
        session.focus(pane)
        return True

    def attach_command(self, folder: LaunchFolder) -> tuple[list[str], str]:
        session, pane = _place(folder)
        program = programs.find("zellij")
        if program is None:
            raise Refused(f"zellij {programs.why_missing('zellij')}", code="no-multiplexer")
        session.focus(pane)
        return [program, "attach", session.name], "/"

    def type(self, folder: LaunchFolder, text: str) -> None:
        session, pane = _place(folder)
        session.paste(pane, text)

    def press(self, folder: LaunchFolder, key: str) -> None:
        session, pane = _place(folder)
        session.press(pane, _KEYS.get(key, key))

    def screen(self, folder: LaunchFolder) -> str:
        session, pane = _place(folder)
        return session.read_screen(pane)


def _place(folder: LaunchFolder) -> tuple[ZellijSessionCommands, str]:
    place = folder.place()
    session = ZellijSessionCommands(place.get("ZELLIJ_SESSION_NAME", ""), place.get("ZELLIJ_SOCKET_DIR", ""))
    return session, f"terminal_{place.get('ZELLIJ_PANE_ID', '')}"
