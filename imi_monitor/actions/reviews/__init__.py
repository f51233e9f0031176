"""Reviews: find and fetch a pull request, create its worktree, update it."""
