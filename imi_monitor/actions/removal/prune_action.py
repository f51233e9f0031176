"""`imi prune`: forget missing worktrees, move merged and clean ones into the trash, report orphaned folders.

Nothing is deleted: git's record of a forgotten worktree is moved aside, its commits get a ref, and a folder that git does
not list is only reported, because its content is unknown.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from imi_monitor import presence
from imi_monitor.actions import worktree_lookup
from imi_monitor.actions.action import Action, Argument, Option, Outcome
from imi_monitor.actions.claims import ownership
from imi_monitor.actions.removal import safe_removal, unlisted_entries
from imi_monitor.git import layout
from imi_monitor.model import times
from imi_monitor.model.errors import GitError, ImiError
from imi_monitor.model.text import count, safe
from imi_monitor.store import claims, db, events, worktrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.git.runner import Git


@dataclass(frozen=True, slots=True)
class PruneFinding:
    """One worktree to prune, with the reason. `keep` says why it is left anyway; None: it is pruned."""

    kind: str  # missing, merged, orphaned, unlisted
    name: str
    path: str
    reason: str
    keep: str | None = None


class PruneAction(Action):
    words = ("prune", "cleanup")
    group = "Merge and remove"
    label = "Prune"
    examples = (("imi prune --dry-run", "list what would be pruned, and why"),)
    help = "forget missing worktrees, move merged and clean ones to the trash, list orphaned folders"
    key = "P"
    more = """Branches stay. Merged means proven: by ancestry, by content, or by the same changes (squash, rebase); a branch
    without a commit of its own counts as new. A pull request that the forge listed as merged counts at its last commit."""
    arguments = (Argument("repo", "the repository", optional=True),)
    options = (
        Option("dry-run", "only list what would be pruned, and why"),
        Option(
            "agent",
            "the acting agent; its own claims do not protect a worktree",
            value="ID",
            aliases=("agent-id", "yi-id"),
        ),
    )
    dangerous = True

    def consequences(self, context: Context, request: Request) -> list[str]:
        """The lines of a dry run; stops early when the preview is cancelled."""
        found = []
        for _, finding in _findings(context, context.repository(request.text("repo")), context.agent(request)):
            found.append(finding)
            if context.cancelled():
                return ["not every worktree was checked"]
        return _outcome(found, [], dry_run=True).lines

    def run(self, context: Context, request: Request) -> Outcome:
        repository = context.repository(request.text("repo"))
        agent = context.agent(request)
        dry_run = request.flag("dry-run")
        done, warnings = [], []
        for found, finding in _findings(context, repository, agent):
            if finding.keep is None and found is not None and not dry_run:
                try:
                    finding = _carry_out(context, found, finding, agent)
                except ImiError as error:  # the worktree changed in between: it stays, the others are pruned
                    finding = PruneFinding(finding.kind, finding.name, finding.path, finding.reason, error.sentence)
            done.append(finding)
            if context.cancelled():
                warnings.append("interrupted: the rest was not checked")
                break
        return _outcome(done, warnings, dry_run=dry_run)


def _findings(
    context: Context, repository: layout.Repository, agent: str
) -> Iterator[tuple[Target | None, PruneFinding]]:
    git = context.git(repository)
    for found in worktree_lookup.list_worktrees(context, repository):
        context.progress(f"checking {found.name}")
        finding = None if found.is_main else _missing(context, git, found, agent) or _merged(context, git, found, agent)
        if finding is not None:
            yield found, finding
    for path in _orphans(repository):
        reason = "its .git file names a worktree that git does not list"
        keep = "its content is unknown: check it, then move it away, or run `imi repair`"
        yield None, PruneFinding("orphaned", os.path.basename(path), path, reason, keep)
    for entry in unlisted_entries.find_unlisted(context, [repository]):
        reason = "it is in the trash, and the registry does not list it"
        keep = entry.problem or f"`imi repair` lists it, `imi undo {entry.id}` restores it"
        yield None, PruneFinding("unlisted", entry.name, entry.folder, reason, keep)


def _missing(context: Context, git: Git, found: Target, agent: str) -> PruneFinding | None:
    if not found.missing and not (found.linked is not None and found.linked.missing):
        return None
    linked = found.linked
    if linked is None:
        reason = "its folder is gone and git does not list it"
        return PruneFinding("missing", found.name, found.path, reason, _claimed(context, found, agent))
    if os.path.isdir(found.path):
        return PruneFinding("missing", found.name, found.path, "its .git file is gone", "its folder is still there")
    keep = _claimed(context, found, agent)
    if linked.locked is not None:
        keep = f"it is locked ({safe(linked.locked) or 'no reason given'})"
    elif keep is None and not os.path.isdir(os.path.dirname(found.path)):
        keep = "its parent folder is gone too: the disk may not be mounted"
    elif keep is None:
        keep = _staged(git.at(linked.admin_dir, None))
    return PruneFinding("missing", found.name, found.path, "its folder is gone", keep)


def _claimed(context: Context, found: Target, agent: str) -> str | None:
    if found.repo_name is None:
        return None
    claim = claims.current(context.connection, found.repo_name, found.name)
    if not ownership.is_anothers(claim, agent) or claims.state(claim) == "dead":
        return None
    return f"{safe(claim.agent_id or '?')} has claimed it"


def _staged(git: Git) -> str | None:
    """Why the missing worktree's index may hold content that no commit has; None if it does not."""
    try:
        same = git.run("diff-index", "--cached", "--quiet", "HEAD", "--", ok=(0, 1)).returncode == 0
    except GitError as error:
        return f"git cannot tell what was staged there: {error.sentence}"
    return None if same else "its index holds staged changes that no commit has"


