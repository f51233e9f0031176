"""`imi sync`: link the shared files of `sync/` into every worktree of a repository, and remove outdated links.

Editing a shared file needs no sync, since the links lead to it; adding and deleting one does.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from imi_monitor.actions import worktree_lookup
from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.actions.sync import shared_files, worktree_links
from imi_monitor.git import layout, shared_names
from imi_monitor.model.errors import Refused
from imi_monitor.model.text import count, safe
from imi_monitor.store import db, events

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.sync.shared_files import SharedFiles
    from imi_monitor.actions.sync.worktree_links import LinkReport
    from imi_monitor.git.layout import Repository


_SHOWN_WORKTREES = 5


class SyncAction(Action):
    words = ("sync",)
    group = "Worktrees"
    label = "Sync"
    help = "link the shared files of sync/ into every worktree, and remove links whose file is gone"
    more = """
    Files below sync/repo, sync/local, sync/global and sync/user of the cluster become relative links of the same name
    in every worktree, the trunk too; the first folder of this order that has a name wins. Outside a cluster the same
    folders are beside the worktrees (<repo>.worktrees/sync/). A real file is never replaced, a tracked one never hidden,
    and the links are listed in .git/info/exclude so that they are not committed.
    """
    key = "Y"
    arguments = (Argument("repo", "the repository (default: the one around you)", optional=True),)
    options = (Option("check", "change nothing; exit status 1 if a link is missing or wrong"),)

    def consequences(self, context: Context, request: Request) -> list[str]:
        repository = context.repository(request.text("repo"))
        result = sync_worktrees(context, repository, check=True)
        if result is None:
            return _nothing(context, repository).lines
        problems = result.problems()
        left = [f"cannot: {_problem(one, where)}" for one, where in problems.items()]
        return [*_changes(result, check=True), *left] or [_sentence(result, 0, 0, check=True)]

    def run(self, context: Context, request: Request) -> Outcome:
        self.refuse(context, request)
        repository = context.repository(request.text("repo"))
        check = request.flag("check")
        result = sync_worktrees(context, repository, check=check)
        if result is None:
            return _nothing(context, repository)
        return _outcome(result, check)


def _nothing(context: Context, repository: Repository) -> Outcome:
    home = shared_files.sync_home(repository, context.settings_of(repository))
    where = os.path.join(home, "sync", "repo")
    sentence = f"nothing to sync: create {safe(where)} and put the files there that all worktrees share"
    return Outcome([sentence], {"message": sentence, "worktrees": [], **dict.fromkeys(KINDS, 0)})


def _outcome(result: SyncResult, check: bool) -> Outcome:
    problems = result.problems()
    lines = [*_changes(result, check), *map(_problem, problems, problems.values())]
    lines += [f"{safe(name)}: is linked but not listed in .git/info/exclude" for name in result.unlisted]
    lines += [f"{safe(name)}: in {win} and in {lose}, {win} wins" for name, win, lose in result.shared.shadowed]
    off = len(problems) + ((result.changed + len(result.unlisted)) if check else 0)
    sentence = _sentence(result, len(problems), off, check)
    data = _data(result, sentence)
    if off:
        raise Refused(sentence, code="sync-needed" if check else "sync-incomplete", details=lines, data=data)
    skipped = [f"{safe(name)} is missing on disk and was left out (`imi prune`)" for name in result.skipped]
    return Outcome([*lines, sentence], data, warnings=skipped)


def _sentence(result: SyncResult, problems: int, off: int, check: bool) -> str:
    links = result.total("kept") + result.total("linked") + result.total("moved")
    where = count(len(result.worktrees), "worktree")
    if check:
        return (
            f"{count(off, 'problem')}: `imi sync` fixes what it can"
            if off
            else f"all {count(links, 'link')} in {where} are right"
        )
    done = f"{count(links, 'link')} in {where} verified"
    news = [f"{result.total(kind)} {word}" for kind, word in _WORDS if result.total(kind)]
    tail = f" ({', '.join(news)})" if news else ""
    if problems:
        return f"sync incomplete: {count(problems, 'file')} could not be linked everywhere; {done}{tail}"
    return f"sync complete: {done}{tail}"


_WORDS = (("linked", "new"), ("moved", "re-pointed"), ("removed", "removed"))


def _changes(result: SyncResult, check: bool) -> list[str]:
    words = ("would link", "would re-point", "would remove") if check else ("linked", "re-pointed", "removed")
    lines = []
    for name, _, report in result.worktrees:
        parts = zip(words, (report.linked, report.moved, report.removed), strict=True)
        changes = [f"{word} {', '.join(map(safe, names))}" for word, names in parts if names]
        if changes:
            lines.append(f"{safe(name)}: {'; '.join(changes)}")
    return lines


def _problem(problem: tuple[str, str], worktrees: list[str]) -> str:
    name, reason = problem
    shown = ", ".join(map(safe, worktrees[:_SHOWN_WORKTREES]))
    more = f" and {len(worktrees) - _SHOWN_WORKTREES} more" if len(worktrees) > _SHOWN_WORKTREES else ""
    where = f" (in {shown}{more})" if worktrees else ""
    return f"{safe(name)}: {reason}{where}" if name else f"{reason}{where}"


def _data(result: SyncResult, sentence: str) -> dict[str, object]:
    listed = [
        {
            "name": name,
            "path": path,
            **{kind: list(getattr(report, kind)) for kind in KINDS},
            "conflicts": [{"name": file, "reason": reason} for file, reason in report.conflicts],
        }
        for name, path, report in result.worktrees
    ]
    return {
        "message": sentence,
        "sync_path": os.path.join(result.shared.home, "sync"),
        **{kind: result.total(kind) for kind in KINDS},
        "refused": [{"name": name, "reason": reason} for name, reason in result.shared.refused],
        "shadowed": [{"name": name, "used": win, "hidden": lose} for name, win, lose in result.shared.shadowed],
        "missing": list(result.skipped),
        "unlisted": list(result.unlisted),
        "worktrees": listed,
    }


KINDS = ("linked", "moved", "removed", "kept")
_NAMES_OF_IMI = (".env", ".jarad-config", ".vscode/settings.json", ".gitignore.local")  # linked by iMi by default


@dataclass(slots=True)
class SyncResult:
    """The report of each worktree, and the problems found."""

    shared: SharedFiles
    worktrees: list[tuple[str, str, LinkReport]] = field(default_factory=list)  # name, path, report
    skipped: list[str] = field(default_factory=list)  # missing on disk
    unlisted: list[str] = field(default_factory=list)  # linked, but not in info/exclude (found by a check only)
    cancelled: bool = False

    def total(self, kind: str) -> int:
        return sum(len(getattr(report, kind)) for _, _, report in self.worktrees)

    @property
    def changed(self) -> int:
        return sum(report.changed for _, _, report in self.worktrees)

    def problems(self) -> dict[tuple[str, str], list[str]]:
        """(name, reason) -> the affected worktrees; empty for a problem of the shared file itself."""
        found: dict[tuple[str, str], list[str]] = {problem: [] for problem in self.shared.refused}
        for worktree, _, report in self.worktrees:
            for problem in report.conflicts:
                found.setdefault(problem, []).append(worktree)
        return found


def sync_worktrees(context: Context, repository: layout.Repository, *, check: bool = False) -> SyncResult | None:
    """Update the links of all worktrees; None without a `sync/` folder.

    With `check` nothing changes, and the reports say what would be done.
    """
    settings = context.settings_of(repository)
    shared = shared_files.read_shared_files(repository, settings)
    if shared is None:
        return None
    if check:
        result = SyncResult(shared)
        listed = frozenset(shared_names.excluded_names(repository.common_dir))
        _sync_each(context, repository, result, listed | _former_imi_links(context, repository), listed)
        linked = {name for _, _, report in result.worktrees for name in report.here}
        result.unlisted = sorted(linked - listed - {name for _, _, r in result.worktrees for name in r.linked})
        return result
    with shared_names.ExcludeBlock(repository.common_dir) as block:
        # under the lock: with an earlier reading this sync would unlink what another one has linked meanwhile
        result = SyncResult(shared_files.read_shared_files(repository, settings) or shared)
        before = block.names()
        block.put(before | set(result.shared.sources))
        try:
            _sync_each(context, repository, result, frozenset(before) | _former_imi_links(context, repository), None)
        finally:
            failures = _unlist_unused(block, repository, result)
    if result.changed:
        db.transact(context.connection, _record, context, repository, result)
    if result.cancelled:
        raise Refused("sync was cancelled; the worktrees done so far are complete", code="cancelled")
    if failures:
        raise Refused(failures[0][1], code="exclude")
    return result


def _sync_each(
    context: Context,
    repository: layout.Repository,
    result: SyncResult,
    former: frozenset[str],
    listed: frozenset[str] | None,
) -> None:
    check = listed is not None
    for one in worktree_lookup.list_worktrees(context, repository):
        if one.admin_dir is None or one.missing:
            result.skipped.append(one.name)
            continue
        if context.cancelled():
            result.cancelled = True
            return
        context.progress(f"sync: {one.name}")
        try:
            place = worktree_links.open_place(repository, one.path, one.admin_dir)
            report = worktree_links.update_links(result.shared, place, former, listed=listed, check=check)
        except Refused as error:
            report = worktree_links.LinkReport(conflicts=(("", error.sentence),))
        result.worktrees.append((one.name, one.path, report))


def _unlist_unused(
    block: shared_names.ExcludeBlock, repository: layout.Repository, result: SyncResult
) -> tuple[tuple[str, str], ...]:
    """Remove names from info/exclude that no worktree links, worktrees in imi's trash included.

    A missing worktree (an unmounted disk) may have any link: then all names stay.
    """
    worktrees = [linked.path for linked in layout.linked_worktrees(repository.common_dir)]
    if not all(map(os.path.isdir, worktrees)):
        return ()
    if repository.main_path is not None:
        worktrees.append(repository.main_path)
    linked = {name for _, _, report in result.worktrees for name in report.here}
    return worktree_links.unlist_unused(block, block.names(), linked, worktrees)


def _former_imi_links(context: Context, repository: layout.Repository) -> frozenset[str]:
    """Names that iMi linked: absolute links, without an entry in info/exclude."""
    value = next(value for key, value, _ in context.settings_of(repository).items() if key == "sync.former_links")
    names = (*_NAMES_OF_IMI, *value) if isinstance(value, list) else _NAMES_OF_IMI
    return frozenset(name for name in names if not any(map(shared_files.name_problem, name.split("/"))))


def _record(
    connection: sqlite3.Connection, context: Context, repository: layout.Repository, result: SyncResult
) -> None:
    repo_name = context.register(repository, connection)
    for name, _, report in result.worktrees:
        if report.changed:
            data: dict[str, object] = {kind: len(getattr(report, kind)) for kind in KINDS}
            events.record(
                connection, "worktree.synced", repo_name, name, data={**data, "conflicts": len(report.conflicts)}
            )


ACTIONS = (SyncAction(),)
