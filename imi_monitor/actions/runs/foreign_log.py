"""The log of a session of another program, from a watched workspace: its last lines, and those that follow."""

from __future__ import annotations

import json
import time

from imi_monitor.actions.board.workspace_files import LogTail
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import safe
from imi_monitor.store import db, sessions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Outcome
    from imi_monitor.actions.context import Context

MOST_BYTES = 4 << 20  # of a log's end
_POLL_SECONDS = 0.05


def find(context: Context, name: str | None) -> str | None:
    """The path of the log of the one session that `name` begins; None if there is none."""
    found = db.read(context.connection, sessions.find_by_prefix, name) if name else []
    paths = {path for one in found if (path := _path(one.metadata))}
    return paths.pop() if len(paths) == 1 else None


def _path(metadata: str) -> str | None:
    about = json.loads(metadata)
    path = about.get("log") if isinstance(about, dict) else None
    return path if isinstance(path, str) else None


def open_tail(path: str) -> LogTail:
    try:
        return LogTail(path, MOST_BYTES)
    except OSError as error:
        raise Refused(
            f"the log {safe(path, 300)} cannot be read: {error.strerror or 'it is no plain file'}", code="missing"
        ) from error


def last_lines(path: str, limit: int) -> list[str]:
    """The last lines, the one without an end included."""
    tail = open_tail(path)
    lines = tail.read()
    return [*lines, *filter(None, [tail.unfinished()])][-limit:]


def show(context: Context, path: str, limit: int, *, follow: bool) -> Outcome:
    """Print the last lines, and with `follow` new ones as they come, until Ctrl-C."""
    from imi_monitor.actions.action import Outcome

    tail = open_tail(path)
    lines = tail.read()
    if not follow:
        lines += filter(None, [tail.unfinished()])
    for line in lines[-limit:]:
        _emit(context, line)
    while follow and not context.cancelled():
        time.sleep(_POLL_SECONDS)
        try:
            news = tail.read()
        except OSError:
            break  # it was removed
        for line in news:
            _emit(context, line)
    return Outcome()


def _emit(context: Context, line: str) -> None:
    context.emit(safe(line, 4000), {"line": safe(line, 4000)})
