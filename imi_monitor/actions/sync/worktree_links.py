"""Updating the links of one worktree to the shared files in `sync/`.

A name is written into `info/exclude` before its link exists, and removed only when no worktree has the link any more, so
that `git add -A` can never stage a link.
"""

from __future__ import annotations

import os

from imi_monitor.actions.sync import shared_files
from imi_monitor.actions.sync.safe_links import KEPT, MISSING, MOVED, LinkConflict, LinkTree
from imi_monitor.fast.frozen_dataclass import dataclass, replace
from imi_monitor.git import layout, shared_names
from imi_monitor.model.errors import GitError, ImiError, Refused
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.sync.shared_files import SharedFile, SharedFiles
    from imi_monitor.config import Settings
    from imi_monitor.git.layout import Repository
    from imi_monitor.git.runner import Git


@dataclass(frozen=True, slots=True)
class LinkReport:
    """What was done in one worktree. Every link in linked, moved and kept was verified afterwards."""

    linked: tuple[str, ...] = ()  # new
    moved: tuple[str, ...] = ()  # led to another file of sync/ before
    removed: tuple[str, ...] = ()  # their source was deleted
    kept: tuple[str, ...] = ()  # already correct
    conflicts: tuple[tuple[str, str], ...] = ()  # (name, reason)

    @property
    def changed(self) -> int:
        return len(self.linked) + len(self.moved) + len(self.removed)

    @property
    def here(self) -> tuple[str, ...]:
        """All names that are now links to shared files."""
        return (*self.linked, *self.moved, *self.kept)


@dataclass(frozen=True, slots=True)
class LinkPlace:
    """A worktree that git lists, and git in it."""

    path: str
    admin_dir: str
    git: Git


class _ReportBuilder:
    """Collects a LinkReport."""

    def __init__(self) -> None:
        self.done: dict[str, list[str]] = {"linked": [], "moved": [], "removed": [], "kept": []}
        self.conflicts: list[tuple[str, str]] = []

    def report(self) -> LinkReport:
        return LinkReport(**{kind: tuple(names) for kind, names in self.done.items()}, conflicts=tuple(self.conflicts))


def link_shared_files(repository: Repository, worktree_path: str, settings: Settings) -> LinkReport:
    """Link the shared files into one worktree, usually a new one; an empty report without a `sync/` folder.

    A file that cannot be linked is a conflict in the report, never an error: the worktree is usable without it.
    """
    if not settings.flag("sync.enabled"):
        return LinkReport()
    try:
        shared = shared_files.read_shared_files(repository, settings)
    except ImiError as error:
        return LinkReport(conflicts=(("sync", error.sentence),))
    if shared is None or not (shared.sources or shared.refused):
        return LinkReport()
    place = _find_place(repository, worktree_path)
    try:
        with shared_names.ExcludeBlock(repository.common_dir) as block:
            # under the lock: a sync that ran meanwhile may not have known this worktree
            shared = shared_files.read_shared_files(repository, settings) or shared
            before = block.names()
            block.put(before | set(shared.sources))
            report = update_links(shared, place, frozenset())
            failures = unlist_unused(block, set(shared.sources) - before, set(report.here), [place.path])
    except ImiError as error:
        return LinkReport(conflicts=(*shared.refused, *((name, error.sentence) for name in shared.sources)))
    return replace(report, conflicts=(*shared.refused, *report.conflicts, *failures))


def unlist_unused(
    block: shared_names.ExcludeBlock, doubtful: set[str], linked: set[str], worktrees: list[str]
) -> tuple[tuple[str, str], ...]:
    """Remove the doubtful names that no worktree links from `info/exclude`; returns (name, reason) of failures."""
    idle = {name for name in doubtful - linked if not any(os.path.islink(os.path.join(w, name)) for w in worktrees)}
    try:
        block.put(block.names() - idle)
    except GitError as error:
        return (("info/exclude", error.sentence),)
    return ()