def _merged(context: Context, git: Git, found: Target, agent: str) -> PruneFinding | None:
    from imi_monitor.git import merge_proof, refs
    from imi_monitor.git.worktree_state import has_history

    linked = found.linked
    if linked is None or linked.branch is None or linked.head is None or found.missing:
        return None
    remote = context.settings.text("git.remote_name")
    trunk = worktree_lookup.trunk_branch(context, git)
    if linked.branch == trunk:
        return None
    for base in (refs.trunk_ref(git, remote, trunk), f"refs/heads/{trunk}"):
        proof = merge_proof.merge_proof(git, linked.head, base) if base else None
        if proof is not None and (proof != "ancestor" or has_history(found.repository.common_dir, linked.branch)):
            reason = f"{safe(linked.branch)} is merged into {safe(trunk)} ({_WORDS[proof]})"
            return PruneFinding("merged", found.name, found.path, reason, _unsafe(context, found, agent))
    return _merged_on_forge(context, found, linked.head, trunk, agent)


def _merged_on_forge(context: Context, found: Target, head: str, trunk: str, agent: str) -> PruneFinding | None:
    """A worktree at the last commit of a pull request that the forge has merged, which the local trunk may lack."""
    from imi_monitor.actions.reviews import pull_request_lists

    pull, via, read_at = pull_request_lists.of_worktree(context, found)
    if pull is None or pull.state != "MERGED" or pull.sha != head or pull.base != trunk:
        return None
    landed = f" as {pull.landed[:10]}" if pull.landed else ""
    reason = (
        f"pull request {pull.number}, which ends at its commit {head[:10]}, was merged into {safe(trunk)}{landed}"
        f" ({via}, {times.age_of(read_at)} ago)"
    )
    return PruneFinding("merged", found.name, found.path, reason, _unsafe(context, found, agent))


_WORDS = {
    "ancestor": "its commits are in it",
    "same tree": "its content is in it",
    "patch-id": "the same changes are in it, commit by commit",
    "squash": "its changes are in it as one commit",
}


