"""Actions that set imi up: checks, settings, trust, and types of worktrees."""
