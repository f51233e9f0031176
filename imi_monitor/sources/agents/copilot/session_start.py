"""What a Copilot without a prompt does: it is ready, or asks whether its folder is trusted.

The dialog is in no event. `config.json` lists the folders that are trusted for good; the log of a process has a line about
its language servers once the folder is trusted, also where it is for one session only.
"""

from __future__ import annotations

import os
import re
from typing import Final

from imi_monitor.model.agent import COMPLETED, NOTHING_ASKED, UNKNOWN, WAITING, Evidence
from imi_monitor.sources.agents import fields
from imi_monitor.sources.agents.agent_reader import AgentProcess, ReadContext
from imi_monitor.sources.agents.folder_trust import ASKS_FOR_TRUST, MAYBE_ASKS_FOR_TRUST, read_table

_TRUSTED_LINE: Final = b":session_service] Resolved LSP telemetry consent"
_MOST_LOG = 256 << 10  # bytes from its beginning
_LOG = re.compile(r"process-\d+-(\d+)\.log")
_UNASKING = frozenset({"--trust-folder", "-p", "--prompt", "--acp"})
_STARTS = 3.0  # seconds in which a trusted folder's session writes the line


class SessionStart:
    """One session without a prompt; what is settled is not read again."""

    def __init__(self) -> None:
        self._trusts: int | None = None  # the process whose log shows that the folder is trusted

    def evidence(self, process: AgentProcess, context: ReadContext) -> Evidence:
        at, says = fields.at(process.began_at), f"process {process.pid} has it open, and it has no events"
        home = copilot_folder(context)
        if self._trusts != process.pid:
            log = _log_of(process, f"{home}/logs")
            if log is not None and _TRUSTED_LINE in log:
                self._trusts = process.pid
        if self._trusts == process.pid or not _UNASKING.isdisjoint(process.argv) or _is_trusted(process.cwd, home):
            return Evidence("transcript", COMPLETED, at, says, NOTHING_ASKED)
        if log is None or context.now - process.began_at < _STARTS:
            return Evidence("transcript", UNKNOWN, at, says, MAYBE_ASKS_FOR_TRUST, or_else=frozenset({WAITING}))
        says = f"config.json does not trust this folder, and the log of process {process.pid} does not go on"
        return Evidence("transcript", WAITING, at, says, ASKS_FOR_TRUST, or_else=frozenset({COMPLETED}))


def copilot_folder(context: ReadContext) -> str:
    """`~/.copilot`, or where COPILOT_HOME moves it."""
    given = context.env.get("COPILOT_HOME", "")
    return given if os.path.isabs(given) else f"{context.home}/.copilot"


def _is_trusted(cwd: str, home: str) -> bool:
    folders = fields.rows((read_table(f"{home}/config.json") or {}).get("trustedFolders"))
    real = (os.path.realpath(one) for one in folders if fields.path(one) is not None)
    return any(cwd == one or cwd.startswith(one.rstrip("/") + "/") for one in real)


def _log_of(process: AgentProcess, folder: str) -> bytes | None:
    """The beginning of its log; None without one."""
    own = {str(pid) for pid in (process.pid, *process.family)}
    try:
        names = [name for name in os.listdir(folder) if (match := _LOG.fullmatch(name)) and match[1] in own]
        with open(f"{folder}/{max(names)}", "rb") as file:
            return file.read(_MOST_LOG) or None
    except (OSError, ValueError):
        return None
