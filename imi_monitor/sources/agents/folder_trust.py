"""Whether Gemini and its relatives ask at their start if a folder may be trusted: from their settings and trusted folders.

While the dialog is open no record, hook or title shows it: the title says "Ready".
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any, Final

from imi_monitor.model.agent import UNKNOWN, WAITING, Evidence
from imi_monitor.sources.agents import fields, foreign_files
from imi_monitor.sources.agents.agent_reader import AgentProcess
from imi_monitor.sources.agents.foreign_files import FileStamp

ASKS_FOR_TRUST: Final = "a dialog at its start: may this folder be trusted?"
MAYBE_ASKS_FOR_TRUST: Final = "ready, or a dialog at its start: may this folder be trusted?"
_LONGEST_TABLE = 1 << 20
_COMMENT = re.compile(rb'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_SKIPS = "--skip-trust"


class FolderTrust:
    """The folders that are decided on, in `home` (`~/.gemini`). `by_default`: whether it asks unless the settings say no."""

    def __init__(self, home: str, by_default: bool) -> None:
        self._settings, self._list = f"{home}/settings.json", f"{home}/trustedFolders.json"
        self._by_default = by_default
        self._stamps: tuple[FileStamp | None, FileStamp | None] | None = None
        self._asks: bool | None = None  # None: not known
        self._decided: tuple[str, ...] | None = None

    def evidence(
        self, process: AgentProcess, session_began: float | None, others: Sequence[AgentProcess]
    ) -> Evidence | None:
        """What is known of the dialog, for a process that recorded nothing since it began. `others` are of its folder."""
        self._update()
        if not self._asks or self._decided is None or _SKIPS in process.argv:
            return None
        at, name = fields.at(process.began_at), os.path.basename(self._list)
        if not any(process.cwd == one or process.cwd.startswith(one.rstrip("/") + "/") for one in self._decided):
            says = f"{name} does not decide on this folder, and nothing was recorded since process {process.pid} began"
            return Evidence("transcript", WAITING, at, says, ASKS_FOR_TRUST, or_else=frozenset({UNKNOWN}))
        decided_at = foreign_files.modified_at(self._list) or 0.0
        if others and decided_at > (session_began or process.began_at):
            says = f"{name} changed after process {process.pid} began: its dialog or that of another one was answered"
            return Evidence("transcript", UNKNOWN, at, says, MAYBE_ASKS_FOR_TRUST, or_else=frozenset({WAITING}))
        return None

    def _update(self) -> None:
        stamps = foreign_files.stamp_of(self._settings), foreign_files.stamp_of(self._list)
        if stamps == self._stamps:
            return
        settings, rules = read_table(self._settings), read_table(self._list)
        if settings is None or rules is None:  # written at this moment, or not readable
            self._stamps, self._asks, self._decided = None, None, None
            return
        self._stamps = stamps
        chosen = fields.table(fields.table(settings.get("security")).get("folderTrust")).get("enabled")
        self._asks = chosen if isinstance(chosen, bool) else self._by_default
        if fields.table(settings.get("ide")).get("enabled") is True:
            self._asks = None  # the editor may decide
        self._decided = tuple(_folder(path, rule) for path, rule in rules.items())


def _folder(path: str, rule: object) -> str:
    folder = os.path.dirname(path) if rule == "TRUST_PARENT" else path
    try:
        return os.path.realpath(folder)
    except (OSError, ValueError):
        return folder


def read_table(path: str) -> dict[str, Any] | None:
    """A file of JSON with comments; empty if there is none."""
    try:
        with open(path, "rb") as file:
            data = file.read(_LONGEST_TABLE)
    except FileNotFoundError:
        return {}
    except OSError:
        return None
    return fields.record(_COMMENT.sub(rb"\1", data)) if data.strip() else {}
