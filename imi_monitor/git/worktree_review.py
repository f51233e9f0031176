"""The diff of a worktree that is to be read: its commits and uncommitted changes since the trunk, with what was read of it."""

from __future__ import annotations

from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.git import git_diff
from imi_monitor.model import review_progress
from imi_monitor.model.diff import Diff
from imi_monitor.model.errors import Refused
from imi_monitor.model.review_progress import ReadPart, ReviewedFile, ReviewProgress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from imi_monitor.git.runner import Git


@dataclass(frozen=True, slots=True)
class WorktreeReview:
    """A worktree's diff and its files with what was read."""

    diff: Diff
    files: tuple[ReviewedFile, ...]

    @property
    def progress(self) -> ReviewProgress:
        return review_progress.progress(self.diff, self.files)


def read_review(git: Git, trunk: str | None, kept: Collection[ReadPart]) -> WorktreeReview:
    """Read the review of git's work tree; without a trunk, or a commit in common, only of what is uncommitted."""
    try:
        diff = git_diff.read_diff(git, "trunk", trunk=trunk)
    except Refused:
        diff = git_diff.read_diff(git, "all")
    return WorktreeReview(diff, review_progress.reviewed(diff, kept))
