"""aider: the history it leaves in the worktree."""
