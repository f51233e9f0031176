"""git in one worktree for reading, and the trunk that the worktree is compared with."""

from __future__ import annotations

from imi_monitor.actions import worktree_lookup
from imi_monitor.git import layout
from imi_monitor.model.errors import GitError, Refused
from imi_monitor.model.text import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from imi_monitor.actions.action import Request
    from imi_monitor.actions.context import Context
    from imi_monitor.actions.worktree_lookup import Target
    from imi_monitor.git.refs import Trunk
    from imi_monitor.git.runner import Git


def named_worktree(context: Context, request: Request) -> Target:
    """The worktree that the request names, else the one around the caller."""
    name = request.text("name")
    if name is not None:
        return worktree_lookup.find_worktree(context, name)
    place = context.place()
    here = [
        target
        for target in worktree_lookup.list_worktrees(context, context.repository())
        if place and target.path == place.path
    ]
    if not here:
        raise Refused("you are not in a worktree: name one", code="no-worktree")
    return here[0]


def git_in(context: Context, target: Target) -> Git:
    """git in the worktree. Refused when its folder is gone or its .git file names another repository."""
    if target.missing or target.admin_dir is None:
        raise worktree_lookup.missing_folder(target)
    if not target.is_main and not layout.points_back(target.admin_dir, target.path):
        raise GitError(
            f"the .git file of {safe(target.name)} names another repository (tampered with, or a copy): git is not run there",
            code="tampered",
        )
    git = context.git(target.repository, target.admin_dir, target.path)
    git.cancelled = context.cancelled
    return git


def trunk_of(context: Context, repository: layout.Repository) -> Trunk:
    """The trunk of the repository, by its settings."""
    from imi_monitor.git import refs

    settings = context.settings_of(repository)
    remote, configured = settings.text("git.remote_name"), settings.text("git.default_branch")
    return refs.find_trunk(context.git(repository), remote, configured or None)
