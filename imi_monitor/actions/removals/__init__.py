"""Taking a worktree away without losing anything: the look, the verdict, the move, bringing back, purging."""
