"""The embedded archive, `history.db` beside the registry: what happened, for good, with a full-text index.

It is a file of its own, so that no claim waits for it and so that it outlives the registry. Rows come in small transactions; an
entry is known by its id, so that what is delivered twice is stored once. Its number is its moment in microseconds (or the next
that is free), so that the index, which yields hits in the order of their numbers, yields the newest first, whenever they came.
Where SQLite has no FTS5 the words are searched one by one, which `has_index` says.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from datetime import UTC, datetime

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.model import times
from imi_monitor.model.errors import ImiError
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

VERSION = 1
MOST_WORDS = 64 << 10  # bytes of an entry's words
_TOTAL = "entries"
_NEIGHBOURS, _CROWDED = 20, 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_APPLICATION_ID = 0x694D6948  # "iMiH"
_BUSY_SECONDS = 5.0
_TABLES = """
CREATE TABLE entries (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    registry TEXT NOT NULL,
    type TEXT NOT NULL,
    at TEXT NOT NULL,
    host TEXT NOT NULL,
    repo_name TEXT,
    worktree_name TEXT,
    agent_id TEXT,
    epoch INTEGER,
    data TEXT NOT NULL,
    words TEXT NOT NULL,
    labels TEXT NOT NULL
);
CREATE TABLE cursors (
    registry TEXT NOT NULL,
    feed TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (registry, feed)
) WITHOUT ROWID;
CREATE TABLE forgotten (id TEXT PRIMARY KEY) WITHOUT ROWID;
"""
# The index has no copy of the words (`content`): they are in `entries`, from which a row can be deleted.
_INDEX = """
CREATE VIRTUAL TABLE found USING fts5(
    words, labels, content='entries', content_rowid='seq', tokenize='unicode61 remove_diacritics 2', prefix='3'
);
"""


class HistoryError(ImiError):
    """The archive cannot be used."""


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One entry. `words` is what is searched: a sentence in its first line, then texts such as a prompt."""

    id: str
    registry: str
    type: str
    at: str
    host: str
    repo_name: str | None
    worktree_name: str | None
    agent_id: str | None
    epoch: int | None
    data: str
    words: str


def history_path(database: str) -> str:
    """The archive of a registry."""
    return os.path.join(os.path.dirname(os.path.realpath(database)), "history.db")


