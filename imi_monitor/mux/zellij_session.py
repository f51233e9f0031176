"""Commands for a session of Zellij by its name, also from outside of it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from imi_monitor.model.errors import Refused
from imi_monitor.mux import zellij
from imi_monitor.mux.pane import run_multiplexer

_TABS_TAKE_COMMANDS: zellij.Version = (0, 44, 0)
_KEEPS_FOCUS: zellij.Version = (0, 45, 0)


class ZellijSessionCommands:
    def __init__(self, name: str, sockets: str) -> None:
        self.name = name
        self._env = {**os.environ, **({"ZELLIJ_SOCKET_DIR": sockets} if sockets else {})}
        self._version: zellij.Version | None = None

    def start_tab(self, title: str, cwd: str, command: Sequence[str]) -> None:
        """Run a command in a new tab, with the focus where it was; older versions move it, or open a pane instead."""
        name = ("--name", zellij.tab_name(title), "--cwd", cwd, "--close-on-exit", "--", *command)
        if self.version >= _TABS_TAKE_COMMANDS:
            self._act("new-tab", *(("--no-focus",) if self.version >= _KEEPS_FOCUS else ()), *name)
        else:
            self._act("new-pane", *name)

    def focus(self, pane: str) -> None:
        try:
            self._act("focus-pane-id", pane)
        except Refused as refusal:
            if not zellij.is_focused_already(refusal):
                raise

    def paste(self, pane: str, text: str) -> None:
        self._refuse_older()
        self._act("paste", "--pane-id", pane, "--", text)

    def press(self, pane: str, key: str) -> None:
        self._refuse_older()
        self._act("send-keys", "--pane-id", pane, key)

    def read_screen(self, pane: str) -> str:
        """Return what the pane shows, as plain text."""
        self._refuse_older()
        return run_multiplexer(
            "zellij", "--session", self.name, "action", "dump-screen", "--pane-id", pane, env=self._env
        )

    @property
    def version(self) -> zellij.Version:
        if self._version is None:
            self._version = zellij.parse_version(run_multiplexer("zellij", "--version", env=self._env))
        return self._version

    def _refuse_older(self) -> None:
        if self.version < zellij.TYPES_INTO_PANES:
            raise Refused(
                "this Zellij types only into the focused pane, 0.45 into any: type it there", code="old-zellij"
            )

    def _act(self, *words: str) -> None:
        run_multiplexer("zellij", "--session", self.name, "action", *words, env=self._env)
