"""The search in the archive, shared by `imi history` and the History view of the dashboard."""

from __future__ import annotations

import os
import sqlite3

from imi_monitor.fast import json_reader
from imi_monitor.model import history_words
from imi_monitor.sinks import postgres_sink
from imi_monitor.store import history_file, history_search
from imi_monitor.store.events import Event
from imi_monitor.store.history_search import HistoryHit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from imi_monitor.config import Settings
    from imi_monitor.store.history_search import HistoryQuery

WITHOUT_INDEX = "this Python's SQLite has no FTS5: every entry is read, which takes longer"


class HistoryAnswer:
    """The entries that were found, newest first, and where they are from."""

    __slots__ = ("hits", "indexed", "path", "total")

    def __init__(self, path: str, hits: list[HistoryHit], total: int, *, indexed: bool) -> None:
        self.path = path
        self.hits = hits
        self.total = total  # entries of the archive
        self.indexed = indexed


def search(database: str, query: HistoryQuery, limit: int) -> HistoryAnswer | None:
    """The newest entries that match; None if there is no archive yet."""
    path = history_file.history_path(database)
    if not os.path.exists(path):
        return None
    try:
        with history_file.for_reading(path) as connection:
            hits = history_search.search(connection, query, limit)
            return HistoryAnswer(path, hits, history_file.count(connection), indexed=history_file.has_index(connection))
    except sqlite3.Error as error:
        raise history_file.history_error(error, path) from error


def search_server(settings: Settings, query: HistoryQuery, limit: int, warnings: list[str]) -> HistoryAnswer | None:
    """Search PostgreSQL instead of the file; None if no server is set, or if it cannot answer: then a warning says why."""
    url = settings.text("servers.postgres_url")
    if not url:
        return None
    from imi_monitor.links import server_url

    address = server_url.parse_postgres(url, insecure=settings.flag("team.insecure"))
    try:
        from imi_monitor.links import postgres_link
    except ImportError:
        warnings.append(f"{postgres_sink.MISSING}; searched history.db instead")
        return None
    try:
        rows, total = postgres_link.search(address, *_conditions(query, postgres_link.match), limit)
    except postgres_link.FAULTS as error:
        shown = f"PostgreSQL at {address.shown} {postgres_link.fault_of(error)}"
        warnings.append(f"{shown}; searched history.db instead")
        return None
    hits = [HistoryHit(*row) for row in rows]
    return HistoryAnswer(f"PostgreSQL at {address.shown}", hits, total, indexed=True)


def _conditions(
    query: HistoryQuery, match: Callable[[tuple[str, ...]], tuple[str, list[object]]]
) -> tuple[str, list[object]]:
    """The query as a condition of SQL, with its values."""
    where, values = match(tuple(word for word in query.words if any(map(str.isalnum, word))))
    pairs = {
        "at >= %s": query.since,
        "at < %s": query.until,
        "agent_id = %s": query.agent,
        "repo_name = %s": query.repo_name,
        "worktree_name = %s": query.worktree_name,
    }
    parts = [where]
    for condition, value in pairs.items():
        if value is not None:
            parts.append(condition)
            values.append(value)
    if query.types:
        parts.append(f"({' OR '.join('type LIKE %s' for _ in query.types)})")
        values += [_pattern(one) for one in query.types]
    return " AND ".join(parts), values


def _pattern(kind: str) -> str:
    escaped = kind.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")
    return escaped.removesuffix("*") + "%" if kind.endswith(".*") else escaped


_NUMBERS = 1 << 62  # an entry's number less this is that of an event which only the archive has


def older_events(
    database: str, first: str | None, before: int, limit: int, repositories: tuple[str, ...] | None
) -> list[Event]:
    """Events of the archive in front of event `first` of the log, or in front of number `before` if that is one of these."""
    path = history_file.history_path(database)
    if not os.path.exists(path):
        return []
    try:
        with history_file.for_reading(path) as connection:
            place = before + _NUMBERS if before < 0 else history_search.number_of(connection, first)
            found = history_search.events_before(connection, place, limit, repositories)
    except sqlite3.Error as error:
        raise history_file.history_error(error, path) from error
    return [
        Event(
            (
                hit.seq - _NUMBERS,
                hit.id,
                hit.type,
                hit.host,
                hit.repo_name,
                hit.worktree_name,
                hit.agent_id,
                hit.epoch,
                hit.data,
                hit.at,
            )
        )
        for hit in reversed(found)
    ]


def data(hit: HistoryHit) -> dict[str, object]:
    """One entry as a JSON object."""
    return {
        "seq": hit.seq,
        "id": hit.id,
        "type": hit.type,
        "at": hit.at,
        "host": hit.host,
        "repo_name": hit.repo_name,
        "worktree_name": hit.worktree_name,
        "agent_id": hit.agent_id,
        "epoch": hit.epoch,
        "sentence": history_words.sentence(hit.words),
        "text": hit.words.partition("\n")[2],
        "data": data_of(hit),
    }


def data_of(hit: HistoryHit) -> dict[str, object]:
    try:
        found = json_reader.loads(hit.data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def excerpt(hit: HistoryHit, words: tuple[str, ...], width: int) -> str:
    """The part of the texts behind the sentence around the first word that the sentence does not have; or empty."""
    first, *rest = hit.words.split("\n")
    missing = [word.casefold() for word in words if word.casefold() not in first.casefold()]
    for line in (*rest[1:], *rest[:1]):  # texts of a session come behind the values of the event
        folded = line.casefold()
        at = min((place for word in missing if (place := folded.find(word)) >= 0), default=-1)
        if at >= 0:
            start = line.rfind(" ", 0, max(0, at - width // 3)) + 1 if at > width // 2 else 0
            return ("…" if start else "") + line[start : start + width]
    return ""
