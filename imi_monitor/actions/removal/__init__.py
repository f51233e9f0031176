"""Removing worktrees without losing work: inspection, verdict, the move into the trash, restore and purge."""
