"""Qwen Code: its list of living sessions, and its chats."""
