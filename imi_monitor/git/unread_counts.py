"""How much is unread in each worktree for `imi status --json`, kept by content: only what changed since is counted again.

A count is kept with the worktree's commit, the trunk's commit, the files that differ with their times, and what was read. It is
read again only while all of these are the same. What cannot be kept is counted each time.
"""

from __future__ import annotations

import os
import time
from hashlib import blake2b

from imi_monitor import paths
from imi_monitor.fast import json_reader, json_writer, thread_map
from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.fast.lean_suppress import suppress
from imi_monitor.model import times
from imi_monitor.model.errors import ImiError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from imi_monitor.git.runner import Git
    from imi_monitor.model.review_progress import ReadPart

    Count = dict[str, object]

_FORMAT = 1  # grows when the parts of a diff are formed in another way
_MOST_FILES = 2000  # files of one worktree whose times are compared
_KEPT_SECONDS = 30 * 86400.0
_FRESH = 0.05  # seconds after a write in which another one may have the same time
_NOTHING: Count = {"unread": 0, "total": 0, "partial": False}


@dataclass(frozen=True, slots=True)
class UnreadQuery:
    """A worktree whose unread parts are to be counted, as its status was read."""

    git: Git
    head: str | None
    trunk: str | None  # the commit of the trunk
    entries: tuple[tuple[str, str, str], ...]  # path, state in the index, state in the worktree
    kept: frozenset[ReadPart]


def count(queries: Sequence[UnreadQuery], seconds: float) -> list[Count | None]:
    """Return one count for each; None where it fails, or would begin later than after so many seconds."""
    latest = time.monotonic() + seconds

    def one(query: UnreadQuery) -> Count | None:
        return _count(query, latest)

    return thread_map.map_in_threads(one, queries, lambda: None)


def _count(query: UnreadQuery, latest: float) -> Count | None:
    from imi_monitor.git import worktree_review  # only when something is counted

    if not query.entries and query.head == query.trunk and query.trunk is not None:
        return _NOTHING
    stamp = _fingerprint(query)
    found = _read(query.git.admin_dir, stamp) if stamp is not None else None
    if found is not None:
        return found
    if time.monotonic() > latest:
        return None
    try:
        counted: Count = worktree_review.read_review(query.git, query.trunk, query.kept).progress.data()
    except ImiError:
        return None
    if stamp is not None:
        _write(query.git.admin_dir, stamp, counted)
    return counted


def _fingerprint(query: UnreadQuery) -> str | None:
    """Return what the count follows from; None if it cannot be told from times alone."""
    if len(query.entries) > _MOST_FILES:
        return None
    files, newest = [], 0
    for path, index, tree in query.entries:
        if path.endswith("/"):
            return None  # an untracked folder: the times of its files are not known
        try:
            info = os.lstat(os.path.join(query.git.work_tree or "", path))
        except FileNotFoundError:
            files.append(f"{path}\0{index}{tree}")
            continue
        except (OSError, ValueError):
            return None
        newest = max(newest, info.st_mtime_ns, info.st_ctime_ns)
        files.append(
            f"{path}\0{index}{tree}\0{info.st_mode} {info.st_size} {info.st_mtime_ns} {info.st_ctime_ns} {info.st_ino}"
        )
    if times.now().timestamp() - newest / 1e9 < _FRESH:
        return None
    parts = sorted(f"{path}\0{part}" for path, part in query.kept)
    facts = (str(_FORMAT), str(query.git.trusted), query.head or "", query.trunk or "", *files, "\1", *parts)
    return blake2b("\0\0".join(facts).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def _file(admin_dir: str) -> str:
    digest = blake2b(os.fsencode(os.path.realpath(admin_dir)), digest_size=12).hexdigest()
    return os.path.join(paths.state_dir(), "unread", f"{digest}.json")


def _read(admin_dir: str, stamp: str) -> Count | None:
    try:
        with open(_file(admin_dir), encoding="utf-8") as file:
            kept = json_reader.loads(file.read(4096))
        found = kept["count"] if kept["stamp"] == stamp else None
        return {name: found[name] for name in _NOTHING} if found is not None else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(admin_dir: str, stamp: str, counted: Count) -> None:
    """Keep the count; where that is impossible it is counted again the next time."""
    path = _file(admin_dir)
    with suppress(OSError):
        if not os.path.exists(path):
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            _delete_old(os.path.dirname(path))
        temporary = f"{path}.{os.getpid()}"
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(json_writer.dumps({"stamp": stamp, "count": counted}))
        os.rename(temporary, path)


def _delete_old(folder: str) -> None:
    """Delete the counts of worktrees that were not counted for a month."""
    for entry in list(os.scandir(folder)):
        with suppress(OSError):
            if times.now().timestamp() - entry.stat().st_mtime > _KEPT_SECONDS:
                os.unlink(entry.path)
