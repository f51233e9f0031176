"""Links to the shared files of a cluster (`sync/`) in every worktree."""
