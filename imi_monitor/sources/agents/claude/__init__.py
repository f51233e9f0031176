"""Claude Code: its live registry, its transcripts, its subagents and its jobs in the background."""