def _unsafe(context: Context, found: Target, agent: str) -> str | None:
    verdict = safe_removal.removal_verdict(context, found, agent=agent)
    if verdict.safe:
        return None
    sentences = [reason.sentence for reason in verdict.against(force=False, yes_really=False)]
    return "; ".join(sentences[:3])


def _orphans(repository: layout.Repository) -> list[str]:
    """Folders beside the worktrees whose `.git` file names a worktree of this repository that git does not list."""
    linked = layout.linked_worktrees(repository.common_dir)
    parents = {os.path.dirname(item.path) for item in linked} | {os.path.dirname(repository.home)}
    known = {os.path.realpath(item.path) for item in linked}
    room = os.path.join(repository.common_dir, "worktrees") + os.sep
    found = []
    for parent in sorted(parents):
        for entry in _folders(parent):
            target = layout.gitfile(os.path.join(entry, ".git"))
            if (
                target
                and target.startswith(room)
                and not os.path.isdir(target)
                and os.path.realpath(entry) not in known
            ):
                found.append(entry)
    return found


def _folders(parent: str) -> list[str]:
    try:
        with os.scandir(parent) as entries:
            return sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _carry_out(context: Context, found: Target, finding: PruneFinding, agent: str) -> PruneFinding:
    if finding.kind == "merged":
        safe_removal.remove_worktree(context, found, agent=agent, how="pruned")
        return finding
    if found.linked is not None:
        _put_aside(context, found, found.linked)
    if found.repo_name is not None:
        db.transact(context.connection, _forget, found.repo_name, found.name, agent)
        lock = presence.presence_lock_path(found.repository, found.name)
        presence.update_presence_lock(context.connection, lock, found.repo_name, found.name, context.database)
    return finding


def _put_aside(context: Context, found: Target, linked: layout.LinkedWorktree) -> None:
    """Keep the commits of a missing worktree by a ref, and move git's record of it beside the trash."""
    from imi_monitor.git import update_ref

    git = context.git(found.repository).at(linked.admin_dir, None)
    name = f"{os.path.basename(linked.admin_dir)}-{times.now():%Y%m%d%H%M%S%f}"
    update_ref.keep_commits(git, name, [linked.head])
    home = os.path.join(found.repository.common_dir, "imi", "pruned")
    os.makedirs(home, mode=0o700, exist_ok=True)
    os.rename(linked.admin_dir, os.path.join(home, name))


def _forget(connection: sqlite3.Connection, repo_name: str, name: str, agent: str) -> None:
    claim = claims.current(connection, repo_name, name)
    claims.close(connection, repo_name, name, epoch=claim.epoch, how="worktree_missing", by=agent)
    if worktrees.get(connection, repo_name, name) is not None:
        worktrees.close(connection, repo_name, name, "missing")
    events.record(connection, "worktree.removed", repo_name, name, agent_id=agent, data={"how": "missing"})


def _outcome(findings: list[PruneFinding], warnings: list[str], *, dry_run: bool) -> Outcome:
    gone = [finding for finding in findings if finding.keep is None]
    left = [finding for finding in findings if finding.keep is not None]
    verb = "would prune" if dry_run else "pruned"
    lines = [f"{verb} {safe(finding.name)}: {finding.reason}" for finding in gone]
    if left:
        lines.append(f"{count(len(left), 'worktree')} left:")
        lines.extend(f"  {safe(finding.name)}: {finding.reason}, but {finding.keep}" for finding in left)
    if not findings:
        lines = ["nothing to prune: no worktree is missing, merged or orphaned"]
    if any(finding.kind == "merged" for finding in gone) and not dry_run:
        lines.append("`imi undo` restores the last one, `imi trash list` shows all")
    data: dict[str, object] = {
        "dry_run": dry_run,
        "pruned": [asdict(finding) for finding in gone],
        "kept": [asdict(finding) for finding in left],
    }
    return Outcome(lines, data, warnings=warnings)


ACTIONS = (PruneAction(),)
