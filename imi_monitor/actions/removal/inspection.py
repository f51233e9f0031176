"""Inspection of a worktree before its removal: every reason against it, from registry, processes, files and git.

A check that fails is a reason too, and a stronger one than a finding: unknown is never taken for clean.

Unpushed and unmerged commits are only notes, because the branch is kept unless its deletion is asked for. They are reasons
on a detached HEAD, where no branch keeps them, and when the branch is to be deleted.
"""

from __future__ import annotations

import os

from imi_monitor import host
from imi_monitor.actions.claims import ownership
from imi_monitor.actions.removal import file_checks, placement_checks, submodule_checks
from imi_monitor.actions.worktree_lookup import find_trunk, git_in
from imi_monitor.git import git_admin_dir, lock_files
from imi_monitor.model.errors import ImiError
from imi_monitor.model.text import count, safe
from imi_monitor.model.verdict import FORCE, NEVER, NOTE, SHOWN_NAMES, YES_REALLY, Reason, Verdict
from imi_monitor.store import claims

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.git.git_status import GitStatus
    from imi_monitor.git.runner import Git

    T = TypeVar("T")


class WorktreeInspection:
    """The findings: reasons for the verdict, and the state that is compared again before the move."""

    def __init__(self, found: Target) -> None:
        self.found = found
        self.git: Git | None = None  # in the worktree
        self.claim: claims.Claim | None = None
        self.status: GitStatus | None = None
        self.trunk: str | None = None  # the default branch's name
        self.trunk_ref: str | None = None
        self.proof: str | None = None  # how the branch is proven merged; only read by a deep inspection
        self.reasons: list[Reason] = []

    @property
    def verdict(self) -> Verdict:
        return Verdict(tuple(self.reasons))

    def add(self, code: str, sentence: str, found: Sequence[str] = (), override: str = FORCE) -> None:
        self.reasons.append(Reason(code, sentence, len(found) or 1, tuple(found[:SHOWN_NAMES]), override))

    def query(self, what: str, function: Callable[[], T]) -> T | None:
        """The function's result; if it fails, None and a reason to refuse."""
        try:
            return function()
        except (ImiError, OSError) as error:
            why = error.sentence if isinstance(error, ImiError) else f"{error.strerror}: {safe(str(error.filename))}"
            self.add("unknown", f"cannot tell {what}: {why}", override=YES_REALLY)
            return None


def inspect_worktree(context: Context, found: Target, agent: str, *, deep: bool = False) -> WorktreeInspection:
    """Run every check. `deep` also searches for a proof that the branch is merged, which can take seconds."""
    inspected = WorktreeInspection(found)
    try:
        inspected.reasons.extend(placement_checks.placement_reasons(context, found))
    except OSError as error:
        inspected.reasons.append(placement_checks.never("unknown", f"cannot tell where it is: {error.strerror}"))
    if inspected.reasons or found.admin_dir is None:
        return inspected  # never removable; git must not run in a folder that is not what it claims to be
    git = inspected.git = git_in(context, found)
    _check_claim(context, inspected, agent)
    _check_processes(context, inspected)
    _check_locks(inspected, found.admin_dir)
    inspected.status = inspected.query("what is uncommitted", lambda: status_of(git, with_ignored=True))
    if inspected.status is not None:
        file_checks.check_files(inspected, inspected.status)
        file_checks.check_ignored(inspected, found.path, inspected.status)
        file_checks.check_hidden_edits(inspected, git)
        submodule_checks.check_submodules(inspected, git)
        _check_branch(context, inspected, git, inspected.status, deep=deep)
    return inspected


def live_processes(found: Target) -> tuple[list[str], bool]:
    """Processes with their working directory inside, and whether a process that started this one is among them."""
    inside = host.processes_inside(found.path)
    own = _ancestors()
    return [f"{safe(command)} ({pid})" for pid, command in inside if pid not in own], any(
        pid in own for pid, _ in inside
    )


def status_of(git: Git, *, with_ignored: bool) -> GitStatus:
    from imi_monitor.git.git_status import read_status

    return read_status(git, ignored=with_ignored)


def _check_claim(context: Context, inspected: WorktreeInspection, agent: str) -> None:
    found = inspected.found
    if found.repo_name is None:  # not registered: only another program can hold a claim
        _check_presence_lock(context, inspected, agent)
        return
    inspected.claim = claims.current(context.connection, found.repo_name, found.name)
    _check_presence_lock(context, inspected, agent)
    state = claims.state(inspected.claim)
    if state in ("held", "stale") and ownership.is_anothers(inspected.claim, agent):
        silent = ", but has been silent for long" if state == "stale" else ""
        inspected.add("claimed", f"{safe(inspected.claim.agent_id or '?')} has claimed it{silent}", override=YES_REALLY)


def _check_presence_lock(context: Context, inspected: WorktreeInspection, agent: str) -> None:
    """Add a claim that is recorded only in another program's presence lock."""
    from imi_monitor import presence

    found = inspected.found
    owner = presence.foreign_owner(presence.presence_lock_path(found.repository, found.name), context.database)
    if owner is not None and owner.agent != agent and (inspected.claim is None or inspected.claim.agent_id is None):
        inspected.add(
            "claimed", f"{safe(owner.agent)} has claimed it, according to its presence lock", override=YES_REALLY
        )


