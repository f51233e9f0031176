"""What is to be read of a worktree and what was read of it, by its name."""

from __future__ import annotations

from imi_monitor.actions.status import worktree_git
from imi_monitor.fast.frozen_dataclass import dataclass
from imi_monitor.git import worktree_review
from imi_monitor.git.runner import Git
from imi_monitor.model.errors import Refused
from imi_monitor.store import db, read_parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.git.worktree_review import WorktreeReview
    from imi_monitor.model.review_progress import ReadPart


@dataclass(frozen=True, slots=True)
class ReviewPlace:
    """What reading a review needs, found in the thread that has the registry: git in the worktree, and the trunk's ref."""

    git: Git
    trunk: str | None


def find_place(context: Context, target: Target) -> ReviewPlace:
    git = worktree_git.git_in(context, target)
    try:
        return ReviewPlace(git, worktree_git.trunk_of(context, target.repository).ref)
    except Refused:
        return ReviewPlace(git, None)


def read(context: Context, target: Target) -> WorktreeReview:
    place = find_place(context, target)
    return worktree_review.read_review(place.git, place.trunk, kept_parts(context, target))


def kept_parts(context: Context, target: Target) -> frozenset[ReadPart]:
    """Return what was read of the worktree, also of earlier states of it."""
    repo_name = context.repo_name(target.repository)
    return db.read(context.connection, read_parts.list_parts, repo_name, target.name) if repo_name else frozenset()
