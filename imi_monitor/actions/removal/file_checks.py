"""Reasons against a removal from the files of one repository: the worktree itself, or a submodule in it."""

from __future__ import annotations

from imi_monitor.actions.removal import ignored_files
from imi_monitor.model.text import count, safe
from imi_monitor.model.verdict import FORCE, NEVER, NOTE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from imi_monitor.actions.removal.inspection import WorktreeInspection
    from imi_monitor.git.git_status import GitStatus
    from imi_monitor.git.runner import Git


def check_files(inspected: WorktreeInspection, status: GitStatus) -> None:
    """Check the uncommitted files of the worktree, and whether a git operation is in progress."""
    from imi_monitor.git.git_status import operation_in_progress

    for code, noun, files in uncommitted_files(status):
        if files:
            inspected.add(code, count(len(files), noun), files)
    admin_dir = inspected.found.admin_dir or ""
    in_progress = inspected.query("whether a git operation is in progress", lambda: operation_in_progress(admin_dir))
    if in_progress:
        inspected.add("operation", f"a {in_progress} is in progress")


def uncommitted_files(status: GitStatus) -> tuple[tuple[str, str, Sequence[str]], ...]:
    """Return (code, noun, files) of each kind; an untracked name with a slash is a repository, see `check_ignored`."""
    untracked = [path for path in status.untracked if not path.endswith("/")]
    return (
        ("conflicted", "conflicted file", status.conflicted),
        ("staged", "staged change", status.staged),
        ("unstaged", "uncommitted change", status.unstaged),
        ("untracked", "untracked file", untracked),
    )


def check_ignored(inspected: WorktreeInspection, root: str, status: GitStatus, submodule: str = "") -> None:
    """Check what `git status` lists as ignored, and nested repositories, which it does not enter."""
    beyond = ignored_files.scan_ignored(root, status.ignored, status.untracked)
    where = _where(submodule)
    if beyond.valuable:
        inspected.add(
            "ignored",
            f"{count(len(beyond.valuable), 'ignored file')} of possible value{where}",
            below(submodule, beyond.valuable),
        )
    if beyond.nested:
        inspected.add(
            "nested",
            f"{count(len(beyond.nested), 'nested repository', 'nested repositories')}{where}",
            below(submodule, beyond.nested),
        )
    if beyond.foreign:
        inspected.add(
            "nested-worktree",
            f"{count(len(beyond.foreign), 'worktree')} of another repository inside{where}, which that repository would lose",
            below(submodule, beyond.foreign),
            NEVER,
        )
    if not beyond.complete:
        override = FORCE if beyond.missed else NOTE
        inspected.add("ignored-many", f"more ignored files than can be checked{where}", override=override)


def check_hidden_edits(inspected: WorktreeInspection, git: Git, submodule: str = "") -> None:
    from imi_monitor.git.git_status import hidden_edits

    hidden = inspected.query("whether hidden files were edited", lambda: hidden_edits(git))
    if hidden:
        inspected.add(
            "hidden",
            f"{count(len(hidden), 'edited file')} hidden from git (assume-unchanged, skip-worktree){_where(submodule)}",
            below(submodule, hidden),
        )


def below(submodule: str, names: Sequence[str]) -> list[str]:
    """Return the names as seen from the worktree."""
    return [f"{submodule}/{name}" for name in names] if submodule else list(names)


def _where(submodule: str) -> str:
    return f" in submodule {safe(submodule)}" if submodule else ""
