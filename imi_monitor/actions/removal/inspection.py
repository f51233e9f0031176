"""Looking at a worktree before it goes: everything that speaks against it, from the registry, the processes, the files and git.

What cannot be found out is a reason too, and a harder one than what was found: unknown is never taken for clean.

Where the commits of a worktree are besides here: on a branch, pushed, merged, stashed; and in its submodules.

A branch is kept unless asked otherwise, so commits that are not pushed or not merged are notes: nothing happens to them.
They are refusals on a detached HEAD, which no branch remembers, and when the branch is to be deleted.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import partial

from imi_monitor import host
from imi_monitor.actions.removal import ignored_files, placement_checks
from imi_monitor.actions.worktree_lookup import git_in
from imi_monitor.git import admin_dir as git_admin_dir
from imi_monitor.git import lock_files
from imi_monitor.model.errors import GitError, ImiError
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


@dataclass
class WorktreeInspection:
    """What was seen, for the verdict and for looking again right before the move."""

    found: Target
    git: Git | None = None  # in the worktree
    claim: claims.Claim | None = None
    status: GitStatus | None = None
    trunk: str | None = None  # the default branch's name
    trunk_ref: str | None = None
    proof: str | None = None  # how the branch is proven merged; only asked when it matters
    reasons: list[Reason] = field(default_factory=list)

    @property
    def verdict(self) -> Verdict:
        return Verdict(tuple(self.reasons))

    def add(self, code: str, sentence: str, found: Sequence[str] = (), override: str = FORCE) -> None:
        self.reasons.append(Reason(code, sentence, len(found) or 1, tuple(found[:SHOWN_NAMES]), override))

    def ask(self, what: str, question: Callable[[], T]) -> T | None:
        """An answer, or a reason to refuse because there is none."""
        try:
            return question()
        except (ImiError, OSError) as error:
            said = error.sentence if isinstance(error, ImiError) else f"{error.strerror}: {safe(str(error.filename))}"
            self.add("unknown", f"cannot tell {what}: {said}", override=YES_REALLY)
            return None


def inspect_worktree(context: Context, found: Target, agent: str, *, deep: bool = False) -> WorktreeInspection:
    """The whole look. `deep` also asks for proof that the branch is merged, which can take longer."""
    seen = WorktreeInspection(found)
    try:
        seen.reasons.extend(placement_checks.placement_reasons(context, found))
    except OSError as error:
        seen.reasons.append(placement_checks.never("unknown", f"cannot tell where it lies: {error.strerror}"))
    if seen.reasons or found.admin_dir is None:
        return seen  # it is never removed, and git must not run in a place that is not what it says
    seen.git = git_in(context, found)
    _check_claim(context, seen, agent)
    _check_processes(context, seen)
    _check_locks(seen, found.admin_dir)
    seen.status = seen.ask("what is uncommitted", lambda: _status(seen))
    if seen.status is not None:
        _check_files(seen, seen.status)
        _check_hidden_edits(seen)
        _check_submodules(seen)
        _check_branch(context, seen, seen.status, deep=deep)
    return seen


def live_processes(found: Target) -> tuple[list[str], bool]:
    """Who works inside, and whether those who started us do: the shell or the agent that asks for the removal."""
    inside = host.processes_inside(found.path)
    own = _ancestors()
    return [f"{safe(command)} ({pid})" for pid, command in inside if pid not in own], any(
        pid in own for pid, _ in inside
    )


def status_of(git: Git, *, with_ignored: bool) -> GitStatus:
    from imi_monitor.git.git_status import read_status

    return read_status(git, ignored=with_ignored)


def _status(seen: WorktreeInspection) -> GitStatus:
    assert seen.git is not None
    return status_of(seen.git, with_ignored=True)


def _check_claim(context: Context, seen: WorktreeInspection, agent: str) -> None:
    found = seen.found
    if found.repo_name is None:  # not registered: nobody can have claimed it, but in another program
        _check_presence_lock(context, seen, agent)
        return
    seen.claim = claims.current(context.connection, found.repo_name, found.name)
    _check_presence_lock(context, seen, agent)
    state = claims.state(seen.claim)
    if state in ("held", "stale") and seen.claim.agent_id != agent:
        silent = ", silent for long" if state == "stale" else ""
        seen.add("claimed", f"{safe(seen.claim.agent_id or '?')} has claimed it{silent}", override=YES_REALLY)


def _check_presence_lock(context: Context, seen: WorktreeInspection, agent: str) -> None:
    """A claim that only the presence lock of another program tells of."""
    from imi_monitor import presence

    found = seen.found
    owner = presence.foreign_owner(presence.presence_lock_path(found.repository, found.name), context.database)
    if owner is not None and owner.agent != agent and (seen.claim is None or seen.claim.agent_id is None):
        seen.add("claimed", f"{safe(owner.agent)} has claimed it, says its presence lock", override=YES_REALLY)


def _check_processes(context: Context, seen: WorktreeInspection) -> None:
    others, callers = live_processes(seen.found)
    if others:
        seen.add("live-processes", f"{count(len(others), 'process', 'processes')} at work inside", others, YES_REALLY)
    cwd = os.path.realpath(context.cwd)
    if callers or cwd == seen.found.path or cwd.startswith(seen.found.path + os.sep):
        seen.add("inside", "you stand in it, or the program that started this does: cd somewhere else first")


def _check_locks(seen: WorktreeInspection, admin_dir: str) -> None:
    linked = seen.found.linked
    if linked is not None and linked.locked is not None:
        why = safe(linked.locked) or "no reason given"
        seen.add("locked", f"it is locked ({why}); the lock comes back with `imi undo`")
    held = seen.ask("whether git is at work there", lambda: git_admin_dir.list_lock_files(admin_dir)) or []
    for name in held:  # with HEAD.lock there, not even we can let go of its branch
        override = NEVER if name == "HEAD.lock" else FORCE
        seen.add("git-busy", lock_files.lock_advice(os.path.join(admin_dir, name)), override=override)


def _check_files(seen: WorktreeInspection, status: GitStatus) -> None:
    from imi_monitor.git.git_status import operation_in_progress

    untracked = [path for path in status.untracked if not path.endswith("/")]
    kinds = (
        ("conflicted", "in conflict", status.conflicted),
        ("staged", "staged and not committed", status.staged),
        ("unstaged", "changed and not committed", status.unstaged),
        ("untracked", "new and not committed", untracked),
    )
    for code, words, files in kinds:
        if files:
            seen.add(code, f"{count(len(files), 'file')} {words}", files)
    admin_dir = seen.found.admin_dir or ""
    doing = seen.ask("whether something is half done", lambda: operation_in_progress(admin_dir))
    if doing:
        seen.add("operation", f"a {doing} is in progress")
    _check_ignored(seen, status)


def _check_ignored(seen: WorktreeInspection, status: GitStatus) -> None:
    """What status lists as ignored, and the repositories that it does not enter."""
    beyond = ignored_files.scan_ignored(seen.found.path, status.ignored, status.untracked)
    if beyond.valuable:
        seen.add("ignored", f"{count(len(beyond.valuable), 'ignored file')} of possible value", beyond.valuable)
    if beyond.nested:
        seen.add("nested", f"{count(len(beyond.nested), 'nested repository', 'nested repositories')}", beyond.nested)
    if beyond.foreign:
        seen.add(
            "nested-worktree",
            f"{count(len(beyond.foreign), 'worktree')} of another repository inside, which would lose it",
            beyond.foreign,
            NEVER,
        )
    if not beyond.complete:
        override = FORCE if beyond.missed else NOTE
        seen.add("ignored-many", "more ignored files than can be looked at", override=override)


def _check_hidden_edits(seen: WorktreeInspection) -> None:
    from imi_monitor.git.git_status import hidden_edits

    assert seen.git is not None
    git = seen.git
    hidden = seen.ask("whether hidden files were edited", lambda: hidden_edits(git))
    if hidden:
        seen.add(
            "hidden", f"{count(len(hidden), 'edited file')} hidden from git (assume-unchanged, skip-worktree)", hidden
        )


def _ancestors() -> set[int]:
    """This process and those it was started by: the shell or agent that asks for the removal."""
    found: set[int] = set()
    pid = os.getpid()
    while pid > 1 and pid not in found:
        found.add(pid)
        pid = host.parent_pid(pid)
    return found


def _check_branch(context: Context, seen: WorktreeInspection, status: GitStatus, *, deep: bool) -> None:
    """Where its commits are besides here."""
    assert seen.git is not None
    git = seen.git
    seen.trunk = seen.ask("which branch is the trunk", lambda: _trunk(context, git))
    if status.branch is not None and status.branch == seen.trunk:
        seen.reasons.append(
            placement_checks.never("trunk", f"{safe(status.branch)} is the repository's default branch")
        )
        return
    if status.oid is None:
        return  # no commit yet: there are only files, and those were looked at
    if status.branch is None:
        _check_detached(seen, git, status.oid)
    else:
        _check_commits(context, seen, status.branch, status.oid, deep=deep)
    _check_stash(seen, git, status)


def _trunk(context: Context, git: Git) -> str:
    from imi_monitor.git import refs

    settings = context.settings
    configured = settings.text("git_settings.default_branch") or None
    return refs.default_branch(git, settings.text("git_settings.remote_name"), configured)


def _check_detached(seen: WorktreeInspection, git: Git, oid: str) -> None:
    from imi_monitor.git import commits

    options = ("--not", "--branches", "--tags", "--remotes", "--not")
    alone = seen.ask("whether its commits are on a branch", lambda: commits.list_commits(git, oid, options=options))
    if alone:
        subjects = [f"{made.sha[:10]} {made.subject}" for made in alone]
        seen.add(
            "detached", f"{count(len(alone), 'commit')} on no branch: `git branch NAME` there keeps them", subjects
        )


def _check_commits(context: Context, seen: WorktreeInspection, branch: str, oid: str, *, deep: bool) -> None:
    from imi_monitor.git import commits, merge_proof, refs

    assert seen.git is not None
    git = seen.git
    remote = context.settings.text("git_settings.remote_name")
    alone = seen.ask(
        "whether its commits are pushed",
        lambda: commits.list_commits(git, oid, options=("--not", "--remotes", "--not")),
    )
    seen.trunk_ref = seen.ask("where the trunk is", lambda: refs.trunk_ref(git, remote, seen.trunk or branch))
    base = seen.trunk_ref
    own = seen.ask("whether it is merged", lambda: commits.list_commits(git, oid, f"^{base}")) if base else None
    if deep and base:
        seen.proof = seen.ask("whether it is merged", lambda: merge_proof.merge_proof(git, oid, base))
    if own == [] or seen.proof:
        return  # all in the trunk
    if own and seen.trunk:
        subjects = [f"{made.sha[:10]} {made.subject}" for made in own]
        seen.add("unmerged", f"{_commits(own)} not in {safe(seen.trunk)}; {_kept(branch)}", subjects, NOTE)
    if alone and _has_remote(git, seen):
        subjects = [f"{made.sha[:10]} {made.subject}" for made in alone]
        seen.add("unpushed", f"{_commits(alone)} on no remote; {_kept(branch)}", subjects, NOTE)


def _commits(commits: Sequence[object]) -> str:
    return count(len(commits), "commit")


def _kept(branch: str) -> str:
    return f"branch {safe(branch)} is kept"


def _has_remote(git: Git, seen: WorktreeInspection) -> bool:
    from imi_monitor.git.remotes import remotes

    return bool(seen.ask("which remotes there are", lambda: remotes(git)))


def _check_stash(seen: WorktreeInspection, git: Git, status: GitStatus) -> None:
    from imi_monitor.git.git_status import stashes

    entries = seen.ask("whether something is stashed", lambda: stashes(git, status.branch))
    if entries:
        words = (
            f"{count(len(entries), 'stash entry', 'stash entries')} made here; the stash is the repository's and stays"
        )
        seen.add("stash", words, entries, NOTE)


def _check_submodules(seen: WorktreeInspection) -> None:
    from imi_monitor.git import nested_repositories

    assert seen.git is not None
    git = seen.git
    for path in seen.ask("which submodules there are", lambda: list(nested_repositories.nested_paths(git))) or []:
        name = os.path.relpath(path, seen.found.path)
        said = seen.ask(f"the state of submodule {safe(name)}", partial(_submodule, seen.found, git, path))
        if said:
            seen.add("submodule", f"submodule {safe(name)} has {said}")


def _submodule(found: Target, git: Git, path: str) -> str | None:
    """What only this submodule has: changes, or commits that none of its remotes has. Its objects go with the worktree."""
    from imi_monitor.git import commits, nested_repositories
    from imi_monitor.git.dirty import is_dirty

    inner = nested_repositories.open_nested(git, path)
    if inner is None:
        return "files that git never looked at" if os.path.isdir(path) and os.listdir(path) else None
    homes = (os.path.join(found.admin_dir or "", "modules"), os.path.join(found.repository.common_dir, "modules"), path)
    if not inner.admin_dir.startswith(tuple(os.path.realpath(home) + os.sep for home in homes)):
        raise GitError(f"its .git file names {safe(inner.admin_dir)}, which is not where a submodule is kept")
    if is_dirty(inner):
        return "uncommitted changes"
    own = commits.list_commits(inner, "HEAD", options=("--branches", "--not", "--remotes", "--not"))
    return f"{_commits(own)} on no remote" if own else None
