"""Bringing one worktree in line with `sync/`: which links are right, missing, to be moved or in the way; doing it.

The order protects the user: a name is written into `info/exclude` before its link exists, and taken out only when no
worktree has the link any more, so that at no moment `git add -A` could stage one.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace

from imi_monitor.actions.sync import shared_files
from imi_monitor.actions.sync.safe_links import KEPT, MISSING, MOVED, LinkConflict, LinkTree
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
    """What was done in one worktree. Each link that is named as linked, moved or kept was looked at afterwards."""

    linked: tuple[str, ...] = ()  # new
    moved: tuple[str, ...] = ()  # led elsewhere into sync/ before
    removed: tuple[str, ...] = ()  # their source is gone
    kept: tuple[str, ...] = ()  # correct already
    conflicts: tuple[tuple[str, str], ...] = ()  # (name, why not)

    @property
    def changed(self) -> int:
        return len(self.linked) + len(self.moved) + len(self.removed)

    @property
    def here(self) -> tuple[str, ...]:
        """All names that are links to shared files now."""
        return (*self.linked, *self.moved, *self.kept)


@dataclass(slots=True)
class LinkPlace:
    """One worktree that git knows, and git itself in it."""

    path: str
    admin_dir: str
    git: Git


@dataclass(slots=True)
class _ReportBuilder:
    """A LinkReport while it is being written."""

    done: dict[str, list[str]] = field(default_factory=lambda: {"linked": [], "moved": [], "removed": [], "kept": []})
    conflicts: list[tuple[str, str]] = field(default_factory=list)

    def report(self) -> LinkReport:
        return LinkReport(**{kind: tuple(names) for kind, names in self.done.items()}, conflicts=tuple(self.conflicts))


def link_shared_files(repository: Repository, worktree_path: str, settings: Settings) -> LinkReport:
    """Link the shared files into one worktree, a new one as a rule; nothing to do without a `sync/` folder.

    What cannot be linked is a conflict in the report, never an error: a worktree is worth having without its links.
    """
    if not settings.flag("sync_settings.enabled"):
        return LinkReport()
    try:
        shared = shared_files.read_shared_files(repository, settings)
    except ImiError as error:
        return LinkReport(conflicts=(("sync", error.sentence),))
    if shared is None or not (shared.sources or shared.refused):
        return LinkReport()
    place = place_of(repository, worktree_path)
    refused = tuple(shared.refused)
    try:
        with shared_names.ExcludeBlock(repository.common_dir) as block:
            before = block.names()
            block.put(before | set(shared.sources))
            report = update_links(shared, place, frozenset())
            trouble = unlist_unused(block, set(shared.sources) - before, set(report.here), [place.path])
    except GitError as error:
        return LinkReport(conflicts=(*refused, *((name, error.sentence) for name in shared.sources)))
    return replace(report, conflicts=(*refused, *report.conflicts, *trouble))


def unlist_unused(
    block: shared_names.ExcludeBlock, doubtful: set[str], linked: set[str], worktrees: list[str]
) -> tuple[tuple[str, str], ...]:
    """Take the doubtful names that no worktree has a link of out of the block; gives what went wrong with that."""
    idle = {name for name in doubtful - linked if not any(os.path.islink(os.path.join(w, name)) for w in worktrees)}
    try:
        block.put(block.names() - idle)
    except GitError as error:
        return (("info/exclude", error.sentence),)
    return ()


def place_of(repository: Repository, worktree_path: str) -> LinkPlace:
    """The worktree at this path, if git lists it."""
    real = os.path.realpath(worktree_path)
    if repository.main_path is not None and real == os.path.realpath(repository.main_path):
        return place_at(repository, repository.main_path, repository.common_dir)
    for linked in layout.linked_worktrees(repository.common_dir):
        if os.path.realpath(linked.path) == real:
            return place_at(repository, linked.path, linked.admin_dir)
    raise Refused(f"{safe(worktree_path)} is no worktree of this repository: git does not list it", code="not-listed")


def place_at(repository: Repository, path: str, admin_dir: str) -> LinkPlace:
    """A worktree as git's own files know it, if it still is that one: an agent can rewrite its `.git` file."""
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
    """Make, move and remove links until the worktree has what is shared; with `check` only say what would be done.

    `former` are names that may be links of ours from earlier. `listed` are the names that `info/exclude` holds by now:
    all shared ones, unless this is a check.
    """
    notes = _ReportBuilder()
    names = sorted(shared.sources)
    try:
        tree = LinkTree(place.path, place.admin_dir)
    except OSError as error:
        return LinkReport(conflicts=(("", f"the worktree cannot be opened: {error.strerror}"),))
    with tree:
        reserved = _reserved(place, names, [name for name in names if listed is None or name in listed])
        # first: a link may be where a folder is needed now
        for name in sorted((former | shared.refused_names) - set(names)):
            _remove_former(tree, shared, name, notes, check)
        for name in names:
            _update_link(tree, shared, shared.sources[name], reserved.get(name), notes, check)
        return notes.report()


def _reserved(place: LinkPlace, names: list[str], listed: list[str]) -> dict[str, str]:
    """name -> why git would mind a link there."""
    taken = shared_names.tracked_names(place.git, place.admin_dir, names)
    try:
        unignored = shared_names.unignored_names(place.git, place.path, listed)
    except GitError as error:
        return dict.fromkeys(names, f"git cannot say whether it would be committed: {error.sentence}")
    committed = "is taken out of the ignored files by a .gitignore, so that git would commit the link"
    return {**dict.fromkeys(unignored, committed), **taken}


def _update_link(
    tree: LinkTree, shared: SharedFiles, source: SharedFile, reserved: str | None, notes: _ReportBuilder, check: bool
) -> None:
    try:
        if reserved is not None:
            raise LinkConflict(reserved)
        state = tree.judge(source, shared)
        if state == MOVED and not check:
            tree.take_away(source.name, tree.link_at(source.name) or "")
        if state != KEPT and not check:
            tree.make(source)
    except LinkConflict as error:
        notes.conflicts.append((source.name, str(error)))
    except OSError as error:
        notes.conflicts.append((source.name, f"cannot be linked: {error.strerror}"))
    else:
        notes.done[{KEPT: "kept", MISSING: "linked", MOVED: "moved"}[state]].append(source.name)


def _remove_former(tree: LinkTree, shared: SharedFiles, name: str, notes: _ReportBuilder, check: bool) -> None:
    """A link of ours whose source is no longer shared. Anything else of that name is the user's."""
    try:
        link = tree.link_at(name)
        if link is not None and tree.is_ours(name, link, shared) and (check or tree.take_away(name, link)):
            notes.done["removed"].append(name)
            if not check:
                tree.drop_folders(shared_files.folders_above(name))
    except LinkConflict:
        return  # a real file has taken its place
    except OSError as error:
        notes.conflicts.append((name, f"cannot be removed, though its source is gone: {error.strerror}"))
