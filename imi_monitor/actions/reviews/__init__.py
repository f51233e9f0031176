"""Pull requests: what was meant, what the forge says, the worktree for it and its updates."""
