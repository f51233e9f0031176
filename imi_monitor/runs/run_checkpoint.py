"""When a checkpoint of a run is due, and what it holds: all that another session needs to go on where this one ends.

Due: after so many messages (`runs.checkpoint_every`), after a tool that wrote files, when the agent asks, at the end of a turn
and of the run. The messages are counted from the beginning of the output, so every reader has the same count.
"""

from __future__ import annotations

import os
from hashlib import sha256

from imi_monitor.git import layout
from imi_monitor.model.agent import RESTING, WAITING
from imi_monitor.model.errors import ImiError
from imi_monitor.model.session_record import stored_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from imi_monitor.model.agent import AgentEvent
    from imi_monitor.sources.agents.stream_reader import StreamReader
    from imi_monitor.store.runs import RunRow

MESSAGES, WROTE, ASKS, TURN, END = "messages", "wrote", "asks", "turn", "end"
_MOST_FILES = 50
_MOST_HASHED = 1 << 20  # bytes of a file whose content is compared later; of a bigger one the size


class CheckpointClock:
    """Counts what one run says; `due` is asked after each slice of its output."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._messages = 0
        self._at_messages = 0
        self._wrote = False
        self._state: str | None = None
        self._plan: str | None = None
        self._calls: dict[str, str] = {}  # open ones

    def note(self, events: Sequence[AgentEvent]) -> None:
        for one in events:
            if one.kind == "message":
                self._messages += 1
            elif one.kind == "plan":
                self._plan = one.text
            elif one.tool is not None and one.tool.id is not None:
                if one.kind == "tool_started":
                    self._calls[one.tool.id] = str(one.tool)
                elif one.kind == "tool_finished":
                    self._calls.pop(one.tool.id, None)
                    self._wrote = self._wrote or bool(one.files)

    def due(self, state: str | None, *, over: bool) -> str | None:
        """Why a checkpoint is due; asking says that it is made."""
        before, self._state = self._state, state
        wrote, self._wrote = self._wrote, False
        counted = self._every > 0 and self._messages // self._every > self._at_messages // self._every
        self._at_messages = self._messages
        if over:
            return END
        if state != before and (state == WAITING or state in RESTING):
            return ASKS if state == WAITING else TURN
        if counted:
            return MESSAGES
        return WROTE if wrote else None

    def make(self, row: RunRow, reader: StreamReader) -> dict[str, object]:
        facts = reader.facts
        branch, head = _head(row.cwd) if row.worktree_name else (None, None)
        return {
            "state": reader.state,
            "prompt": stored_text(facts.prompt),
            "message": stored_text(facts.last_message),
            "plan": stored_text(self._plan),
            "open": [stored_text(one, 300) for one in self._calls.values()],
            "files": [_file(path) for path in facts.files[-_MOST_FILES:]],
            "branch": branch,
            "head": head,
            "messages": self._messages,
        }


def _file(path: str) -> dict[str, object]:
    """Path, size and hash of a file as it is now; None where it cannot be read."""
    found: dict[str, object] = {"path": stored_text(path, 1000), "size": None, "sha256": None}
    try:
        about = os.lstat(path)
        found["size"] = about.st_size
        if about.st_size <= _MOST_HASHED:
            found["sha256"] = _hash(path)
    except (OSError, ValueError):
        return found
    return found


def _hash(path: str) -> str:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return sha256(file.read(_MOST_HASHED + 1)).hexdigest()


def has_changed(file: dict[str, object], path: str) -> bool:
    """Whether the file is another one than at the checkpoint."""
    now = _file(path)
    return (now["size"], now["sha256"]) != (file.get("size"), file.get("sha256"))


def _head(folder: str) -> tuple[str | None, str | None]:
    try:
        place = layout.discover(folder)
    except (ImiError, OSError):
        return None, None
    return (None, None) if place is None else layout.read_head(place.admin_dir, place.repository.common_dir)