def connect(path: str, *, create: bool = True) -> sqlite3.Connection:
    """An open archive, private to this user; HistoryError says why it cannot be used.

    The caller uses it in one thread at a time.
    """
    try:
        if create and not os.path.lexists(path):
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        connection = sqlite3.connect(
            f"file:{_quoted(path)}?mode=rw",
            uri=True,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
    except (OSError, sqlite3.Error) as error:
        raise history_error(error, path) from error
    try:
        _prepare(connection, path)
    except sqlite3.Error as error:
        connection.close()
        raise history_error(error, path) from error
    except BaseException:
        connection.close()
        raise
    return connection


def has_index(connection: sqlite3.Connection) -> bool:
    """Whether the words have a full-text index; without one each search reads every entry."""
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'found'").fetchone() is not None


def append(connection: sqlite3.Connection, entries: Sequence[HistoryEntry], registry: str, feed: str, upto: int) -> int:
    """Add the entries that are new and move the feed's place, in one transaction; returns how many were new."""
    index = has_index(connection)
    connection.execute("BEGIN IMMEDIATE")
    try:
        added = sum(_add(connection, one, index) for one in entries)
        _count(connection, added)
        connection.execute(
            "INSERT INTO cursors (registry, feed, seq) VALUES (?1, ?2, ?3)"
            " ON CONFLICT (registry, feed) DO UPDATE SET seq = ?3",
            (registry, feed, upto),
        )
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return added


def position(connection: sqlite3.Connection, registry: str, feed: str) -> int:
    """Return how far this feed of that registry is archived; 0 if nothing is."""
    row = connection.execute("SELECT seq FROM cursors WHERE registry = ? AND feed = ?", (registry, feed)).fetchone()
    return 0 if row is None else int(row[0])


def forget(connection: sqlite3.Connection, ident: str) -> int:
    """Delete the entry with this id for good: also from the free pages of the file, and should it be delivered again.

    Returns how many entries were deleted.
    """
    index = has_index(connection)
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("BEGIN IMMEDIATE")
    try:
        rows = connection.execute("SELECT seq, words, labels FROM entries WHERE id = ?", (ident,)).fetchall()
        for row in rows:
            if index:
                connection.execute("INSERT INTO found (found, rowid, words, labels) VALUES ('delete', ?, ?, ?)", row)
            connection.execute("DELETE FROM entries WHERE seq = ?", (row[0],))
        _count(connection, -len(rows))
        if rows:
            connection.execute("INSERT OR IGNORE INTO forgotten (id) VALUES (?)", (ident,))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    if rows and index:
        connection.execute("INSERT INTO found (found) VALUES ('optimize')")  # drops the deleted words from the index
    if rows:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return len(rows)


def count(connection: sqlite3.Connection) -> int:
    """Return how many entries there are."""
    return position(connection, "", _TOTAL)


def number_at(moment: str) -> int:
    """The number of an entry of that moment; 0 for a text that is none."""
    parsed = times.parse(moment)
    if parsed is None:
        return 0
    since = parsed - _EPOCH
    return max(0, (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds)


def label(kind: str, value: str) -> str:
    """The word by which the index finds entries of one agent, repository, worktree or type, whatever its name holds."""
    from hashlib import sha256

    return f"{kind}{sha256(value.encode('utf-8', 'surrogatepass')).hexdigest()[:14]}"


def labels_of(one: HistoryEntry) -> str:
    pairs = (("xa", one.agent_id), ("xr", one.repo_name), ("xw", one.worktree_name))
    family = one.type.partition(".")[0]
    marks = [label(kind, value) for kind, value in pairs if value]
    return " ".join([*marks, label("xt", one.type), label("xf", family)])


def history_error(error: Exception, path: str) -> HistoryError:
    """Return what is wrong with which file, and what to do."""
    text = str(error)
    shown = safe(path)
    from imi_monitor.store import registry_file

    if registry_file.is_disk_full(error, os.path.realpath(path)) or "No space left" in text:
        return HistoryError(f"the disk of {shown} is full: free some space, then `imi archive`", code="history-full")
    if "malformed" in text or "not a database" in text:
        return HistoryError(
            f"{shown} is damaged: move it away, then `imi archive` makes a new one of what the registry has",
            code="history-damaged",
        )
    if "unable to open" in text or isinstance(error, OSError):
        return HistoryError(f"cannot open {shown}: check that it exists and that you may write it", code="no-history")
    return HistoryError(f"cannot use {shown}: {safe(text, 200)}", code="history-unusable")


def _count(connection: sqlite3.Connection, more: int) -> None:
    """Add to the number of entries; counting a million of them takes a while."""
    connection.execute(
        "INSERT INTO cursors (registry, feed, seq) VALUES ('', ?1, ?2)"
        " ON CONFLICT (registry, feed) DO UPDATE SET seq = seq + ?2",
        (_TOTAL, more),
    )


def _free_number(connection: sqlite3.Connection, moment: str) -> int:
    first = number_at(moment)
    for number in range(first, first + _NEIGHBOURS):
        if connection.execute("SELECT 1 FROM entries WHERE seq = ?", (number,)).fetchone() is None:
            return number
    within = (first, first + _CROWDED)  # so many of one moment: behind all of the same second
    return int(connection.execute("SELECT max(seq) + 1 FROM entries WHERE seq BETWEEN ? AND ?", within).fetchone()[0])


def _add(connection: sqlite3.Connection, one: HistoryEntry, index: bool) -> bool:
    if connection.execute("SELECT 1 FROM forgotten WHERE id = ?", (one.id,)).fetchone() is not None:
        return False
    words, labels = _stored(one.words), labels_of(one)
    row = connection.execute(
        "INSERT INTO entries (seq, id, registry, type, at, host, repo_name, worktree_name, agent_id, epoch, data, words,"
        " labels) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING RETURNING seq",
        (
            _free_number(connection, one.at),
            one.id,
            one.registry,
            one.type,
            one.at,
            one.host,
            one.repo_name,
            one.worktree_name,
            one.agent_id,
            one.epoch,
            one.data,
            words,
            labels,
        ),
    ).fetchone()
    if row is None:
        return False
    if index:
        connection.execute("INSERT INTO found (rowid, words, labels) VALUES (?, ?, ?)", (row[0], words, labels))
    return True


def _stored(words: str) -> str:
    """The words as they can be stored: no NUL, valid UTF-8, cut to size."""
    return words.replace("\0", " ").encode("utf-8", "replace")[:MOST_WORDS].decode("utf-8", "ignore")


def _prepare(connection: sqlite3.Connection, path: str) -> None:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > VERSION:
        raise HistoryError(f"{safe(path)} is from a newer imi: restart imi, or update it", code="history-newer")
    if version == 0:
        _create(connection, path)
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA journal_size_limit = 4194304")


def _create(connection: sqlite3.Connection, path: str) -> None:
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if tables:
        raise HistoryError(f"{safe(path)} is a database of another program: move it away", code="history-foreign")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
            _run(connection, _TABLES)
            with suppress(sqlite3.OperationalError):  # no FTS5 in this SQLite
                _run(connection, _INDEX)
            connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _run(connection: sqlite3.Connection, script: str) -> None:
    from imi_monitor.store import schema

    for statement in schema.statements(script):
        connection.execute(statement)


def _quoted(path: str) -> str:
    from urllib.parse import quote

    return quote(path)


def for_reading(path: str) -> closing[sqlite3.Connection]:
    """An open archive for a `with`; it must exist. On a full disk, where SQLite cannot make its log, only the file is read."""
    try:
        return closing(connect(path, create=False))
    except HistoryError as error:
        if error.code != "history-full" or _size(os.path.realpath(path) + "-wal"):
            raise
    return closing(sqlite3.connect(f"file:{_quoted(path)}?mode=ro&immutable=1", uri=True, isolation_level=None))


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
