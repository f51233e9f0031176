"""Contained workspaces: one flat folder that agents share, its files by plain names, their delivery and the clean-up."""
