"""What a walled agent asks of imi: it cannot write the registry, so its acts and wishes are files in its run folder.

One file by a rename for each request; the follower acts on it and deletes the file. The answer to the call of a tool is a file
beside it. Every request is hostile text.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress

from imi_monitor.fast.random_uuid import new_id
from imi_monitor.model import contained_names
from imi_monitor.model.errors import ImiError, Refused
from imi_monitor.runs.contained import file_delivery, workspace_end
from imi_monitor.runs.run_plan import REQUESTS
from imi_monitor.store import contained_work, db

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from imi_monitor.runs.tool_server import ToolServer
    from imi_monitor.store.runs import RunRow

# An agent may do these for itself outside of its wall. The tools of files are not among them: there they would act as its user.
TOOLS = ("where_am_i", "overview", "claim", "wait", "heartbeat", "verify", "release", "milestone", "item_update")
_CALL = "tool"
_ACTS = ("created", "edited", "deliver", _CALL)
_MOST, _LARGEST = 500, 8192
_LONGEST_PATH = 4096
_ANSWER, _ID_LENGTH = ".answer", 36
_POLL_SECONDS, _MOST_SECONDS = 0.005, 30.0
_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC


# -- inside of the wall ---------------------------------------------------------------------------------------------------


def ask(folder: str, act: str, name: str, **about: object) -> None:
    """Leave a request."""
    _put(folder, new_id(), {"act": act, "name": name, **about})


def call(
    folder: str, tool: str, arguments: dict[str, object], seconds: float, cancelled: Callable[[], bool]
) -> dict[str, object]:
    """Call a tool of imi outside of the wall; Refused if no answer comes in time."""
    ident = new_id()
    _put(folder, ident, {"act": _CALL, "name": tool, "arguments": arguments})
    place, until = os.path.join(folder, ident + _ANSWER), time.monotonic() + seconds + _MOST_SECONDS
    while not os.path.exists(place):
        if time.monotonic() > until or cancelled():
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, f"{ident}.json"))
            raise Refused(
                f"imi did not answer from outside of the wall: {tool} may not have happened", code="no-answer"
            )
        time.sleep(_POLL_SECONDS)
    with open(place, encoding="utf-8") as file:
        found: dict[str, object] = json.load(file)
    os.unlink(place)
    return found


def _put(folder: str, ident: str, request: dict[str, object]) -> None:
    place = os.path.join(folder, f"{ident}.json")
    with open(f"{place}~", "w", encoding="utf-8") as file:
        json.dump(request, file)
    os.rename(f"{place}~", place)


# -- outside --------------------------------------------------------------------------------------------------------------


def answer(run_folder: str, ident: str, result: object) -> None:
    """Leave the answer to a call; OSError if the agent has put something else in its place."""
    folder = os.open(os.path.join(run_folder, REQUESTS), os.O_RDONLY | os.O_DIRECTORY | _FLAGS)
    try:
        name = f"{ident}{_ANSWER}"
        with open(
            os.open(f"{name}~", os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600, dir_fd=folder), "w"
        ) as file:
            json.dump(result, file)
        os.rename(f"{name}~", name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.close(folder)


class RequestFolder:
    """The requests of one run. Without `tools`, calls are not answered any more."""

    def __init__(self, row: RunRow, tools: ToolServer | None = None) -> None:
        self._row, self._tools = row, tools
        self._path = workspace_end.workspace_of(row)
        launch = json.loads(row.launch)
        contained = launch.get("contained")
        self._is_asked = bool(launch.get("sandbox")) or self._path is not None
        self._allowed = contained.get("deliver_to", []) if isinstance(contained, dict) else []

    @property
    def folder(self) -> str | None:
        """Where the agent leaves its requests; None: it has no wall."""
        return os.path.join(self._row.folder, REQUESTS) if self._is_asked else None

    def look(self, connection: sqlite3.Connection) -> None:
        """Act on what was asked since the last look."""
        if self.folder is None:
            return
        try:
            folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | _FLAGS)
        except OSError:
            return
        try:
            for name in sorted(one for one in os.listdir(folder) if one.endswith(".json"))[:_MOST]:
                found = _read(folder, name)
                if found is not None and found["act"] != _CALL and self._path is not None:
                    db.transact(connection, self._record, self._path, found)
                with suppress(OSError):
                    os.unlink(name, dir_fd=folder)
                if found is not None and found["act"] == _CALL:  # deleted before: no call is made twice
                    self._call(name.removesuffix(".json"), found)
        finally:
            os.close(folder)

    def close(self) -> None:
        """The run is over."""
        if self._tools is not None:
            self._tools.close()

    def _call(self, ident: str, found: dict[str, object]) -> None:
        if self._tools is not None and found.get("name") in TOOLS and len(ident) == _ID_LENGTH:
            self._tools.call(ident, str(found["name"]), found.get("arguments"))

    def _record(self, connection: sqlite3.Connection, path: str, found: dict[str, object]) -> None:
        name, act, target = found.get("name"), found.get("act"), found.get("target")
        try:
            checked = contained_names.check_file(name if isinstance(name, str) else "")
        except ImiError:
            return
        about = {"run": self._row.id, "agent": self._row.agent_id}
        if act != "deliver":
            size = found.get("size")
            digest = str(found.get("sha256") or "")[:64]
            number = size if isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 1 << 53 else None
            contained_work.log(connection, path, str(act), checked, size=number, sha256=digest, **about)
            return
        target = os.path.expanduser(target) if isinstance(target, str) and target.startswith("~/") else target
        if isinstance(target, str) and os.path.isabs(target) and len(target) < _LONGEST_PATH and "\0" not in target:
            allowed = file_delivery.is_below(target, self._allowed)
            contained_work.want_delivery(connection, path, checked, target, allowed=allowed, **about)


def _read(folder: int, name: str) -> dict[str, object] | None:
    try:
        handle = os.open(name, os.O_RDONLY | os.O_NONBLOCK | _FLAGS, dir_fd=folder)
        with open(handle, "rb") as file:
            data = file.read(_LARGEST + 1)
        found = json.loads(data) if len(data) <= _LARGEST else None
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found.get("act") in _ACTS else None
