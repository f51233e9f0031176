"""Widgets without knowledge of worktrees: lists with a cursor, form inputs, the key bar."""
