"""Making a worktree: where and from what, the crash-safe act itself, and taking it back."""
