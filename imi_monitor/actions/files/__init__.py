"""Acts on the changed files of a worktree: stage, unstage, discard, and what restores them."""
