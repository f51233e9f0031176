"""How far a commit is from a ref, for people: shown, never decided by."""

from __future__ import annotations

from imi_monitor.git.refs import check_remote_name, check_revision, resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.git.run import Git


def distance(git: Git, tip: str, base: str) -> tuple[int, int]:
    """(commits only `tip` has, commits only `base` has); both are full ids, full refs or HEAD."""
    between = f"{check_revision(tip)}...{check_revision(base)}"
    ahead, behind = git.text("rev-list", "--left-right", "--count", "--end-of-options", between, "--").split("\t")
    return int(ahead), int(behind)


def trunk_ref(git: Git, remote: str, trunk: str) -> str | None:
    """The full ref that stands for the trunk: what the remote had at the last fetch, else the local branch, if any."""
    candidates = (f"refs/remotes/{check_remote_name(remote)}/{trunk}", f"refs/heads/{trunk}")
    return next((ref for ref in candidates if resolve(git, ref) is not None), None)


def changed_files(git: Git, old: str, new: str) -> set[str]:
    """The files that differ between two commits, by their old and new names."""
    between = (check_revision(old), check_revision(new))
    return set(git.lines0("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--end-of-options", *between, "--"))