def _check_processes(context: Context, inspected: WorktreeInspection) -> None:
    others, callers = live_processes(inspected.found)
    if others:
        inspected.add(
            "live-processes", f"{count(len(others), 'process', 'processes')} at work inside", others, YES_REALLY
        )
    cwd = os.path.realpath(context.cwd)
    if callers or cwd == inspected.found.path or cwd.startswith(inspected.found.path + os.sep):
        inspected.add("inside", "your shell, or the program that started imi, is in it: cd somewhere else first")


def _check_locks(inspected: WorktreeInspection, admin_dir: str) -> None:
    linked = inspected.found.linked
    if linked is not None and linked.locked is not None:
        why = safe(linked.locked) or "no reason given"
        inspected.add("locked", f"it is locked ({why}); the lock comes back with `imi undo`")
    held = inspected.query("whether git is running there", lambda: git_admin_dir.list_lock_files(admin_dir)) or []
    for name in held:  # HEAD.lock prevents detaching HEAD, so the branch could not be freed
        override = NEVER if name == "HEAD.lock" else FORCE
        inspected.add("git-busy", lock_files.lock_advice(os.path.join(admin_dir, name)), override=override)


def _ancestors() -> set[int]:
    """This process and its ancestors: the shell or agent that requested the removal."""
    found: set[int] = set()
    pid = os.getpid()
    while pid not in found:  # up to 0, which is no process; the first one of a container may be its shell
        found.add(pid)
        pid = host.parent_pid(pid)
    return found


def _check_branch(context: Context, inspected: WorktreeInspection, git: Git, status: GitStatus, *, deep: bool) -> None:
    """Check which commits exist only in this worktree."""
    trunk = inspected.query("which branch is the trunk", lambda: find_trunk(context, git))
    if trunk is not None:
        inspected.trunk, inspected.trunk_ref = trunk.branch, trunk.ref
    if status.branch is not None and status.branch == inspected.trunk:
        inspected.reasons.append(
            placement_checks.never("trunk", f"{safe(status.branch)} is the repository's default branch")
        )
        return
    if status.oid is None:
        return  # no commit yet: only files, which are checked above
    if status.branch is None:
        _check_detached(inspected, git, status.oid)
    else:
        _check_commits(inspected, git, status.branch, status.oid, deep=deep)
    _check_stash(inspected, git, status)


def _check_detached(inspected: WorktreeInspection, git: Git, oid: str) -> None:
    from imi_monitor.git import commits

    options = ("--not", "--branches", "--tags", "--remotes", "--not")
    alone = inspected.query(
        "whether its commits are on a branch", lambda: commits.list_commits(git, oid, options=options)
    )
    if alone:
        subjects = [f"{made.sha[:10]} {made.subject}" for made in alone]
        inspected.add(
            "detached",
            f"{count(len(alone), 'commit')} on no branch: run `git branch NAME` there to keep them",
            subjects,
        )


def _check_commits(inspected: WorktreeInspection, git: Git, branch: str, oid: str, *, deep: bool) -> None:
    from imi_monitor.git import commits

    base = inspected.trunk_ref
    own = inspected.query("whether it is merged", lambda: commits.list_commits(git, oid, f"^{base}")) if base else None
    if deep and base:
        from imi_monitor.git import merge_proof

        inspected.proof = inspected.query("whether it is merged", lambda: merge_proof.merge_proof(git, oid, base))
    if own == [] or inspected.proof:
        return  # every commit is in the trunk
    if own and inspected.trunk:
        subjects = [f"{made.sha[:10]} {made.subject}" for made in own]
        inspected.add("unmerged", f"{_commits(own)} not in {safe(inspected.trunk)}; {_kept(branch)}", subjects, NOTE)
    if not _has_remote(git, inspected):
        return
    options = ("--not", "--remotes", "--not")
    alone = inspected.query("whether its commits are pushed", lambda: commits.list_commits(git, oid, options=options))
    if alone:
        subjects = [f"{made.sha[:10]} {made.subject}" for made in alone]
        inspected.add("unpushed", f"{_commits(alone)} on no remote; {_kept(branch)}", subjects, NOTE)


def _commits(commits: Sequence[object]) -> str:
    return count(len(commits), "commit")


def _kept(branch: str) -> str:
    return f"branch {safe(branch)} is kept"


def _has_remote(git: Git, inspected: WorktreeInspection) -> bool:
    from imi_monitor.git.remotes import remotes

    return bool(inspected.query("which remotes there are", lambda: remotes(git)))


def _check_stash(inspected: WorktreeInspection, git: Git, status: GitStatus) -> None:
    from imi_monitor.git.git_status import stashes

    entries = inspected.query("whether something is stashed", lambda: stashes(git, status.branch))
    if entries:
        words = f"{count(len(entries), 'stash entry', 'stash entries')} made here; the repository's stash is kept"
        inspected.add("stash", words, entries, NOTE)
