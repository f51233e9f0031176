"""What a run leaves when it ends: its commits, its uncommitted files, and the files in its run folder."""

from __future__ import annotations

import json
import os
import stat
from datetime import UTC, datetime

from imi_monitor.git import layout
from imi_monitor.git.git_status import read_status
from imi_monitor.git.runner import Git
from imi_monitor.model import times
from imi_monitor.model.errors import ImiError
from imi_monitor.model.session_record import WrittenFile, file_kind, relative_path
from imi_monitor.runs import run_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.store.runs import RunRow

_MOST_FILES = 200
_MOST_COMMITS = 100
_SECONDS = 5.0
_PARTS = ("work_products", "media", "search_results")


def about(row: RunRow) -> dict[str, object]:
    """Commits since the run's base and the number of uncommitted files; empty without a worktree, null where git failed."""
    base = json.loads(row.launch).get("base")
    if row.worktree_name is None:
        return {}
    found: dict[str, object] = {"committed": None, "uncommitted": None}
    try:
        place = layout.discover(row.cwd)
        if place is None:
            return found
        git = Git(place.repository.common_dir, place.admin_dir, row.cwd)
        found["uncommitted"] = len(read_status(git).entries)
        if isinstance(base, str) and base:
            head = layout.read_head(place.admin_dir, place.repository.common_dir)[1]
            found["committed"] = _commits(git, base, head) if head is not None else None
    except (ImiError, OSError):
        return found
    return found


def _commits(git: Git, base: str, head: str) -> list[str]:
    """The newest first."""
    limit = f"--max-count={_MOST_COMMITS}"
    return git.text("rev-list", limit, "--end-of-options", head, f"^{base}", "--", timeout=_SECONDS).split()


def files(row: RunRow) -> tuple[WrittenFile, ...]:
    """The finished files in the parts of the run folder that the agent or its tools have filled."""
    found: list[WrittenFile] = []
    for part in _PARTS:
        for where, folders, names in os.walk(os.path.join(row.folder, part)):
            folders.sort()
            for name in sorted(one for one in names if not one.endswith(run_folder.UNFINISHED)):
                path = os.path.join(where, name)
                made = _written(path, row.cwd)
                if made is not None:
                    found.append(made)
                if len(found) >= _MOST_FILES:
                    return tuple(found)
    return tuple(found)


def _written(path: str, root: str) -> WrittenFile | None:
    try:
        at = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISREG(at.st_mode):
        return None
    changed = times.stamp(datetime.fromtimestamp(at.st_mtime, UTC))
    return WrittenFile(relative_path(path, root), file_kind(path), changed, None, at.st_size)
