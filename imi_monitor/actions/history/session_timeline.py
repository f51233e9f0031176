"""The timeline of a session, one line per event: for `imi session show`, its `--follow`, and the dashboard's peek."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from imi_monitor.actions import time_format
from imi_monitor.model import state_words, times
from imi_monitor.model.text import safe
from imi_monitor.store import session_events

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from datetime import datetime

_WORDS = {
    "started": "started",
    "ready": "ready",
    "prompt": "prompt",
    "message": "says",
    "plan": "plan",
    "tool_started": "tool",
    "tool_finished": "tool",
    "waits": "asks",
    "answered": "answer",
    "failed": "failed",
    "cancelled": "stopped",
    "completed": "finished",
    "compacted": "compacted",
    "ended": "ended",
    "diff": "wrote",
    "gone": "process gone",
    "resumed": "resumed",
    "interrupted": "interrupted",
    "unknown": "unknown",
}
_SAME = timedelta(seconds=2)  # an event and a status change of the same meaning this close together are one
MOST = 1000


@dataclass(frozen=True, slots=True)
class TimelineLine:
    """One event. `seq` serves as `behind`; a tool call gets a second line with the same `call` when it ends."""

    seq: int
    at: str
    kind: str  # a key of the words above, or `status`
    word: str  # the kind as a word on screens
    text: str
    outcome: str | None = None  # of a tool call: running, success, failure, cancelled
    seconds: float | None = None  # how long a tool call took, or has run
    output: str | None = None
    call: str | None = None
    subagent: str | None = None
    files: tuple[str, ...] = ()


def timeline(connection: sqlite3.Connection, session: int, behind: int = 0, limit: int = MOST) -> list[TimelineLine]:
    """The events of a session that were read after number `behind`, in the order in which they happened.

    A tool call that has ended is one line, at its start if that is new too; lines that repeat another are left out.
    """
    rows = session_events.list_session_events(connection, session, behind, limit)
    ended = {row.call for row in rows if row.kind == "tool_finished"}
    begun = {row.call for row in rows if row.kind == "tool_started"}
    kept = [row for row in rows if not (row.kind == "tool_started" and row.call in ended)]
    acts = [(row.status, times.parse(row.at)) for row in kept if row.status and row.kind != "status"]
    made = [_line(row, row.call in begun) for row in kept if row.kind != "status" or _adds_information(row, acts)]
    kept_lines = _without_repetition(sorted(made, key=lambda line: line.at))
    first = next((number for number, line in enumerate(kept_lines) if line.kind != "status"), 0)
    return kept_lines if behind else kept_lines[first:]  # a status before the first event says nothing


def cursor(connection: sqlite3.Connection, session: int) -> int:
    """The number of the last event, as `behind` for the next call."""
    return session_events.last_seq(connection, session)


def read_new(
    connection: sqlite3.Connection, session: int, behind: int = 0, limit: int = MOST
) -> tuple[list[TimelineLine], int]:
    """The events after number `behind` with the number of the last one, for `db.read`: nothing is written in between."""
    return timeline(connection, session, behind, limit), cursor(connection, session)


def text_lines(line: TimelineLine, most: int = 3) -> list[str]:
    """The event as lines of text: time and word in the first, a longer text below."""
    first, *more = line.text.split("\n") if line.text else [""]
    who = f"[{safe(line.subagent, 30)}] " if line.subagent else ""
    tail = f"  {_outcome(line)}" if line.outcome else ""
    head = f"{time_format.clock(line.at)}  {line.word:<8}  {who}{safe(first, 300)}{tail}".rstrip()
    below = [f"{'':20}{safe(text, 300)}" for text in more[: most - 1]]
    return [head, *below, *([f"{'':20}…"] if len(more) > most - 1 else [])]


def data(line: TimelineLine) -> dict[str, object]:
    return {name: getattr(line, name) for name in line.__dataclass_fields__} | {"files": list(line.files)}


def _line(row: session_events.SessionEvent, whole: bool) -> TimelineLine:
    about = _data(row)
    subagent = row.subagent or _text(about.get("subagent"))
    made = TimelineLine(
        row.seq, row.at, row.kind, _WORDS.get(row.kind, row.kind), row.text or "", subagent=subagent, call=row.call
    )
    if row.kind in ("tool_started", "tool_finished"):
        return _call(made, row, whole)
    if row.kind == "diff":
        files = about.get("files")
        named = tuple(str(each) for each in files) if isinstance(files, list) else ()
        return replace(made, text=", ".join(named), files=named)
    if row.kind == "status":
        return replace(made, word=state_words.of_status(row.status or ""))
    return replace(made, text=made.text or _text(about.get("tool")) or "")


def _call(made: TimelineLine, row: session_events.SessionEvent, whole: bool) -> TimelineLine:
    begun, ended = times.parse(row.started_at), times.parse(row.finished_at)
    over = row.call_status != "running"
    took = ((ended if over else times.now()) or begun) if begun is not None else None
    seconds = max(0.0, (took - begun).total_seconds()) if took is not None and begun is not None else None
    return replace(
        made,
        at=(row.started_at if whole else None) or row.at,
        text=f"{row.tool or '?'} {row.input or ''}".strip(),
        outcome=row.call_status,
        seconds=None if over and ended is None else seconds,
        output=row.output,
    )


def _outcome(line: TimelineLine) -> str:
    took = time_format.span(line.seconds) if line.seconds is not None else ""
    word = {"success": "", "failure": "failed ", "cancelled": "cancelled "}.get(line.outcome or "", "running ")
    return f"{word}{took}".strip()


def _adds_information(row: session_events.SessionEvent, acts: Sequence[tuple[str, datetime | None]]) -> bool:
    """True if the status was observed and no event near it says the same."""
    at = times.parse(row.at)
    return row.status is not None and not any(
        status == row.status and at is not None and moment is not None and abs(moment - at) <= _SAME
        for status, moment in acts
    )


def _without_repetition(lines: list[TimelineLine]) -> list[TimelineLine]:
    """The lines without files that their tool call names already, and without unchanged statuses."""
    kept: list[TimelineLine] = []
    call_texts: dict[str | None, str] = {}
    for line in lines:
        one_file = line.kind == "diff" and line.call is not None and len(line.files) == 1
        if one_file and call_texts.get(line.call, "").endswith(line.files[0]):
            continue
        if line.outcome is not None:
            call_texts[line.call] = line.text
        last = next((one for one in reversed(kept) if one.kind == "status"), None)
        if line.kind == "status" and last is not None and last.word == line.word and kept[-1] is last:
            continue
        kept.append(line)
    return kept


def _data(row: session_events.SessionEvent) -> dict[str, object]:
    if row.data == "{}":
        return {}
    import json

    try:
        found = json.loads(row.data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
