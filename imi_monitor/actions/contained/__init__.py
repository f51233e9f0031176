"""Contained workspaces on the command line and as tools: files by plain names, delivery, clean-up."""
