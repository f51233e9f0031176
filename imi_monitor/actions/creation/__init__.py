"""Creating a worktree: the request, the start point, the crash-safe creation and its rollback."""
