"""`imi disk`: what each worktree, each trash entry and each repository's git data use on disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from imi_monitor.actions import worktree_lookup
from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.actions.removal import restore, unlisted_entries
from imi_monitor.actions.status import status_action
from imi_monitor.disk_usage import DiskMeasurement, FolderUsage, WorktreeFolders, add_usage, measure_worktree
from imi_monitor.git import layout
from imi_monitor.model import amounts, columns, times
from imi_monitor.model.columns import Column
from imi_monitor.model.errors import ImiError
from imi_monitor.model.styled_text import MUTED, NAME, styled
from imi_monitor.model.text import count, safe
from imi_monitor.store import trash

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.git.layout import Repository
    from imi_monitor.roster import Target

WORKTREE, TRASH, GIT = "worktree", "trash", "git"
_COLUMNS = (
    Column("Repository", least=8, rank=2),
    Column("Name", least=8, name=True),
    Column("Kind"),
    Column("Size", right=True),
    Column("Files", right=True, rank=1),
    Column("Changed", right=True),
    Column("Path", least=12, rank=3),
)


@dataclass(frozen=True, slots=True)
class DiskRow:
    """The use of one worktree, trash entry, or repository's git data."""

    repo: str
    name: str
    kind: str
    path: str
    usage: FolderUsage
    changed_at: str | None  # of a trash entry: when it was removed
    trash_id: str | None = None

    def data(self) -> dict[str, object]:
        return {
            "repo": self.repo,
            "worktree_name": None if self.kind == GIT else self.name,
            "kind": self.kind,
            "path": self.path,
            "bytes": self.usage.size,
            "files": self.usage.files,
            "unreadable": self.usage.unreadable,
            "changed_at": self.changed_at,
            "trash_id": self.trash_id,
        }

    def cells(self, several: bool) -> list[str]:
        return [
            safe(self.repo) if several else "",
            styled(safe(self.name), NAME),
            self.kind,
            amounts.size(self.usage.size),
            amounts.count(self.usage.files),
            times.age_of(self.changed_at),
            styled(safe(self.path, 4096), MUTED),
        ]


class DiskAction(Action):
    words = ("disk",)
    group = "Status"
    label = "Disk use"
    examples = (("imi disk --oldest", "the least recently changed first"),)
    help = "show what each worktree, the trash and git's own data use on disk, largest first"
    more = """
    Without NAME: all worktrees of the repository around you, or of all registered ones. Objects that the worktrees of a
    repository share are counted once, as its git data. Changed is the age of the newest file, for trash entries the time
    since the removal. It reads every folder, so it takes a while; nothing else in imi measures disks.
    """
    arguments = (Argument("name", "measure this worktree only", optional=True),)
    options = (
        Option("all", "measure every repository of the registry", aliases=("a",)),
        Option("oldest", "list the least recently changed first"),
    )
    changes = False
    needs_registry = False

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        name = request.text("name")
        measurement = DiskMeasurement(context.cancelled)
        warnings: list[str] = []
        if name is not None:
            rows = [_worktree_row(context, measurement, worktree_lookup.find_worktree(context, name))]
        else:
            selected, warnings = status_action.selected_repositories(context, None, request.flag("all"))
            rows = [row for repository in selected for row in _repository_rows(context, measurement, repository)]
        order = _age_order if request.flag("oldest") else _size_order
        return _outcome(sorted(rows, key=order), warnings)


ACTIONS = (DiskAction(),)


def _size_order(row: DiskRow) -> tuple[object, ...]:
    return -row.usage.size, row.repo, row.name


def _age_order(row: DiskRow) -> tuple[object, ...]:
    return row.changed_at or "", -row.usage.size, row.name


