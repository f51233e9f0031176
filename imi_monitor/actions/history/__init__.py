"""What the registry records: events, sessions, tasks, statistics and descriptions of agents."""