def _find_place(repository: Repository, worktree_path: str) -> LinkPlace:
    """The worktree at this path; Refused if git does not list it."""
    real = os.path.realpath(worktree_path)
    if repository.main_path is not None and real == os.path.realpath(repository.main_path):
        return open_place(repository, repository.main_path, repository.common_dir)
    for linked in layout.linked_worktrees(repository.common_dir):
        if os.path.realpath(linked.path) == real:
            return open_place(repository, linked.path, linked.admin_dir)
    raise Refused(
        f"{safe(worktree_path)} is not a worktree of this repository: git does not list it", code="not-listed"
    )


def open_place(repository: Repository, path: str, admin_dir: str) -> LinkPlace:
    """A worktree by git's own files; Refused if its `.git` file was rewritten, which an agent can do."""
    if admin_dir != repository.common_dir and not layout.points_back(admin_dir, path):
        raise Refused(
            f"the .git file of {safe(path)} does not belong to this worktree: nothing was linked", code="tampered"
        )
    from imi_monitor.git.runner import Git

    return LinkPlace(path, admin_dir, Git(repository.common_dir, admin_dir, path))


def update_links(
    shared: SharedFiles,
    place: LinkPlace,
    former: frozenset[str],
    *,
    listed: frozenset[str] | None = None,
    check: bool = False,
) -> LinkReport:
    """Create, move and remove links until they match the shared files; with `check` only report what would be done.

    `former` are names that may be earlier links of imi. `listed` are the names in `info/exclude`: all shared ones, unless
    this is a check.
    """
    report = _ReportBuilder()
    names = sorted(shared.sources)
    try:
        tree = LinkTree(place.path, place.admin_dir)
    except OSError as error:
        return LinkReport(conflicts=(("", f"the worktree cannot be opened: {error.strerror}"),))
    with tree:
        reserved = _reserved(place, names, [name for name in names if listed is None or name in listed])
        # former links first: one may be where a folder is needed now
        for name in sorted((former | shared.refused_names) - set(names)):
            _remove_former(tree, shared, name, report, check)
        for name in names:
            _update_link(tree, shared, shared.sources[name], reserved.get(name), report, check)
        return report.report()


def _reserved(place: LinkPlace, names: list[str], listed: list[str]) -> dict[str, str]:
    """name -> why a link there would be committed or hide a tracked file."""
    taken = shared_names.tracked_names(place.git, place.admin_dir, names)
    try:
        unignored = shared_names.unignored_names(place.git, place.path, listed)
    except GitError as error:
        return dict.fromkeys(names, f"git cannot tell whether it would be committed: {error.sentence}")
    committed = "is un-ignored by a .gitignore, so that git would commit the link"
    return {**dict.fromkeys(unignored, committed), **taken}


def _update_link(
    tree: LinkTree, shared: SharedFiles, source: SharedFile, reserved: str | None, report: _ReportBuilder, check: bool
) -> None:
    try:
        if reserved is not None:
            raise LinkConflict(reserved)
        state = tree.check(source, shared)
        if state == MOVED and not check:
            tree.remove(source.name, tree.read_link(source.name) or "")
        if state != KEPT and not check:
            tree.create(source)
    except LinkConflict as error:
        report.conflicts.append((source.name, str(error)))
    except OSError as error:
        report.conflicts.append((source.name, f"cannot be linked: {error.strerror}"))
    else:
        report.done[{KEPT: "kept", MISSING: "linked", MOVED: "moved"}[state]].append(source.name)


def _remove_former(tree: LinkTree, shared: SharedFiles, name: str, report: _ReportBuilder, check: bool) -> None:
    """Remove imi's link if its source is no longer shared; anything else of that name is the user's."""
    try:
        link = tree.read_link(name)
        if link is not None and tree.is_own_link(name, link, shared) and (check or tree.remove(name, link)):
            report.done["removed"].append(name)
            if not check:
                tree.remove_empty_folders(shared_files.folders_above(name))
    except LinkConflict:
        return  # a real file has taken its place
    except OSError as error:
        report.conflicts.append((name, f"cannot be removed, though its source is gone: {error.strerror}"))