def _outcome(rows: list[DiskRow], warnings: list[str]) -> Outcome:
    totals = {kind: sum(row.usage.size for row in rows if row.kind == kind) for kind in (WORKTREE, TRASH, GIT)}
    number = sum(row.kind == WORKTREE for row in rows)
    sentence = f"{amounts.size(totals[WORKTREE])} in {count(number, 'worktree')}"
    if len(rows) > number:
        sentence += f", {amounts.size(totals[TRASH])} in the trash, {amounts.size(totals[GIT])} in git's own data"
    unreadable = sum(row.usage.unreadable for row in rows)
    if unreadable:
        warnings = [*warnings, f"{count(unreadable, 'folder')} cannot be read and are left out"]
    several = len({row.repo for row in rows}) > 1
    table = columns.table(_COLUMNS, [row.cells(several) for row in rows], status_action.terminal_width())
    data: dict[str, object] = {
        "message": sentence,
        "entries": [row.data() for row in rows],
        "count": number,
        **{f"{kind}_bytes": size for kind, size in totals.items()},
        "total_bytes": sum(totals.values()),
    }
    return Outcome([*table, sentence], data, warnings=warnings)


def _repository_rows(context: Context, measurement: DiskMeasurement, repository: Repository) -> Iterator[DiskRow]:
    repo_name = context.repo_name(repository)
    name = repo_name or layout.repository_name(repository)
    for one in worktree_lookup.list_worktrees(context, repository):
        if not one.missing:
            yield _worktree_row(context, measurement, one)
    trashed = [os.path.join(repository.common_dir, "worktrees")]
    for row in _trash_rows(context, measurement, repository, name, repo_name):
        trashed.append(row.path)
        yield row
    context.progress(f"measuring git's data of {safe(name)}")
    usage = measurement.measure(repository.common_dir, without=frozenset(map(os.path.realpath, trashed)))
    yield DiskRow(name, name, GIT, repository.common_dir, usage, _moment(usage.changed_at))


def _trash_rows(
    context: Context, measurement: DiskMeasurement, repository: Repository, name: str, repo_name: str | None
) -> Iterator[DiskRow]:
    """The entries that the registry lists, then those that lie there without: it is another one, or cannot be used."""
    for entry in trash.list_kept(context.connection, repo_name) if repo_name else ():
        yield _trash_row(context, measurement, name, entry)
    for unlisted in unlisted_entries.find_unlisted(context, [repository]):
        described = unlisted.as_entry()
        if described is not None:
            yield _trash_row(context, measurement, name, described)
        else:
            usage = measurement.measure(unlisted.folder)
            yield DiskRow(name, unlisted.name, TRASH, unlisted.folder, usage, None, unlisted.id)


def _worktree_row(context: Context, measurement: DiskMeasurement, one: Target) -> DiskRow:
    context.progress(f"measuring {safe(one.name)}")
    others = [linked.path for linked in layout.linked_worktrees(one.repository.common_dir)]
    elsewhere = frozenset(map(os.path.realpath, [*others, one.repository.common_dir]))
    usage = measure_worktree(measurement, WorktreeFolders(one.path, None if one.is_main else one.admin_dir, elsewhere))
    repo = one.repo_name or layout.repository_name(one.repository)
    return DiskRow(repo, one.name, WORKTREE, one.path, usage, _moment(usage.changed_at))


def _trash_row(context: Context, measurement: DiskMeasurement, repo: str, entry: trash.TrashEntry) -> DiskRow:
    context.progress(f"measuring {safe(entry.worktree_name)} in the trash")
    folder, usage = entry.trash_path, FolderUsage()
    try:
        trashed = restore.trashed_worktree(context, entry)
    except ImiError:  # written by another version of imi
        usage = measurement.measure(folder)
    else:
        folder = trashed.trash_dir
        usage = measurement.measure(folder)
        add_usage(usage, measurement.measure(trashed.admin_dir))
    return DiskRow(repo, entry.worktree_name, TRASH, folder, usage, entry.removed_at, entry.id)


def _moment(seconds: float | None) -> str | None:
    try:
        return None if seconds is None else times.stamp(datetime.fromtimestamp(seconds, UTC))
    except (ValueError, OverflowError, OSError):
        return None  # a time stamp beyond the calendar
