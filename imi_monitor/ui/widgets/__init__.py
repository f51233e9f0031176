"""Widgets that know nothing of worktrees: lists of lines, a filter line."""
