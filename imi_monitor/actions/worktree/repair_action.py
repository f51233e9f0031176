"""`imi repair`: reconnect moved repositories and worktrees, update their paths in the registry, and list lost trash entries.

Only pointers are repaired. A `.git` file that names another existing folder is not a move but a sign of tampering: it is
reported and left alone.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace

from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.actions.removal import trash_repair, unlisted_entries
from imi_monitor.actions.removal.trash_folder import LOCK_PREFIX
from imi_monitor.git import layout
from imi_monitor.model.errors import ImiError, UsageError
from imi_monitor.model.text import count, safe
from imi_monitor.store import db, repositories, worktrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.removal.trash_repair import TrashRepair


@dataclass(frozen=True, slots=True)
class RepairFinding:
    """One inconsistency. `to` is the present place, None if unknown."""

    kind: str  # moved, repository-moved, lost, copied, tampered, row, and those of `trash_repair`
    name: str
    path: str
    to: str | None
    sentence: str

    @property
    def repairable(self) -> bool:
        return self.kind in ("moved", "repository-moved", "row", "registry")


class RepairAction(Action):
    words = ("repair",)
    group = "Merge and remove"
    needs_registry = False
    label = "Repair"
    help = "find moved worktrees and repositories and repair the pointers to them"
    more = """Also lists entries of the trash that the registry does not have, and completes moves that were interrupted. A
    worktree of the trash that was not beside the others needs the folder around its place as PATH."""
    key = "Z"
    arguments = (Argument("path", "folders of moved worktrees that are not beside the others", rest=True),)
    options = (Option("dry-run", "only say what would be done"),)

    def consequences(self, context: Context, request: Request) -> list[str]:
        repository, given = context.repository(), [_folder(context, path) for path in request.rest("path")]
        findings = _find_problems(context, repository, given)
        return _outcome(findings, trash_repair.find_repairs(context, repository, given), dry_run=True).lines

    def run(self, context: Context, request: Request) -> Outcome:
        repository = context.repository()
        given = [_folder(context, path) for path in request.rest("path")]
        findings = _find_problems(context, repository, given)
        repairable = [finding for finding in findings if finding.repairable]
        dry_run = request.flag("dry-run")
        if not dry_run and repairable:
            _repair(context, repository, repairable)
        repairs = trash_repair.find_repairs(context, repository, given)
        if not dry_run:
            repairs = [_carry_out(repair, context.agent(request)) for repair in repairs]
            unlisted_entries.discard_abandoned(context, repository)
        return _outcome(findings, repairs, dry_run=dry_run)


def _carry_out(repair: TrashRepair, agent: str) -> TrashRepair:
    """Repair one entry; one that fails is left, with the reason."""
    if repair.carry_out is None:
        return repair
    try:
        repair.carry_out(agent)
    except (ImiError, OSError) as error:
        why = error.sentence if isinstance(error, ImiError) else f"{safe(repair.name)}: {error.strerror}"
        return replace(repair, carry_out=None, sentence=why)
    return repair


def _folder(context: Context, path: str) -> str:
    full = os.path.realpath(os.path.join(context.cwd, path))
    if not os.path.isdir(full):
        raise UsageError(f"{safe(path)} is not a folder: give the present folders of moved worktrees", code="bad-path")
    return full


def _find_problems(context: Context, repository: layout.Repository, given: list[str]) -> list[RepairFinding]:
    # worktrees in the trash are where they belong
    linked = [
        item
        for item in layout.linked_worktrees(repository.common_dir)
        if not (item.locked or "").startswith(LOCK_PREFIX)
    ]
    findings = [finding for item in linked if (finding := _check_worktree(repository, item, linked, given))]
    return [*_registry_findings(context, repository, linked), *findings]


def _check_worktree(
    repository: layout.Repository, item: layout.LinkedWorktree, linked: list[layout.LinkedWorktree], given: list[str]
) -> RepairFinding | None:
    name = os.path.basename(item.path)
    if not item.missing:
        target = layout.gitfile(os.path.join(item.path, ".git"))
        if target is None or layout.points_back(item.admin_dir, item.path):
            return None
        if os.path.isdir(target):
            sentence = f"the .git file of {safe(item.path)} names {safe(target)}, which is not its own record: check it"
            return RepairFinding("tampered", name, item.path, None, sentence)
        return RepairFinding(
            "repository-moved", name, item.path, item.path, f"{safe(name)} still points at the repository's old place"
        )
    homes = [folder for folder in _candidates(repository, linked, item, given) if _is_moved_worktree(folder, item)]
    if len(homes) == 1:
        return RepairFinding("moved", name, item.path, homes[0], f"{safe(name)} was moved to {safe(homes[0])}")
    if homes:
        sentence = f"{safe(name)} may be any of {', '.join(map(safe, homes))}: run `imi repair PATH` with the right one"
        return RepairFinding("copied", name, item.path, None, sentence)
    if os.path.isdir(item.path):
        return RepairFinding(
            "lost", name, item.path, None, f"{safe(item.path)} has lost its .git file: run `imi repair` with its folder"
        )
    sentence = (
        f"{safe(name)} is not at {safe(item.path)}: run `imi repair` with its new folder, or `imi prune` to forget it"
    )
    return RepairFinding("lost", name, item.path, None, sentence)


def _candidates(
    repository: layout.Repository, linked: list[layout.LinkedWorktree], item: layout.LinkedWorktree, given: list[str]
) -> list[str]:
    """Folders that may be a moved worktree: the given ones, their subfolders, and the neighbours of all worktrees."""
    parents = {os.path.dirname(other.path) for other in linked} | {os.path.dirname(repository.home), *given}
    if repository.cluster:
        parents.add(repository.cluster)
    folders = {os.path.realpath(os.path.join(parent, name)) for parent in parents for name in _names(parent)} | set(
        given
    )
    taken = {os.path.realpath(other.path) for other in linked if not other.missing}
    return sorted(folders - taken)


def _is_moved_worktree(folder: str, item: layout.LinkedWorktree) -> bool:
    """True if the folder's `.git` file names this worktree's admin directory, at its present or old place."""
    target = layout.gitfile(os.path.join(folder, ".git"))
    if target is None:
        return False
    if os.path.realpath(target) == os.path.realpath(item.admin_dir):
        return True
    return not os.path.isdir(target) and os.path.basename(target) == os.path.basename(item.admin_dir)


def _registry_findings(
    context: Context, repository: layout.Repository, linked: list[layout.LinkedWorktree]
) -> list[RepairFinding]:
    """Find a moved repository: its row names a git directory that is gone."""
    if context.repo_name(repository) is not None:
        return []
    paths = {os.path.realpath(item.path) for item in linked}
    former = {_former_common_dir(item) for item in linked}
    remote, name = layout.remote_url(repository), layout.repository_name(repository)
    remotes = {row.name: row.remote_url for row in repositories.list_repositories(context.connection)}
    for repo_name, common_dir in repositories.list_common_dirs(context.connection).items():
        if os.path.isdir(common_dir):
            continue
        rows = worktrees.list_worktrees(context.connection, repo_name)
        same_remote = bool(remote) and remotes.get(repo_name) == remote and repo_name.split("@")[0] == name
        if same_remote or common_dir in former or any(os.path.realpath(row.path) in paths for row in rows):
            sentence = f"repository {safe(repo_name)} was moved to {safe(repository.home)}"
            return [RepairFinding("registry", repo_name, common_dir, repository.common_dir, sentence)]
    return []


def _former_common_dir(item: layout.LinkedWorktree) -> str | None:
    """The git directory that the worktree's `.git` file names: the repository's own, or its old place."""
    target = layout.gitfile(os.path.join(item.path, ".git"))
    return None if target is None else os.path.dirname(os.path.dirname(os.path.normpath(target)))


def _repair(context: Context, repository: layout.Repository, findings: list[RepairFinding]) -> None:
    git = context.git(repository)
    folders = [finding.to for finding in findings if finding.kind in ("moved", "repository-moved") and finding.to]
    if folders:
        git.run("worktree", "repair", "--", *folders, timeout=60)
    for finding in findings:
        if finding.kind == "registry":
            db.transact(
                context.connection,
                repositories.move,
                finding.name,
                path=repository.home,
                common_dir=repository.common_dir,
            )
    repo_name = context.repo_name(repository)
    if repo_name is not None:
        db.transact(context.connection, _move_rows, repo_name, findings, repository)


def _move_rows(
    connection: sqlite3.Connection, repo_name: str, findings: list[RepairFinding], repository: layout.Repository
) -> None:
    moved = {
        os.path.realpath(finding.path): finding.to for finding in findings if finding.kind == "moved" and finding.to
    }
    for row in worktrees.list_worktrees(connection, repo_name):
        to = moved.get(os.path.realpath(row.path))
        if to is not None:
            worktrees.move(connection, repo_name, row.name, to)
        elif row.type == "trunk" and repository.main_path and not os.path.isdir(row.path):
            worktrees.move(connection, repo_name, row.name, repository.main_path)


def _outcome(findings: list[RepairFinding], repairs: list[TrashRepair], *, dry_run: bool) -> Outcome:
    repaired = [finding for finding in findings if finding.repairable]
    repaired += [_finding(repair) for repair in repairs if repair.carry_out is not None]
    left = [finding for finding in findings if not finding.repairable]
    left += [_finding(repair) for repair in repairs if repair.carry_out is None]
    verb = "would repair" if dry_run else "repaired"
    lines = [f"{verb}: {finding.sentence}" for finding in repaired]
    if not repaired and not left:
        lines = ["nothing to repair: every worktree is where git expects it"]
    elif left:
        lines.append(f"{count(len(left), 'problem')} left to check:")
        lines.extend(f"  {finding.sentence}" for finding in left)
    data: dict[str, object] = {
        "dry_run": dry_run,
        "mended": [asdict(finding) for finding in repaired],
        "left": [asdict(finding) for finding in left],
    }
    return Outcome(lines, data)


def _finding(repair: TrashRepair) -> RepairFinding:
    return RepairFinding(repair.kind, repair.name, repair.path, None, repair.sentence)


def _names(folder: str) -> list[str]:
    try:
        return [entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


ACTIONS = (RepairAction(),)
