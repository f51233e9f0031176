"""The pull requests that forges listed last, by project, and who may ask a forge now.

Nothing is lost with them, so nothing waits for the disk.
"""

from __future__ import annotations

from datetime import timedelta

from imi_monitor.fast import json_reader, json_writer
from imi_monitor.fast.frozen_dataclass import asdict
from imi_monitor.model import times
from imi_monitor.model.pull_request import PullRequest
from imi_monitor.model.pull_request_list import PullRequestList

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from datetime import datetime

_COLUMNS = "via, read_at, total, pulls, problem, problem_since"
_NAMES = PullRequest.__match_args__
_KEPT = timedelta(days=90)  # after which the list of a project that was not asked about is forgotten


def read_list(connection: sqlite3.Connection, project: str) -> PullRequestList:
    """The list of a project; without `read_at` none was ever read."""
    row = connection.execute(f"SELECT {_COLUMNS} FROM forges WHERE project = ?", (project,)).fetchone()
    return PullRequestList(project) if row is None else _parse(project, *row)


def has_lists(connection: sqlite3.Connection) -> bool:
    """Return whether any forge was asked."""
    return connection.execute("SELECT 1 FROM forges LIMIT 1").fetchone() is not None


def read_stamp(connection: sqlite3.Connection, project: str) -> object:
    """Return what changes with each change of the list: cheaper to read than the list."""
    return connection.execute(
        "SELECT read_at, problem, problem_since FROM forges WHERE project = ?", (project,)
    ).fetchone()


def reserve(connection: sqlite3.Connection, project: str, now: datetime, pause: float) -> bool:
    """Return whether the caller may ask the forge now: `pause` seconds have passed, and no rate limit holds.

    No other process may do so then until the pause is over again.
    """
    row = connection.execute("SELECT asked_at, again_at FROM forges WHERE project = ?", (project,)).fetchone()
    asked, again = (times.parse(text) for text in row) if row is not None else (None, None)
    if asked is not None and timedelta(0) <= now - asked < timedelta(seconds=pause):
        return False
    if again is not None and now < again:
        return False
    connection.execute(
        "INSERT INTO forges (project, asked_at) VALUES (?, ?) ON CONFLICT (project) DO UPDATE SET"
        " asked_at = excluded.asked_at, again_at = NULL",
        (project, times.stamp(now)),
    )
    connection.execute("DELETE FROM forges WHERE asked_at < ?", (times.stamp(now - _KEPT),))
    return True


def is_first_answer_due(connection: sqlite3.Connection, project: str, now: datetime, wait: float) -> bool:
    """Return whether a process asked the forge for the first time in the last `wait` seconds, and has recorded nothing yet."""
    row = connection.execute("SELECT asked_at, read_at, problem FROM forges WHERE project = ?", (project,)).fetchone()
    asked = times.parse(row[0]) if row is not None and row[1:] == (None, None) else None
    return asked is not None and timedelta(0) <= now - asked < timedelta(seconds=wait)


def record(
    connection: sqlite3.Connection, project: str, via: str, pulls: Sequence[PullRequest], total: int, now: datetime
) -> PullRequestList:
    """Store what a forge listed."""
    text = json_writer.dumps(
        [{key: value for key, value in asdict(pull).items() if value is not None} for pull in pulls]
    )
    connection.execute(
        "UPDATE forges SET via = ?, read_at = ?, total = ?, pulls = ?, problem = NULL, problem_since = NULL"
        " WHERE project = ?",
        (via, times.stamp(now), total, text, project),
    )
    return read_list(connection, project)


def record_problem(
    connection: sqlite3.Connection, project: str, why: str, now: datetime, *, limited: float = 0
) -> PullRequestList:
    """Store why a forge gave no answer, and since when; what it listed before stays. `limited`: seconds not to ask again."""
    again = times.stamp(now + timedelta(seconds=limited)) if limited else None
    connection.execute(
        "UPDATE forges SET problem = ?, problem_since = coalesce(problem_since, ?), again_at = ? WHERE project = ?",
        (why, times.stamp(now), again, project),
    )
    return read_list(connection, project)


def _parse(
    project: str,
    via: str | None,
    read_at: str | None,
    total: int,
    pulls: str,
    problem: str | None,
    problem_since: str | None,
) -> PullRequestList:
    try:
        rows = json_reader.loads(pulls)
    except ValueError:
        rows = []
    found = [_pull_request(row) for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return PullRequestList(project, via, read_at, total, tuple(found), problem, problem_since)


def _pull_request(row: dict[str, object]) -> PullRequest:
    """A stored pull request; a later version may have added fields."""
    known = {name: value for name, value in row.items() if name in _NAMES}
    fork = known.get("fork")
    known["fork"] = (str(fork[0]), str(fork[1])) if isinstance(fork, list) and len(fork) == 2 else None
    return PullRequest(**{"number": None, **known})  # type: ignore[arg-type]
