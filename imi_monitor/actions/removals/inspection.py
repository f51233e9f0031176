"""Looking at a worktree before it goes: everything that speaks against it, from the registry, the processes, the files and git.

What cannot be found out is a reason too, and a harder one than what was found: unknown is never taken for clean.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from imi_monitor import host
from imi_monitor.actions.removals import ignored, own_commits, placement
from imi_monitor.actions.target import git_in
from imi_monitor.git import busy, parking
from imi_monitor.model.errors import ImiError
from imi_monitor.model.text import count, safe
from imi_monitor.model.verdict import FORCE, NEVER, NOTE, SHOWN_NAMES, YES_REALLY, Reason, Verdict
from imi_monitor.store import claims

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from imi_monitor.actions.context import Context
    from imi_monitor.actions.target import Target
    from imi_monitor.git.run import Git
    from imi_monitor.git.status import Status

    T = TypeVar("T")


@dataclass
class Look:
    """What was seen, for the verdict and for looking again right before the move."""

    found: Target
    git: Git | None = None  # in the worktree
    claim: claims.Claim | None = None
    status: Status | None = None
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


def look(context: Context, found: Target, agent: str, *, deep: bool = False) -> Look:
    """The whole look. `deep` also asks for proof that the branch is merged, which can take longer."""
    seen = Look(found)
    try:
        seen.reasons.extend(placement.reasons(context, found))
    except OSError as error:
        seen.reasons.append(placement.never("unknown", f"cannot tell where it lies: {error.strerror}"))
    if seen.reasons or found.admin_dir is None:
        return seen  # it is never removed, and git must not run in a place that is not what it says
    seen.git = git_in(context, found)
    _claim(context, seen, agent)
    _people(context, seen)
    _locks(seen, found.admin_dir)
    seen.status = seen.ask("what is uncommitted", lambda: _status(seen))
    if seen.status is not None:
        _files(seen, seen.status)
        _hidden(seen)
        own_commits.look_at_submodules(seen)
        own_commits.look_at_branch(context, seen, seen.status, deep=deep)
    return seen


def processes(found: Target) -> tuple[list[str], bool]:
    """Who works inside, and whether those who started us do: the shell or the agent that asks for the removal."""
    inside = host.inside(found.path)
    own = _ancestors()
    return [f"{safe(command)} ({pid})" for pid, command in inside if pid not in own], any(
        pid in own for pid, _ in inside
    )


def status_of(git: Git, *, with_ignored: bool) -> Status:
    from imi_monitor.git.status import read_status

    return read_status(git, ignored=with_ignored)


def _status(seen: Look) -> Status:
    assert seen.git is not None
    return status_of(seen.git, with_ignored=True)


def _claim(context: Context, seen: Look, agent: str) -> None:
    found = seen.found
    if found.repo_name is None:  # not registered: nobody can have claimed it, but in another program
        _presence(context, seen, agent)
        return
    seen.claim = claims.current(context.connection, found.repo_name, found.name)
    _presence(context, seen, agent)
    state = claims.state(seen.claim)
    if state in ("held", "stale") and seen.claim.agent_id != agent:
        silent = ", silent for long" if state == "stale" else ""
        seen.add("claimed", f"{safe(seen.claim.agent_id or '?')} has claimed it{silent}", override=YES_REALLY)


def _presence(context: Context, seen: Look, agent: str) -> None:
    """A claim that only the presence lock of another program tells of."""
    from imi_monitor import presence

    found = seen.found
    owner = presence.foreign_owner(presence.path_of(found.repository, found.name), context.database)
    if owner is not None and owner.agent != agent and (seen.claim is None or seen.claim.agent_id is None):
        seen.add("claimed", f"{safe(owner.agent)} has claimed it, says its presence lock", override=YES_REALLY)


def _people(context: Context, seen: Look) -> None:
    others, callers = processes(seen.found)
    if others:
        seen.add("live-processes", f"{count(len(others), 'process', 'processes')} at work inside", others, YES_REALLY)
    cwd = os.path.realpath(context.cwd)
    if callers or cwd == seen.found.path or cwd.startswith(seen.found.path + os.sep):
        seen.add("inside", "you stand in it, or the program that started this does: cd somewhere else first")


def _locks(seen: Look, admin_dir: str) -> None:
    linked = seen.found.linked
    if linked is not None and linked.locked is not None:
        why = safe(linked.locked) or "no reason given"
        seen.add("locked", f"it is locked ({why}); the lock comes back with `imi undo`")
    held = seen.ask("whether git is at work there", lambda: parking.locks(admin_dir)) or []
    for name in held:  # with HEAD.lock there, not even we can let go of its branch
        override = NEVER if name == "HEAD.lock" else FORCE
        seen.add("git-busy", busy.told(os.path.join(admin_dir, name)), override=override)


def _files(seen: Look, status: Status) -> None:
    from imi_monitor.git.status import operation

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
    doing = seen.ask("whether something is half done", lambda: operation(admin_dir))
    if doing:
        seen.add("operation", f"a {doing} is in progress")
    _beyond_git(seen, status)


def _beyond_git(seen: Look, status: Status) -> None:
    """What status lists as ignored, and the repositories that it does not enter."""
    beyond = ignored.look(seen.found.path, status.ignored, status.untracked)
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


def _hidden(seen: Look) -> None:
    from imi_monitor.git.hidden import hidden_edits

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
        pid = host.parent(pid)
    return found
