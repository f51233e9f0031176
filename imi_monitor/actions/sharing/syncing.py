"""Bringing all worktrees of a repository in line with its `sync/`: for `imi sync`, and for whoever watches that folder."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from imi_monitor.actions import target
from imi_monitor.actions.sharing import shared_files, shared_sources
from imi_monitor.git import exclude, layout
from imi_monitor.model.errors import Refused
from imi_monitor.store import db, events

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.context import Context
    from imi_monitor.actions.sharing.shared_files import LinkReport
    from imi_monitor.actions.sharing.shared_sources import Shared

KINDS = ("linked", "moved", "removed", "kept")
_IMIS_NAMES = (
    ".env",
    ".jarad-config",
    ".vscode/settings.json",
    ".gitignore.local",
)  # what it linked unless told otherwise


@dataclass(slots=True)
class Synced:
    """What came of it in each worktree, what is refused, and what else is off."""

    shared: Shared
    worktrees: list[tuple[str, str, LinkReport]] = field(default_factory=list)  # name, path, report
    skipped: list[str] = field(default_factory=list)  # missing on disk
    unlisted: list[str] = field(default_factory=list)  # linked, but not in info/exclude (only a check finds that)
    cancelled: bool = False

    def total(self, kind: str) -> int:
        return sum(len(getattr(report, kind)) for _, _, report in self.worktrees)

    @property
    def changed(self) -> int:
        return sum(report.changed for _, _, report in self.worktrees)

    def problems(self) -> dict[tuple[str, str], list[str]]:
        """(name, reason) -> the worktrees it is about; none when it is about the source."""
        found: dict[tuple[str, str], list[str]] = {problem: [] for problem in self.shared.refused}
        for worktree, _, report in self.worktrees:
            for problem in report.conflicts:
                found.setdefault(problem, []).append(worktree)
        return found


def sync(context: Context, repository: layout.Repository, *, check: bool = False) -> Synced | None:
    """Bring all worktrees of a repository in line with its `sync/`; None when there is no such folder.

    With `check` nothing is changed, and the reports say what would be done.
    """
    shared = shared_sources.read(repository, context.settings_of(repository))
    if shared is None:
        return None
    result = Synced(shared)
    if check:
        listed = frozenset(exclude.names(repository.common_dir))
        _each(context, repository, result, listed | _imis_own(context, repository), listed)
        linked = {name for _, _, report in result.worktrees for name in report.here}
        result.unlisted = sorted(linked - listed - {name for _, _, r in result.worktrees for name in r.linked})
        return result
    with exclude.Block(repository.common_dir) as block:
        before = block.names()
        block.put(before | set(shared.sources))
        try:
            _each(context, repository, result, frozenset(before) | _imis_own(context, repository), None)
        finally:
            trouble = _shrink(block, repository, result)
    if result.changed:
        db.transact(context.connection, _record, context, repository, result)
    if result.cancelled:
        raise Refused("sync was cancelled; the worktrees done so far are right", code="cancelled")
    if trouble:
        raise Refused(trouble[0][1], code="exclude")
    return result


def _each(
    context: Context,
    repository: layout.Repository,
    result: Synced,
    former: frozenset[str],
    listed: frozenset[str] | None,
) -> None:
    check = listed is not None
    for one in target.targets(context, repository):
        if one.admin_dir is None or one.missing:
            result.skipped.append(one.name)
            continue
        if context.cancelled():
            result.cancelled = True
            return
        context.progress(f"sync: {one.name}")
        try:
            place = shared_files.place_at(repository, one.path, one.admin_dir)
            report = shared_files.bring_in_line(result.shared, place, former, listed=listed, check=check)
        except Refused as error:
            report = shared_files.LinkReport(conflicts=(("", error.sentence),))
        result.worktrees.append((one.name, one.path, report))


def _shrink(block: exclude.Block, repository: layout.Repository, result: Synced) -> tuple[tuple[str, str], ...]:
    """A name stays in info/exclude while any worktree has a link of it, the ones in imi's trash too.

    A worktree that is not there right now (an unmounted disk) may have any: then all names stay.
    """
    worktrees = [linked.path for linked in layout.linked_worktrees(repository.common_dir)]
    if not all(map(os.path.isdir, worktrees)):
        return ()
    if repository.main_path is not None:
        worktrees.append(repository.main_path)
    linked = {name for _, _, report in result.worktrees for name in report.here}
    return shared_files.shrink(block, block.names(), linked, worktrees)


def _imis_own(context: Context, repository: layout.Repository) -> frozenset[str]:
    """iMi linked the names of this list, absolutely and without a rule against committing them."""
    value = next(value for key, value, _ in context.settings_of(repository).items() if key == "symlink_files")
    names = (*_IMIS_NAMES, *value) if isinstance(value, list) else _IMIS_NAMES
    return frozenset(name for name in names if not any(map(shared_sources.name_problem, name.split("/"))))


def _record(connection: sqlite3.Connection, context: Context, repository: layout.Repository, result: Synced) -> None:
    repo_name = context.register(repository, connection)
    for name, _, report in result.worktrees:
        if report.changed:
            data: dict[str, object] = {kind: len(getattr(report, kind)) for kind in KINDS}
            events.record(
                connection, "worktree.synced", repo_name, name, data={**data, "conflicts": len(report.conflicts)}
            )
