"""Codex: its daemon, its rollouts, its index and its locks."""
