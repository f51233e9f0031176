"""Actions that read worktrees: list, status, diff, log, collisions, and the way to a worktree."""
