"""Actions on one existing worktree: merge, rename, repair."""
